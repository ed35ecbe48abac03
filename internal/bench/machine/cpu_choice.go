package machine

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// CPUChoice says where the measuring thread runs. The zero value leaves it to the kernel.
type CPUChoice struct {
	CPUs []int // pinned to these, one for each thread
	// AnyMask has one thread take the first of CPUs that the kernel lets it have, whatever mask (taskset) the process was
	// started with.
	AnyMask bool
	Last    int // else: how many CPUs from the end of those allowed: 1 is the last, 2 the one before; 0: not pinned
	// OtherEnd is the process of the other end where both share this host's CPUs, 0 if that is not known.
	OtherEnd int
}

// crowdedLook is for how long a CPU is tried out: long enough for whoever else wants it to get a turn.
const crowdedLook = 8 * time.Millisecond

// crowded tells whether the calling thread, just pinned, has to share its CPU: it spins for a while and looks how long
// it had to wait. A pinned thread cannot move to another CPU, and a thread that gets no CPU for seconds loses its peer.
func crowded(waited func() time.Duration) bool {
	began, before := time.Now(), waited()
	for time.Since(began) < crowdedLook {
		_ = job.Now()
	}
	return waited()-before > crowdedLook/10
}

// Check tells whether there is a CPU for the measuring thread.
func (c CPUChoice) Check() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_, err := c.pick([]int{-1})
	return err
}

// pick chooses a CPU for each thread, given the node of its device, -1: unknown. It takes those asked for, or the last
// of those allowed, on the thread's node where all are known. Nil: none is pinned.
func (c CPUChoice) pick(nodes []int) ([]int, error) {
	allowed, err := AllowedCPUs()
	if err != nil {
		if c.CPUs != nil {
			return nil, err
		}
		return nil, nil //nolint:nilerr // without affinity there is no pinning, which the result says
	}
	refuse := func(format string, args ...any) error {
		return &verbs.Error{Verb: "choose CPU", Err: fmt.Errorf(format, args...)}
	}
	if c.AnyMask {
		for _, cpu := range c.CPUs {
			if undo, err := pinThread(cpu); err == nil {
				return []int{cpu}, undo()
			}
		}
		return nil, refuse("the kernel lets this process have none of the CPUs %v", c.CPUs)
	}
	for _, cpu := range c.CPUs {
		if !slices.Contains(allowed, cpu) {
			return nil, refuse("--cpu %d: this process may run on CPUs %v", cpu, allowed)
		}
	}
	switch {
	case c.CPUs != nil && len(c.CPUs) < len(nodes):
		return nil, refuse("--cpu names %d CPUs for %d threads: name one for each, as in --cpu 2,3", len(c.CPUs), len(nodes))
	case c.CPUs != nil:
		return c.CPUs[:len(nodes)], nil
	case c.Last == 0 || len(allowed) < 2:
		return nil, nil
	}
	if slices.Contains(nodes, -1) {
		nodes = slices.Repeat([]int{-1}, len(nodes))
	}
	out := make([]int, len(nodes))
	for i, node := range nodes {
		threads := len(slices.DeleteFunc(slices.Clone(nodes), func(other int) bool { return other != node }))
		cpus := nodeCPUs(node, allowed)
		if len(cpus) < max(threads, 2) {
			cpus = allowed
		}
		n := len(cpus)
		if len(nodes) == 1 && c.Last == n { // the second of two ends on a host of two CPUs: one is left to everybody else
			return nil, nil
		}
		from := (c.Last-1)*threads + 1 // two ends on this host take different ones, as long as there are
		for try := range n {
			if out[i] = cpus[(n-(from+try)%n)%n]; !slices.Contains(out[:i], out[i]) {
				break
			}
		}
	}
	return out, nil
}
