// Package measure runs tests against a peer for any command that measures.
package measure

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/gobw/gobw/internal/bench"
	"github.com/gobw/gobw/internal/bench/endpoint"
	"github.com/gobw/gobw/internal/bench/machine"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/opendevice"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/connect"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/verbs"
)

// Run runs one plan against its peer. Once the device is open, it returns a document: after an error the document holds
// what was measured before, Complete is false and Failure says why. Run prints notes and progress to out.Err, and
// nothing else.
func Run(ctx context.Context, out output.Streams, c Config) (*report.Document, error) {
	return With(ctx, out, c, func(m *Measurer, doc Document) error {
		res, err := m.Run(ctx, c.Plan, bench.Options{})
		doc.Add(res)
		return err
	})
}

// With opens a session, lets fill measure into a document, and closes both. It returns a document as [Run] does.
func With(ctx context.Context, out output.Streams, c Config,
	fill func(*Measurer, Document) error,
) (*report.Document, error) {
	doc := NewDocument(c.Tool, c.Command)
	m, err := Open(ctx, out, c)
	if err != nil {
		return nil, err
	}
	if err = errors.Join(fill(m, doc), m.Close()); err == nil {
		err = doc.arrived()
	}
	doc.Finish(err)
	return doc.Document, err
}

// Document is a document being made.
type Document struct{ *report.Document }

// NewDocument starts a document at this moment.
func NewDocument(tool string, command []string) Document {
	return Document{&report.Document{
		Schema: report.SchemaVersion, Tool: tool, Version: machine.Version(), Command: command, Started: time.Now().UTC(),
		Client: machine.Host(), Records: []report.Record{},
	}}
}

// Add takes over what a run measured; nil is nothing.
func (d Document) Add(res *bench.Result) {
	if res == nil {
		return
	}
	d.Client, d.Server, d.Label = res.Here, res.Peer, res.Label
	d.Records = append(d.Records, res.Records...)
	for _, w := range res.Warnings {
		d.Warnings = plain.AddNew(d.Warnings, w)
	}
}

// arrived is an error if nothing arrived in a test.
func (d Document) arrived() error {
	for i := range d.Records {
		if r := &d.Records[i]; r.Nothing() {
			return &verbs.Error{
				Verb: "measure", Err: fmt.Errorf("nothing arrived: none of the messages of %s", plain.Bytes(float64(r.SizeBytes))),
				Fix: "find where the packets are lost: run 'gobw doctor HOST', and try smaller messages (-s 64)",
			}
		}
	}
	return nil
}

// Finish notes the end, and the error if there was one.
func (d Document) Finish(err error) {
	d.Finished = time.Now().UTC()
	d.Complete = err == nil
	if err != nil {
		d.Failure, d.Cause = err.Error(), exit.Cause(err)
	}
}

// Measurer is an open device and a session with a peer, for one plan after another. It belongs to one goroutine.
type Measurer struct {
	config  Config
	out     output.Streams
	Device  *opendevice.Device
	Port    verbs.PortInfo
	Session control.Session
	child   *otherEnd // the other end of --loopback, or nil
}

// Open opens the device, starts the other end where --loopback asks for it, and connects. Errors before the
// connection are set-up errors.
func Open(ctx context.Context, out output.Streams, c Config) (_ *Measurer, err error) {
	m := &Measurer{config: c, out: out}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
		}
	}()
	if m.Device, err = opendevice.Open(c.Device); err != nil {
		return nil, err
	}
	if info := m.Device.Info(); info.Software {
		for _, e := range c.Gate.Expect {
			if err := e.CheckDevice(report.Environment{Device: info.Name, Software: true}); err != nil {
				return nil, exit.With(exit.Usage, err)
			}
		}
	}
	if m.Device.Note != "" && m.Device.Note != opendevice.SoftwareNote && !c.Output.Quiet {
		fmt.Fprintf(out.Err, "%s: %s\n", c.Tool, m.Device.Note)
	}
	address := net.JoinHostPort(c.Peer.Host, strconv.Itoa(c.Peer.Port))
	if c.Peer.Loopback {
		if m.child, err = startChild(ctx, out, c); err != nil {
			return nil, exit.With(exit.Setup, err)
		}
		m.config.Device.CPU.OtherEnd = m.child.Process.Process.Pid
		address = m.child.address
	}
	if err := m.meet(ctx, address); err != nil {
		return nil, err
	}
	if err := c.checkLoopback(m.Device); err != nil {
		m.Session.Fail(err)
		return nil, err
	}
	if m.Port, err = endpoint.ChoosePort(m.Device.Device, c.Device.Port); err != nil {
		m.Session.Fail(err)
		return nil, exit.With(exit.Setup, err)
	}
	return m, nil
}

