package bench

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/verbs"
)

// CorruptError is data that did not arrive as it was sent.
type CorruptError struct {
	Operation control.Operation
	QP        int    // index of the queue pair
	Message   uint64 // place of the message in its ring
	Offset    int    // first wrong byte
	Size      int
	Got, Want byte
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("data corrupt: %s of %d bytes, queue pair %d, message %d: byte %d is %#02x, want %#02x",
		e.Operation, e.Size, e.QP, e.Message, e.Offset, e.Got, e.Want)
}

// Remedy says what to try.
func (*CorruptError) Remedy() string {
	return "repeat with --verify all and --pcap to see whether the packets are wrong already; a memory test of both hosts comes next"
}

// LostUpdateError is an atomic counter that does not add up.
type LostUpdateError struct {
	QP, Place int
	Got, Want uint64
}

func (e *LostUpdateError) Error() string {
	return fmt.Sprintf("data corrupt: atomic counter %d of queue pair %d is %d, want %d", e.Place, e.QP, e.Got, e.Want)
}

// The pattern: each aligned 8-byte word of a message is a hash of the seed, the message's number and the word's offset,
// little-endian; a message that ends within a word holds its first bytes. A shifted, stale, torn or foreign message
// differs in almost every byte.

// PatternWord is the pattern's word at an offset divisible by 8.
func PatternWord(seed, message uint64, offset int) uint64 {
	x := seed*0x9e3779b97f4a7c15 + message*0xbf58476d1ce4e5b9 + uint64(offset)*0x94d049bb133111eb + 1
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// FillPattern writes a message's pattern into b.
func FillPattern(b []byte, seed, message uint64) {
	at := 0
	for ; len(b)-at >= 8; at += 8 {
		binary.LittleEndian.PutUint64(b[at:], PatternWord(seed, message, at))
	}
	if at < len(b) {
		var w [8]byte
		binary.LittleEndian.PutUint64(w[:], PatternWord(seed, message, at))
		copy(b[at:], w[:])
	}
}

// CheckPattern returns the offset of the first byte of b that differs from the pattern, or -1.
func CheckPattern(b []byte, seed, message uint64) int {
	at := 0
	for ; len(b)-at >= 8; at += 8 {
		if binary.LittleEndian.Uint64(b[at:]) != PatternWord(seed, message, at) {
			break
		}
	}
	var w [8]byte
	for ; at < len(b); at += 8 {
		binary.LittleEndian.PutUint64(w[:], PatternWord(seed, message, at))
		for i := range min(8, len(b)-at) {
			if b[at+i] != w[i] {
				return at + i
			}
		}
	}
	return -1
}

func patternByte(seed, message uint64, offset int) byte {
	var w [8]byte
	binary.LittleEndian.PutUint64(w[:], PatternWord(seed, message, offset&^7))
	return w[offset&7]
}

// seedOf differs between queue pairs and between the two directions of one.
func seedOf(seed uint64, q int, fromInitiator bool) uint64 {
	s := seed<<20 | uint64(q)<<1
	if fromInitiator {
		s |= 1
	}
	return s
}

// arm fills each place of the send slot with its pattern and wipes the receive slot. For READ it is the target's
// receive slot that is the source.
func (c *contiguous) arm(e *Endpoint, role Role, size int, seed uint64) error {
	step := c.steppingOf(size)
	for q := range e.qps {
		from, to := e.sendSlot(q), e.recvSlot(q)
		if limited(c.plan) {
			from, to = to, from
		}
		clear(to)
		if c.plan.Operation == control.Atomic {
			clear(from)
			continue
		}
		for k := range step.places {
			FillPattern(from[step.at(uint64(k)):][:size], seedOf(seed, q, role == Initiator), uint64(k))
		}
	}
	return nil
}

// check compares each place that was written. In a write latency test the last byte of a message is its counter.
func (c *contiguous) check(e *Endpoint, role Role, size int, seed uint64, moved []movement) error {
	for q := range e.qps {
		if err := c.checkQP(e, role, size, seed, q, moved[q]); err != nil {
			return err
		}
	}
	return nil
}

func (c *contiguous) checkQP(e *Endpoint, role Role, size int, seed uint64, q int, moved movement) error {
	step := c.steppingOf(size)
	switch {
	case c.plan.Operation == control.Atomic:
		if role == Target || c.plan.Bidirectional {
			return c.checkCounters(e, q, step, moved)
		}
		return nil
	case Opcode(c.plan).NeedsReceive() && c.plan.Operation == control.Send:
		if !receives(c.plan, role) {
			return nil
		}
		return c.checkReceived(e, role, size, seed, q, moved)
	case c.plan.Operation == control.Read:
		if !sends(c.plan, role) {
			return nil
		}
		return c.checkPlaces(e.sendSlot(q), step, size, min(moved.sent, uint64(step.places)), seedOf(seed, q, role != Initiator), q)
	}
	if role == Initiator && !c.plan.Bidirectional && !answers(c.plan) {
		return nil // nobody writes here
	}
	if answers(c.plan) {
		size-- // the counter
	}
	return c.checkPlaces(e.recvSlot(q), step, size, min(moved.sent, uint64(step.places)), seedOf(seed, q, role != Initiator), q)
}

func (c *contiguous) checkPlaces(slot []byte, step stepping, size int, places, seed uint64, q int) error {
	for k := range places {
		b := slot[step.at(k):][:size]
		if c.plan.Transport == verbs.UC && onlyHoles(b, seed, k) {
			continue
		}
		if err := c.compare(b, seed, k, q); err != nil {
			return err
		}
	}
	return nil
}

// onlyHoles tells whether b is the pattern with some words never written: UC loses packets.
func onlyHoles(b []byte, seed, message uint64) bool {
	var w [8]byte
	for at := 0; at < len(b); at += 8 {
		binary.LittleEndian.PutUint64(w[:], PatternWord(seed, message, at))
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
func (c *contiguous) checkReceived(e *Endpoint, role Role, size int, seed uint64, q int, moved movement) error {
	step, _ := c.receiveStepping(e, size)
	from := uint64(c.steppingOf(size).places)
	s := seedOf(seed, q, role != Initiator)
	places := min(moved.received, uint64(step.places))
	lossy := c.plan.Transport != verbs.RC || e.srq != nil
	if lossy && places == uint64(step.places) {
		places--
	}
	for m := moved.received - places; m < moved.received; m++ {
		b := e.recvSlot(q)[step.at(moved.first+m):][:size]
		if lossy && c.anyMessage(b, s, from) {
			continue
		}
		if err := c.compare(b, s, m%from, q); err != nil {
			return err
		}
	}
	return nil
}

func (c *contiguous) anyMessage(b []byte, seed, places uint64) bool {
	for m := range places {
		if CheckPattern(b, seed, m) < 0 {
			return true
		}
	}
	return false
}

func (c *contiguous) checkCounters(e *Endpoint, q int, step stepping, moved movement) error {
	if c.plan.AtomicType != verbs.OpFetchAdd {
		return nil // compare with 0, swap in 0: nothing changes
	}
	for k := range step.places {
		want := moved.sent / uint64(step.places)
		if uint64(k) < moved.sent%uint64(step.places) {
			want++
		}
		if got := hostWord(e.recvSlot(q)[step.at(uint64(k)):]); got != want {
			return &LostUpdateError{QP: q, Place: k, Got: got, Want: want}
		}
	}
	return nil
}

func hostWord(b []byte) uint64 { return binary.NativeEndian.Uint64(b) }

func (c *contiguous) compare(b []byte, seed, message uint64, q int) error {
	at := CheckPattern(b, seed, message)
	if at < 0 {
		return nil
	}
	return &CorruptError{
		Operation: c.plan.Operation, QP: q, Message: message, Offset: at, Size: len(b),
		Got: b[at], Want: patternByte(seed, message, at),
	}
}
