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

// serve runs a client's tests, one plan after another, on a device of their own.
func (o *order) serve(ctx context.Context, s control.Session, begins func(*plan.Settled, *endpoint.Endpoint), measured func(report.Record)) (err error) {
	d, err := openFor(s, o.Device)
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
	options := bench.Options{Rails: d.Others(), CPU: o.CPU, Port: o.Device.Port, GIDIndex: o.Device.GID, Connected: begins}
	options.Policy.Data = plan.DataPolicy{Peer: s.RemoteAddr().Addr(), Bound: bound, Allow: o.DataAllow}
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
			measured(r)
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

// perftestPlan is the test that clients of perftest before 6.28 expect here, as this device runs it.
func perftestPlan(line string, d verbs.Device, port int) (*plan.Spec, error) {
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
	Told  *plan.Spec     `json:"told,omitempty"`  // what clients of perftest before 6.28 expect here; nil: they are refused
}

// probe finds out before the first client whether there is a device, and what it is.
func probe(device opendevice.Config, line string) (p probed, err error) {
	d, err := opendevice.Open(device.ToLookAt())
	if err != nil {
		return p, err
	}
	p.Note = d.Note
	if facts, err := endpoint.LocalFacts(d, device.Port); err == nil { // else such clients hear why when they come
		p.Facts = &facts
	}
	if line != "" {
		p.Told, err = perftestPlan(line, d, device.Port)
	}
	return p, errors.Join(err, d.Close())
}

// localFacts are those of the device when the server was started.
func (p *probed) localFacts() (control.Facts, error) {
	if p.Facts == nil {
		return control.Facts{}, errors.New("the device had no ACTIVE port when the server was started: start it again")
	}
	return *p.Facts, nil
}