// meet connects to the server and binds the device to its address. If another test of this host has the port there, it
// leaves the server and tries again, as long as it would wait for a busy server.
func (m *Measurer) meet(ctx context.Context, address string) error {
	c := m.config
	for giveUp := time.Now().Add(c.Peer.Wait); ; {
		s, err := connect.Dial(ctx, address, control.Options{
			Timeouts: control.Timeouts{Peer: c.Peer.Timeout}, Program: c.Tool + " " + machine.Version(),
			Source: c.Peer.Source, Wait: c.Peer.Wait, Token: c.Peer.Token, SegmentBytes: c.Peer.SegmentBytes,
		})
		if errors.Is(err, syscall.ECONNREFUSED) && !c.Peer.Loopback {
			err = fmt.Errorf("%w: no server there; type %s", err, c.Peer.Serve(c.Tool))
		}
		if err != nil {
			return exit.With(exit.Setup, err)
		}
		m.Session = s
		err = m.Device.Meet(s)
		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(giveUp) {
			if err != nil {
				s.Fail(err)
			}
			return err
		}
		m.Session = nil
		_ = s.Close() // nothing was begun
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(portAgain):
		}
	}
}

// portAgain is the pause between two tries to have the port of RoCE.
const portAgain = 500 * time.Millisecond

// checkLoopback refuses -x for two software devices of one host: each has an address of its own, at index 0 of its
// table.
func (c Config) checkLoopback(d *opendevice.Device) error {
	if !c.Peer.Loopback || !d.Info().Software || c.Device.GID == nil || *c.Device.GID == 0 {
		return nil
	}
	return exit.With(exit.Usage,
		fmt.Errorf("--gid-index (-x) %d with --loopback: both ends would use one address, but only one can have UDP port "+
			"4791 there; "+
			"leave -x out: each end then takes a loopback address of its own", *c.Device.GID))
}

// Run measures one plan. The result is what was measured, also after an error.
func (m *Measurer) Run(ctx context.Context, spec plan.Spec, o bench.Options) (*bench.Result, error) {
	o.Rails, o.CPU, o.Port, o.GIDIndex = m.Device.Others(), m.config.Device.CPU, m.config.Device.Port, m.config.Device.GID
	o.Policy.Data = m.Device.DataPolicy(m.Session)
	if m.config.Peer.Timeout > 0 {
		o.Stall = max(10*time.Second, 3*m.config.Peer.Timeout)
	}
	bar := output.NewProgress(m.out, m.config.Output.Quiet)
	if o.Progress == nil && bar.On() { // else the measuring thread need not stop for it
		o.Progress = bar.Show
	}
	res, err := bench.Run(ctx, m.Session, &spec, m.Device.Device, o)
	bar.Clear()
	return res, Classify(err)
}

// Classify gives an impossible plan the exit code of a wrong command line.
func Classify(err error) error {
	if wrong, is := errors.AsType[*plan.Error](err); is {
		return exit.With(exit.Usage, wrong)
	}
	return err
}

// Close says goodbye, waits for the child, and closes the device.
func (m *Measurer) Close() error {
	var errs []error
	if m.Session != nil {
		errs = append(errs, m.Session.Close())
	}
	if m.child != nil {
		errs = append(errs, m.child.wait())
	}
	if m.Device != nil {
		errs = append(errs, m.Device.Close())
	}
	return errors.Join(errs...)
}

// CommandLine is the process's own, with the program's plain name.
func CommandLine(tool string) []string {
	return append([]string{tool}, os.Args[1:]...)
}
