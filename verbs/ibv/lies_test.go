//go:build linux && cgo

package ibv

import (
	"errors"
	"strings"
	"testing"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// TestLyingLibrary has the library tell what cannot be: each is a sentence, with what to do.
func TestLyingLibrary(t *testing.T) {
	const domain, queue = "a domain without a context", "a queue of no entries"
	for lie, want := range map[string]string{
		"a device less than none":              "it counts -1 devices",
		"a million devices":                    "it counts 1000000 devices and lists 1",
		"no way to poll":                       "its context has no ops.poll_cq",
		"no device of a context":               "its context has no device",
		"vectors less than none":               "it has -1 completion vectors",
		"a limit less than none":               "a limit of -1",
		"a GID table shorter than none":        "a GID table of -1 entries",
		"a GID table of all memory":            "a GID table of 2147483647 entries",
		"an MTU that no packet has":            "an MTU with the code 99",
		"a queue pair without a number":        "a queue pair with the number 0xffffffff",
		"more GIDs than there is room for":     "a GID table of 7 entries where there is room for 2",
		domain:                                 "it made one without a context",
		queue:                                  "it made a queue of 0 entries",
		"more completions than were asked for": "a poll found 17 completions, more than were asked for",
	} {
		t.Run(lie, func(t *testing.T) {
			err := use(fakeVerbs(t, map[string]string{"LIES": lie}))
			if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, errLie) || verbs.RemedyOf(err) == "" {
				t.Errorf("%v, remedy %q: want %q and a remedy", err, verbs.RemedyOf(err), want)
			}
		})
	}
	d := openFake(t, fakeVerbs(t, map[string]string{"LIES": "a version without an end"}))
	if got, want := d.Info().Firmware, strings.Repeat("v", 64); got != want {
		t.Errorf("firmware %q, want %q", got, want)
	}
}

// use does with a device what every test does, up to the first refusal.
func use(p *Provider) error {
	if _, err := p.Devices(); err != nil {
		return err
	}
	d, err := p.Open("fake0")
	if err != nil {
		return err
	}
	if _, err := d.GIDs(1); err != nil {
		return errors.Join(err, d.Close())
	}
	pd, err := d.AllocPD()
	if err != nil {
		return err
	}
	cq, err := d.CreateCQ(verbs.CompletionQueueOptions{Depth: 32})
	if err != nil {
		return err
	}
	qp, err := pd.CreateQP(verbs.QueuePairOptions{Transport: verbs.UD, SendCQ: cq})
	if err != nil {
		return err
	}
	if err := toRTS(qp); err != nil {
		return err
	}
	ah, err := pd.CreateAH(verbs.AddressVector{UseGID: true, Port: 1})
	if err != nil {
		return err
	}
	if err := qp.PostSend([]verbs.SendRequest{
		{Opcode: verbs.OpSend, Flags: verbs.Signaled, AH: ah, RemoteQPN: 1},
	}); err != nil {
		return err
	}
	_, err = cq.Poll(make([]verbs.Completion, 16))
	return err
}

func toRTS(qp verbs.QueuePair) error {
	for _, a := range []verbs.QueuePairAttributes{
		{Mask: verbs.AttrState | verbs.AttrPKeyIndex | verbs.AttrPort | verbs.AttrQKey, State: verbs.StateInit, Port: 1},
		{Mask: verbs.AttrState, State: verbs.StateRTR},
		{Mask: verbs.AttrState | verbs.AttrSendPSN, State: verbs.StateRTS},
	} {
		if err := qp.Modify(a); err != nil {
			return err
		}
	}
	return nil
}

// TestUnaskedCompletions has a completion come twice, and one come that nobody asked for: whoever
// runs the job, it fails, and says why.
func TestUnaskedCompletions(t *testing.T) {
	for _, planted := range []string{"TWICE", "INVENT"} {
		for name, shape := range map[string]struct {
			job.Shape
			window, signal, batch, ring int
			goes                        bool // in Go
		}{
			"stream":             {job.Stream, 8, 1, 1, 1, false},
			"stream of a ring":   {job.Stream, 8, 1, 1, 8, false},
			"stream of lists":    {job.Stream, 16, 1, 8, 1, false},
			"stream, few tell":   {job.Stream, 16, 4, 1, 1, false},
			"stream, lists tell": {job.Stream, 16, 8, 8, 1, false},
			"stream in Go":       {job.Stream, 8, 1, 1, 1, true},
			"ping-pong":          {job.PingPong, 1, 1, 1, 1, false},
		} {
			t.Run(planted+", "+name, func(t *testing.T) {
				x, y := plantedPair(t, map[string]string{planted: "24"})
				op := map[job.Shape]verbs.Opcode{job.Stream: verbs.OpWrite, job.PingPong: verbs.OpRead}[shape.Shape]
				j := &job.Job{
					Shape: shape.Shape, First: true, CQs: []verbs.CompletionQueue{x.cq}, Lanes: []job.Lane{{
						QP: x.qps[0], Ring: x.ring(op, shape.ring, 33, y, 0), Count: 800, Window: shape.window, Signal: shape.signal,
						Batch: shape.batch,
					}},
				}
				if shape.goes {
					j.Pace = 1
				}
				if err := fails(t, x.device, j); err == nil {
					t.Error("the job passed")
				}
			})
		}
	}
}

// TestReceiveTwice has a receive complete twice.
func TestReceiveTwice(t *testing.T) {
	for name, pace := range map[string]job.Ticks{"in C": 0, "in Go": 1} {
		t.Run(name, func(t *testing.T) {
			x, y := plantedPair(t, map[string]string{"TWICE_IN": "5"})
			receiver := &job.Job{CQs: []verbs.CompletionQueue{y.cq}, Pace: pace, Lanes: []job.Lane{{
				QP: y.qps[0], Receives: y.receives(1, 64), Expect: 8,
			}}}
			if err := receiver.Lanes[0].PostInitial(8); err != nil {
				t.Fatal(err)
			}
			run(t, x.device, &job.Job{CQs: []verbs.CompletionQueue{x.cq}, Lanes: []job.Lane{{
				QP: x.qps[0], Ring: x.ring(verbs.OpSend, 1, 33, y, 0), Count: 8, Window: 8, Signal: 1, Batch: 1,
			}}}, 30_000_000)
			if err := fails(t, y.device, receiver); err == nil ||
				!strings.Contains(err.Error(), "more receives completed than were posted, 8") {
				t.Errorf("%v", err)
			}
		})
	}
}

// fails runs a job, and what still comes once it is done, and returns how it failed.
func fails(t *testing.T, d verbs.Device, j *job.Job) error {
	t.Helper()
	r, err := job.Prepare(d, j)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	for range 20 {
		if _, err := r.Run(job.Now() + 3_000_000); err != nil {
			t.Log(err)
			return err
		}
	}
	return nil
}
