package measure

import (
	"slices"
	"testing"

	"github.com/gobw/gobw/internal/bench"
)

// TestWarningsOnce: what each part of a sweep warns of is told once.
func TestWarningsOnce(t *testing.T) {
	d := NewDocument("gobw", nil)
	for range 3 {
		d.Add(&bench.Result{Warnings: []string{"a", "b"}})
	}
	if !slices.Equal(d.Warnings, []string{"a", "b"}) {
		t.Errorf("%q", d.Warnings)
	}
}
