package machine

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gobw/gobw/report"
)

// TestRealtimePriority is a process that was started with real-time priority (chrt): it is recorded, and kept.
func TestRealtimePriority(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.SchedSetAttr(0,
		&unix.SchedAttr{Policy: unix.SCHED_FIFO, Priority: 1, Flags: unix.SCHED_FLAG_RESET_ON_FORK}, 0); err != nil {
		t.Skip(err)
	}
	defer func() {
		if err := unix.SchedSetAttr(0, &unix.SchedAttr{Policy: unix.SCHED_NORMAL, Flags: unix.SCHED_FLAG_RESET_ON_FORK},
			0); err != nil {
			t.Error(err)
		}
	}()
	q, err := BeQuiet(CPUChoice{}, []int{-1})
	if err != nil {
		t.Fatal(err)
	}
	var e report.Environment
	if q.Describe(&e); e.Priority != "realtime" {
		t.Errorf("priority %q", e.Priority)
	}
	// The kernel keeps 5 % of a second from this thread: it rests before it is watched, and not again at once.
	for begun := time.Now(); time.Since(begun) < 200*time.Millisecond; {
	}
	for _, want := range []struct{ least, most time.Duration }{{60 * time.Millisecond, time.Second}, {0, 50 * time.Millisecond}} {
		begun := time.Now()
		q.PrepareWatch()
		if took := time.Since(begun); took < want.least || took > want.most {
			t.Errorf("it rested for %v: want %v to %v", took, want.least, want.most)
		}
	}
	if err := q.Restore(); err != nil {
		t.Fatal(err)
	}
	if a, err := unix.SchedGetAttr(0, 0); err != nil || a.Policy != unix.SCHED_FIFO || a.Priority != 1 {
		t.Errorf("%+v afterwards, %v", a, err)
	}
}
