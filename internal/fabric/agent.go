package fabric

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/frame"
)

// Worker measures on one device.
type Worker interface {
	// Open opens the device; the rail holds the error, if any.
	Open(ctx context.Context, o OpenOrder, rail int) Rail
	// Prepare makes a round's flows and returns the addresses of each.
	Prepare(ctx context.Context, p PrepareOrder) ([][]control.Address, error)
	// Go runs them.
	Go(ctx context.Context, g GoOrder, rail int) ([]Flow, error)
	// Close ends the worker.
	Close() error
}

// AgentConfig is one agent.
type AgentConfig struct {
	Hello   Hello
	Version string
	Key     []byte
	Places  []string      // host:port of rank 0, the likeliest first
	Wait    time.Duration // until rank 0 must have been found
	Facts   func() Facts
	Worker  func(rail int) Worker
	// Dial connects to a place; nil: over TCP.
	Dial func(ctx context.Context, place string) (net.Conn, error)
	skew time.Duration // of this host's clock, in tests
}

const (
	orphanAfter = 20 * time.Second // without a word of the other end a connection is given up
	dialWithin  = 2 * time.Second
	again       = 50 * time.Millisecond // between attempts
)

// OrphanError is an agent that has lost rank 0.
type OrphanError struct{ Err error }

func (e *OrphanError) Error() string { return fmt.Sprintf("rank 0 is lost: %v", e.Err) }
func (e *OrphanError) Unwrap() error { return e.Err }

// RefusedError is a rank 0 that does not want this agent.
type RefusedError struct{ Why string }

func (e *RefusedError) Error() string { return "rank 0 refuses this rank: " + e.Why }

// Join takes part in a run until rank 0 says that it is over, and returns its parting words. The error of an agent that rank 0 sends
// away is a [RefusedError].
func Join(ctx context.Context, cfg AgentConfig) (string, error) {
	if cfg.Dial == nil {
		d := net.Dialer{Timeout: dialWithin}
		cfg.Dial = func(ctx context.Context, place string) (net.Conn, error) { return d.DialContext(ctx, "tcp", place) }
	}
	s, err := find(ctx, cfg)
	if err != nil {
		return "", err
	}
	a := &agent{cfg: cfg, session: s, work: make(chan frame.Message, 4)}
	return a.run(ctx)
}

type agent struct {
	cfg     AgentConfig
	session *frame.Session
	work    chan frame.Message
	workers []Worker
	last    PrepareOrder
}

