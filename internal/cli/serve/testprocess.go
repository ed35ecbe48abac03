package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/connect"
	"github.com/gobw/gobw/internal/control/frame"
	"github.com/gobw/gobw/internal/control/native"
	"github.com/gobw/gobw/internal/control/perftest"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
)

// A test runs in a process of its own, whatever ends it. The server starts this program again with a socket as standard input, which
// stays open as long as the server lives: orders come in, events go out. The client's connection comes with the order to go.
const (
	kindOrder  = "order"
	kindGo     = "go"
	kindOthers = "others" // whether others wait
	kindEvent  = "event"
)

// Bounds of one message between the two.
const (
	maxOrderBytes = 4 << 20
	maxEventBytes = 4 << 20
)

// order is what a test's process is told.
type order struct {
	place
	Probe    bool             `json:"probe,omitempty"` // look at the device and say what there is
	Perftest string           `json:"perftest,omitempty"`
	Timeouts control.Timeouts `json:"timeouts"`
	Policy   plan.Policy      `json:"policy"`
	Dialect  control.Dialect  `json:"dialect,omitempty"`
	Plan     json.RawMessage  `json:"plan,omitempty"` // as the client wrote it
}

// handover is the session that goes on here: one of them.
type handover struct {
	Ours   *native.Handover   `json:"ours,omitempty"`
	Theirs *perftest.Handover `json:"theirs,omitempty"`
}

// event is what a test's process tells.
type event struct {
	Probe    *probed `json:"probe,omitempty"`
	Judging  bool    `json:"judging,omitempty"`  // it has started, and reads the plan now
	Judged   bool    `json:"judged,omitempty"`   // the plan may be run, or Error says why not
	Planned  string  `json:"planned,omitempty"`  // a test begins
	Measured string  `json:"measured,omitempty"` // a record of it
	Figure   string  `json:"figure,omitempty"`
	Ended    bool    `json:"ended,omitempty"`
	Left     bool    `json:"left,omitempty"`  // the client went away
	Error    string  `json:"error,omitempty"` // how it ended, empty: well
}

// heapBytes bounds the heap of a test's process, also while its garbage is not collected.
const heapBytes = 512 << 20

// leaveGrace is how long a test may take to end once its client has left; then its process does.
const leaveGrace = time.Second

// runTestProcess is the whole life of a test's process.
func runTestProcess(ctx context.Context) error {
	server, err := unixConn(os.Stdin)
	if err != nil {
		return exit.UsageError{Err: fmt.Errorf("this is a part of 'serve', which starts it: %w", err)}
	}
	in, out := &withFile{UnixConn: server}, &events{w: server}
	var o order
	if o, err = read[order](in, kindOrder); err != nil {
		return err
	}
	debug.SetMemoryLimit(heapBytes)
	if o.Probe {
		if err := freeProcess(); err != nil {
			return err
		}
		p, err := o.probe()
		if err == nil {
			out.write(event{Probe: p})
		}
		return err
	}
	out.write(event{Judging: true})
	if err := o.judge(); err != nil {
		out.write(event{Judged: true, Error: err.Error()})
		return nil
	}
	out.write(event{Judged: true})
	h, err := read[handover](in, kindGo)
	if err != nil {
		return err // there was no turn
	}
	if err := freeProcess(); err != nil {
		return err
	}
	s, err := o.session(in.fd, h)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	turn := &turn{began: time.Now(), most: o.Policy.Duration}
	go func() {
		for {
			others, err := read[bool](in, kindOthers)
			if err != nil {
				cancel(errors.New("the server has ended"))
				return
			}
			turn.others.Store(others)
		}
	}()
	done := make(chan struct{})
	go o.leaveWithClient(ctx, s, out, done)
	err = serveSession(ctx, s, serving{
		place: o.place, turn: turn,
		planned:  func(p *plan.Spec) { out.write(event{Planned: planText(p)}) },
		measured: func(r report.Record) { out.write(event{Measured: r.String(), Figure: figureText(r)}) },
	})
	close(done)
	last := event{Ended: true}
	if lost, is := errors.AsType[*control.LostError](err); is {
		last.Left, last.Error = true, fmt.Sprintf("%s: %v", lost.Phase, lost.Cause)
	} else if err != nil {
		last.Error = err.Error()
	}
	out.write(last)
	return nil
}

// read waits for a message of the server's.
func read[T any](in io.Reader, kind string) (T, error) {
	m, err := frame.Read(in, maxOrderBytes)
	if err == nil && m.Kind != kind {
		err = fmt.Errorf("%q where %q was due", m.Kind, kind)
	}
	if err != nil {
		var none T
		return none, err
	}
	return frame.Decode[T](m)
}

// judge refuses a plan that no test is, or that this end does not grant. The device is not asked: it is opened later.
func (o *order) judge() error {
	p, err := connect.ReadPlan(o.Dialect, o.Plan)
	if err != nil {
		return err
	}
	return admit(o.Policy)(p)
}

// session takes the client's connection over.
func (o *order) session(fd int, h handover) (control.Session, error) {
	f := os.NewFile(uintptr(fd), "connection")
	conn, err := net.FileConn(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if h.Ours != nil {
		return native.Resume(conn, *h.Ours, native.Options{Timeouts: o.Timeouts, Admit: admit(o.Policy)}), nil
	}
	return perftest.Resume(conn, *h.Theirs, o.Timeouts), nil
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
	out.write(event{Ended: true, Left: true, Error: context.Cause(watched).Error()})
	os.Exit(exit.PeerLost) //nolint:forbidigo // a thread may be where nothing else reaches it
}

// events writes what the server is to know.
type events struct {
	mu sync.Mutex
	w  io.Writer
}

func (e *events) write(v event) {
	v.Error, v.Figure = control.Bounded(v.Error), control.Bounded(v.Figure)
	m, err := frame.Of(kindEvent, v)
	if err != nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	_ = frame.Write(e.w, m) // a server that has gone is noticed by its orders
}

// figureText is the figure that the test is about.
func figureText(r report.Record) string {
	if r.Latency != nil && r.IsLatency() {
		return fmt.Sprintf("%.2f us", r.Latency.P50Ns/1e3)
	}
	return plain.WithUnit(r.Bandwidth.AverageBitsPerS, plain.BitsPerS)
}

// planText names a test in the log.
func planText(p *plan.Spec) string {
	return fmt.Sprintf("%s %s %v", p.Operation, p.Kind, p.Transport)
}
