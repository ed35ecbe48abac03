package machine

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// CPUChoice says where the measuring thread runs, and before whom. The zero value leaves both to the kernel.
type CPUChoice struct {
	CPUs []int // pinned to these, one for each thread
	// AnyMask has one thread take the first of CPUs that the kernel lets it have, whatever mask (taskset) the process was
	// started with.
	AnyMask bool
	Last    int // else: how many CPUs from the end of those allowed: 1 is the last, 2 the one before; 0: not pinned
	// Realtime puts this process, while it runs a plan, before all threads without real-time priority.
	Realtime bool
}

// crowdedLook is for how long a CPU is tried out: long enough for whoever else wants it to get a turn.
const crowdedLook = 8 * time.Millisecond

// crowded tells whether the calling thread, just pinned, has to share its CPU: it wants it for a while and looks how long it
// had to wait since waited was called last. A pinned thread cannot go where there is room, and one that gets no CPU for seconds
// loses its peer.
func crowded(waited func() time.Duration) bool {
	began := time.Now()
	waited()
	for time.Since(began) < crowdedLook {
		_ = job.Now()
	}
	return waited() > crowdedLook/10
}

// pickOn chooses a CPU for each thread, at its device's node where they differ and all are known.
func (c CPUChoice) pickOn(nodes []int) ([]int, error) {
	members := map[int][]int{} // threads of a node
	for n, node := range nodes {
		members[node] = append(members[node], n)
	}
	switch unknown := members[-1] != nil; {
	case len(members) == 1:
		return c.pick(nodes[0], len(nodes))
	case unknown || c.CPUs != nil:
		return c.pick(-1, len(nodes))
	}
	out := make([]int, len(nodes))
	for node, threads := range members {
		cpus, err := c.pick(node, len(threads))
		if err != nil || cpus == nil {
			return nil, err
		}
		for i, n := range threads {
			out[n] = cpus[i]
		}
	}
	return out, nil
}

// Check tells whether there is a CPU for the measuring thread.
func (c CPUChoice) Check() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_, err := c.pick(-1, 1)
	return err
}

// pick chooses a CPU for each thread: those asked for, or the last of those allowed on the device's node. Nil: none is
// pinned.
func (c CPUChoice) pick(numa, threads int) ([]int, error) {
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
	case c.CPUs != nil && len(c.CPUs) < threads:
		return nil, refuse("--cpu names %d CPUs for %d threads: name one for each, as in --cpu 2,3", len(c.CPUs), threads)
	case c.CPUs != nil:
		return c.CPUs[:threads], nil
	case c.Last == 0:
		return nil, nil
	}
	if near := nodeCPUs(numa, allowed); len(near) >= max(threads, 2) {
		allowed = near
	}
	if len(allowed) < 2 {
		return nil, nil
	}
	out, n := make([]int, threads), len(allowed)
	if threads == 1 && c.Last == n { // the second of two ends on a host of two CPUs: one is left to everybody else
		return nil, nil
	}
	for i := range out { // two ends on this host take different ones, as long as there are
		from := (c.Last-1)*threads + i + 1
		out[i] = allowed[(n-from%n)%n]
	}
	return out, nil
}
