package agent

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/fabric/wire"
)

// Worker measures on one device.
type Worker interface {
	// Open opens the device; the rail holds the error, if any.
	Open(ctx context.Context, o wire.Open, rail int) wire.Rail
	// Prepare makes a round's flows and returns the addresses of each.
	Prepare(ctx context.Context, p wire.Prepare) ([][]control.Address, error)
	// Go runs them.
	Go(ctx context.Context, g wire.Go, rail int) ([]wire.Flow, error)
	// Close ends the worker.
	Close() error
}

// Config is one agent.
type Config struct {
	Hello  wire.Hello
	Key    wire.Key
	Places []string      // host:port of rank 0, the likeliest first
	Wait   time.Duration // until rank 0 must have been found
	Facts  func() wire.Facts
	Worker func(rail int) Worker
	// Dial connects to a place; nil: over TCP.
	Dial func(ctx context.Context, place string) (net.Conn, error)
}

const (
	heartbeat   = 500 * time.Millisecond
	orphanAfter = 20 * time.Second // without a word of rank 0
	dialWithin  = 2 * time.Second
	again       = 50 * time.Millisecond // between attempts
)

// OrphanError is an agent that has lost rank 0.
type OrphanError struct{ Err error }

func (e *OrphanError) Error() string { return fmt.Sprintf("rank 0 is lost: %v", e.Err) }
func (e *OrphanError) Unwrap() error { return e.Err }

// Run takes part in a run until rank 0 says that it is over, and returns its parting words. The error of an agent that rank 0 sends
// away is a [wire.RefusedError].
func Run(ctx context.Context, cfg Config) (string, error) {
	if cfg.Dial == nil {
		d := net.Dialer{Timeout: dialWithin}
		cfg.Dial = func(ctx context.Context, place string) (net.Conn, error) { return d.DialContext(ctx, "tcp", place) }
	}
	conn, err := find(ctx, cfg)
	if err != nil {
		return "", err
	}
	a := &agent{cfg: cfg, conn: conn, work: make(chan *wire.Message, 16)}
	return a.run(ctx)
}

type agent struct {
	cfg     Config
	conn    net.Conn
	mu      sync.Mutex // of writes
	heard   atomic.Int64
	work    chan *wire.Message
	workers []Worker
	last    wire.Prepare
}

// find dials the places in turn until one answers that belongs to this run.
func find(ctx context.Context, cfg Config) (net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.Wait, fmt.Errorf("rank 0 was not found within %v", cfg.Wait))
	defer cancel()
	var last error
	for {
		for i, place := range cfg.Places {
			conn, err := join(ctx, cfg, place)
			if err == nil {
				return conn, nil
			}
			if _, refused := errors.AsType[*wire.RefusedError](err); refused {
				return nil, err
			}
			// A stranger at a place that is only a guess is no reason to stop: another job may run there.
			if last == nil || i == 0 || errors.Is(err, wire.ErrStranger) {
				last = explain(place, err)
			}
			if ctx.Err() != nil {
				break
			}
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return nil, fmt.Errorf("%w (%w)", context.Cause(ctx), last)
		}
	}
}

// explain says of a failed attempt what is likely wrong with the place. Many systems give their own name a loopback address:
// where that is the name of rank 0's host, each host looks for rank 0 on itself.
func explain(place string, err error) error {
	if unknown, is := errors.AsType[*net.DNSError](err); is {
		return fmt.Errorf("%s: its name does not resolve here (%w): mend DNS or /etc/hosts, or give rank 0's address by --coordinator", place, unknown)
	}
	dialled, is := errors.AsType[*net.OpError](err)
	host, _, _ := net.SplitHostPort(place)
	if _, literal := netip.ParseAddr(host); is && literal != nil && dialled.Addr != nil {
		at, e := netip.ParseAddrPort(dialled.Addr.String())
		switch {
		case e == nil && at.Addr().IsLoopback():
			return fmt.Errorf("%s: its name resolves to %s, which is this host itself (%w): mend /etc/hosts, or give rank 0's address by --coordinator", place, at.Addr(), err)
		case errors.Is(err, syscall.ECONNREFUSED):
			return fmt.Errorf("%s: %w: rank 0 has not begun there, or its name resolves to another host", place, err)
		}
	}
	if errors.Is(err, wire.ErrStranger) || errors.Is(err, wire.ErrFormat) {
		return fmt.Errorf("%s: %w: another run may be there, its secret may differ, or its name may resolve to another host", place, err)
	}
	return fmt.Errorf("%s: %w", place, err)
}

