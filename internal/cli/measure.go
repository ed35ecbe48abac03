package cli

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"
	"time"

	"github.com/gobw/gobw/internal/bench"
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/verbs"
)

// measureConfig is what any command needs to measure. Commands that run many plans open a [measurer] once and call
// run for each; a single test calls [measure].
type measureConfig struct {
	Tool    string   // "gobw"
	Command []string // the command line, for the document
	Device  deviceConfig
	Peer    peerConfig
	CPU     bench.CPUChoice
	Quiet   bool
	// Plan makes the plan once the device's port and the peer's dialect are known.
	Plan func(control.Dialect, verbs.PortInfo) (control.Plan, error)
	// Observe hooks into the run; its device fields are filled in here.
	Observe bench.Options
}

// measure runs one plan against its peer. The document is never nil once the device is open: after an error it holds
// what was measured before, Complete is false and Failure says why. Nothing is printed but notes and progress on
// out.Err; deliver prints and saves the document.
func measure(ctx context.Context, out Streams, c measureConfig) (*report.Document, error) {
	doc := newDocument(c.Tool, c.Command)
	m, err := openMeasurer(ctx, out, c)
	if err != nil {
		return nil, err
	}
	plan, err := c.Plan(m.session.Dialect(), m.port)
	if err == nil {
		var res *bench.Result
		res, err = m.run(ctx, plan, c.Observe)
		doc.add(res)
	}
	err = errors.Join(err, m.Close())
	doc.finish(err)
	return doc.Document, err
}

// document is a document being made.
type document struct{ *report.Document }

func newDocument(tool string, command []string) document {
	return document{&report.Document{
		Schema: report.SchemaVersion, Tool: tool, Version: bench.Version(), Command: command, Started: time.Now().UTC(),
		Client: bench.Host(), Records: []report.Record{},
	}}
}

// add takes over what a run measured; nil is nothing.
func (d document) add(res *bench.Result) {
	if res == nil {
		return
	}
	d.Client, d.Server, d.Label = res.Client, res.Server, res.Label
	d.Records = append(d.Records, res.Records...)
	d.Warnings = append(d.Warnings, res.Warnings...)
}

func (d document) finish(err error) {
	d.Finished = time.Now().UTC()
	d.Complete = err == nil
	if err != nil {
		d.Failure = err.Error()
	}
}

// measurer is an open device and a session with a peer, for one plan after another. It belongs to one goroutine.
type measurer struct {
	config  measureConfig
	out     Streams
	device  *openedDevice
	port    verbs.PortInfo
	session control.Session
	child   *child // the other end of --loopback, or nil
}

// openMeasurer opens the device, starts the other end where --loopback asks for it, and connects. Errors before the
// connection are set-up errors.
func openMeasurer(ctx context.Context, out Streams, c measureConfig) (_ *measurer, err error) {
	m := &measurer{config: c, out: out}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
		}
	}()
	if m.device, err = openDevice(c.Device); err != nil {
		return nil, err
	}
	if m.device.Note != "" && !c.Quiet {
		fmt.Fprintf(out.Err, "%s: %s\n", c.Tool, m.device.Note)
	}
	address := fmt.Sprintf("%s:%d", bracketed(c.Peer.Host), c.Peer.Port)
	if c.Peer.Loopback {
		if m.child, err = startChild(ctx, c); err != nil {
			return nil, setupError{err}
		}
		address = m.child.address
	}
	var rdma verbs.Device // nil: TCP
	if c.Peer.ControlCM {
		if _, err := control.ConnectionManagerOf(m.device.Device); err != nil {
			return nil, setupError{err}
		}
		rdma = m.device.Device
	}
	m.session, err = control.Dial(ctx, address, control.DialOptions{
		Timeouts: control.Timeouts{Peer: c.Peer.Timeout}, Perftest: c.Peer.Perftest, Program: c.Tool + " " + bench.Version(),
		Source: c.Peer.Source, Wait: c.Peer.Wait, RDMA: rdma,
	})
	if err != nil {
		m.session = nil
		if errors.Is(err, syscall.ECONNREFUSED) && !c.Peer.Loopback {
			err = fmt.Errorf("%w: nobody serves there; start '%s serve' on %s, or give --wait", err, c.Tool, c.Peer.Host)
		}
		if !errors.Is(err, control.ErrPeerLost) {
			err = setupError{err}
		}
		return nil, err
	}
	local, _ := endpoints(m.session)
	if err := bindDevice(m.device, local); err != nil {
		m.session.Fail(err)
		return nil, err
	}
	if err := c.checkLoopback(m.device); err != nil {
		m.session.Fail(err)
		return nil, err
	}
	if m.port, err = bench.ChoosePort(m.device, c.Device.Port); err != nil {
		m.session.Fail(err)
		return nil, setupError{err}
	}
	return m, nil
}

