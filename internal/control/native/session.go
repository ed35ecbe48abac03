// Package native is our own dialect of the control session: what a test says in a framed session.
package native

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/frame"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
)

// Version is the version of our dialect that this code speaks.
const Version = 1

// CheckVersion compares the versions of our dialect at both ends.
func CheckVersion(server, client int) error {
	if server == client {
		return nil
	}
	return fmt.Errorf("the server speaks gobw/%d, the client gobw/%d: upgrade the older one", server, client)
}

// Kinds of message, in the order of a test.
const (
	KindPropose   = "propose" // a Spec; the server answers with "plan"
	kindPlan      = "plan"
	kindFacts     = "facts"
	KindAddresses = "addresses"
	kindSync      = "sync"
	kindReport    = "report"
)

// Bounds of one message, in bytes. Before a plan is granted nothing longer than one is read.
const (
	MaxPlanBytes    = 64 << 10
	maxFactsBytes   = 1 << 20 // with the environment
	maxAddressBytes = 512     // each queue pair's
	maxReportBytes  = 8 << 20 // a record with its histogram and series
)

// Session speaks our dialect. Methods belong to one goroutine, except Watch and Sync, which may run at once.
type Session struct {
	*frame.Session
	o    control.Options
	plan *plan.Spec
}

// NewSession starts a session on a connection whose first messages were exchanged. It owns the connection.
func NewSession(conn net.Conn, o control.Options) *Session { return Resume(conn, frame.Handover{}, o) }

// Resume continues a session that another process handed over. It owns the connection.
func Resume(conn net.Conn, h frame.Handover, o control.Options) *Session {
	f := frame.Options{Dialled: o.Dialled, Bears: o.Timeouts.Peer, Token: o.Token, From: h}
	return &Session{Session: frame.New(conn, f), o: o.WithDefaults()}
}

// Dialect is [Ours].
func (s *Session) Dialect() control.Dialect { return control.Ours }

// Introduce exchanges the hello messages: who the ends are and how much silence they bear.
func (s *Session) Introduce(ctx context.Context) error {
	_, err := s.Meet(ctx, frame.Hello{Program: s.o.Program, WaitMs: s.o.Wait.Milliseconds()}, s.o.Timeouts.Hello)
	if _, misunderstood := errors.AsType[*control.FormatError](err); misunderstood {
		return &control.VersionError{Peer: s.Conn.RemoteAddr(), Own: s.o.Program, Err: err}
	}
	return err
}

// AwaitPlan waits, at the server, until the beginning of a plan has come. [Session.Propose] reads it.
func (s *Session) AwaitPlan(ctx context.Context, limit time.Duration) error {
	s.Doing("waiting for the client's plan")
	return s.Await(ctx, limit)
}

// AwaitFacts waits, at the server, until the client's facts have come. [Session.Facts] reads them.
func (s *Session) AwaitFacts(ctx context.Context) error {
	s.Doing("waiting for the client's facts")
	defer s.o.Waiting(false)()
	return s.Await(ctx, s.o.Timeouts.Phase)
}

// Propose sends the client's plan, or waits for it at the server.
func (s *Session) Propose(ctx context.Context, p *plan.Spec) (*plan.Spec, error) {
	if s.o.Dialled {
		s.Doing("proposing the plan")
		if err := s.Send(KindPropose, p); err != nil {
			return nil, err
		}
		agreed, err := frame.Expect[plan.Spec](ctx, s.Session, kindPlan, MaxPlanBytes, s.o.Timeouts.Phase+s.o.Wait)
		s.plan = &agreed
		return s.plan, err
	}
	s.Doing("waiting for the client's plan")
	over := s.o.Waiting(false)
	m, err := s.Receive(ctx, MaxPlanBytes, s.o.Timeouts.Phase)
	over()
	switch {
	case err != nil:
		return nil, err
	case m.Kind == frame.KindBye:
		return nil, nil
	case m.Kind != KindPropose:
		return nil, s.Protest("%.20q message where a plan was due", m.Kind)
	}
	asked, err := frame.Decode[plan.Spec](m)
	if err == nil {
		err = s.o.Admit(&asked)
	}
	if err == nil {
		err = s.Send(kindPlan, asked)
	}
	if err != nil {
		return nil, err
	}
	s.plan = &asked
	return s.plan, nil
}

