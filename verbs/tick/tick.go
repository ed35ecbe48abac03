// Package tick reads the processor's cycle counter: the clock of measurements and of the software device.
package tick

import "time"

// Time is a reading of the cycle counter (TSC on amd64, the virtual counter on arm64, nanoseconds elsewhere). Only
// differences mean anything; a [Clock] turns them into time.
type Time int64

// Now reads the cycle counter. It costs about 10 ns and never allocates.
func Now() Time { return now() }

// shortestCalibration is how far apart the two readings of a calibration lie at least.
const shortestCalibration = 2 * time.Millisecond

// Clock converts ticks to time by two readings of both clocks.
type Clock struct {
	ticks Time
	wall  time.Time
}

// Start takes the first reading. Calibrate over a whole run: the longer, the truer.
func Start() Clock {
	best := Clock{ticks: now(), wall: time.Now()}
	bestGap := Time(1 << 62)
	for range 8 { // keep the tightest pair of readings
		a := now()
		w := time.Now()
		if gap := now() - a; gap < bestGap {
			bestGap, best = gap, Clock{ticks: a + gap/2, wall: w}
		}
	}
	return best
}

// PerNanosecond is the counter's frequency in ticks per nanosecond, measured since the start of the clock.
func (c Clock) PerNanosecond() Rate {
	time.Sleep(shortestCalibration - time.Since(c.wall))
	e := Start()
	return Rate(e.ticks-c.ticks) / Rate(e.wall.Sub(c.wall))
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
