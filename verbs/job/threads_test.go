package job

import (
	"runtime"
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

// late is a part that receives at once, and says so only when it is let go.
type late struct {
	Runner
	held chan struct{}
}

func (l late) Run(Ticks) (Progress, error) {
	p := Progress{Received: 3, LastDone: Now(), Done: true}
	<-l.held
	return p, nil
}

func (late) Received(int) uint64 { return 3 }
func (late) Close() error        { return nil }

// idle is a part to which nothing comes.
type idle struct{ late }

func (idle) Run(Ticks) (Progress, error) { return Progress{}, nil }

// TestTheFirstReceiveIsTheThreads: a thread tells what it has received after others have begun to look
// again; its first receive came before.
func TestTheFirstReceiveIsTheThreads(t *testing.T) {
	whole := Job{Stop: new(atomic.Uint32), Lanes: make([]Lane, 2)}
	held := make(chan struct{})
	threads, err := PrepareThreads(&whole, make([]ThreadQueues, 2), ThreadOptions{}, func(n int, _ *Job) (Runner, error) {
		if n == 0 {
			return idle{}, nil
		}
		return late{held: held}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var p Progress
	for looks := 0; p.Received == 0; looks++ {
		if p, err = threads.Run(Now()); err != nil {
			t.Fatal(err)
		}
		if looks == 100 {
			close(held)
		}
		runtime.Gosched() //nolint:forbidigo // a test that measures nothing
	}
	if p.FirstIn == 0 || p.FirstIn > p.LastDone {
		t.Errorf("the first receive is stamped %d, the last %d", p.FirstIn, p.LastDone)
	}
	if err := threads.Close(); err != nil {
		t.Error(err)
	}
}
