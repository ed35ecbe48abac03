package bench

import (
	"testing"

	"github.com/gobw/gobw/verbs/job"
)

// TestDropFirst compares a recorder without its first sample to one that never had it.
func TestDropFirst(t *testing.T) {
	samples := []job.Ticks{5_000_000_000, 700, 900, 650, 12_345}
	for _, tt := range []struct {
		name string
		raw  int
	}{{"all kept", 10}, {"some kept", 2}} {
		t.Run(tt.name, func(t *testing.T) {
			got, want := job.NewRecorder(tt.raw), job.NewRecorder(tt.raw)
			for i, s := range samples {
				got.Add(s)
				if i > 0 {
					want.Add(s)
				}
			}
			dropFirst(got)
			if got.N != want.N || got.Min != want.Min || got.Sum != want.Sum {
				t.Errorf("N %d, min %d, sum %g; want %d, %d, %g", got.N, got.Min, got.Sum, want.N, want.Min, want.Sum)
			}
			if d := got.Max - want.Max; d < 0 || d > want.Max/1024 {
				t.Errorf("max %d, want %d within a bucket", got.Max, want.Max)
			}
			for i := range got.Counts {
				if got.Counts[i] != want.Counts[i] {
					t.Errorf("count %d is %d, want %d", i, got.Counts[i], want.Counts[i])
				}
			}
		})
	}
}
