package native

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/gobw/gobw/internal/plan"
)

// Handover is a session between two processes: who the client is, what it wants, and what it has sent beyond that.
type Handover struct {
	Program string        `json:"program"`
	Pace    time.Duration `json:"pace_ns"` // of heartbeats
	Plan    *plan.Spec    `json:"plan"`
	Unread  []byte        `json:"unread,omitempty"`
}

// AwaitPlan waits at a server for the client's first plan, which [Session.Propose] will accept. Nothing more is read
// before that, so that the session can be handed over. It returns nil, nil where the client leaves without one.
func (s *Session) AwaitPlan(ctx context.Context, limit time.Duration) (*plan.Spec, error) {
	s.setDoing("waiting for the client's plan")
	p, err := s.receivePlan(ctx, limit)
	s.pending = p
	return p, err
}

// Wait is how long the client bears to be kept waiting while others are served.
func (s *Session) Wait() time.Duration { return s.wait }

// Turnaway answers a client that cannot be served now.
func (s *Session) Turnaway(why string) { _ = s.finish(Message{Kind: KindBusy, Error: why}) }

// Handover ends this process's part of a session whose plan [Session.AwaitPlan] has returned. The connection stays open.
func (s *Session) Handover() (h Handover, conn net.Conn, release func(), err error) {
	if s.pending == nil {
		return h, nil, nil, errors.New("a session is handed over with its plan")
	}
	s.end.Do(func() { close(s.stop) })
	s.wg.Wait()
	select {
	case <-s.dead:
		_ = s.Conn.Close()
		s.o.Release()
		return h, nil, nil, s.why
	default:
	}
	unread := make([]byte, s.r.Buffered())
	_, err = io.ReadFull(s.r, unread)
	return Handover{Program: s.program, Pace: s.interval, Plan: s.pending, Unread: unread}, s.Conn, s.o.Release, err
}

// Resume continues a session that another process handed over. It owns the connection.
func Resume(conn net.Conn, h Handover, o Options) *Session {
	s := newSession(&readFirst{Conn: conn, first: h.Unread}, o)
	s.program, s.pending, s.interval = h.Program, h.Plan, h.Pace
	s.begin()
	return s
}

// readFirst is a connection of which something has been read already.
type readFirst struct {
	net.Conn
	first []byte
}

func (c *readFirst) Read(b []byte) (int, error) {
	if len(c.first) > 0 {
		n := copy(b, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.Conn.Read(b)
}

// CloseWrite tells the peer that nothing more will come.
func (c *readFirst) CloseWrite() error {
	if w, can := c.Conn.(interface{ CloseWrite() error }); can {
		return w.CloseWrite()
	}
	return nil
}

// receivePlan waits at a server for a plan that may be run.
func (s *Session) receivePlan(ctx context.Context, limit time.Duration) (*plan.Spec, error) {
	m, err := s.receive(ctx, limit)
	switch {
	case err != nil:
		return nil, err
	case m.Kind == kindBye:
		return nil, nil
	case m.Kind != KindPropose || m.Plan == nil:
		return nil, s.protest(fmt.Sprintf("%.20q message where a plan was due", m.Kind))
	}
	if s.o.Admit != nil {
		if err := s.o.Admit(m.Plan); err != nil {
			return nil, err
		}
	}
	return m.Plan, nil
}

// paceFor is the interval of heartbeats for a peer that bears silence for so long, at most as long as this end does.
func (s *Session) paceFor(peerMs int64) time.Duration {
	all := []time.Duration{s.o.Timeouts.Peer}
	if peerMs > 0 && peerMs < int64(time.Hour/time.Millisecond) {
		all = append(all, time.Duration(peerMs)*time.Millisecond)
	}
	return Interval(slices.Min(all))
}
