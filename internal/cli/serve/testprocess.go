package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/gobw/gobw/internal/bench"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/opendevice"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/native"
	"github.com/gobw/gobw/internal/control/perftest"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
)

// A test runs in a process of its own, whatever ends it. The server starts this program again with the client's connection
// and the pipe for events as these files, and the order on standard input, which stays open as long as the server lives.
const (
	connectionFile = 3
	eventsFile     = 4
)

// order is what a test's process is told.
type order struct {
	Probe     bool               `json:"probe,omitempty"` // look at the device and say what there is
	Perftest  string             `json:"perftest,omitempty"`
	Device    opendevice.Config  `json:"device"`
	CPU       bench.CPUChoice    `json:"cpu"`
	Timeouts  control.Timeouts   `json:"timeouts"`
	Policy    plan.Policy        `json:"policy"`
	DataAllow []netip.Prefix     `json:"data_allow,omitempty"`
	End       json.RawMessage    `json:"end,omitempty"`
	Ours      *native.Handover   `json:"ours,omitempty"`
	Theirs    *perftest.Handover `json:"theirs,omitempty"`
}

// event is a line that a test's process writes.
type event struct {
	Probe    *probed `json:"probe,omitempty"`
	Planned  string  `json:"planned,omitempty"`  // a test begins
	Measured string  `json:"measured,omitempty"` // a record of it
	Figure   string  `json:"figure,omitempty"`
	Ended    bool    `json:"ended,omitempty"`
	Error    string  `json:"error,omitempty"` // how it ended, empty: well
}

// heapBytes bounds the heap of a test's process, also while its garbage is not collected.
const heapBytes = 512 << 20

// leaveGrace is how long a test may take to end once its client has left; then its process does.
const leaveGrace = time.Second

// runTestProcess is the whole life of a test's process.
func runTestProcess(ctx context.Context) error {
	out := &events{w: os.NewFile(eventsFile, "events")}
	in := json.NewDecoder(os.Stdin)
	var o order
	if err := in.Decode(&o); err != nil {
		return exit.UsageError{Err: fmt.Errorf("this is a part of 'serve', which starts it by itself: %w", err)}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		_, _ = io.Copy(io.Discard, io.MultiReader(in.Buffered(), os.Stdin))
		cancel(errors.New("the server has ended"))
	}()
	debug.SetMemoryLimit(heapBytes)
	boundProcess(o.Policy.Bytes)
	if o.Probe {
		p, err := o.probe()
		if err != nil {
			return err
		}
		out.write(event{Probe: p})
		return nil
	}
	o.Timeouts = o.Timeouts.WithDefaults()
	s, err := o.session()
	if err != nil {
		return err
	}
	done := make(chan struct{})
	go o.leaveWithClient(ctx, s, out, done)
	err = serveSession(ctx, s, serving{
		device: o.Device, cpu: o.CPU, end: o.End, dataAllow: o.DataAllow, told: o.told(),
		planned:  func(p *plan.Spec) { out.write(event{Planned: planText(p)}) },
		measured: func(r report.Record) { out.write(event{Measured: r.Point().String(), Figure: figureText(r)}) },
	})
	close(done)
	last := event{Ended: true}
	if err != nil {
		last.Error = err.Error()
	}
	out.write(last)
	return nil
}

func (o *order) told() *plan.Spec {
	if o.Theirs == nil {
		return nil
	}
	return o.Theirs.Plan
}

// session takes the client's connection over.
func (o *order) session() (control.Session, error) {
	f := os.NewFile(connectionFile, "connection")
	conn, err := net.FileConn(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if o.Ours != nil {
		return native.Resume(conn, *o.Ours, native.Options{Timeouts: o.Timeouts, Admit: admit(o.Policy)}), nil
	}
	return perftest.Resume(conn, *o.Theirs, o.Timeouts), nil
}

// leaveWithClient ends the process of a test whose client has left, whatever the test is doing: memory may take its time to
// be registered, and a call into a driver need not return.
func (o *order) leaveWithClient(ctx context.Context, s control.Session, out *events, done <-chan struct{}) {
	watched, stop := s.Watch(ctx)
	defer stop()
	select {
	case <-watched.Done():
	case <-done:
		return
	}
	select {
	case <-time.After(leaveGrace + o.Timeouts.Peer):
	case <-time.After(leaveGrace):
		if ctx.Err() != nil { // the user's signal: the client is being told
			<-done
			return
		}
	case <-done:
		return
	}
	out.write(event{Ended: true, Error: fmt.Sprintf("the client left: %v", context.Cause(watched))})
	os.Exit(exit.PeerLost) //nolint:forbidigo // a thread may be where nothing else reaches it
}

// events writes what the server is to know.
type events struct {
	mu sync.Mutex
	w  io.Writer
}

func (e *events) write(v event) {
	v.Error, v.Figure = control.Bounded(v.Error), control.Bounded(v.Figure)
	b, err := json.Marshal(v)
	if err != nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	_, _ = e.w.Write(append(bytes.TrimSpace(b), '\n')) // a server that has gone is noticed on standard input
}

// figureText is the figure that the test is about.
func figureText(r report.Record) string {
	if r.Latency != nil && r.Setup().IsLatency() {
		return fmt.Sprintf("%.2f us", r.Latency.P50Ns/1e3)
	}
	return output.BandwidthText(r.Bandwidth.AverageBitsPerS)
}

// planText names a test in the log.
func planText(p *plan.Spec) string {
	return fmt.Sprintf("%s %s %v", p.Operation, p.Kind, p.Transport)
}
