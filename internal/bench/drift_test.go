package bench

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/connect"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/internal/testrun/meeting"
	"github.com/gobw/gobw/report/figure"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/tick"
)

// TestCounterChanges: a cycle counter that ran otherwise before the test is told with the first figures, which no table
// then shows, and the next run is calibrated anew.
func TestCounterChanges(t *testing.T) {
	m := &meeting.Manager{}
	server, client := m.Open(t, openOurs), m.Open(t, openOurs)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	patient := control.Timeouts{Peer: time.Minute}
	l, err := connect.Listen(control.Options{Address: "127.0.0.1:0", Timeouts: patient})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	served := make(chan error, 1)
	go func() {
		s, err := l.Accept(ctx)
		if err == nil {
			_, err = Run(ctx, s, nil, server, Options{})
			err = errors.Join(err, s.Close())
		}
		served <- err
	}()
	s, err := connect.Dial(ctx, l.Addr().String(), control.Options{Timeouts: patient})
	if err != nil {
		t.Fatal(err)
	}
	const span = 10 * time.Second
	clock := tick.Start()
	faster := tick.Rate(1.005) * clock.PerNanosecond()
	clock.Wall, clock.Ticks = clock.Wall.Add(-span), clock.Ticks-faster.Ticks(span)
	r := &run{session: s, clock: clock}
	result, err := r.all(ctx, &plan.Spec{
		Operation: plan.Write, Kind: plan.Bandwidth, Transport: verbs.RC, Sizes: []int{4096},
		Duration: 50 * time.Millisecond, Runs: 2,
	}, client)
	if err := errors.Join(err, s.Close(), <-served); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"the rate of the cycle counter changed by -0.", ""} {
		var told string
		for _, w := range result.Records[i].Warnings {
			if kind, text := figure.NoteOf(w); kind == figure.Impossible {
				told = text
			}
		}
		if !strings.HasPrefix(told, want) || (want == "") != (told == "") {
			t.Errorf("run %d: %q, want %q", i+1, told, want)
		}
	}
}
