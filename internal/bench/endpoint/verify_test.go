package endpoint

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/gobw/gobw/internal/bench/payload"
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/pattern"
)

// TestCompare looks at two messages of 100 bytes: where each must lie at its own place, where any may lie
// at either, and where parts may be lost.
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
			d := destination{
				image: image{func(m uint64) int { return int(m) * size }, one(size), 2}, high: 2, must: 2, mixed: i == 1,
				holes: i == 2,
			}
			if d.holes {
				d.must = 0
			}
			t.Run(fmt.Sprint(c.name, i), func(t *testing.T) {
				whole, err := (&Endpoint{}).compare(d, memory, 7, 0, 0)
				if want == bad && !errors.Is(err, control.ErrCorrupt) || want != bad && (err != nil || int(whole) != want) {
					t.Errorf("%d whole, %v; want %d", whole, err, want)
				}
			})
		}
	}
}

// TestCompareInParts: a message that is as large as the memory is compared without a copy, also one that is wrong.
func TestCompareInParts(t *testing.T) {
	const size, gap = 32 << 20, 64
	memory := make([]byte, 2*size+gap)
	l, err := pattern.Indexed([]pattern.Block{{Offset: 0, Length: size}, {Offset: size + gap, Length: size}})
	if err != nil {
		t.Fatal(err)
	}
	d := destination{image: image{func(uint64) int { return 0 }, l, 1}, high: 1, must: 1, pitch: len(memory)}
	wipe(memory, true, 7, 0)
	payload.Fill(memory[:size], 7, 0, 0)
	payload.Fill(memory[size+gap:], 7, 0, size)
	for at, want := range map[int]string{-1: "", size - 1: "byte 33554431 is", size + 3: "at offset 33554435 of place 0"} {
		if at >= 0 {
			memory[at] ^= 1
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := (&Endpoint{}).compare(d, memory, 7, 0, 0)
		runtime.ReadMemStats(&after)
		if at >= 0 {
			memory[at] ^= 1
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
			t.Errorf("to compare %d bytes took %d more", len(memory), took)
		}
		if want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestWrongMessageNumber: what is told is the number of the message, and not its place: the last one that went there.
func TestWrongMessageNumber(t *testing.T) {
	const size, places = 64, 4
	for _, tt := range []struct {
		name         string
		sent, before uint64
		place        int
		want         string
	}{
		{"the first round of the places", 4, 0, 2, "message 3:"},
		{"many rounds", 10, 0, 1, "message 10:"},
		{"a place that the last round did not reach", 10, 0, 3, "message 8:"},
		{"a later part", 4, 654316, 3, "message 654320:"},
		{"nobody counts", math.MaxUint64, 0, 2, "message 3:"},
	} {
		memory := make([]byte, places*size)
		for m := range uint64(places) {
			payload.Fill(memory[m*size:][:size], 7, m, 0)
		}
		memory[tt.place*size+5] ^= 0x40
		d := destination{
			image: image{func(m uint64) int { return int(m) * size }, one(size), places}, high: places, sent: tt.sent,
			must: places,
		}
		if _, err := (&Endpoint{}).compare(d, memory, 7, 0, tt.before); err == nil ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %s", tt.name, err, tt.want)
		}
	}
}
