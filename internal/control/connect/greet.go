package connect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/admission"
	"github.com/gobw/gobw/internal/control/frame"
	"github.com/gobw/gobw/internal/control/native"
	"github.com/gobw/gobw/internal/control/perftest"
	"github.com/gobw/gobw/internal/plan"
)

// ourHello is this end's first message to a client of ours.
func ourHello() []byte { return perftest.Hello{Version: "6.27", Ours: native.Version}.Encode() }

// greet turns a connection into a session, or tells the client why not.
func (l *Listener) greet(v *admission.Visitor) {
	_ = v.Conn.SetDeadline(time.Now().Add(l.o.Timeouts.Hello))
	if l.ctx.Err() != nil { // shut may have missed this connection's deadline
		_ = v.Conn.Close()
		return
	}
	theirs, peer, err := l.readHello(v.Conn)
	if err != nil {
		l.drop(v, err)
		return
	}
	l.visitors.Advance(v, admission.Greeted)
	_ = v.Conn.SetDeadline(time.Time{})
	marked := theirs.Ours > 0 && !l.o.Perftest.NoMarker && l.o.RDMA == nil
	if !marked && peer < perftest.VersionOldest {
		l.drop(v, fmt.Errorf("it is perftest %s; versions below %s speak another protocol", theirs.Version, perftest.VersionOldest))
		return
	}
	if !marked && l.o.Token != nil {
		l.drop(v, errors.New("perftest cannot prove the token"))
		return
	}
	var s control.Session
	if l.o.Plans {
		s, err = l.sessionWithPlan(v, theirs, peer, marked)
	} else {
		s, err = l.sessionAtOnce(v, theirs, peer, marked)
	}
	switch {
	case err != nil:
		l.drop(v, err)
		return
	case s == nil: // it was told, or has been served
		return
	}
	l.visitors.Leave(v) // it has a slot: closing the listener leaves it alone
	select {
	case l.sessions <- s:
		if l.o.Once {
			l.shut(nil)
		}
	case <-l.ctx.Done():
		_ = s.Close()
	}
}

// drop closes a connection and says why in the log.
func (l *Listener) drop(v *admission.Visitor, err error) {
	l.o.Log.Warn("client dropped", "client", v.From, "err", control.Bounded(err.Error()))
	_ = v.Conn.Close()
}

// readHello reads perftest's first message, in which our dialect hides.
func (l *Listener) readHello(conn net.Conn) (perftest.Hello, perftest.Version, error) {
	var b [perftest.HelloBytes]byte
	if n, err := io.ReadFull(conn, b[:]); err != nil {
		return perftest.Hello{}, 0, fmt.Errorf("it sent %d of the first message's %d bytes: %w", n, perftest.HelloBytes, err)
	}
	theirs, err := perftest.ParseHello(b[:])
	if err != nil {
		return theirs, 0, fmt.Errorf("it speaks neither perftest's dialect nor ours: %w", err)
	}
	peer, err := perftest.ParseVersion(theirs.Version)
	return theirs, peer, err
}

// sessionAtOnce gives the slot to a client that has greeted: for a server that is started for one client.
func (l *Listener) sessionAtOnce(v *admission.Visitor, theirs perftest.Hello, peer perftest.Version, marked bool) (control.Session, error) {
	release := l.takeWithin(l.ctx, v, l.o.Timeouts.Parting, func(why string) {
		if marked {
			if _, err := v.Conn.Write(ourHello()); err == nil {
				frame.Farewell(v.Conn, frame.Message{Kind: frame.KindBusy, Error: why}, l.o.Timeouts.Peer)
			}
		}
		_ = v.Conn.Close()
	})
	if release == nil {
		return nil, nil //nolint:nilnil // it was told
	}
	s, err := l.session(v.Conn, theirs, peer, marked, release)
	if err != nil {
		release()
		return nil, err
	}
	return s, nil
}

