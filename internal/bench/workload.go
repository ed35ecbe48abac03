package bench

import (
	"fmt"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/verbs"
)

// demand is what a workload asks of an endpoint before anything is made, per queue pair.
type demand struct {
	sendBytes, recvBytes int // memory to send from, and memory that is written by the peer or by receives
	lead                 int // bytes before the first receive slot
	sendWRs, recvWRs     int // work requests outstanding
	sendSGEs, recvSGEs   int
	inline               int // bytes; negative: as many as the device has, up to this
}

// workload is what a message is. The ordinary tests are one ([contiguous]), the non-contiguous experiment another.
type workload interface {
	// demand says what the endpoint must have.
	demand(limits verbs.Limits) (demand, error)
	// lane makes queue pair q's part of the job for one size: rings and addresses. Window, counts and receives due are
	// set by Compile.
	lane(e *Endpoint, role Role, size, q int, peer control.Address) (verbs.Lane, error)
	// arm fills what is sent and wipes what is received, so that check can tell what arrived. Called before every round
	// whose data is verified; seed differs from round to round and is the same at both ends.
	arm(e *Endpoint, role Role, size int, seed uint64) error
	// check compares what arrived after a round: moved says how much, per queue pair.
	check(e *Endpoint, role Role, size int, seed uint64, moved []movement) error
}

// movement is what one queue pair did in a round.
type movement struct {
	sent     uint64 // messages sent and known complete at the initiator
	received uint64 // receives completed at this end
	first    uint64 // number of the receive (since the queue pair was made) that took the round's first message
}

// workloadOf picks the workload of a plan. page and line are the negotiated ones.
func workloadOf(p control.Plan, page, line int) (workload, error) {
	if p.Noncontig != nil {
		return newNoncontig(p, page, line)
	}
	return newContiguous(p, page, line)
}

// contiguous is perftest's message: one piece of memory on each end.
type contiguous struct {
	plan       control.Plan
	page, line int
	largest    int
	spread     int // places that verification of every message needs, 0: as perftest
}

func newContiguous(p control.Plan, page, line int) (*contiguous, error) {
	c := &contiguous{plan: p, page: page, line: line}
	for _, s := range p.Sizes {
		c.largest = max(c.largest, s)
	}
	if p.AllSizes {
		c.largest = max(c.largest, allSizesLargest(p))
	}
	if c.largest == 0 {
		return nil, fmt.Errorf("plan has no message size")
	}
	if p.Verify == "all" {
		c.spread = c.verifyPlaces()
		c.page = max(c.page, c.spread*roundUp(c.largest+grhBytes, line))
	}
	return c, nil
}

// allSizesLargest is the size that -a lays buffers out for.
func allSizesLargest(p control.Plan) int {
	if p.Transport == verbs.UD {
		return 0
	}
	return 8 << 20
}

// verifyPlaces is the number of messages that may be in flight when each has a place of its own.
func (c *contiguous) verifyPlaces() int {
	const budget = 64 << 20
	depth := max(c.plan.TxDepth, 1)
	return max(min(depth, budget/roundUp(c.largest+grhBytes, c.line)), 1)
}

func (c *contiguous) demand(verbs.Limits) (demand, error) {
	slot := max(c.largest, c.page)
	d := demand{
		sendBytes: slot, recvBytes: slot,
		sendWRs: c.plan.TxDepth, recvWRs: rxDepthOf(c.plan), sendSGEs: 1, recvSGEs: 1, inline: c.inline(),
	}
	if c.plan.Transport == verbs.UD {
		d.lead = c.line
		d.recvBytes = roundUp(max(c.largest+grhBytes, c.page), c.line)
	}
	return d, nil
}

// inline is how much perftest would send inline; negative means "try, and take less where the device has less".
func (c *contiguous) inline() int {
	if c.plan.InlineBytes >= 0 {
		return c.plan.InlineBytes
	}
	switch {
	case c.plan.Kind == control.Bandwidth:
		return 0
	case c.plan.Operation == control.Write:
		return -220
	case c.plan.Operation == control.Send && c.plan.Transport == verbs.UD:
		return -188
	case c.plan.Operation == control.Send:
		return -236
	default:
		return 0
	}
}

