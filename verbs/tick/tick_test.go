package tick

import (
	"math"
	"testing"
	"time"
)

// TestDrift has simulated clocks: a counter of 2 ticks a nanosecond that is calibrated for a while and then runs
// a test.
func TestDrift(t *testing.T) {
	const rate = 2
	start := time.Now()
	after := func(c Clock, d time.Duration, rate float64, jump Time) Clock {
		return Clock{c.Ticks + Time(float64(d)*rate) + jump, c.Wall.Add(d), c.Within}
	}
	for _, tt := range []struct {
		name        string
		before, run time.Duration
		rate        float64 // during the run
		jump        Time
		within      Time
		want        float64
	}{
		{"steady", time.Second, time.Second, rate, 0, 100, 0},
		{"kept right by NTP", time.Second, time.Second, 1.0005 * rate, 0, 100, 0},
		{"moved to a faster processor", time.Second, time.Second, 1.1 * rate, 0, 100, 0.1},
		{"somebody sets the clock", time.Second, time.Second, 0.995 * rate, 0, 100, -0.005},
		{"suspended for 2 s", 10 * time.Millisecond, time.Second, rate, 4e9, 100, 2},
		{"begins at 0 again", 10 * time.Millisecond, time.Second, rate, -1e12, 100, -500},
		{"stands still", time.Second, time.Second, 0, 0, 100, -1},
		{"too short to tell", time.Second, 20 * time.Microsecond, 1.003 * rate, 0, 200, 0},
		{"a calibration that was disturbed", 2 * time.Millisecond, time.Second, 1.01 * rate, 0, 1e5, 0},
	} {
		a := Clock{Ticks: 1e12, Wall: start, Within: tt.within}
		b := after(a, tt.before, rate, 0)
		c := after(b, tt.run, tt.rate, tt.jump)
		if got := Drift(a, b, c); math.Abs(got-tt.want) > 1e-6 {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestDriftOfThisMachine: one counter, read as measurements do, has none.
func TestDriftOfThisMachine(t *testing.T) {
	a := Start()
	time.Sleep(5 * time.Millisecond)
	b := Start()
	time.Sleep(5 * time.Millisecond)
	if drift := Drift(a, b, Start()); drift != 0 {
		t.Errorf("the counter changed by %v", drift)
	}
}
