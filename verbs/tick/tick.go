// Package tick reads the processor's cycle counter: the clock of measurements and of the software device.
package tick

import (
	"math"
	"time"
)

// Time is a reading of the cycle counter (TSC on amd64, the virtual counter on arm64, nanoseconds elsewhere). Only
// differences mean anything; a [Clock] turns them into time.
type Time int64

// Now reads the cycle counter. It costs about 10 ns and never allocates.
func Now() Time { return now() }

// shortestCalibration is how far apart the two readings of a calibration lie at least.
const shortestCalibration = 2 * time.Millisecond

// Clock converts ticks to time by two readings of both clocks; it is the first of them.
type Clock struct {
	Ticks  Time
	Wall   time.Time // with the reading of CLOCK_MONOTONIC
	Within Time      // by how much the two were not read at once
}

// Start takes the first reading. Calibrate over a whole run: the longer, the truer.
func Start() Clock {
	best := Clock{Within: Never}
	for range 8 { // keep the tightest pair of readings
		a := now()
		w := time.Now()
		if gap := now() - a; gap < best.Within {
			best = Clock{Ticks: a + gap/2, Wall: w, Within: gap}
		}
	}
	return best
}

// PerNanosecond is the counter's frequency in ticks per nanosecond, measured since the start of the clock.
func (c Clock) PerNanosecond() Rate {
	time.Sleep(shortestCalibration - time.Since(c.Wall))
	return c.until(Start())
}

func (c Clock) until(e Clock) Rate { return Rate(e.Ticks-c.Ticks) / Rate(e.Wall.Sub(c.Wall)) }

// mostDrift is by which share two measurements of a counter's frequency may differ: a clock that is kept right by NTP
// changes by less.
const mostDrift = 1e-3

// Drift is by which share the counter ran faster, against CLOCK_MONOTONIC, between the readings b and c than between a
// and b; 0: not by more than a thousandth, or the spans are too short to tell. It changes when a virtual machine is
// moved or suspended, and when somebody sets the clock.
func Drift(a, b, c Clock) float64 {
	before, since := a.until(b), b.until(c)
	unsure := func(from, to Clock) float64 {
		return float64(from.Within+to.Within) / float64(before.Ticks(to.Wall.Sub(from.Wall)))
	}
	drift := float64(since/before) - 1
	if math.Abs(drift) > mostDrift+unsure(a, b)+unsure(b, c) {
		return drift
	}
	return 0
}

// Rate is a counter's frequency in ticks per nanosecond.
type Rate float64

// Ticks is how many pass in d.
func (r Rate) Ticks(d time.Duration) Time { return Time(float64(d) * float64(r)) }

// Duration is how long t ticks take.
func (r Rate) Duration(t Time) time.Duration { return time.Duration(float64(t) / float64(r)) }

// Seconds is the same with what is less than a nanosecond.
func (r Rate) Seconds(t Time) float64 { return float64(t) / float64(r) / 1e9 }

// Never is a time that does not come.
const Never = Time(1<<63 - 1)
