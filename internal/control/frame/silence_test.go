package frame

import (
	"errors"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/control"
)

// TestSilence says a word at each of some times and then nothing more.
func TestSilence(t *testing.T) {
	const bears = 3 * time.Second
	seconds := func(s ...float64) []float64 { return s }
	var halfSeconds []float64 // from 3.4
	for i := range 24 {
		halfSeconds = append(halfSeconds, 3.4+float64(i)/2)
	}
	for _, tt := range []struct {
		name  string
		words []float64
		want  float64 // seconds after the last word until it is lost
	}{
		{"regular", seconds(0.5, 1, 1.5, 2), 3},
		{"never heard", nil, 10},
		{"irregular", seconds(0.5, 1.5, 2, 3.5), 6},
		{"very irregular", seconds(0.5, 3.4, 6), 10},
		{"irregular once, long ago", append(seconds(2.9), halfSeconds...), 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := silence{bears: bears}
			last := time.Duration(0)
			for _, w := range tt.words {
				last = time.Duration(w * float64(time.Second))
				if err := s.verdict(last); err != nil {
					t.Fatalf("lost before it spoke at %v: %v", last, err)
				}
				s.listen(last)
			}
			limit := time.Duration(tt.want * float64(time.Second))
			if err := s.verdict(last + limit); err != nil {
				t.Errorf("lost too early: %v", err)
			}
			if err := s.verdict(last + limit + time.Millisecond); !errors.Is(err, control.ErrSilent) {
				t.Errorf("after %v: %v, want silence", limit, err)
			}
		})
	}
}
