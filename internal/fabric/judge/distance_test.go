package judge

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestDistance(t *testing.T) {
	c := &Config{Latency: true}
	at := func(ns ...float32) curve { return latencyCurve([percentiles]float32(ns)) }
	expected := at(1900, 1950, 2000, 2100, 2500)
	for _, tt := range []struct {
		name string
		of   curve
		want float64 // share
	}{
		{"the same", expected, 1},
		{"a quarter slower", at(2375, 2437.5, 2500, 2625, 3125), 0.8},
		{"a quarter faster", at(1520, 1560, 1600, 1680, 2000), 1.25},
		// The mean is lower than expected, and yet the tail is slower.
		{"faster in the middle, slower in its tail", at(1800, 1850, 1900, 2000, 3200), 2071.25 / (2071.25 + 0.15*700)},
		{"slower in its tail alone", at(1900, 1950, 2000, 2100, 5000), 2071.25 / (2071.25 + 0.15*2500)},
	} {
		if got := math.Exp(c.distance(tt.of, expected)); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("%s: share %.4f, want %.4f", tt.name, got, tt.want)
		}
	}
}

// TestDistanceHasNoDirection: seen from the other side a distance is as large, so
// that noise neither accuses nor acquits.
func TestDistanceHasNoDirection(t *testing.T) {
	c := &Config{Latency: true}
	rng := rand.New(rand.NewPCG(1, 2))
	random := func() (out curve) {
		for k := range out {
			out[k] = -7 - rng.Float64()
		}
		return out
	}
	for range 1000 {
		a, b := random(), random()
		if there, back := c.distance(a, b), c.distance(b, a); math.Abs(there+back) > 1e-12 {
			t.Fatalf("%v, %v: %g and %g", a, b, there, back)
		}
	}
}