// sessionWithPlan gives the slot to a client whose plan may be run.
func (l *Listener) sessionWithPlan(v *admission.Visitor, theirs perftest.Hello, peer perftest.Version, marked bool) (control.Session, error) {
	release := func() {} // until there is a slot
	s, err := l.session(v.Conn, theirs, peer, marked, func() { release() })
	if err != nil {
		return nil, err
	}
	c := &Client{Session: s, l: l, v: v, patience: l.o.Timeouts.Parting, turnAway: func(string) { _ = s.Close() }}
	switch s := s.(type) {
	case *native.Session:
		c.Plan, err = s.AwaitPlan(l.ctx, l.o.Timeouts.Plan)
		c.patience, c.turnAway = max(c.patience, s.Wait()), s.Turnaway
	case *perftest.Session:
		c.Plan, err = s.AwaitPlan(l.ctx, l.o.Told, l.o.Timeouts.Plan)
	}
	if err == nil && c.Plan == nil {
		l.o.Log.Info("client left without a test", "client", v.From)
		return nil, s.Close()
	}
	l.visitors.Advance(v, admission.Waiting)
	if err == nil && l.o.Serve != nil {
		l.o.Serve(l.ctx, c)
		return nil, nil //nolint:nilnil // it has been served
	}
	if err == nil {
		err = l.judge(s.Dialect(), c.Plan)
	}
	if err != nil {
		c.Refuse(err)
		return nil, nil //nolint:nilnil // it was told
	}
	got := l.takeWithin(l.ctx, v, c.patience, c.turnAway)
	if got == nil {
		return nil, nil //nolint:nilnil // it was told
	}
	release = got
	return s, nil
}

// judge refuses a plan that may not be run, in this process.
func (l *Listener) judge(dialect control.Dialect, text json.RawMessage) error {
	if l.o.Admit == nil {
		return nil
	}
	p, err := ReadPlan(dialect, text)
	if err != nil {
		return err
	}
	return l.o.Admit(p)
}

// ReadPlan reads a client's plan, which came as a [Client] has it.
func ReadPlan(dialect control.Dialect, text json.RawMessage) (*plan.Spec, error) {
	if dialect == control.Perftest {
		return perftest.PlanOf(text)
	}
	p, err := frame.Decode[plan.Spec](frame.Message{Kind: native.KindPropose, Body: text})
	return &p, err
}

// takeWithin is a slot, or nil for a client that was turned away.
func (l *Listener) takeWithin(ctx context.Context, v *admission.Visitor, patience time.Duration, turnAway func(why string)) (release func()) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	release, busy := l.slots.take(ctx, v.From)
	if release == nil {
		l.o.Log.Info("client turned away", "client", v.From, "why", busy)
		turnAway(busy)
	}
	return release
}

// session answers the first message in the dialect that both ends speak.
func (l *Listener) session(conn net.Conn, theirs perftest.Hello, peer perftest.Version, marked bool, release func()) (control.Session, error) {
	if !marked {
		setup := perftest.Setup{
			Timeouts: l.o.Timeouts, Peer: peer, Gbits: l.o.Perftest.Gbits, Facts: l.o.LocalFacts, Release: release,
			Admit: l.o.Admit, Rdma: l.o.RDMA != nil,
		}
		if l.o.Perftest.Version != "" {
			setup.Mine, _ = perftest.ParseVersion(l.o.Perftest.Version)
		}
		return perftest.NewSession(conn, setup), nil
	}
	_ = conn.SetWriteDeadline(time.Now().Add(l.o.Timeouts.Peer))
	if _, err := conn.Write(ourHello()); err != nil {
		return nil, err
	}
	if err := native.CheckVersion(theirs.Ours, "client"); err != nil {
		frame.Farewell(conn, frame.Message{Kind: frame.KindError, Error: fmt.Sprintf(
			"the server speaks gobw/%d, the client gobw/%d: upgrade the older one", native.Version, theirs.Ours)}, l.o.Timeouts.Peer)
		return nil, err
	}
	s := native.NewSession(conn, native.Options{
		Timeouts: l.o.Timeouts, Program: l.o.Program, Token: l.o.Token, Admit: l.o.Admit, Release: release,
	})
	if err := s.Introduce(l.ctx); err != nil {
		if errors.Is(err, control.ErrPeerLost) {
			s.Abandon()
		} else {
			s.Fail(err)
		}
		return nil, err
	}
	return s, nil
}
