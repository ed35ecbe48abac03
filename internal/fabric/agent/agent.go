package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/frame"
	"github.com/gobw/gobw/internal/fabric"
)

// Worker measures on one device.
type Worker interface {
	// Do does what an order for one rail asks. What failed is in the answer.
	Do(ctx context.Context, o fabric.Order) fabric.Rail
	// Close ends the worker.
	Close() error
}

// Config is one agent.
type Config struct {
	Hello      fabric.Hello
	Version    string
	Key        []byte
	Rendezvous []string      // host:port of rank 0, the likeliest first
	Wait       time.Duration // until rank 0 must have been found
	Worker     func(rail int) Worker
	Note       func(string) // told what is waited for, and that rank 0 was found; nil: nobody
	// Dial connects to an address; nil: over TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

const (
	dialWithin = 2 * time.Second
	again      = 250 * time.Millisecond // between attempts
	tellEvery  = 10 * time.Second
)

// OrphanError is an agent that has lost rank 0.
type OrphanError struct{ Err error }

func (e *OrphanError) Error() string { return fmt.Sprintf("rank 0 is lost: %v", fabric.Ended(e.Err)) }
func (e *OrphanError) Unwrap() error { return e.Err }

// Join takes part in a run until rank 0 says that it is over, and returns its parting words.
func Join(ctx context.Context, cfg Config) (string, error) {
	if cfg.Dial == nil {
		d := net.Dialer{Timeout: dialWithin}
		cfg.Dial = func(ctx context.Context, address string) (net.Conn, error) { return d.DialContext(ctx, "tcp", address) }
	}
	s, err := find(ctx, cfg)
	if err != nil {
		return "", err
	}
	return (&agent{cfg: cfg, session: s, workers: map[int]Worker{}}).run(ctx)
}

type agent struct {
	cfg     Config
	session *frame.Session
	workers map[int]Worker // by rail
}

// find dials the addresses in turn until rank 0 of this run answers. A refusal does not end the search: rank 0 of
// another run may be at that address.
func find(ctx context.Context, cfg Config) (*frame.Session, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.Wait,
		fmt.Errorf("rank 0 did not accept this rank within %v", cfg.Wait))
	defer cancel()
	var last error
	told := time.Now().Add(fabric.TellAfter - tellEvery) // so the first note comes after TellAfter
	for {
		for i, address := range cfg.Rendezvous {
			s, err := meetRankZero(ctx, cfg, address)
			if err == nil {
				fabric.Say(cfg.Note, "found rank 0 at %s", address)
				return s, nil
			}
			if ctx.Err() != nil && last != nil { // an attempt that was cut short says nothing
				break
			}
			// The notes name the likeliest address, or one where something answered.
			if _, answered := errors.AsType[*strangerError](err); i == 0 || answered {
				last = explain(address, err)
			}
		}
		if now := time.Now(); now.Sub(told) > tellEvery {
			told = now
			fabric.Say(cfg.Note, "waiting for rank 0: %v", last)
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", context.Cause(ctx), last)
		}
	}
}

// strangerError says that an address took the connection, but did not prove to be rank 0 of this run.
type strangerError struct{ err error }

func (e *strangerError) Error() string { return e.err.Error() }
func (e *strangerError) Unwrap() error { return e.err }

func meetRankZero(ctx context.Context, cfg Config, address string) (*frame.Session, error) {
	conn, err := cfg.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	s := frame.New(conn, frame.Options{Dialled: true, Bears: fabric.OrphanAfter, Token: cfg.Key})
	more, err := json.Marshal(cfg.Hello)
	if err == nil {
		_, err = s.Meet(ctx, frame.Hello{Program: cfg.Version, More: more}, 2*dialWithin)
	}
	if err != nil {
		s.Abandon()
		return nil, &strangerError{err}
	}
	return s, nil
}

