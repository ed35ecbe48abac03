package bench

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/gobw/gobw/verbs/job"
)

func TestQuietIsRestored(t *testing.T) {
	procs := runtime.GOMAXPROCS(0)
	limit := debug.SetMemoryLimit(-1)
	before := debug.SetGCPercent(73)
	defer debug.SetGCPercent(before)
	q, err := beQuiet(CPUChoice{Last: 1}, -1)
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
	if cpu, err := (CPUChoice{Pinned: true, CPU: allowed[0]}).pick(-1); err != nil || cpu != allowed[0] {
		t.Errorf("asked for CPU %d, got %d, %v", allowed[0], cpu, err)
	}
	if _, err := (CPUChoice{Pinned: true, CPU: 100000}).pick(-1); err == nil {
		t.Error("CPU 100000 is taken")
	}
	if cpu, err := (CPUChoice{}).pick(-1); err != nil || cpu != -1 {
		t.Errorf("no pinning gives CPU %d, %v", cpu, err)
	}
	if len(allowed) < 2 {
		return
	}
	one, _ := (CPUChoice{Last: 1}).pick(-1)
	two, _ := (CPUChoice{Last: 2}).pick(-1)
	if one == two || one < 0 || two < 0 {
		t.Errorf("the two ends of one host share CPU %d and %d", one, two)
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
