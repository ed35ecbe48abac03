package drive

import (
	"testing"
	"time"

	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs/job"
)

// TestStreamStartsWithItsFirstMessage holds that a short test on a stolen processor is late rather than empty.
func TestStreamStartsWithItsFirstMessage(t *testing.T) {
	d := &Driver{
		Ours: true,
		Task: Task{
			Plan: settled(t, plan.Spec{Operation: plan.Write, Kind: plan.Bandwidth}, true, plan.Peer{}), PerNs: 1,
			Job: &job.Job{Shape: job.Stream}, Limits: Limits{Duration: job.Ticks(25 * time.Millisecond)},
		},
		begun: 1000,
	}
	if got := d.deadline(); got != 0 {
		t.Errorf("before the first message: got the deadline %d, want none", got)
	}
	d.p.FirstPost = 90e6
	if got, want := d.deadline(), d.p.FirstPost+d.Limits.Duration; got != want {
		t.Errorf("after it: got the deadline %d, want %d", got, want)
	}
}

// settled is a test of the software device, at the client or the server.
func settled(t *testing.T, spec plan.Spec, dialled bool, peer plan.Peer) *plan.Settled {
	t.Helper()
	s, err := plan.Settle(spec, plan.Limits{Dialled: dialled}, peer, plan.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
