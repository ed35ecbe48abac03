package bench

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/connect"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/internal/testrun/meeting"
	"github.com/gobw/gobw/verbs"
)

// pausing is a session of an end that sleeps after it has said that it is ready, as a stock perftest does that
// has no CPU, or measures its clock again.
type pausing struct {
	control.Session
	pause time.Duration
}

func (p *pausing) Sync(ctx context.Context, phase control.Phase, size int, last bool) error {
	err := p.Session.Sync(ctx, phase, size, last)
	if phase == control.PhaseReady {
		select {
		case <-time.After(p.pause):
		case <-ctx.Done():
		}
	}
	return err
}

// TestUnreliablePeerPauses: where nothing in perftest's dialect says that the peer is done, an end that
// has sent all of its own waits for datagrams of a peer that begins late, and one that has given up
// waiting still knows what it has posted.
func TestUnreliablePeerPauses(t *testing.T) {
	for name, qps := range map[string]int{"UD": 1, "two of UD": 2} {
		t.Run(name, func(t *testing.T) {
			m := &meeting.Manager{}
			devices := [2]verbs.Device{m.Open(t, openOurs), m.Open(t, openOurs)}
			spec := plan.Spec{
				Operation: plan.Send, Kind: plan.Bandwidth, Transport: verbs.UD, AllSizes: true, QPs: qps,
				Iterations: 10, RxDepth: 10, Bidirectional: true,
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			patient := control.Timeouts{Peer: time.Minute}
			l, err := connect.Listen(control.Options{Address: "127.0.0.1:0", Timeouts: patient})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			end := func(s control.Session, d verbs.Device) (*Result, error) {
				own := spec
				r, err := Run(ctx, s, &own, d, Options{})
				return r, errors.Join(err, s.Close())
			}
			served := make(chan error, 1)
			go func() {
				s, err := l.Accept(ctx)
				if err == nil {
					_, err = end(&pausing{s, 100 * time.Millisecond}, devices[0])
				}
				served <- err
			}()
			s, err := connect.Dial(ctx, l.Addr().String(),
				control.Options{Timeouts: patient, Perftest: control.PerftestOptions{NoMarker: true}})
			if err != nil {
				t.Fatal(errors.Join(err, <-served))
			}
			result, err := end(s, devices[1])
			if err := errors.Join(err, <-served); err != nil {
				t.Fatal(err)
			}
			if n := len(result.Records); n != 12 { // 2 bytes to the MTU, 4096
				t.Errorf("%d records of 12 sizes", n)
			}
		})
	}
}