// find dials the places in turn until one answers that belongs to this run. What is said there before the proof is anybody's word:
// another run may have its rank 0 at that place, and refuse this agent.
func find(ctx context.Context, cfg AgentConfig) (*frame.Session, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.Wait, fmt.Errorf("rank 0 was not found within %v", cfg.Wait))
	defer cancel()
	var last error
	for {
		for i, place := range cfg.Places {
			s, err := meetRankZero(ctx, cfg, place)
			if err == nil {
				return s, nil
			}
			_, answered := errors.AsType[*strangerError](err)
			if over := ctx.Err() != nil; last == nil || !over && (i == 0 || answered) {
				last = explain(place, err)
			} else if over {
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

// strangerError is a place where somebody answers who is not this run's rank 0.
type strangerError struct{ err error }

func (e *strangerError) Error() string { return e.err.Error() }
func (e *strangerError) Unwrap() error { return e.err }

func meetRankZero(ctx context.Context, cfg AgentConfig, place string) (*frame.Session, error) {
	conn, err := cfg.Dial(ctx, place)
	if err != nil {
		return nil, err
	}
	s := frame.New(conn, frame.Options{Dialled: true, Bears: orphanAfter, Token: cfg.Key})
	h := cfg.Hello
	h.Now = time.Now().Add(cfg.skew)
	more, err := json.Marshal(h)
	if err == nil {
		_, err = s.Meet(ctx, frame.Hello{Program: cfg.Version, More: more}, 2*dialWithin)
	}
	if err != nil {
		s.Abandon()
		return nil, &strangerError{err}
	}
	return s, nil
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
	if _, answered := errors.AsType[*strangerError](err); answered {
		return fmt.Errorf("%s: %w: another run may be there, its secret may differ, or its name may resolve to another host", place, err)
	}
	return fmt.Errorf("%s: %w", place, err)
}

func (a *agent) run(ctx context.Context) (string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	defer a.session.Abandon()
	wg.Go(func() { a.listen(ctx, cancel) })
	defer func() {
		for _, w := range a.workers {
			_ = w.Close()
		}
	}()
	for {
		select {
		case m := <-a.work:
			kind, answer, err := a.do(ctx, m)
			if err == nil && ctx.Err() == nil {
				err = a.session.Send(kind, answer)
			}
			if err != nil {
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

// listen takes what rank 0 says. Bye ends a measurement that is under way, too.
func (a *agent) listen(ctx context.Context, cancel context.CancelCauseFunc) {
	for {
		m, err := a.session.Receive(ctx, mostOrder, 0)
		said, refused := errors.AsType[*control.PeerError](err)
		switch {
		case refused:
			cancel(&RefusedError{control.Bounded(said.Message)})
		case err != nil:
			cancel(&OrphanError{err})
		case m.Kind == frame.KindBye:
			cancel(errBye(control.Bounded(m.Error)))
		default:
			select {
			case a.work <- m:
				continue
			default:
				cancel(&OrphanError{errors.New("rank 0 asks for more than one thing at a time")})
			}
		}
		return
	}
}

// errBye is the end of a run, as rank 0 told it.
type errBye string

func (e errBye) Error() string { return string(e) }

// do does what rank 0 asks and returns the answer.
func (a *agent) do(ctx context.Context, m frame.Message) (kind string, answer any, err error) {
	switch m.Kind {
	case kindOpen:
		o, err := frame.Decode[OpenOrder](m)
		if err == nil && len(o.Rails) > mostRails {
			err = fmt.Errorf("it wants %d devices opened, the most are %d", len(o.Rails), mostRails)
		}
		if err != nil {
			return "", nil, err
		}
		return kindFacts, a.open(ctx, o), nil
	case kindPrepare:
		p, err := frame.Decode[PrepareOrder](m)
		if err != nil {
			return "", nil, err
		}
		return kindPrepared, a.prepare(ctx, p), nil
	case kindGo:
		g, err := frame.Decode[GoOrder](m)
		if err != nil {
			return "", nil, err
		}
		return kindResult, a.measure(ctx, g), nil
	}
	return "", nil, fmt.Errorf("an order %.20q that nobody knows", m.Kind)
}

func (a *agent) open(ctx context.Context, o OpenOrder) Facts {
	f := a.cfg.Facts()
	f.Rails = make([]Rail, len(o.Rails))
	a.each(len(o.Rails), func(i int) {
		f.Rails[i] = a.workers[i].Open(ctx, o, i)
	})
	return f
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

// known refuses rails that were not opened, and one that is there twice: its worker does one thing at a time.
func (a *agent) known(rails []int) error {
	for i, r := range rails {
		if r < 0 || r >= len(a.workers) || slices.Contains(rails[:i], r) {
			return fmt.Errorf("rails %v: each of the %d that were opened may be there once", rails[:i+1], len(a.workers))
		}
	}
	return nil
}

func (a *agent) prepare(ctx context.Context, p PrepareOrder) Prepared {
	out := Prepared{Round: p.Round, Addresses: make([][][]control.Address, len(p.Rails))}
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

func (a *agent) measure(ctx context.Context, g GoOrder) Result {
	out := Result{Round: g.Round, Rails: make([][]Flow, len(a.last.Rails))}
	if g.Round != a.last.Round || len(g.Addresses) != len(a.last.Rails) || !g.bounded() {
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
