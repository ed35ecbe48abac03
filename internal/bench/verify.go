package bench

import (
	"bytes"
	"encoding/binary"

	"github.com/gobw/gobw/internal/bench/payload"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
)

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
			payload.Fill(from[steps.At(uint64(k)):][:size], c.seed(seed, q, c.plan.Role()), uint64(k))
		}
	}
	return nil
}

// seed of the data that an end sends.
func (c *contiguous) seed(seed uint64, q int, from plan.Role) uint64 {
	return payload.Seed(seed, q, from == plan.Initiator)
}

// other is the other end.
func other(r plan.Role) plan.Role { return plan.Target - r }

// check compares each place that was written. In a write latency test the last byte of a message is its counter.
func (c *contiguous) check(e *Endpoint, size int, seed uint64, moved []movement) (uint64, error) {
	whole := uint64(0)
	for q := range e.qps {
		n, err := c.checkQP(e, size, c.seed(seed, q, other(c.plan.Role())), q, moved[q])
		if err != nil {
			return whole, err
		}
		whole += n
	}
	return whole, nil
}

// checkQP looks at where the data of a queue pair ends: for READ at the initiator, for a SEND in the receives, else in the
// slot that the peer writes.
func (c *contiguous) checkQP(e *Endpoint, size int, seed uint64, q int, moved movement) (uint64, error) {
	p, row := c.plan, c.plan.Row()
	sent := min(moved.sent, uint64(p.SendSteps(size).Places))
	switch {
	case row.Counter:
		if p.Role() == plan.Target || c.spec.Bidirectional {
			return c.checkCounters(e, size, q, moved)
		}
		return 0, nil
	case row.Fetches():
		if !p.Sends() {
			return 0, nil
		}
		return c.checkPlaces(e.sendSlot(q), size, sent, seed, q)
	case !row.Addressed():
		if !p.Receives() {
			return 0, nil
		}
		return c.checkReceived(e, size, seed, q, moved)
	case p.Role() == plan.Initiator && !c.spec.Bidirectional && !p.Answers():
		return 0, nil // nobody writes here
	}
	slot := e.recvSlot(q)
	if p.Answers() && row.ByLastByte {
		// The last byte is the counter; a message of one byte is nothing but that.
		if size == 1 {
			return 1, nil
		}
		size--
	}
	return c.checkPlaces(slot, size, sent, seed, q)
}

// checkPlaces compares places in order and counts those that are whole.
func (c *contiguous) checkPlaces(slot []byte, size int, places, seed uint64, q int) (whole uint64, err error) {
	steps := c.plan.SendSteps(size)
	for k := range places {
		b := slot[steps.At(k):][:size]
		if payload.Check(b, seed, k) < 0 {
			whole++
			continue
		}
		if c.spec.Transport == verbs.UC && onlyHoles(b, seed, k) {
			continue // it was lost, or a part of it
		}
		return whole, c.corrupt(b, seed, k, q)
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

// checkReceived checks the last message in each receive place. Message m of a round went from place m mod n, and into
// receive number first+m. Where messages may be lost, a place must hold some message, whole; the place of the next
// receive is left out, because a message that lost its end may lie there.
func (c *contiguous) checkReceived(e *Endpoint, size int, seed uint64, q int, moved movement) (whole uint64, err error) {
	steps, _ := c.plan.ReceiveSteps(size)
	from := uint64(c.plan.SendSteps(size).Places)
	places := min(moved.received, uint64(steps.Places))
	lossy := c.spec.Transport != verbs.RC || e.srq != nil
	if lossy && places > 1 && places == uint64(steps.Places) {
		places--
	}
	for m := moved.received - places; m < moved.received; m++ {
		b := e.recvSlot(q)[steps.At(moved.first+m):][:size]
		if payload.Check(b, seed, m%from) < 0 || lossy && anyMessage(b, seed, from) {
			whole++
			continue
		}
		return whole, c.corrupt(b, seed, m%from, q)
	}
	return whole, nil
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
func (c *contiguous) checkCounters(e *Endpoint, size, q int, moved movement) (uint64, error) {
	steps := c.plan.SendSteps(size)
	for k := range steps.Places {
		want := moved.sent / uint64(steps.Places)
		if uint64(k) < moved.sent%uint64(steps.Places) {
			want++
		}
		if got := binary.NativeEndian.Uint64(e.recvSlot(q)[steps.At(uint64(k)):]); got != want {
			return 0, &payload.LostUpdateError{QP: q, Place: k, Got: got, Want: want}
		}
	}
	return moved.sent, nil
}

func (c *contiguous) corrupt(b []byte, seed, message uint64, q int) error {
	at := payload.Check(b, seed, message)
	return &payload.CorruptError{
		Operation: string(c.spec.Operation), QP: q, Message: message, Offset: at, Size: len(b),
		Got: b[at], Want: payload.Byte(seed, message, at),
	}
}