func join(ctx context.Context, cfg Config, place string) (net.Conn, error) {
	conn, err := cfg.Dial(ctx, place)
	if err != nil {
		return nil, err
	}
	if err = conn.SetDeadline(time.Now().Add(2 * dialWithin)); err == nil {
		if err = cfg.Key.Join(conn, cfg.Hello); err == nil {
			err = conn.SetDeadline(time.Time{})
		}
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

func (a *agent) run(ctx context.Context) (string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	defer func() { _ = a.conn.Close() }()
	a.heard.Store(time.Now().UnixNano())
	wg.Go(func() { a.read(cancel) })
	wg.Go(func() { a.beat(ctx, cancel) })
	defer func() {
		for _, w := range a.workers {
			_ = w.Close()
		}
	}()
	for {
		select {
		case m := <-a.work:
			answer := a.do(ctx, m)
			if answer == nil {
				continue
			}
			if err := a.send(answer); err != nil {
				cancel(&OrphanError{err})
			}
		case <-ctx.Done():
			err := context.Cause(ctx)
			if bye, over := errors.AsType[errBye](err); over {
				return string(bye), nil
			}
			return "", err
		}
	}
}

// read takes what rank 0 says. Bye ends a measurement that is under way, too.
func (a *agent) read(cancel context.CancelCauseFunc) {
	r := bufio.NewReader(a.conn)
	for {
		m, err := wire.Read(r, wire.FromCoordinator)
		if err != nil {
			cancel(&OrphanError{err})
			return
		}
		a.heard.Store(time.Now().UnixNano())
		switch m.Kind {
		case wire.KindHeartbeat:
		case wire.KindBye:
			cancel(errBye(wire.Clean(m.Text)))
			return
		case wire.KindRefused:
			cancel(&wire.RefusedError{Why: wire.Clean(m.Text)})
			return
		case wire.KindOpen, wire.KindPrepare, wire.KindGo:
			select {
			case a.work <- m:
			default:
				cancel(&OrphanError{errors.New("rank 0 asks for more than one thing at a time")})
				return
			}
		default:
			cancel(&OrphanError{fmt.Errorf("%w: %s", wire.ErrFormat, m.Kind)})
			return
		}
	}
}

// errBye is the end of a run, as rank 0 told it.
type errBye string

func (e errBye) Error() string { return string(e) }

// beat says that this agent lives, and notices when rank 0 does not.
func (a *agent) beat(ctx context.Context, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			_ = a.conn.Close() // makes read return
			return
		}
		now := time.Now()
		silent := now.Sub(time.Unix(0, a.heard.Load()))
		if late := now.Sub(last) > 4*heartbeat; !late && silent > orphanAfter { // a late look judges nobody
			cancel(&OrphanError{fmt.Errorf("not heard of for %.0f s", silent.Seconds())})
		}
		last = now
		if err := a.send(&wire.Message{Kind: wire.KindHeartbeat}); err != nil {
			cancel(&OrphanError{err})
		}
	}
}

// send says something. A write may wait for a while: the link may come back, and rank 0 decides.
func (a *agent) send(m *wire.Message) error {
	b, err := wire.Append(nil, m)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.conn.SetWriteDeadline(time.Now().Add(orphanAfter)); err != nil {
		return err
	}
	_, err = a.conn.Write(b)
	return err
}

// do does what rank 0 asks and returns the answer.
func (a *agent) do(ctx context.Context, m *wire.Message) *wire.Message {
	switch m.Kind {
	case wire.KindOpen:
		return &wire.Message{Kind: wire.KindFacts, Facts: a.open(ctx, *m.Open)}
	case wire.KindPrepare:
		return &wire.Message{Kind: wire.KindPrepared, Prepared: a.prepare(ctx, *m.Prepare)}
	case wire.KindGo:
		return &wire.Message{Kind: wire.KindResult, Result: a.measure(ctx, *m.Go)}
	default: // read lets nothing else through
		return nil
	}
}

func (a *agent) open(ctx context.Context, o wire.Open) *wire.Facts {
	f := a.cfg.Facts()
	f.Rails = make([]wire.Rail, len(o.Rails))
	a.each(len(o.Rails), func(i int) {
		f.Rails[i] = a.workers[i].Open(ctx, o, i)
	})
	return &f
}

// each does something on some rails at once; workers are started as they are needed.
func (a *agent) each(rails int, do func(i int)) {
	for len(a.workers) < rails {
		a.workers = append(a.workers, a.cfg.Worker(len(a.workers)))
	}
	var wg sync.WaitGroup
	for i := range rails {
		wg.Go(func() { do(i) })
	}
	wg.Wait()
}

// known refuses rails that were not opened.
func (a *agent) known(rails []int) error {
	for _, r := range rails {
		if r < 0 || r >= len(a.workers) {
			return fmt.Errorf("rail %d of %d was not opened", r, len(a.workers))
		}
	}
	return nil
}

func (a *agent) prepare(ctx context.Context, p wire.Prepare) *wire.Prepared {
	out := &wire.Prepared{Round: p.Round, Addresses: make([][][]control.Address, len(p.Rails))}
	if err := a.known(p.Rails); err != nil {
		out.Error = err.Error()
		return out
	}
	a.last = p
	errs := make([]error, len(p.Rails))
	a.each(len(p.Rails), func(i int) {
		out.Addresses[i], errs[i] = a.workers[p.Rails[i]].Prepare(ctx, p)
	})
	if err := errors.Join(errs...); err != nil {
		out.Error, out.Addresses = err.Error(), nil
	}
	return out
}

func (a *agent) measure(ctx context.Context, g wire.Go) *wire.Result {
	out := &wire.Result{Round: g.Round, Rails: make([][]wire.Flow, len(a.last.Rails))}
	if g.Round != a.last.Round || len(g.Addresses) != len(a.last.Rails) {
		out.Error = fmt.Sprintf("asked to run round %d after preparing round %d", g.Round, a.last.Round)
		return out
	}
	errs := make([]error, len(a.last.Rails))
	a.each(len(a.last.Rails), func(i int) {
		out.Rails[i], errs[i] = a.workers[a.last.Rails[i]].Go(ctx, g, i)
	})
	if err := errors.Join(errs...); err != nil {
		out.Error = err.Error()
	}
	return out
}
