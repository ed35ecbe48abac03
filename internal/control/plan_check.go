package control

import (
	"errors"
	"fmt"

	"github.com/gobw/gobw/verbs"
)

// Bounds of a plan. They are perftest's where it has some.
const (
	maxSizeBytes = 1<<31 - 1
	maxQPs       = 16384
	maxSizes     = 4096
	maxRuns      = 1 << 20
	maxDepth     = 1 << 20
)

// Check refuses plans that cannot be meant, whoever sent them; all problems are named at once. What depends on the
// device is checked where the device is known.
func (p *Plan) Check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch p.Operation {
	case Write, Read, Send, Atomic:
	default:
		bad("operation %q: want write, read, send or atomic", p.Operation)
	}
	if p.Kind != Bandwidth && p.Kind != Latency {
		bad("kind %q: want bandwidth or latency", p.Kind)
	}
	if len(p.Sizes) == 0 {
		bad("no message size")
	}
	if len(p.Sizes) > maxSizes {
		bad("%d message sizes, the limit is %d", len(p.Sizes), maxSizes)
	}
	for _, size := range p.Sizes {
		if size < 0 || size > maxSizeBytes {
			bad("message size %d: want 0 to %d bytes", size, maxSizeBytes)
			break
		}
	}
	if p.QPs < 0 || p.QPs > maxQPs {
		bad("%d queue pairs: want 1 to %d", p.QPs, maxQPs)
	}
	if p.Runs < 0 || p.Runs > maxRuns {
		bad("%d runs: want 1 to %d", p.Runs, maxRuns)
	}
	if p.Duration < 0 || p.Margin < 0 || p.Gap < 0 {
		bad("duration %v, margin %v, gap %v: want none below zero", p.Duration, p.Margin, p.Gap)
	}
	if p.Iterations == 0 && p.Duration == 0 {
		bad("neither iterations nor duration")
	}
	if p.RDMACM && p.Transport == verbs.UC {
		bad("RDMA CM connects RC and UD, not UC")
	}
	if p.TOS != nil && !p.RDMACM {
		bad("a type of service needs connections by RDMA CM")
	}
	for _, depth := range []struct {
		name  string
		value int
	}{
		{"tx depth", p.TxDepth},
		{"rx depth", p.RxDepth},
		{"CQ moderation", p.CQMod},
		{"post list", p.PostList},
		{"receive post list", p.RecvList},
		{"outstanding reads", p.Outstanding},
	} {
		if depth.value < 0 || depth.value > maxDepth {
			bad("%s %d: want 0 to %d", depth.name, depth.value, maxDepth)
		}
	}
	return errors.Join(errs...)
}

// LargestSize is the largest message of the plan in bytes.
func (p *Plan) LargestSize() int {
	largest := 0
	for _, size := range p.Sizes {
		largest = max(largest, size)
	}
	return largest
}

// checkMemory refuses a client's plan that needs more than a server grants; 0 grants all.
func checkMemory(p *Plan, limit uint64) error {
	if need := p.MemoryBytes(); limit > 0 && need > limit {
		return fmt.Errorf("the plan needs %d bytes of buffers at this end; --max-memory allows %d", need, limit)
	}
	return nil
}

// MemoryBytes is how much buffer memory one end needs for the plan: a send and a receive slot for each queue pair, each
// at least a page, and what a non-contiguous layout walks over.
func (p *Plan) MemoryBytes() uint64 {
	const page = 4096
	slot := (uint64(p.LargestSize()) + page - 1) / page * page
	need := 2 * uint64(max(p.QPs, 1)) * max(slot, page)
	if p.Noncontig != nil {
		need += uint64(max(p.Noncontig.Footprint, 0))
	}
	return need
}
