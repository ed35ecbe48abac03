package serve

import (
	"context"
	"errors"
	"fmt"

	"github.com/gobw/gobw/internal/bench"
	"github.com/gobw/gobw/internal/bench/endpoint"
	"github.com/gobw/gobw/internal/cli/measure"
	"github.com/gobw/gobw/internal/cli/opendevice"
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/native"
	perftest "github.com/gobw/gobw/internal/perftest/flags"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
)

// serve runs a client's tests, and tells of them.
func (o *order) serve(ctx context.Context, s control.Session) error {
	o.test = ""
	err := o.run(ctx, s)
	last := event{Test: o.test, Ended: true}
	if lost, is := errors.AsType[*control.LostError](err); is {
		last.Left, last.Error = true, fmt.Sprintf("%s: %v", lost.Phase, lost.Cause)
	} else if errors.Is(err, context.Canceled) {
		last.Error = "interrupted" // the server had the signal, and names it
	} else if err != nil {
		last.Error = err.Error()
	}
	o.tell(last)
	return err
}

// errTurnedAway is a client for which there was no slot in time.
var errTurnedAway = errors.New("turned away")

// agree agrees on the first test, before there is a device for it, and waits for a slot. It returns a session that
// proposes this test first; nil: the client wants none.
func (o *order) agree(ctx context.Context, s control.Session) (control.Session, error) {
	first := &agreed{Session: s}
	var err error
	if ours, is := s.(*native.Session); is {
		if first.plan, err = s.Propose(ctx, nil); err == nil && first.plan == nil {
			return nil, s.Close()
		}
		if err == nil {
			err = ours.AwaitFacts(ctx)
		}
	} else {
		first.plan, err = o.negotiate(ctx, s)
	}
	if err != nil {
		return nil, err
	}
	o.tell(event{Test: o.test, Agreed: true})
	select {
	case slot := <-o.slot:
		o.slot = nil
		if slot.Busy == "" {
			return first, nil
		}
		if ours, is := s.(*native.Session); is {
			ours.Turnaway(slot.Busy)
		}
		return nil, errTurnedAway
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// agreed is a session whose first test was agreed on.
type agreed struct {
	control.Session
	plan *plan.Spec // nil: it was proposed
}

// Propose implements [control.Session].
func (a *agreed) Propose(ctx context.Context, mine *plan.Spec) (*plan.Spec, error) {
	if first := a.plan; first != nil {
		a.plan = nil
		return first, nil
	}
	return a.Session.Propose(ctx, mine)
}

// negotiate agrees with a client of perftest's dialect on its test: on what this end is, too, which a look at the
// device tells. Its address is another test's meanwhile.
func (o *order) negotiate(ctx context.Context, s control.Session) (*plan.Spec, error) {
	d, err := openFor(s, o.Device.ToLookAt())
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }()
	if _, err := d.Bind(s.LocalAddr()); err != nil {
		return nil, err
	}
	o.opened = d
	facts, err := o.localFacts()
	if err != nil {
		return nil, err
	}
	told := o.Told
	if told != nil {
		port, err := endpoint.ChoosePort(d.Device, o.Device.Port)
		if err != nil {
			return nil, err
		}
		settled, err := plan.Settle(*told, endpoint.Limits(d.Info(), port, false), plan.Peer{Perftest: true}, o.Policy)
		if err != nil {
			return nil, err
		}
		told, facts.MTU, facts.MaxOutstanding = new(settled.Proposal()), settled.MTU, settled.Outstanding
	}
	agreed, err := s.Propose(ctx, told)
	if err == nil {
		_, err = s.Facts(ctx, facts)
	}
	return agreed, err
}

// run runs one plan after another, on a device of their own.
func (o *order) run(ctx context.Context, s control.Session) (err error) {
	if o.slot != nil {
		first, err := o.agree(ctx, s)
		if err != nil || first == nil {
			if err != nil {
				s.Fail(err)
			}
			return measure.Classify(err)
		}
		s = first
	}
	d, err := openFor(s, o.Device)
	if err != nil {
		s.Fail(err)
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	o.opened = d
	if err := d.Meet(s); err != nil {
		s.Fail(err)
		return err
	}
	options := bench.Options{
		Rails: d.Others(), CPU: o.Device.CPU, Port: o.Device.Port, GIDIndex: o.Device.GID, List: &bench.List{},
	}
	options.Policy.Data = d.DataPolicy(s)
	options.Policy.Data.Allow = o.DataAllow
	var plan *plan.Spec
	if s.Dialect() == control.Perftest {
		plan = o.Told
	}
	for {
		res, err := bench.Run(ctx, s, plan, d.Device, options)
		if err != nil {
			return measure.Classify(err) // bench has told the peer and closed
		}
		if res == nil {
			return s.Close()
		}
		for _, r := range res.Records {
			o.tell(event{Test: r.String(), Figure: figureText(r)})
		}
		if s.Dialect() == control.Perftest {
			return s.Close()
		}
	}
}

// openFor opens the device for a client. The rows of perftest, and of programs under its names, are taken for a NIC's:
// for them the software device stands in for none.
func openFor(s control.Session, c opendevice.Config) (*opendevice.Device, error) {
	_, named := perftest.ToolNamed(s.PeerProgram())
	c.Strict = c.Strict || named || s.Dialect() == control.Perftest
	return opendevice.Open(c)
}

// perftestPlan is the test that clients of perftest before 6.28 expect here, as this device runs it.
func perftestPlan(line string, d verbs.Device, port int) (*plan.Spec, error) {
	v, err := perftest.ParseLine(line)
	if err != nil {
		return nil, err
	}
	info, err := endpoint.ChoosePort(d, port)
	if err == nil {
		err = v.Fit(d.Info(), info)
	}
	return &v.Plan, err
}

// probe finds out before the first client whether there is a device, and what it stands in for.
func (o *order) probe(line string) (note string, err error) {
	d, err := opendevice.Open(o.Device.ToLookAt())
	if err != nil {
		return "", err
	}
	if line != "" {
		o.Told, err = perftestPlan(line, d.Device, o.Device.Port)
	}
	return d.Note, errors.Join(err, d.Close())
}

// localFacts are those of the device that is open, for a client that negotiates before a plan is known.
func (o *order) localFacts() (control.Facts, error) {
	return endpoint.LocalFacts(o.opened.Device, o.Device.Port)
}
