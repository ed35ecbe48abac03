package bench

import (
	"bytes"
	"encoding/binary"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/pattern"
	"github.com/gobw/gobw/verbs"
)

// checker compares the destination of a verified round with what may lie there.
type checker struct {
	w       *noncontig
	mem     []byte
	seed    uint64
	places  uint64
	pitch   int
	at      func(k uint64) int
	layout  pattern.Layout
	first   map[uint64]uint64 // the first word of a message to its number
	message []byte
	gap     []byte
}

func (w *noncontig) newChecker(mem []byte, seed uint64, size int) *checker {
	c := &checker{w: w, mem: mem, seed: seed, layout: w.layout, message: make([]byte, size), first: map[uint64]uint64{}}
	for k := range w.sources() {
		c.first[head(patternHead(seed, k, size))] = k
	}
	switch {
	case w.stridedDestination():
		c.places, c.pitch, c.at = uint64(w.places), w.pitch, w.placeAt
	case w.plan.Operation == control.Read:
		c.places, c.pitch, c.at = uint64(w.sendSlots()), w.slotBytes, w.sendSlotAt
	default:
		c.places, c.pitch, c.at = uint64(w.recvSlots), w.slotBytes, w.recvSlotAt
	}
	if !w.stridedDestination() {
		// A slot is one block; Vector cannot fail for a size that was a message.
		c.layout, _ = pattern.Vector(int64(size), 1, int64(size))
		c.pitch -= slotLead // the lead of the next slot takes the UD header
	}
	c.gap = make([]byte, c.pitch)
	return c
}

// stridedDestination tells whether the data ends in the blocks of places.
func (w *noncontig) stridedDestination() bool {
	return w.strategy.Shape != "gather" && !w.strategy.bound
}

func patternHead(seed, k uint64, size int) []byte {
	b := make([]byte, min(size, 8))
	FillPattern(b, seed, k)
	return b
}

func head(b []byte) uint64 {
	var w [8]byte
	copy(w[:], b)
	return binary.LittleEndian.Uint64(w[:])
}

// place checks place k and tells whether it was written.
func (c *checker) place(k uint64) (touched bool, err error) {
	at := c.at(k)
	got := c.mem[at:][:min(c.pitch, len(c.mem)-at)]
	want := c.gap[:len(got)]
	fillPatternAt(want, gapSeed(c.seed), at)
	if bytes.Equal(got, want) {
		return false, nil
	}
	if err := c.gaps(k, got, want); err != nil {
		return false, err
	}
	n := 0
	for it := c.layout.Iterate(); ; {
		b, ok := it.Next()
		if !ok {
			break
		}
		n += copy(c.message[n:], got[b.Offset:b.End()])
	}
	from, known := c.first[head(c.message[:min(8, len(c.message))])]
	bad := 0
	if known {
		if bad = CheckPattern(c.message, c.seed, from); bad < 0 {
			return true, nil
		}
	}
	if c.w.plan.Transport == verbs.UC {
		return true, nil // a lost packet leaves a hole; the gaps were checked
	}
	if !known {
		from = k % c.w.sources()
		bad = max(CheckPattern(c.message, c.seed, from), 0)
	}
	return true, &CorruptError{
		Operation: c.w.plan.Operation, Message: k, Offset: bad, Size: len(c.message),
		Got: c.message[bad], Want: patternByte(c.seed, from, bad),
	}
}

// gaps checks that nothing but blocks was written.
func (c *checker) gaps(k uint64, got, want []byte) error {
	end := 0
	look := func(from, to int) error {
		if bytes.Equal(got[from:to], want[from:to]) {
			return nil
		}
		for i := from; i < to; i++ {
			if got[i] != want[i] {
				return &GapError{Strategy: c.w.strategy.Name, Place: k, Offset: i, Got: got[i]}
			}
		}
		return nil
	}
	for it := c.layout.Iterate(); ; {
		b, ok := it.Next()
		if !ok {
			return look(end, len(got))
		}
		if err := look(end, int(b.Offset)); err != nil {
			return err
		}
		end = int(b.End())
	}
}

// fillPatternAt is the part of message 0's pattern from an offset on, which is divisible by 8.
func fillPatternAt(b []byte, seed uint64, offset int) {
	i := 0
	for ; len(b)-i >= 8; i += 8 {
		binary.LittleEndian.PutUint64(b[i:], PatternWord(seed, 0, offset+i))
	}
	if i < len(b) {
		var w [8]byte
		binary.LittleEndian.PutUint64(w[:], PatternWord(seed, 0, offset+i))
		copy(b[i:], w[:])
	}
}
