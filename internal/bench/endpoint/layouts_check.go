package endpoint

import (
	"bytes"
	"encoding/binary"

	"github.com/gobw/gobw/internal/bench/payload"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/pattern"
)

// checker compares the destination of a verified round with what may lie there.
type checker struct {
	w       *layouts
	mem     []byte
	seed    uint64
	places  uint64
	pitch   int
	at      func(k uint64) int
	layout  pattern.Layout
	first   map[uint64]uint64 // the first word of a message to its number
	message []byte
	gap     []byte
	sparse  bool // a lost packet leaves a hole
}

func (w *layouts) newChecker(mem []byte, seed uint64, sparse bool) *checker {
	size := int(w.Layout.Size())
	c := &checker{w: w, mem: mem, seed: seed, layout: w.Layout, message: make([]byte, size), first: map[uint64]uint64{}, sparse: sparse}
	for k := range w.sources() {
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], payload.Word(seed, k, 0))
		c.first[head(word[:min(size, 8)])] = k
	}
	switch {
	case w.stridedDestination():
		c.places, c.pitch, c.at = uint64(w.Places), w.Pitch, w.PlaceAt
	case w.plan.Row().Fetches():
		c.places, c.pitch, c.at = uint64(w.SendSlots), w.SlotBytes, w.SendSlotAt
	default:
		c.places, c.pitch, c.at = uint64(w.RecvSlots), w.SlotBytes, w.RecvSlotAt
	}
	if !w.stridedDestination() {
		// A slot is one block; Vector cannot fail for a size that was a message.
		c.layout, _ = pattern.Vector(int64(size), 1, int64(size))
		c.pitch -= plan.SlotLead // the lead of the next slot takes the UD header
	}
	c.gap = make([]byte, c.pitch)
	return c
}

// stridedDestination tells whether the data ends in the blocks of places.
func (w *layouts) stridedDestination() bool {
	return w.Strategy.Shape != "gather" && !w.Strategy.Bound
}

func head(b []byte) uint64 {
	var w [8]byte
	copy(w[:], b)
	return binary.LittleEndian.Uint64(w[:])
}

// place checks place k and tells whether it was written.
func (c *checker) place(k uint64) (touched, whole bool, err error) {
	at := c.at(k)
	got := c.mem[at:][:min(c.pitch, len(c.mem)-at)]
	want := c.gap[:len(got)]
	payload.FillAt(want, gapSeed(c.seed), at)
	if bytes.Equal(got, want) {
		return false, false, nil
	}
	n := 0
	for it := c.layout.Iterate(); ; {
		b, ok := it.Next()
		if !ok {
			break
		}
		n += copy(c.message[n:], got[b.Offset:b.End()])
		copy(want[b.Offset:], got[b.Offset:b.End()])
	}
	if !bytes.Equal(got, want) { // nothing but blocks is written
		i := 0
		for got[i] == want[i] {
			i++
		}
		return false, false, payload.Corrupt("%s wrote %#02x at offset %d of place %d, outside the blocks", c.w.Strategy.Name, got[i], i, k)
	}
	from, known := c.first[head(c.message[:min(8, len(c.message))])]
	if !known {
		from = k % c.w.sources()
	}
	if payload.Check(c.message, c.seed, from) < 0 {
		return true, true, nil
	}
	if c.sparse {
		return true, false, nil // the gaps were checked
	}
	return true, false, payload.Wrong(string(c.w.Strategy.Operation), 0, k, c.message, c.seed, from)
}
