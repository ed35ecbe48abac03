package endpoint

import (
	"errors"
	"fmt"
	"testing"

	"github.com/gobw/gobw/internal/bench/payload"
)

// TestCompare looks at two messages of 100 bytes: where each must lie at its own place, where any may lie at either, and where parts may be lost.
func TestCompare(t *testing.T) {
	const size, bad = 100, -1
	for _, c := range []struct {
		name                string
		change              func(first, second []byte)
		exact, mixed, holes int // messages found whole
	}{
		{"both", func(_, _ []byte) {}, 2, 2, 2},
		{"the same twice", func(first, second []byte) { copy(second, first) }, bad, 2, bad},
		{"one alone", func(_, second []byte) { clear(second) }, bad, bad, 1},
		{"a packet lost", func(first, _ []byte) { clear(first[16:48]) }, bad, bad, 1},
		{"a wrong byte where one was lost", func(first, _ []byte) { clear(first[16:48]); first[20] = 1 }, bad, bad, bad},
	} {
		memory := make([]byte, 2*size)
		for m := range uint64(2) {
			payload.Fill(memory[m*size:][:size], 7, m, 0)
		}
		c.change(memory[:size], memory[size:])
		for i, want := range []int{c.exact, c.mixed, c.holes} {
			d := destination{image: image{func(m uint64) int { return int(m) * size }, one(size), 2}, high: 2, must: 2, mixed: i == 1, holes: i == 2}
			if d.holes {
				d.must = 0
			}
			t.Run(fmt.Sprint(c.name, i), func(t *testing.T) {
				whole, err := (&Endpoint{}).compare(d, memory, 7, 0)
				if want == bad && !errors.Is(err, payload.ErrCorrupt) || want != bad && (err != nil || int(whole) != want) {
					t.Errorf("%d whole, %v; want %d", whole, err, want)
				}
			})
		}
	}
}
