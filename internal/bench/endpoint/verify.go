package endpoint

import (
	"bytes"
	"encoding/binary"
	"iter"

	"github.com/gobw/gobw/internal/bench/payload"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/pattern"
)

// image describes where messages lie in the sender's memory.
type image struct {
	at     func(m uint64) int // where message m begins
	layout pattern.Layout     // its blocks, from there on
	// contents is how many messages have contents of their own: m has those of m modulo this number.
	contents uint64
}

// destination describes where messages lie in the receiver's memory, and which of them must be there.
type destination struct {
	image
	low, high uint64 // the messages that are looked at
	sent      uint64 // how many went to these places, one after the other; 0: nobody knows, or m is the number itself
	must      uint64 // at least so many of them have arrived
	mixed     bool   // order unknown: any message may lie at any place
	holes     bool   // messages may be missing or partial
	// pitch is how many bytes belong to a message, from its beginning on. Bytes between its blocks must not change. 0: the
	// message is one block, and the bytes beside it are not looked at.
	pitch int
	from  *pattern.Layout // the blocks that it comes from; nil: one
}

// content writes the first bytes that a message must have. Each byte depends on where it comes from.
func (d *destination) content(b []byte, seed, message uint64) {
	if d.from == nil {
		payload.Fill(b, seed, message, 0)
		return
	}
	for at, from := range blocks(d.from) {
		if at >= len(b) {
			return
		}
		payload.Fill(b[at:min(at+int(from.Length), len(b))], seed, message, int(from.Offset))
	}
}

// one is the layout of a message that is one block.
func one(size int) pattern.Layout {
	l, _ := pattern.Vector(int64(size), 1, int64(size)) // an empty message has an empty layout
	return l
}

// blocks are those of a layout, with the place in the message where each begins.
func blocks(l *pattern.Layout) iter.Seq2[int, pattern.Block] {
	return func(yield func(int, pattern.Block) bool) {
		at := 0
		for it := l.Iterate(); ; {
			b, ok := it.Next()
			if !ok || !yield(at, b) {
				return
			}
			at += int(b.Length)
		}
	}
}

// moves tells whether data leaves this end, and whether data arrives here.
func (e *Endpoint) moves() (starts, arrives bool) {
	both, starts := e.spec.Bidirectional || e.plan.Answers(), (e.plan.Role == plan.Initiator) != e.plan.Row.Fetches()
	return both || starts, both || !starts
}

// data is a queue pair's memory from which data starts, and that where it arrives.
func (e *Endpoint) data(qp *pair) (from, to []byte) {
	if e.plan.Row.Fetches() {
		return qp.recv.bytes, qp.send.bytes
	}
	return qp.send.bytes, qp.recv.bytes
}

// Arm makes the memory ready for a part of a round whose data is compared: it writes what is sent, and wipes
// the places where messages arrive, so that [Endpoint.Check] can tell what did. The seed differs from part
// to part and is the same at both ends.
func (e *Endpoint) Arm(size int, seed uint64) {
	starts, _ := e.moves()
	for _, qp := range e.ofData() {
		from, to := e.data(qp)
		wipe(to, e.work.destination(e, size, qp).pitch > 0, e.arriving(seed, qp.number), 0)
		switch {
		case e.plan.Row.Counter:
			clear(from)
			continue
		case !starts:
			continue
		}
		image := e.work.source(e, size)
		s := payload.Seed(seed, qp.number, e.plan.Role == plan.Initiator)
		for m := range image.contents {
			payload.Fill(from[image.at(m):][:image.layout.Extent()], s, m, 0)
		}
	}
}

// ofData are the queue pairs whose data is compared. The queue pairs of a list share their data, so there it is one.
func (e *Endpoint) ofData() []*pair {
	if p := e.plan.Point; p != nil && p.Listed() {
		return e.qps[:1]
	}
	return e.qps
}

// arriving is the seed of what the peer sends to queue pair q.
func (e *Endpoint) arriving(seed uint64, q int) uint64 {
	return payload.Seed(seed, q, e.plan.Role == plan.Target)
}

// wipe makes memory, which begins at an offset of where data arrives, what it is where nothing has arrived: zeros or,
// where a write beside a message is to be seen whatever it writes, a pattern.
func wipe(memory []byte, patterned bool, seed uint64, offset int) {
	if patterned {
		payload.Fill(memory, seed^0x5a5a5a5a5a5a5a5a, 0, offset)
	} else {
		clear(memory)
	}
}

// Check compares what arrived since [Endpoint.Arm], by what [Endpoint.End] was told. It returns how
// many messages it found whole; 0 where this end has nothing to compare. Before is how many messages of
// the round each queue pair had before.
func (e *Endpoint) Check(size int, seed, before uint64) (whole uint64, err error) {
	starts, arrives := e.moves()
	for _, qp := range e.ofData() {
		from, to := e.data(qp)
		var n uint64
		switch counter := e.plan.Row.Counter; {
		case counter && starts:
			n, err = e.checkCounters(from, size, qp)
		case !counter && arrives:
			n, err = e.compare(e.work.destination(e, size, qp), to, e.arriving(seed, qp.number), qp.number, before)
		}
		if whole += n; err != nil {
			return whole, err
		}
	}
	return whole, nil
}

