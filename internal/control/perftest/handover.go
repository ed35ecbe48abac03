package perftest

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
)

// Handover is a session between two processes: what the client and this server have agreed on.
type Handover struct {
	Peer       Version       `json:"peer"`
	Mine       Version       `json:"mine"`
	Gbits      bool          `json:"gbits"`
	Negotiates bool          `json:"negotiates"`
	Plan       *plan.Spec    `json:"plan"`
	Facts      control.Facts `json:"facts"` // the client's
	Unread     []byte        `json:"unread,omitempty"`
}

// AwaitPlan does at a server what comes before queue pairs: it answers the version, swaps facts, and learns the plan from a
// client that tells it. [Session.Propose] and [Session.Facts] then return what is known.
func (s *Session) AwaitPlan(ctx context.Context, told *plan.Spec, limit time.Duration) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, control.ErrSilent)
	defer cancel()
	p, err := s.Propose(ctx, told)
	if err != nil {
		return nil, err
	}
	if s.settled == nil {
		local, err := s.o.Facts()
		if err != nil {
			return nil, err
		}
		remote, err := s.Facts(ctx, local)
		if err != nil {
			return nil, err
		}
		s.settled = &remote
	}
	s.pending = p
	return json.Marshal(p)
}

// Handover ends this process's part of a session whose plan [Session.AwaitPlan] has returned. The connection stays open.
func (s *Session) Handover() (h Handover, err error) {
	if s.pending == nil || s.closed {
		return h, errors.New("a session is handed over with its plan")
	}
	s.closed = true
	_ = s.Conn.SetReadDeadline(time.Unix(1, 0))
	s.in.wg.Wait()
	_ = s.Conn.SetReadDeadline(time.Time{})
	var timeout net.Error
	if !errors.As(s.in.err, &timeout) || !timeout.Timeout() {
		_ = s.Conn.Close()
		return h, s.explain(context.Background(), "waiting for its turn", s.in.err)
	}
	return Handover{
		Peer: s.o.Peer, Mine: s.o.Mine, Gbits: s.Gbits(), Negotiates: s.negotiates, Plan: s.pending, Facts: *s.settled, Unread: s.in.buf,
	}, nil
}

// Resume continues a session that another process handed over. It owns the connection.
func Resume(conn net.Conn, h Handover, timeouts control.Timeouts) *Session {
	s := &Session{
		Ends: control.Ends{Conn: conn}, in: newStream(conn, h.Unread...), unit: unitOf(h.Gbits),
		o:          Setup{Timeouts: timeouts, Peer: h.Peer, Mine: h.Mine, Gbits: h.Gbits},
		negotiates: h.Negotiates, settled: &h.Facts, pending: h.Plan,
	}
	s.adopt(h.Plan)
	return s
}
