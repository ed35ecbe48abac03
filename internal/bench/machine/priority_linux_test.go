package machine

import (
	"runtime"
	"testing"

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
	if err := q.Restore(); err != nil {
		t.Fatal(err)
	}
	if a, err := unix.SchedGetAttr(0, 0); err != nil || a.Policy != unix.SCHED_FIFO || a.Priority != 1 {
		t.Errorf("%+v afterwards, %v", a, err)
	}
}
