package endpoint

import (
	"bytes"
	"encoding/binary"

	"github.com/gobw/gobw/internal/bench/payload"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// contiguous is perftest's message: one piece of memory on each end.
type contiguous struct {
	plan *plan.Settled
	spec plan.Spec // of plan
}

func (c *contiguous) lane(e *Endpoint, size, q int) (job.Lane, error) {
	var lane job.Lane
	if c.plan.Sends() {
		lane.Ring = c.ring(e, size, q)
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
		if c.plan.Ours() { // one of an earlier round must not count; in perftest's dialect no barrier stands between sizes
			*lane.FlagIn = 0
		}
	default:
		lane.Await = job.AwaitReceive
	}
	return lane, nil
}

func (c *contiguous) ring(e *Endpoint, size, q int) []job.Message {
	steps, row, cycle := c.plan.SendSteps(size), c.plan.Row(), c.spec.Cycle(size)
	ring := make([]job.Message, c.plan.RingLength(size))
	for k := range ring {
		at, size := uint64(steps.At(uint64(k))), cycle[k%len(cycle)].Bytes
		r := e.request(q, pieces(e.sendAddr(q)+at, e.lkey(q), cycle[k%len(cycle)]), at)
		if size <= e.inline && row.MayInline() {
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
func pieces(addr uint64, lkey uint32, of plan.Part) []verbs.SGE {
	list := make([]verbs.SGE, of.SGEs)
	for i := range list {
		length := (of.Bytes + of.SGEs - 1 - i) / of.SGEs
		list[i] = verbs.SGE{Addr: addr, Length: uint32(length), LKey: lkey}
		addr += uint64(length)
	}
	return list
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

// arm fills each place of the send slot with its pattern and wipes the receive slot. For READ it is the target's
// receive slot that is the source.
func (c *contiguous) arm(e *Endpoint, size int, seed uint64) error {
	steps, row := c.plan.SendSteps(size), c.plan.Row()
	for q := range e.qps {
		from, to := e.sendSlot(q), e.recvSlot(q)
		if row.Fetches() {
			from, to = to, from
		}
		clear(to)
		if row.Counter {
			clear(from)
			continue
		}
		for k := range steps.Places {
			payload.Fill(from[steps.At(uint64(k)):][:size], payload.Seed(seed, q, c.plan.Role() == plan.Initiator), uint64(k))
		}
	}
	return nil
}

// check compares each place that was written. In a write latency test the last byte of a message is its counter.
func (c *contiguous) check(e *Endpoint, size int, seed uint64, sparse bool) (whole uint64, err error) {
	for q := range e.qps {
		n, err := c.checkQP(e, size, payload.Seed(seed, q, c.plan.Role() == plan.Target), q, sparse)
		if whole += n; err != nil {
			return whole, err
		}
	}
	return whole, nil
}

// landing is where the messages of a queue pair lie: number m, of those from low to high, at a place of the slot. As many as of have
// contents of their own.
type landing struct {
	slot      []byte
	at        func(m uint64) int
	low, high uint64
	of        uint64
	lossy     bool // a place may hold any message
}

// checkQP looks at where the data of a queue pair ends: for READ at the initiator, for a SEND in the receives, else in the
// slot that the peer writes.
func (c *contiguous) checkQP(e *Endpoint, size int, seed uint64, q int, sparse bool) (uint64, error) {
	p, row, steps, moved := c.plan, c.plan.Row(), c.plan.SendSteps(size), e.moved[q]
	places := func(slot []byte) landing {
		return landing{slot: slot, at: steps.At, high: min(moved.sent, uint64(steps.Places)), of: uint64(steps.Places)}
	}
	switch {
	case row.Counter && (p.Role() == plan.Target || c.spec.Bidirectional):
		return c.checkCounters(e, size, q)
	case row.Counter:
		return 0, nil
	case row.Fetches() && p.Sends():
		return c.compare(places(e.sendSlot(q)), size, seed, q, sparse)
	case row.Fetches():
		return 0, nil
	case !row.Addressed() && p.Receives():
		return c.compare(c.received(e, size, q), size, seed, q, false)
	case !row.Addressed(), p.Role() == plan.Initiator && !c.spec.Bidirectional && !p.Answers():
		return 0, nil // nobody writes here
	}
	if p.Answers() && row.ByLastByte {
		// The last byte is the counter; a message of one byte is nothing but that.
		if size == 1 {
			return 1, nil
		}
		size--
	}
	return c.compare(places(e.recvSlot(q)), size, seed, q, sparse)
}

// received is the last message in each receive place. Message m of a round went from place m mod n, and into
// receive number first+m. Where messages may be lost, a place must hold some message, whole; the place of the next
// receive is left out, because a message that lost its end may lie there.
func (c *contiguous) received(e *Endpoint, size, q int) landing {
	steps, _ := c.plan.ReceiveSteps(size)
	moved := e.moved[q]
	places := min(moved.received, uint64(steps.Places))
	lossy := c.spec.Transport != verbs.RC || e.srq != nil
	if lossy && places > 1 && places == uint64(steps.Places) {
		places--
	}
	return landing{
		slot: e.recvSlot(q), at: func(m uint64) int { return steps.At(moved.first + m) }, low: moved.received - places, high: moved.received,
		of: uint64(c.plan.SendSteps(size).Places), lossy: lossy,
	}
}

// compare looks at messages in order and counts those that are whole. sparse: of a message all may be missing, or parts of it.
func (c *contiguous) compare(l landing, size int, seed uint64, q int, sparse bool) (whole uint64, err error) {
	for m := l.low; m < l.high; m++ {
		b := l.slot[l.at(m):][:size]
		switch k := m % l.of; {
		case payload.Check(b, seed, k) < 0, l.lossy && anyMessage(b, seed, l.of):
			whole++
		case !sparse || !onlyHoles(b, seed, k):
			return whole, payload.Wrong(string(c.spec.Operation), q, k, b, seed, k)
		}
	}
	return whole, nil
}

// onlyHoles tells whether b is the pattern with some words never written: UC loses packets.
func onlyHoles(b []byte, seed, message uint64) bool {
	var w [8]byte
	for at := 0; at < len(b); at += 8 {
		binary.LittleEndian.PutUint64(w[:], payload.Word(seed, message, at))
		part := b[at:min(at+8, len(b))]
		if !bytes.Equal(part, w[:len(part)]) && !bytes.Equal(part, make([]byte, len(part))) {
			return false
		}
	}
	return true
}

func anyMessage(b []byte, seed, places uint64) bool {
	for m := range places {
		if payload.Check(b, seed, m) < 0 {
			return true
		}
	}
	return false
}

// checkCounters compares the counters that FETCH_AND_ADD has raised.
func (c *contiguous) checkCounters(e *Endpoint, size, q int) (uint64, error) {
	steps, sent := c.plan.SendSteps(size), e.moved[q].sent
	for k := range uint64(steps.Places) {
		want := (sent + uint64(steps.Places) - 1 - k) / uint64(steps.Places)
		if got := binary.NativeEndian.Uint64(e.recvSlot(q)[steps.At(k):]); got != want {
			return 0, payload.Corrupt("atomic counter %d of queue pair %d is %d, want %d", k, q, got, want)
		}
	}
	return sent, nil
}
