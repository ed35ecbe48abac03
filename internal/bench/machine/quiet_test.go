package machine

import (
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
)

func TestQuietIsRestored(t *testing.T) {
	procs := runtime.GOMAXPROCS(0)
	limit := debug.SetMemoryLimit(-1)
	before := debug.SetGCPercent(73)
	defer debug.SetGCPercent(before)
	q, err := BeQuiet(CPUChoice{Last: 1}, []int{-1})
	if err != nil {
		t.Fatal(err)
	}
	if got := runtime.GOMAXPROCS(0); got < 3 {
		t.Errorf("GOMAXPROCS %d while measuring, want at least 3", got)
	}
	if got := debug.SetGCPercent(-1); got != -1 {
		t.Errorf("GC percent %d while measuring, want -1", got)
	}
	// What the runtime holds may have changed since the limit was set: it returns memory in the background.
	const most = garbageMost * 3 / 2
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if held := int64(m.Sys - m.HeapReleased); debug.SetMemoryLimit(-1) > held+most {
		t.Errorf("memory limit %d while measuring, want at most %d above the %d bytes held", debug.SetMemoryLimit(-1),
			most, held)
	}
	if err := q.Restore(); err != nil {
		t.Fatal(err)
	}
	if got := debug.SetMemoryLimit(-1); got != limit {
		t.Errorf("memory limit %d afterwards, want %d", got, limit)
	}
	if got := runtime.GOMAXPROCS(0); got != procs {
		t.Errorf("GOMAXPROCS %d afterwards, want %d", got, procs)
	}
	if got := debug.SetGCPercent(73); got != 73 {
		t.Errorf("GC percent %d afterwards, want 73", got)
	}
}

// TestPinnedThreads pins a second thread, counts how long it has waited, and leaves it as it was.
func TestPinnedThreads(t *testing.T) {
	allowed, err := AllowedCPUs()
	if err != nil || len(allowed) < 2 {
		t.Skipf("two CPUs and affinity are needed: %v, %v", allowed, err)
	}
	q, err := BeQuiet(CPUChoice{Last: 1}, []int{-1, -1})
	if err != nil {
		t.Fatal(err)
	}
	q.PrepareWatch()
	q.Watch()
	type seen struct {
		during, after []int
		err           error
	}
	found := make(chan seen)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		var s seen
		undo, err := q.Pin(1)
		if s.err = err; err == nil {
			s.during, _ = AllowedCPUs()
			undo()
			s.after, _ = AllowedCPUs()
		}
		found <- s
	}()
	s := <-found
	if s.err != nil || len(s.during) != 1 || s.during[0] == q.Pins[0] || !slices.Equal(s.after, allowed) {
		t.Errorf("the second thread ran on %v beside %v, and then on %v of %v (%v)", s.during, q.Pins, s.after,
			allowed, s.err)
	}
	if c := q.Counted().Waited; c < 0 || q.tids[0] == q.tids[1] || slices.Contains(q.tids, 0) {
		t.Errorf("%v waited in the threads %v, want two", c, q.tids)
	}
	if err := q.Restore(); err != nil {
		t.Fatal(err)
	}
}
