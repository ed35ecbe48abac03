package bench

import (
	"testing"

	"github.com/gobw/gobw/internal/bench/payload"
)

func TestOnlyHoles(t *testing.T) {
	b := make([]byte, 100)
	payload.Fill(b, 1, 0)
	clear(b[16:48])
	if !onlyHoles(b, 1, 0) {
		t.Error("a lost packet counts as corruption")
	}
	b[20] = 1
	if onlyHoles(b, 1, 0) {
		t.Error("a wrong byte in a hole passes")
	}
}
