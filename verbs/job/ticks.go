package job

import "github.com/gobw/gobw/verbs/tick"

// Ticks is a reading of the cycle counter: of package tick, whose Now reads it.
type Ticks = tick.Time

// Now reads the cycle counter.
func Now() Ticks { return tick.Now() }