// checkLoopback refuses one address for two ends: on the software device each has its own, line 0 of its table.
func (c measureConfig) checkLoopback(d *openedDevice) error {
	if !c.Peer.Loopback || !d.Info().Software || c.Device.GID == nil || *c.Device.GID == 0 {
		return nil
	}
	table, err := d.GIDs(1)
	if err != nil || *c.Device.GID >= len(table) {
		return nil //nolint:nilerr // told where the address is chosen
	}
	return usageError{fmt.Errorf("--gid-index (-x) %d with --loopback: both ends would take %v, where only one can have UDP port 4791; "+
		"leave -x out: each end then takes a loopback address of its own", *c.Device.GID, table[*c.Device.GID].GID.Addr())}
}

// bracketed puts an IPv6 address in brackets.
func bracketed(host string) string {
	if a, err := netip.ParseAddr(host); err == nil && a.Is6() {
		return "[" + host + "]"
	}
	return host
}

// endpoints are the two addresses of a session's connection.
func endpoints(s control.Session) (local, remote netip.Addr) {
	if a, has := s.(interface{ LocalAddr() netip.Addr }); has {
		local = a.LocalAddr()
	}
	if a, has := s.(interface{ RemoteAddr() netip.AddrPort }); has {
		remote = a.RemoteAddr().Addr()
	}
	return local, remote
}

// run measures one plan. The result is what was measured, also after an error.
func (m *measurer) run(ctx context.Context, plan control.Plan, o bench.Options) (*bench.Result, error) {
	o.CPU, o.Port, o.GIDIndex = m.config.CPU, m.config.Device.Port, m.config.Device.GID
	o.Local, o.Remote = endpoints(m.session)
	if m.config.Peer.Timeout > 0 {
		o.Stall = max(10*time.Second, 3*m.config.Peer.Timeout)
	}
	bar := newProgressBar(m.out, m.config.Quiet)
	if o.Progress == nil {
		o.Progress = bar.show
	}
	// Refuse what the device cannot do before the peer hears of it.
	if _, err := bench.Settle(plan, m.device.Info(), m.port); err != nil {
		return nil, usageError{err}
	}
	res, err := bench.Run(ctx, m.session, &plan, m.device.Device, o)
	bar.clear()
	return res, classify(err)
}

// classify marks the errors of set-up verbs.
func classify(err error) error {
	var verb *verbs.Error
	if errors.As(err, &verb) && verb.Verb != "measure" && !errors.Is(err, control.ErrPeerLost) {
		return setupError{err}
	}
	return err
}

// Close says goodbye, waits for the child, and closes the device.
func (m *measurer) Close() error {
	var errs []error
	if m.session != nil {
		errs = append(errs, m.session.Close())
	}
	if m.child != nil {
		errs = append(errs, m.child.wait())
	}
	if m.device != nil {
		errs = append(errs, m.device.Close())
	}
	return errors.Join(errs...)
}

// commandLine is the process's own, with the program's plain name.
func commandLine(tool string) []string {
	return append([]string{tool}, os.Args[1:]...)
}
