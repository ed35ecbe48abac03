package report

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRates joins intervals until a completion is a tenth of one.
func TestRates(t *testing.T) {
	every := func(n int, of ...float64) []float64 {
		out := make([]float64, n)
		for i := range out {
			out[i] = of[i%len(of)]
		}
		return out
	}
	for _, tt := range []struct {
		name  string
		cqMod int
		bytes []float64
		want  []float64
	}{
		{"fine", 1, every(4, 50), every(4, 50)},
		{"coarse", 10, every(50, 10, 20, 0), []float64{100, 110, 90, 100, 110}},
		{"too short", 100, every(50, 10), nil},
		{"nothing moved", 1, every(4, 0), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := Record{
				Plan: Plan{SizeBytes: 1, CQMod: tt.cqMod}, Series: &Series{IntervalS: 0.01, Bytes: tt.bytes, Messages: tt.bytes},
			}
			got := r.Rates()
			if got == nil {
				if tt.want != nil {
					t.Errorf("none, want %v", tt.want)
				}
				return
			}
			if diff := cmp.Diff(tt.want, got.Bytes); diff != "" {
				t.Error(diff)
			}
			if n := float64(len(tt.bytes)/len(got.Bytes)) * 0.01; got.IntervalS != n {
				t.Errorf("interval %g s, want %g s", got.IntervalS, n)
			}
		})
	}
}
