package bench

import (
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/gobw/gobw/verbs/job"
)

func TestQuietIsRestored(t *testing.T) {
	procs := runtime.GOMAXPROCS(0)
	limit := debug.SetMemoryLimit(-1)
	before := debug.SetGCPercent(73)
	defer debug.SetGCPercent(before)
	q, err := beQuiet(CPUChoice{Last: 1}, []int{-1})
	if err != nil {
		t.Fatal(err)
	}
	if got := runtime.GOMAXPROCS(0); got < 3 {
		t.Errorf("GOMAXPROCS %d while measuring, want at least 3", got)
	}
	if got := debug.SetGCPercent(-1); got != -1 {
		t.Errorf("GC percent %d while measuring, want -1", got)
	}
	if _, held := heap(); debug.SetMemoryLimit(-1) > int64(held)+2*garbageMost {
		t.Errorf("memory limit %d while measuring, want at most %d above the %d bytes held", debug.SetMemoryLimit(-1), 2*garbageMost, held)
	}
	if err := q.restore(); err != nil {
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

func TestCPUChoice(t *testing.T) {
	allowed, err := allowedCPUs()
	if err != nil {
		t.Skipf("no affinity here: %v", err)
	}
	if cpus, err := (CPUChoice{CPUs: allowed}).pick(-1, len(allowed)); err != nil || !slices.Equal(cpus, allowed) {
		t.Errorf("asked for CPUs %v, got %v, %v", allowed, cpus, err)
	}
	if _, err := (CPUChoice{CPUs: []int{100000}}).pick(-1, 1); err == nil {
		t.Error("CPU 100000 is taken")
	}
	if _, err := (CPUChoice{CPUs: allowed[:1]}).pick(-1, 2); err == nil {
		t.Error("one CPU is taken for two threads")
	}
	if cpus, err := (CPUChoice{}).pick(-1, 2); err != nil || cpus != nil {
		t.Errorf("no pinning gives CPUs %v, %v", cpus, err)
	}
	if len(allowed) < 2 {
		return
	}
	one, _ := (CPUChoice{Last: 1}).pick(-1, 1)
	two, _ := (CPUChoice{Last: 2}).pick(-1, 1)
	if len(allowed) == 2 && (len(one) != 1 || two != nil) {
		t.Errorf("of two CPUs the ends of one host take %v and %v, and leave none", one, two)
	}
	if len(allowed) > 2 && (len(one) != 1 || len(two) != 1 || one[0] == two[0]) {
		t.Errorf("the two ends of one host share CPUs %v and %v", one, two)
	}
	for last := range 2 {
		all, err := (CPUChoice{Last: last + 1}).pick(-1, len(allowed))
		if slices.Sort(all); err != nil || !slices.Equal(all, allowed) {
			t.Errorf("as many threads as CPUs %v take %v, %v", allowed, all, err)
		}
	}
}

// TestCrowded holds that a thread which has to wait for the CPU that it was given is not left there.
func TestCrowded(t *testing.T) {
	for _, c := range []struct {
		waits time.Duration // between two looks
		want  bool
	}{{0, false}, {crowdedLook / 20, false}, {crowdedLook / 2, true}} {
		now := schedule{waited: time.Hour}
		got := crowded(func() schedule {
			now.waited += c.waits
			return now
		})
		if got != c.want {
			t.Errorf("%v of %v waited: crowded %v, want %v", c.waits, crowdedLook, got, c.want)
		}
	}
}

// TestPinnedThreads pins a second thread, counts how long it has waited, and leaves it as it was.
func TestPinnedThreads(t *testing.T) {
	allowed, err := allowedCPUs()
	if err != nil || len(allowed) < 2 {
		t.Skipf("two CPUs and affinity are needed: %v, %v", allowed, err)
	}
	q, err := beQuiet(CPUChoice{Last: 1}, []int{-1, -1})
	if err != nil {
		t.Fatal(err)
	}
	type seen struct {
		during, after []int
		err           error
	}
	found := make(chan seen)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		var s seen
		undo, err := q.pin(1)
		if s.err = err; err == nil {
			s.during, _ = allowedCPUs()
			undo()
			s.after, _ = allowedCPUs()
		}
		found <- s
	}()
	s := <-found
	if s.err != nil || len(s.during) != 1 || s.during[0] == q.cpu || !slices.Equal(s.after, allowed) {
		t.Errorf("the second thread ran on %v beside %d, and then on %v of %v (%v)", s.during, q.cpu, s.after, allowed, s.err)
	}
	if c := q.others.counted(); c.waited < 0 || len(q.others.begun) != 0 {
		t.Errorf("%+v, %d threads still followed", c, len(q.others.begun))
	}
	if err := q.restore(); err != nil {
		t.Fatal(err)
	}
}

func TestSteadiness(t *testing.T) {
	s := steadiness{window: 10}
	now := job.Ticks(100)
	feed := func(rate float64, windows int) {
		for range windows {
			now += 10
			s.add(now, rate)
		}
	}
	feed(100, 2)
	if s.steady() {
		t.Error("steady after one window")
	}
	feed(200, 2)
	if s.steady() {
		t.Error("steady while the rate doubles")
	}
	feed(205, 3)
	if !s.steady() {
		t.Error("not steady after three like windows")
	}
}

func TestSeriesFolds(t *testing.T) {
	s := newSeries(10)
	for i := range 5000 {
		s.add(job.Ticks(1+i*10), 2, 1)
	}
	if len(s.bytes) > seriesLength {
		t.Errorf("%d intervals, want at most %d", len(s.bytes), seriesLength)
	}
	var bytes, messages float64
	for i := range s.bytes {
		bytes += s.bytes[i]
		messages += s.messages[i]
	}
	if bytes != 10000 || messages != 5000 {
		t.Errorf("sums %v bytes, %v messages; want 10000, 5000", bytes, messages)
	}
}
