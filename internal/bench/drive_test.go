package bench

import (
	"testing"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/verbs"
)

// TestStreamStartsWithItsFirstMessage holds that a short test on a stolen processor is late rather than empty.
func TestStreamStartsWithItsFirstMessage(t *testing.T) {
	d := &driver{
		run:   &run{role: Initiator, plan: control.Plan{Operation: control.Write, Kind: control.Bandwidth}, ours: true, perNs: 1},
		job:   &verbs.Job{Shape: verbs.Stream},
		limit: limits{duration: verbs.Ticks(25 * time.Millisecond)},
		begun: 1000,
	}
	if got := d.deadline(); got != 0 {
		t.Errorf("before the first message: got the deadline %d, want none", got)
	}
	d.p.FirstPost = 90e6
	if got, want := d.deadline(), d.p.FirstPost+d.limit.duration; got != want {
		t.Errorf("after it: got the deadline %d, want %d", got, want)
	}
}
