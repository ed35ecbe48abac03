package job

import (
	"testing"

	"github.com/gobw/gobw/verbs/tick"
)

func TestClock(t *testing.T) {
	c := tick.Start()
	a, b := c.PerNanosecond(), c.PerNanosecond()
	if a < 0.01 || a > 10 || b/a < 0.98 || b/a > 1.02 {
		t.Errorf("ticks per ns %v then %v: want the same plausible frequency", a, b)
	}
}
