package roce

import (
	"time"

	"github.com/gobw/gobw/verbs/job"
)

// clock turns durations into ticks of the cycle counter.
type clock struct{ perNanosecond float64 }

func newClock() clock { return clock{perNanosecond: job.StartTickClock().PerNanosecond()} }

func (c clock) ticks(d time.Duration) job.Ticks { return job.Ticks(float64(d) * c.perNanosecond) }

func (c clock) duration(t job.Ticks) time.Duration {
	return time.Duration(float64(t) / c.perNanosecond)
}

// never is a deadline that does not come.
const never = job.Ticks(1<<63 - 1)
