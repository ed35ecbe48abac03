package drive

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gobw/gobw/verbs/job"
)

func TestSteadiness(t *testing.T) {
	s := steadiness{window: 10}
	now := job.Ticks(100)
	feed := func(rate float64, windows int) {
		for range windows {
			now += 10
			s.add(now, rate)
		}
	}
	feed(100, 11)
	if s.steady() {
		t.Error("steady after ten windows")
	}
	feed(200, 2)
	if s.steady() {
		t.Error("steady while the rate doubles")
	}
	feed(205, 3)
	feed(204, 12)
	if !s.steady() {
		t.Error("not steady after seventeen like windows")
	}
}

// TestSteadinessWaitsForASlowStart: a device that begins three times slower is waited for until it is at its speed,
// however noisy; a steady one is not waited for, and one whose rate goes up and down is given up.
func TestSteadinessWaitsForASlowStart(t *testing.T) {
	const window = 0.02 // s
	r := rand.New(rand.NewPCG(1, 1))
	for _, tt := range []struct {
		name               string
		slow, noise        float64 // seconds until it is at its speed; of a window's rate
		least, most, share float64 // seconds that the warm-up takes; of the full rate at its end
	}{
		{"steady", 0, 0.002, 0.2, 0.4, 0.9},
		{"steady and noisy", 0, 0.03, 0.2, 2, 0.8},
		{"half a second", 0.5, 0.002, 0.4, 0.8, 0.95},
		{"two seconds", 2, 0.002, 1.8, 2.4, 0.95},
		{"two seconds and noisy", 2, 0.008, 1.5, 2.6, 0.8},
		{"up and down", 0, 0.5, 0.2, 5, 0},
	} {
		for range 20 {
			s := steadiness{window: 1000}
			at, now := 0.0, job.Ticks(1)
			rate := func() float64 { return 1 / (1 + 2*max(1-at/max(tt.slow, 1e-9), 0)) }
			s.add(now, 0)
			for !s.steady() && at < 5 {
				at += window
				now += 1000
				s.add(now, 1000*rate()*math.Exp(tt.noise*r.NormFloat64()))
			}
			if at < tt.least || at > tt.most || rate() < tt.share {
				t.Errorf("%s: steady after %.2f s at %.2f of the full rate, want %v to %v s", tt.name, at, rate(),
					tt.least, tt.most)
				break
			}
		}
	}
}