// swap sends a message and waits at a phase for the peer's of the same kind, of at most so many bytes.
func swap[T any](ctx context.Context, s *Session, kind string, local T, most int, phase control.Phase) (remote T,
	err error,
) {
	if err := s.Send(kind, local); err != nil {
		return remote, err
	}
	defer s.o.Waiting(phase == control.PhaseDone)()
	return frame.Expect[T](ctx, s.Session, kind, most, s.o.Timeouts.ForPhase(phase, s.plan))
}

// Facts exchanges what the two systems are. The server answers once it has a slot for the client.
func (s *Session) Facts(ctx context.Context, local control.Facts) (remote control.Facts, err error) {
	s.Doing("exchanging facts")
	if err := s.Send(kindFacts, local); err != nil {
		return remote, err
	}
	limit, most := s.o.Timeouts.Phase, maxFactsBytes
	if s.o.Dialled {
		limit += s.o.Wait
	} else if n := s.plan.Noncontig; n != nil && n.Descriptors != nil { // in base64
		most += n.Descriptors.PackedBytes * 3 / 2
		limit = s.o.Timeouts.ForPhase(control.PhaseJoined, s.plan)
	}
	defer s.o.Waiting(false)()
	return frame.Expect[control.Facts](ctx, s.Session, kindFacts, most, limit)
}

// Exchange swaps addresses.
func (s *Session) Exchange(ctx context.Context, local []control.Address) ([]control.Address, error) {
	s.Doing("exchanging addresses")
	remote, err := swap(ctx, s, KindAddresses, local, frame.Short+maxAddressBytes*len(local), control.PhaseJoined)
	if err != nil {
		return nil, err
	}
	if len(remote) != len(local) {
		return nil, s.Protest("%d addresses, this end has %d queue pairs", len(remote), len(local))
	}
	for i, a := range remote {
		if what := a.Impossible(); what != "" {
			return nil, s.Protest("address %d is impossible: %s", i, what)
		}
	}
	return remote, nil
}

// meeting is where an end is in the order of a test.
type meeting struct {
	Phase string `json:"phase"`
	Size  int    `json:"size"`
	Last  bool   `json:"last"`
}

// Sync meets the peer at a phase.
func (s *Session) Sync(ctx context.Context, phase control.Phase, size int, last bool) error {
	here := meeting{phase.String(), size, last}
	s.Doing("waiting for the peer to be " + here.Phase)
	there, err := swap(ctx, s, kindSync, here, frame.Short, phase)
	if err != nil {
		return err
	}
	if there != here {
		return s.Protest("it is at %.20s %d, this end at %s %d", there.Phase, there.Size, here.Phase, here.Size)
	}
	if phase == control.PhaseReady {
		s.Doing("measuring")
	}
	return nil
}

// Report swaps figures.
func (s *Session) Report(ctx context.Context, local control.Figures) (control.Figures, error) {
	s.Doing("exchanging figures")
	return swap(ctx, s, kindReport, local, maxReportBytes, control.PhaseReady)
}

// Fail tells the peer why this end gives up, and closes.
func (s *Session) Fail(err error) {
	s.finish(frame.Message{
		Kind: frame.KindError, Error: err.Error(), Cause: control.CauseOf(err), Fix: verbs.RemedyOf(err),
	})
}

// Turnaway answers a client that cannot be served now.
func (s *Session) Turnaway(why string) { s.finish(frame.Message{Kind: frame.KindBusy, Error: why}) }

// Close says goodbye and closes.
func (s *Session) Close() error {
	s.finish(frame.Message{Kind: frame.KindBye})
	return nil
}

func (s *Session) finish(m frame.Message) {
	s.o.Release()
	s.End(m)
}