// steppingOf is how messages of a size walk. Latency tests do not walk.
func (c *contiguous) steppingOf(size int) stepping {
	if c.plan.Kind == control.Latency {
		return stepping{places: 1}
	}
	if c.spread > 0 {
		return stepping{stride: roundUp(c.largest+grhBytes, c.line), places: c.spread}
	}
	return newStepping(size, c.page, c.line)
}

// receiveStepping is how receives walk: those of a test whose receives outlive a round do not depend on the size, and UD
// leaves room for the header.
func (c *contiguous) receiveStepping(e *Endpoint, size int) (stepping, int) {
	length := size
	if e.openEnded {
		length = c.largest
	}
	if c.spread > 0 {
		return c.steppingOf(size), c.largest
	}
	if c.plan.Kind == control.Latency {
		return stepping{places: 1}, length
	}
	if c.plan.Transport == verbs.UD {
		return newStepping(length+grhBytes, c.page, c.line), length
	}
	return newStepping(length, c.page, c.line), length
}

func (c *contiguous) lane(e *Endpoint, role Role, size, q int, peer control.Address) (verbs.Lane, error) {
	var lane verbs.Lane
	if sends(c.plan, role) {
		lane.Ring = c.ring(e, size, q, peer)
	}
	if receives(c.plan, role) {
		lane.Receives = c.receives(e, size, q)
	}
	if answers(c.plan) && Opcode(c.plan) == verbs.OpWrite {
		lane.Await = verbs.AwaitLastByte
		lane.FlagOut = &e.sendSlot(q)[size-1]
		lane.FlagIn = &e.recvSlot(q)[size-1]
	} else if answers(c.plan) {
		lane.Await = verbs.AwaitReceive
	}
	return lane, nil
}

func (c *contiguous) ring(e *Endpoint, size, q int, peer control.Address) []verbs.Message {
	step := c.steppingOf(size)
	op := Opcode(c.plan)
	ring := make([]verbs.Message, step.places)
	for k := range ring {
		at := uint64(step.at(uint64(k)))
		r := verbs.SendRequest{
			Opcode: op,
			SGEs:   []verbs.SGE{{Addr: e.sendAddr(q) + at, Length: uint32(size), LKey: e.lkey(q)}},
		}
		if size <= e.inline && (c.plan.Operation == control.Send || c.plan.Operation == control.Write) {
			r.Flags |= verbs.Inline
		}
		switch c.plan.Operation {
		case control.Send:
			if c.plan.Transport == verbs.UD {
				r.AH, r.RemoteQPN, r.RemoteQKey = e.handles[q], peer.QPN, e.plan.QKey
			}
		case control.Atomic:
			r.RemoteAddr, r.RKey = peer.Addr+at, peer.RKey
			if op == verbs.OpFetchAdd {
				r.CompareAdd = 1
			}
		default:
			r.RemoteAddr, r.RKey = peer.Addr+at, peer.RKey
		}
		if op.HasImmediate() {
			r.Immediate = uint32(k)
		}
		ring[k] = verbs.Message{Steps: []verbs.Step{{Requests: []verbs.SendRequest{r}}}, Bytes: uint64(size)}
	}
	return ring
}

func (c *contiguous) receives(e *Endpoint, size, q int) []verbs.ReceiveRequest {
	if Opcode(c.plan) == verbs.OpWriteWithImmediate {
		return []verbs.ReceiveRequest{{}}
	}
	step, length := c.receiveStepping(e, size)
	ring := make([]verbs.ReceiveRequest, step.places)
	for k := range ring {
		sge := verbs.SGE{Addr: e.recvAddr(q) + uint64(step.at(uint64(k))), Length: uint32(length), LKey: e.lkey(q)}
		if c.plan.Transport == verbs.UD {
			sge.Addr -= grhBytes
			sge.Length += grhBytes
		}
		ring[k] = verbs.ReceiveRequest{SGEs: []verbs.SGE{sge}}
	}
	return ring
}
