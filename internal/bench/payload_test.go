package bench

import (
	"errors"
	"testing"

	"github.com/gobw/gobw/internal/bench/payload"
	"github.com/gobw/gobw/internal/control"
)

// firstWrong is where b first differs from the pattern.
func firstWrong(b []byte, seed, message uint64) int {
	want := make([]byte, len(b))
	payload.Fill(want, seed, message, 0)
	return payload.Differ(b, want)
}

func TestPatternFindsTheFirstWrongByte(t *testing.T) {
	for _, size := range []int{1, 7, 8, 9, 64, 1000} {
		b := make([]byte, size)
		payload.Fill(b, 7, 3, 0)
		if at := firstWrong(b, 7, 3); at != -1 {
			t.Errorf("size %d: byte %d differs in an untouched message", size, at)
		}
		for _, at := range []int{0, size / 2, size - 1} {
			b[at] ^= 0x10
			if got := firstWrong(b, 7, 3); got != at {
				t.Errorf("size %d: first wrong byte %d, want %d", size, got, at)
			}
			b[at] ^= 0x10
		}
	}
}

// TestPatternDiffers: messages of other numbers, seeds and shifts are found out by their first word.
func TestPatternDiffers(t *testing.T) {
	b := make([]byte, 64)
	payload.Fill(b, 7, 3, 0)
	if at := firstWrong(b, 7, 4); at < 0 || at > 1 {
		t.Errorf("another message's number shows at byte %d, want 0 or 1", at)
	}
	if at := firstWrong(b, 8, 3); at < 0 || at > 1 {
		t.Errorf("another seed shows at byte %d, want 0 or 1", at)
	}
	if at := firstWrong(b[8:], 7, 3); at < 0 || at > 1 {
		t.Errorf("a shift shows at byte %d, want 0 or 1", at)
	}
}

func TestCorruptErrorsMatch(t *testing.T) {
	if err := payload.Corrupt("a"); !errors.Is(err, control.ErrCorrupt) {
		t.Errorf("%v does not match ErrCorrupt", err)
	}
	if err := payload.Nothing(1); errors.Is(err, control.ErrCorrupt) {
		t.Errorf("nothing came, and %v matches ErrCorrupt", err)
	}
}
