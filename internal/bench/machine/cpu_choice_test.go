package machine

import (
	"slices"
	"testing"
	"time"
)

// anywhere are the nodes of n threads where none is known.
func anywhere(n int) []int { return slices.Repeat([]int{-1}, n) }

func TestCPUChoice(t *testing.T) {
	allowed, err := AllowedCPUs()
	if err != nil {
		t.Skipf("no affinity here: %v", err)
	}
	if cpus, err := (CPUChoice{CPUs: allowed}).pick(anywhere(len(allowed))); err != nil || !slices.Equal(cpus, allowed) {
		t.Errorf("asked for CPUs %v, got %v, %v", allowed, cpus, err)
	}
	if _, err := (CPUChoice{CPUs: []int{100000}}).pick([]int{-1}); err == nil {
		t.Error("CPU 100000 is taken")
	}
	if _, err := (CPUChoice{CPUs: allowed[:1]}).pick([]int{-1, -1}); err == nil {
		t.Error("one CPU is taken for two threads")
	}
	if cpus, err := (CPUChoice{}).pick([]int{-1, -1}); err != nil || cpus != nil {
		t.Errorf("no pinning gives CPUs %v, %v", cpus, err)
	}
	if len(allowed) < 2 {
		return
	}
	one, _ := (CPUChoice{Last: 1}).pick([]int{-1})
	two, _ := (CPUChoice{Last: 2}).pick([]int{-1})
	if len(allowed) == 2 && (len(one) != 1 || two != nil) {
		t.Errorf("of two CPUs the ends of one host take %v and %v, and leave none", one, two)
	}
	if len(allowed) > 2 && (len(one) != 1 || len(two) != 1 || one[0] == two[0]) {
		t.Errorf("the two ends of one host share CPUs %v and %v", one, two)
	}
	for last := range 2 {
		all, err := (CPUChoice{Last: last + 1}).pick(anywhere(len(allowed)))
		if slices.Sort(all); err != nil || !slices.Equal(all, allowed) {
			t.Errorf("as many threads as CPUs %v take %v, %v", allowed, all, err)
		}
	}
}

// TestCPUsOfSeveralNodes: where this process may not run on a device's node, its thread takes no CPU of another thread.
func TestCPUsOfSeveralNodes(t *testing.T) {
	allowed, err := AllowedCPUs()
	if err != nil || len(allowed) < 2 {
		t.Skipf("two CPUs are needed: %v, %v", allowed, err)
	}
	for _, last := range []int{1, 2} {
		if cpus, err := (CPUChoice{Last: last}).pick([]int{0, 1 << 20}); err != nil || len(cpus) != 2 || cpus[0] == cpus[1] {
			t.Errorf("the threads of two nodes, end %d, run on %v, %v", last, cpus, err)
		}
	}
}

// TestCrowded holds that a thread which has to wait for the CPU that it was given is not left there.
func TestCrowded(t *testing.T) {
	for _, c := range []struct {
		waits time.Duration // between two looks
		want  bool
	}{{0, false}, {crowdedLook / 20, false}, {crowdedLook / 2, true}} {
		sum := time.Duration(0)
		if got := crowded(func() time.Duration { sum += c.waits; return sum }); got != c.want {
			t.Errorf("%v of %v waited: crowded %v, want %v", c.waits, crowdedLook, got, c.want)
		}
	}
}