// explain says what is likely wrong with the address of a failed attempt. Many systems give their own name a loopback
// address. If the name of rank 0's host resolves to one, this agent has dialled its own host.
func explain(address string, err error) error {
	if unknown, is := errors.AsType[*net.DNSError](err); is {
		return fmt.Errorf("%s: %w: correct DNS or /etc/hosts, or give the address of rank 0 by --coordinator",
			address, unknown)
	}
	dialled, is := errors.AsType[*net.OpError](err)
	host, _, _ := net.SplitHostPort(address)
	// literal is nil if the host is an address: only a name can resolve to a wrong one.
	if _, literal := netip.ParseAddr(host); is && literal != nil && dialled.Addr != nil {
		at, e := netip.ParseAddrPort(dialled.Addr.String())
		switch {
		case e == nil && at.Addr().IsLoopback():
			return fmt.Errorf("%s: %w: here this name is this host itself; give the address of rank 0 by --coordinator",
				address, err)
		case errors.Is(err, syscall.ECONNREFUSED):
			return fmt.Errorf("%s: %w: rank 0 is not running there, or its name resolves to another host", address, err)
		}
	}
	if said, refused := errors.AsType[*control.PeerError](err); refused {
		return fmt.Errorf("%s refuses this rank: %s", address, control.Bounded(said.Message))
	}
	if _, answered := errors.AsType[*strangerError](err); answered {
		return fmt.Errorf("%s: %w: another run may be there, its secret may differ, or its name may resolve to another host",
			address, err)
	}
	return fmt.Errorf("%s: %w", address, err)
}

// partingTime is how long a stopped agent still waits for the parting words of rank 0. A cancelled job signals all
// ranks at once; if the agents left first, rank 0 would save a run that lost its hosts, not one that was stopped.
const partingTime = 2 * time.Second

// run does what rank 0 asks, one thing after another, until rank 0 says that the run is over. If rank 0 is lost, the
// work under way ends too.
func (a *agent) run(stopped context.Context) (string, error) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(stopped))
	defer context.AfterFunc(stopped, func() {
		time.AfterFunc(partingTime, func() { cancel(context.Cause(stopped)) })
	})()
	here, done := a.session.Watch(ctx)
	defer func() {
		done()
		cancel(nil)
		a.session.Abandon()
		for _, w := range a.workers {
			_ = w.Close()
		}
	}()
	for {
		m, err := a.session.Receive(ctx, fabric.MostBytes, 0)
		said, refused := errors.AsType[*control.PeerError](err)
		switch {
		case refused:
			return "", fmt.Errorf("rank 0 refuses this rank: %s", control.Bounded(said.Message))
		case ctx.Err() != nil:
			a.session.End(frame.Message{Kind: frame.KindError, Error: "it was stopped there: " + context.Cause(ctx).Error()})
			return "", context.Cause(ctx)
		case err == nil && m.Kind == frame.KindBye:
			return control.Bounded(m.Error), nil
		}
		var o fabric.Orders
		if err == nil {
			o, err = frame.Decode[fabric.Orders](m)
		}
		if err != nil {
			return "", &OrphanError{err}
		}
		if answer := a.do(here, o); here.Err() == nil {
			_ = a.session.Send(fabric.KindAnswer, answer) // if that fails, the next Receive says why
		}
	}
}

// do does what rank 0 asks, on all rails at once. It does nothing if a rail is out of bounds or named twice.
func (a *agent) do(ctx context.Context, o fabric.Orders) (out fabric.Answer) {
	if !o.Possible() {
		return out
	}
	out.Rails = make([]fabric.Rail, len(o.Rails))
	var wg sync.WaitGroup
	for i, order := range o.Rails {
		w := a.workers[order.Rail]
		if w == nil {
			w = a.cfg.Worker(order.Rail)
			a.workers[order.Rail] = w
		}
		wg.Go(func() {
			r := w.Do(ctx, order)
			r.Error = control.Bounded(r.Error) // rank 0 refuses an answer that is too long
			out.Rails[i] = r
		})
	}
	wg.Wait()
	return out
}
