//go:build linux && cgo

package ibv

import (
	"cmp"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/gobw/gobw/internal/testrun"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// The loop in Go may cost so much more than the one in C, for a message and for each further request of it. What a
// device of 5 million messages a second does is then told within a few percent, whatever the options.
const (
	costOfMessage = 150 * time.Nanosecond
	costOfRequest = 20 * time.Nanosecond
	// quietMessage is what the loop in C takes here with the device's part, on a processor of 2026 that nobody else uses.
	// One that takes longer is slower, or busy, and the bounds grow with it.
	quietMessage = 150 * time.Nanosecond
)

// loopCase is a job that is run by the loop in Go.
type loopCase struct {
	name          string
	requests      int // of a message
	window        int
	signal, batch int
	edit          func(j *job.Job)
	packs         bool
	unpacks       bool
}

func loopCases() []loopCase {
	return []loopCase{
		{name: "same", edit: func(j *job.Job) { j.InGo = true }},
		{name: "deep", window: 128, edit: func(j *job.Job) { j.InGo = true }},
		{name: "rare completions", window: 128, signal: 64, edit: func(j *job.Job) { j.InGo = true }},
		{name: "pack", packs: true},
		{name: "unpack", unpacks: true},
		{name: "one at a time", window: 1, edit: func(j *job.Job) { j.InGo = true }},
		{name: "16 requests", requests: 16, edit: func(j *job.Job) { j.InGo = true }},
		{name: "pace", edit: func(j *job.Job) { j.Pace, j.MakeUp = 1, 1000 }},
		{name: "CPU account", edit: func(j *job.Job) { j.Record.CPU = true }},
		{name: "odd lists", window: 16, signal: 3, batch: 2},
	}
}

// job is a stream of so many messages; 0: until it is stopped.
func (c loopCase) job(x, y *endpoint, messages uint64) *job.Job {
	ring := x.ring(verbs.OpWrite, 8, 64, y, 0)
	nothing := job.Work{Go: func(unsafe.Pointer) {}}
	for k := range ring {
		step := &ring[k].Steps[0]
		for len(step.Requests) < c.requests {
			step.Requests = append(step.Requests, step.Requests[0])
		}
		if c.packs {
			step.Pack = nothing
		}
		if c.unpacks {
			ring[k].Done = nothing
		}
	}
	j := &job.Job{CQs: []verbs.CompletionQueue{x.cq}, Record: job.NewRecorder(0), Lanes: []job.Lane{{
		QP: x.qps[0], Ring: ring, Count: messages, Window: cmp.Or(c.window, 4), Signal: max(c.signal, 1),
		Batch: max(c.batch, 1),
	}}}
	j.Record.Samples, j.Record.Peak = true, true
	if c.edit != nil {
		c.edit(j)
	}
	return j
}

// once is what a message takes, with the device's part in it.
func (c loopCase) once(t testing.TB, x, y *endpoint) time.Duration {
	t.Helper()
	const messages = 2000
	j := c.job(x, y, messages)
	began := time.Now()
	run(t, x.device, j, 30_000_000)
	return time.Since(began) / messages
}

// TestLoopAllocatesNothing runs each case in short slices.
func TestLoopAllocatesNothing(t *testing.T) {
	for _, c := range loopCases() {
		t.Run(c.name, func(t *testing.T) {
			x, y := plantedPairOf(t, 2048, map[string]string{"MOVE": "0"})
			j := c.job(x, y, 0)
			j.Stop = new(atomic.Uint32)
			r, err := job.Prepare(x.device, j)
			if err != nil {
				t.Fatal(err)
			}
			closeLater(t, r)
			if n := testing.AllocsPerRun(20, func() {
				if _, err := r.Run(job.Now() + 300_000); err != nil {
					t.Fatal(err)
				}
			}); n != 0 {
				t.Errorf("a run allocates %v times, want 0", n)
			}
			j.Stop.Store(1)
			if p, err := r.Run(1 << 62); err != nil || !p.Done {
				t.Errorf("stopped: %+v, %v", p, err)
			}
		})
	}
}

// TestCostOfTheLoop compares what the loop in Go costs with the one in C, on a device that takes no time, by both
// posting interfaces. They run in turns, until the best of each are near enough: a busy machine only ever adds.
func TestCostOfTheLoop(t *testing.T) {
	testrun.OnlyWhole(t, "it judges figures")
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, part := range []string{"0", "4129"} {
		x, y := plantedPairOf(t, 2048, map[string]string{"PART": part, "MOVE": "0"})
		for _, c := range loopCases() {
			t.Run(fmt.Sprintf("%s/part %s", c.name, part), func(t *testing.T) {
				in := loopCase{requests: c.requests, window: c.window, signal: c.signal, batch: c.batch}
				if c.batch == 2 {
					in.signal = 4 // C has no lists that do not divide
				}
				most := costOfMessage + time.Duration(max(c.requests-1, 0))*costOfRequest
				quick, slow, allowed := time.Hour, 2*time.Hour, most
				for round := 0; round < 100 && (round < 5 || slow-quick > allowed); round++ {
					quick, slow = min(quick, in.once(t, x, y)), min(slow, c.once(t, x, y))
					allowed = most * max(quick/time.Duration(max(c.requests, 1)), quietMessage) / quietMessage
				}
				t.Logf("%v a message in C, %v in Go", quick, slow)
				if slow-quick > allowed {
					t.Errorf("the loop in Go costs %v more than the one in C, want at most %v", slow-quick, allowed)
				}
			})
		}
	}
}
