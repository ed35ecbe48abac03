package bench

import (
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// contiguous is perftest's message: one piece of memory on each end.
type contiguous struct {
	plan *plan.Settled
	spec plan.Spec // of plan
}

func (c *contiguous) lane(e *Endpoint, size, q int, peer control.Address) (job.Lane, error) {
	var lane job.Lane
	if c.plan.Sends() {
		lane.Ring = c.ring(e, size, q, peer)
	}
	if c.plan.Receives() {
		lane.Receives = c.receives(e, size, q)
	}
	switch row := c.plan.Row(); {
	case !c.plan.Answers():
	case row.ByLastByte:
		lane.Await = job.AwaitLastByte
		lane.FlagOut = &e.sendSlot(q)[size-1]
		lane.FlagIn = &e.recvSlot(q)[size-1]
	default:
		lane.Await = job.AwaitReceive
	}
	return lane, nil
}

func (c *contiguous) ring(e *Endpoint, size, q int, peer control.Address) []job.Message {
	steps, row := c.plan.SendSteps(size), c.plan.Row()
	ring := make([]job.Message, steps.Places)
	for k := range ring {
		at := uint64(steps.At(uint64(k)))
		r := verbs.SendRequest{
			Opcode: row.Opcode,
			SGEs:   []verbs.SGE{{Addr: e.sendAddr(q) + at, Length: uint32(size), LKey: e.lkey(q)}},
		}
		if size <= e.inline && row.MayInline() {
			r.Flags |= verbs.Inline
		}
		if row.Addressed() {
			r.RemoteAddr, r.RKey = peer.Addr+at, peer.RKey
		}
		if c.spec.Transport == verbs.UD {
			r.AH, r.RemoteQPN, r.RemoteQKey = e.handles[q], peer.QPN, e.qkey
		}
		if row.Opcode == verbs.OpFetchAdd {
			r.CompareAdd = 1
		}
		if row.Opcode.HasImmediate() {
			r.Immediate = uint32(k)
		}
		requests := []verbs.SendRequest{r}
		if row.Flushed {
			requests = append(requests, flush(r))
		}
		ring[k] = job.Message{Steps: []job.Step{{Requests: requests}}, Bytes: uint64(size)}
	}
	return ring
}

// flush reads the last byte of a WRITE back to where it came from, which it does not change: no other message has that
// place at either end.
func flush(write verbs.SendRequest) verbs.SendRequest {
	last := write.SGEs[0]
	last.Addr += uint64(last.Length - 1)
	last.Length = 1
	return verbs.SendRequest{
		Opcode: verbs.OpRead, SGEs: []verbs.SGE{last}, RemoteAddr: write.RemoteAddr + uint64(write.SGEs[0].Length-1), RKey: write.RKey,
	}
}

func (c *contiguous) receives(e *Endpoint, size, q int) []verbs.ReceiveRequest {
	if c.plan.Row().Addressed() { // with immediate: the data goes elsewhere
		return []verbs.ReceiveRequest{{}}
	}
	steps, length := c.plan.ReceiveSteps(size)
	ring := make([]verbs.ReceiveRequest, steps.Places)
	for k := range ring {
		sge := verbs.SGE{Addr: e.recvAddr(q) + uint64(steps.At(uint64(k))), Length: uint32(length), LKey: e.lkey(q)}
		if c.spec.Transport == verbs.UD {
			sge.Addr -= verbs.GRHBytes
			sge.Length += verbs.GRHBytes
		}
		ring[k] = verbs.ReceiveRequest{SGEs: []verbs.SGE{sge}}
	}
	return ring
}
