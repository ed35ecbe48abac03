package serve

import (
	"context"
	"errors"
	"net/netip"

	"github.com/gobw/gobw/internal/bench"
	"github.com/gobw/gobw/internal/bench/endpoint"
	"github.com/gobw/gobw/internal/bench/machine"
	"github.com/gobw/gobw/internal/cli/measure"
	"github.com/gobw/gobw/internal/cli/opendevice"
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/perftestcli"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/verbs"
)

// place is where a client's tests run at this end, and where their traffic may go.
type place struct {
	Device    opendevice.Config `json:"device"`
	CPU       machine.CPUChoice `json:"cpu"`
	DataAllow []netip.Prefix    `json:"data_allow,omitempty"`
}

// serving is what a client's tests need at this end.
type serving struct {
	place
	told     *plan.Spec // of perftest's clients that do not tell theirs
	turn     *turn      // nil: nobody waits
	planned  func(*plan.Spec)
	measured func(report.Record)
}

// serveSession runs a client's tests, one plan after another, on a device of their own.
func serveSession(ctx context.Context, s control.Session, c serving) (err error) {
	d, err := openFor(s, c.Device)
	if err != nil {
		s.Fail(err)
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if _, err := d.Bind(s.LocalAddr()); err != nil {
		s.Fail(err)
		return err
	}
	_, bound := d.Device.(verbs.Rebinder)
	s = &guard{Session: s, planned: c.planned, turn: c.turn}
	o := bench.Options{Rails: d.Others(), CPU: c.CPU, Port: c.Device.Port, GIDIndex: c.Device.GID}
	o.Policy.Data = plan.DataPolicy{Peer: s.RemoteAddr().Addr(), Bound: bound, Allow: c.DataAllow}
	var plan *plan.Spec
	if s.Dialect() == control.Perftest {
		plan = c.told
	}
	for {
		res, err := bench.Run(ctx, s, plan, d.Device, o)
		if err != nil {
			return measure.Classify(err) // bench has told the peer and closed
		}
		if res == nil {
			return s.Close()
		}
		for _, r := range res.Records {
			c.measured(r)
		}
		if s.Dialect() == control.Perftest {
			return s.Close()
		}
	}
}

// openFor opens the device for a client. The rows of perftest, and of programs under its names, are taken for a NIC's: for them the
// software device stands in for none.
func openFor(s control.Session, c opendevice.Config) (*opendevice.Device, error) {
	_, named := perftestcli.ToolNamed(s.PeerProgram())
	c.Strict = c.Strict || named || s.Dialect() == control.Perftest
	return opendevice.Open(c)
}

// perftestPlan is the test that clients of perftest before 6.28 expect here, as this device runs it; nil where no line tells it.
func perftestPlan(line string, d verbs.Device, port int) (*plan.Spec, error) {
	if line == "" {
		return nil, nil //nolint:nilnil // no plan was given
	}
	v, err := perftestcli.ParseLine(line)
	if err != nil {
		return nil, err
	}
	info, err := endpoint.ChoosePort(d, port)
	if err == nil {
		err = v.Fit(d.Info(), info)
	}
	return &v.Plan, err
}

// probed is what the server knows of its device without holding it.
type probed struct {
	Note  string         `json:"note,omitempty"`
	Facts *control.Facts `json:"facts,omitempty"` // for clients that negotiate before a plan is known
	Plan  *plan.Spec     `json:"plan,omitempty"`  // of --perftest
}

// probe finds out before the first client whether there is a device, and what it is.
func (o *order) probe() (*probed, error) {
	d, err := opendevice.Open(o.Device.ToLookAt())
	if err != nil {
		return nil, err
	}
	p := &probed{Note: d.Note}
	if facts, err := endpoint.LocalFacts(d, o.Device.Port); err == nil { // else such clients hear why when they come
		p.Facts = &facts
	}
	p.Plan, err = perftestPlan(o.Perftest, d, o.Device.Port)
	if err = errors.Join(err, d.Close()); err != nil {
		return nil, err
	}
	return p, nil
}
