package job

import "time"

// Ticks is a reading of the cycle counter (TSC on amd64, the virtual counter on arm64, nanoseconds elsewhere). Only
// differences mean anything; a [TickClock] turns them into time.
type Ticks int64

// Now reads the cycle counter. It costs about 10 ns and never allocates.
func Now() Ticks { return now() }

// shortestCalibration is how far apart the two readings of a calibration lie at least.
const shortestCalibration = 2 * time.Millisecond

// TickClock converts ticks to time by two readings of both clocks.
type TickClock struct {
	ticks Ticks
	wall  time.Time
}

// StartTickClock takes the first reading. Calibrate over a whole run: the longer, the truer.
func StartTickClock() TickClock {
	best := TickClock{ticks: now(), wall: time.Now()}
	bestGap := Ticks(1 << 62)
	for range 8 { // keep the tightest pair of readings
		a := now()
		w := time.Now()
		if gap := now() - a; gap < bestGap {
			bestGap, best = gap, TickClock{ticks: a + gap/2, wall: w}
		}
	}
	return best
}

// PerNanosecond is the counter's frequency in ticks per nanosecond, measured since the start of the clock.
func (c TickClock) PerNanosecond() float64 {
	time.Sleep(shortestCalibration - time.Since(c.wall))
	e := StartTickClock()
	return float64(e.ticks-c.ticks) / float64(e.wall.Sub(c.wall))
}
