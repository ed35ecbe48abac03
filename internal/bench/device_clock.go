package bench

import (
	"fmt"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
	"github.com/gobw/gobw/verbs/tick"
)

const (
	// certain is how well the device's frequency must be known from the run to be better than what the device states:
	// quartzes are off by up to as much.
	certain = 1e-4
	// wrongClock is by how much the two may differ beyond what is uncertain: more is no
	// quartz that is off, but another unit.
	wrongClock = 1e-2
)

// deviceClock measures the device's clock against the host's over the samples of a run; nil where they are
// of the host's clock. The host notices a completion late, by no more than the longest sample at either
// end: what was measured is as uncertain.
func deviceClock(rec *job.Recorder, host tick.Rate) (*report.Clock, error) {
	if rec.Clock.IsZero() || rec.N == 0 {
		return nil, nil
	}
	c := &report.Clock{StatedHz: rec.Clock.Hz, Hz: rec.Clock.Hz}
	elapsed := host.Seconds(rec.Elapsed)
	if elapsed <= 0 || rec.Sum <= 0 {
		return c, nil
	}
	c.MeasuredHz, c.Uncertainty = rec.Sum/elapsed, 2*float64(rec.Max)/rec.Sum
	if off := c.MeasuredHz/c.StatedHz - 1; max(off, -off) > c.Uncertainty+wrongClock {
		return nil, &verbs.Error{
			Verb: "read the device's time stamps",
			Err: fmt.Errorf("they advance by %.6g a second, and the device states a clock of %.6g Hz", c.MeasuredHz,
				c.StatedHz),
			Fix: "use --timestamps host: the stamps are not in the unit that the driver reports",
		}
	}
	if c.Uncertainty <= certain {
		c.Hz = c.MeasuredHz
	}
	return c, nil
}
