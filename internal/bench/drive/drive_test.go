package drive

import (
	"math"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
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

// TestWindowThatIsMissed holds that an end which looks up only as its sampling window closes does
// not take the last moment for the test.
func TestWindowThatIsMissed(t *testing.T) {
	const ms = job.Ticks(time.Millisecond)
	for _, c := range []struct {
		late    job.Ticks // first look, since the first message; the window is from 200 to 800 ms
		sampled bool
	}{{210 * ms, true}, {700 * ms, false}, {1200 * ms, false}} {
		d := &Driver{
			Ours:  true,
			Trace: &Trace{Series: newSeries(ms), Recorder: &job.Recorder{}},
			Task: Task{
				Plan: settled(t, plan.Spec{Operation: plan.Write, Kind: plan.Bandwidth}, true, plan.Peer{}), PerNs: 1,
				Job:    &job.Job{Shape: job.Stream},
				Limits: Limits{Duration: 1000 * ms, Lead: 200 * ms, Tail: 200 * ms},
			},
		}
		first := job.Now() - c.late
		d.account(first, job.Progress{FirstPost: first, LastDone: first + 1, Completed: 100})
		d.account(first, job.Progress{FirstPost: first, LastDone: first + c.late, Completed: 1100})
		d.Trace.Last = d.p
		if m := d.Trace.Measured(1, true); (d.Trace.From != nil) != c.sampled || !c.sampled && m.Messages != 1100 {
			t.Errorf("first look after %v: sampled %v, %+v", time.Duration(c.late), d.Trace.From != nil, m)
		}
	}
}

// TestProgressHasTheMedian holds that a latency test tells its median so far, of a ping-pong half a round trip, in the
// time of the clock that stamped the samples.
func TestProgressHasTheMedian(t *testing.T) {
	for _, c := range []struct {
		op    plan.Operation
		clock verbs.CompletionClock
		want  float64
	}{
		{plan.Send, verbs.CompletionClock{}, 1000},
		{plan.Read, verbs.CompletionClock{}, 2000},
		{plan.Read, verbs.CompletionClock{Hz: 5e8, Mask: 1<<48 - 1}, 8000},
	} {
		rec := job.NewRecorder(0)
		for range 9 {
			rec.Add(4000)
		}
		rec.Clock = c.clock
		var got Progress
		d := &Driver{
			Spec:  plan.Spec{Kind: plan.Latency, Sizes: []int{8}, Runs: 1},
			Trace: &Trace{Recorder: rec},
			Task: Task{
				Plan: settled(t, plan.Spec{Operation: c.op, Kind: plan.Latency}, true, plan.Peer{}), PerNs: 2,
				Progress: func(p Progress) { got = p },
			},
		}
		if d.tell(1); math.Abs(got.MedianNs/c.want-1) > 0.02 || got.BitsPerS != 0 {
			t.Errorf("%s with %+v: got %+v, want a median of %v ns", c.op, c.clock, got, c.want)
		}
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
