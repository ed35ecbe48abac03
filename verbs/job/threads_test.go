package job

import (
	"sync/atomic"
	"testing"

	"github.com/gobw/gobw/verbs"
)

// TestThreadsArePartsOfTheJob: lanes are dealt out in turn, and all else is the whole job's.
func TestThreadsArePartsOfTheJob(t *testing.T) {
	whole := Job{Stop: new(atomic.Uint32), Pace: 7, Burst: 3, Abandon: true, InGo: true}
	for i := range uint32(5) {
		whole.Lanes = append(whole.Lanes, Lane{QP: fakeQP{qpn: i, transport: verbs.RC}})
	}
	threads, err := PrepareThreads(&whole, make([]ThreadQueues, 2), ThreadOptions{}, func(n int, j *Job) (Runner, error) {
		for i := range j.Lanes {
			if got := j.Lanes[i].QP.QPN(); got != uint32(2*i+n) {
				t.Errorf("lane %d of thread %d is queue pair %d, want %d", i, n, got, 2*i+n)
			}
		}
		if len(j.Lanes) != 3-n || j.Stop != whole.Stop || j.Pace != 7 || j.Burst != 3 || !j.Abandon || !j.InGo {
			t.Errorf("thread %d: %+v", n, j)
		}
		return &loop{driver: &verbsDriver{job: j}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := threads.Close(); err != nil {
		t.Error(err)
	}
}
