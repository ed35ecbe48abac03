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
	before := time.Now()
	q.PrepareWatch()
	if took := time.Since(before); took < 50*time.Millisecond {
		t.Errorf("it rested for %v", took)
	}
	for since, want := range map[time.Duration]time.Duration{
		0: 0, 200 * time.Millisecond: 14 * time.Millisecond, time.Hour: 70 * time.Millisecond,
	} {
		if got := share(since).Round(time.Microsecond); got != want {
			t.Errorf("after %v it rests for %v, want %v", since, got, want)
		}
	}
	if err := q.Restore(); err != nil {
		t.Fatal(err)
	}
	if a, err := unix.SchedGetAttr(0, 0); err != nil || a.Policy != unix.SCHED_FIFO || a.Priority != 1 {
		t.Errorf("%+v afterwards, %v", a, err)
	}
}