// compare looks at the messages in memory, and counts those that are whole.
func (e *Endpoint) compare(d destination, memory []byte, seed uint64, q int, before uint64) (whole uint64, err error) {
	size, name := int(d.layout.Size()), string(e.spec.Operation)
	numbers, first := map[uint64]uint64{}, make([]byte, min(size, 8)) // of a message, by its first word
	part := make([]byte, min(max(size, d.pitch), mostPart))
	if d.mixed {
		for m := range d.contents {
			d.content(first, seed, m)
			numbers[head(first)] = m
		}
	}
	arrived := uint64(0)
	for m := d.low; m < d.high; m++ {
		at := d.at(m)
		got := memory[at:][:min(max(size, d.pitch), len(memory)-at)]
		for gap := range d.layout.Gaps(int64(len(got))) { // nothing but blocks is written
			if i := d.touched(got[gap.Offset:gap.End()], part, seed, at+int(gap.Offset)); i >= 0 {
				i += int(gap.Offset)
				return whole, payload.Corrupt("%s wrote %#02x at offset %d of place %d, outside the blocks", name, got[i], i, m)
			}
		}
		for n, b := range blocks(&d.layout) {
			if n >= len(first) {
				break
			}
			copy(first[n:], got[b.Offset:b.End()])
		}
		number, known := numbers[head(first)]
		if !known {
			number = m % d.contents
		}
		switch wrong := d.wrong(got, part, seed, number); {
		case wrong == nil:
			whole++
		case d.nothing(got, part, seed, at):
			continue
		case !d.holes, !d.mixed && !wrong.holes:
			if !known {
				number = d.latest(m)
			}
			return whole, payload.Corrupt("%s of %d bytes, queue pair %d, message %d: byte %d is %#02x, want %#02x",
				name, size, q, before+number+1, wrong.at, wrong.got, wrong.want)
		}
		arrived++
	}
	if arrived < d.must {
		return whole, payload.Corrupt("%s filled %d places of queue pair %d, want %d", name, arrived, q, d.must)
	}
	return whole, nil
}

// mostPart is how many bytes are compared at a time: a message may be as large as the memory.
const mostPart = 64 << 10

// touched is the place of the first byte that is not as [wipe] left it; -1: there is none. It compares a part at a
// time. memory begins at an offset of where data arrives.
func (d *destination) touched(memory, part []byte, seed uint64, offset int) int {
	for n := 0; n < len(memory); n += len(part) {
		want := part[:min(len(part), len(memory)-n)]
		wipe(want, d.pitch > 0, seed, offset+n)
		if i := payload.Differ(memory[n:][:len(want)], want); i >= 0 {
			return n + i
		}
	}
	return -1
}

// nothing tells whether no byte of a message has arrived.
func (d *destination) nothing(got, part []byte, seed uint64, offset int) bool {
	for _, b := range blocks(&d.layout) {
		if d.touched(got[b.Offset:b.End()], part, seed, offset+int(b.Offset)) >= 0 {
			return false
		}
	}
	return true
}

// wrong is a message that did not arrive as it was sent: its first byte that differs.
type wrong struct {
	at        int
	got, want byte
	holes     bool // all that differs are words that were never written
}

// wrong compares a message with what was sent, a part at a time; nil: it is whole. d.from has as many blocks as
// d.layout.
func (d *destination) wrong(got, part []byte, seed, message uint64) (first *wrong) {
	origin := d.layout
	if d.from != nil {
		origin = *d.from
	}
	sources := origin.Iterate()
	for at, b := range blocks(&d.layout) {
		offset := at
		if from, _ := sources.Next(); d.from != nil {
			offset = int(from.Offset)
		}
		for n := 0; n < int(b.Length); n += len(part) {
			got := got[b.Offset+int64(n) : b.End()]
			want := part[:min(len(part), len(got))]
			payload.Fill(want, seed, message, offset+n)
			i := payload.Differ(got[:len(want)], want)
			if i < 0 {
				continue
			}
			if first == nil {
				first = &wrong{at + n + i, got[i], want[i], true}
			}
			first.holes = first.holes && onlyHoles(got[:len(want)], want)
		}
	}
	return first
}

// latest is the number of the last message that went to place m.
func (d *destination) latest(m uint64) uint64 {
	if d.sent <= m || d.sent > 1<<62 {
		return m
	}
	return m + (d.sent-1-m)/d.contents*d.contents
}

func head(b []byte) uint64 {
	var w [8]byte
	copy(w[:], b)
	return binary.LittleEndian.Uint64(w[:])
}

// onlyHoles tells whether b is what was sent with some words never written: UC loses packets.
func onlyHoles(b, sent []byte) bool {
	for at := 0; at < len(b); at += 8 {
		end := min(at+8, len(b))
		if !bytes.Equal(b[at:end], sent[at:end]) && head(b[at:end]) != 0 {
			return false
		}
	}
	return true
}

// checkCounters compares the counters that FETCH_AND_ADD has raised.
func (e *Endpoint) checkCounters(counters []byte, size int, qp *pair) (uint64, error) {
	steps, sent := e.plan.SendSteps(size), qp.moved.sent
	for k := range uint64(steps.Places) {
		want := (sent + uint64(steps.Places) - 1 - k) / uint64(steps.Places)
		if got := binary.NativeEndian.Uint64(counters[steps.At(k):]); got != want {
			return 0, payload.Corrupt("atomic counter %d of queue pair %d is %d, want %d", k, qp.number, got, want)
		}
	}
	return sent, nil
}
