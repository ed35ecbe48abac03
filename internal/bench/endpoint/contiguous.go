package endpoint

import (
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// contiguous is perftest's message: one piece of memory on each end.
type contiguous struct{}

func (c contiguous) lane(e *Endpoint, size int, qp *pair) (job.Lane, error) {
	var lane job.Lane
	if e.plan.Sends() {
		lane.Ring = c.ring(e, size, qp)
	}
	if e.plan.Receives() {
		lane.Receives = c.receives(e, size, qp)
	}
	switch row := e.plan.Row; {
	case !e.plan.Answers():
	case row.ByLastByte:
		lane.Await = job.AwaitLastByte
		lane.FlagOut = &qp.send.bytes[size-1]
		lane.FlagIn = &qp.recv.bytes[size-1]
		if e.plan.Ours() { // one of an earlier round must not count; in perftest's dialect no barrier stands between sizes
			*lane.FlagIn = 0
		}
	default:
		lane.Await = job.AwaitReceive
	}
	return lane, nil
}

func (c contiguous) ring(e *Endpoint, size int, qp *pair) []job.Message {
	steps, row, cycle := e.plan.SendSteps(size), e.plan.Row, e.spec.Cycle(size)
	ring := make([]job.Message, e.plan.RingLength(size))
	for k := range ring {
		at, size := uint64(steps.At(uint64(k))), cycle[k%len(cycle)].Bytes
		r := e.request(qp, pieces(qp.send.addr+at, qp.region.LKey(), cycle[k%len(cycle)]), at)
		if size <= e.Inline && row.MayInline() {
			r.Flags |= verbs.Inline
		}
		if row.Opcode == verbs.OpFetchAdd {
			r.CompareAdd = 1
		}
		if row.Opcode.HasImmediate() {
			r.Immediate = uint32(k)
		}
		requests := []verbs.SendRequest{r}
		if row.Flushed {
			requests = append(requests, flush(r, size))
		}
		ring[k] = job.Message{Steps: []job.Step{{Requests: requests}}, Bytes: uint64(size)}
	}
	return ring
}

// flush reads the last byte of a WRITE back to where it came from, which it does not change: no other message has that
// place at either end.
func flush(write verbs.SendRequest, size int) verbs.SendRequest {
	last := write.SGEs[0]
	last.Addr += uint64(size - 1)
	last.Length = 1
	return verbs.SendRequest{
		Opcode: verbs.OpRead, SGEs: []verbs.SGE{last}, RemoteAddr: write.RemoteAddr + uint64(size-1), RKey: write.RKey,
	}
}

// pieces name a message in as many entries as it has, the first of which take what is left of the division.
func pieces(addr uint64, lkey uint32, of plan.MixEntry) []verbs.SGE {
	list := make([]verbs.SGE, of.SGEs)
	for i := range list {
		length := (of.Bytes + of.SGEs - 1 - i) / of.SGEs
		list[i] = verbs.SGE{Addr: addr, Length: uint32(length), LKey: lkey}
		addr += uint64(length)
	}
	return list
}

func (c contiguous) receives(e *Endpoint, size int, qp *pair) []verbs.ReceiveRequest {
	if e.plan.Row.Addressed() { // with immediate: the data goes elsewhere
		return []verbs.ReceiveRequest{{}}
	}
	steps, length := e.plan.ReceiveSteps(size)
	ring := make([]verbs.ReceiveRequest, steps.Places)
	for k := range ring {
		ring[k] = e.receive(qp, steps.At(uint64(k)), length)
	}
	return ring
}

// receive is of one message into one piece of memory. A datagram's header comes before it.
func (e *Endpoint) receive(qp *pair, at, length int) verbs.ReceiveRequest {
	entry := verbs.SGE{Addr: qp.recv.addr + uint64(at), Length: uint32(length), LKey: qp.region.LKey()}
	if e.spec.Transport == verbs.UD {
		entry.Addr -= verbs.GRHBytes
		entry.Length += verbs.GRHBytes
	}
	return verbs.ReceiveRequest{SGEs: []verbs.SGE{entry}}
}

func (contiguous) source(e *Endpoint, size int) image {
	steps := e.plan.SendSteps(size)
	return image{steps.At, one(size), uint64(steps.Places)}
}

// destination is the receives of a SEND, else the slot that the peer writes, or that a READ fetches into. In a write
// latency test the last byte of a message is its counter, and one of a single byte nothing else.
func (c contiguous) destination(e *Endpoint, size int, qp *pair) destination {
	to, moved := destination{image: c.source(e, size)}, qp.moved
	if e.plan.Row.Addressed() {
		to.high, to.sent, to.holes = min(moved.sent, to.contents), moved.sent, e.sparse
		if e.plan.Answers() && e.plan.Row.ByLastByte {
			to.layout = one(size - 1)
		}
	} else {
		// The last message in each place. Message m of a round went from place m mod n, and into receive number first+m.
		// Where messages may be lost, a place must hold some message, whole; the place of the next receive is left out,
		// because a message that lost its end may lie there.
		steps, _ := e.plan.ReceiveSteps(size)
		places := min(moved.received, uint64(steps.Places))
		to.mixed = e.spec.Transport != verbs.RC || e.srq != nil
		if to.mixed && places > 1 && places == uint64(steps.Places) {
			places--
		}
		to.at = func(m uint64) int { return steps.At(moved.first + m) }
		to.low, to.high = moved.received-places, moved.received
	}
	if !to.holes {
		to.must = to.high - to.low
	}
	return to
}
