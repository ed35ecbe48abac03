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

// Handover is a session between two processes: what the client and this server have agreed on, and what the client asks for.
type Handover struct {
	Peer       Version       `json:"peer"`
	Mine       Version       `json:"mine"`
	Gbits      bool          `json:"gbits"`
	Negotiates bool          `json:"negotiates"`
	Asked      asked         `json:"asked"`
	Facts      control.Facts `json:"facts"` // the client's
	Unread     []byte        `json:"unread,omitempty"`
}

// asked is what a client wants, as it came. Nobody has read it.
type asked struct {
	Told       *plan.Spec    `json:"told,omitempty"`       // what clients of this server want
	Parameters []byte        `json:"parameters,omitempty"` // of a client that negotiates
	Local      control.Facts `json:"local"`                // what this end is
}

// PlanOf reads what [Session.AwaitPlan] has taken.
func PlanOf(text json.RawMessage) (*plan.Spec, error) {
	var a asked
	if err := json.Unmarshal(text, &a); err != nil || a.Told != nil {
		return a.Told, err
	}
	theirs, err := ParseNegotiation(a.Parameters)
	if err != nil {
		return nil, err
	}
	return theirs.plan()
}

// AwaitPlan does at a server what comes before queue pairs, and reads no plan: it answers the version, swaps page size, cache line and
// MTU, and takes the parameters of a client that negotiates. [PlanOf] reads what it returns, [Session.Propose] goes on with it.
func (s *Session) AwaitPlan(ctx context.Context, told *plan.Spec, limit time.Duration) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, control.ErrSilent)
	defer cancel()
	if err := s.answerVersion(told); err != nil {
		return nil, err
	}
	a := asked{Told: told}
	var err error
	if a.Local, err = s.o.Facts(); err != nil {
		return nil, err
	}
	remote, err := s.preamble(ctx, a.Local)
	if err == nil && s.negotiates {
		a.Parameters, err = s.takeParameters(ctx)
	}
	if err != nil {
		return nil, err
	}
	s.settled, s.asked = &remote, &a
	return json.Marshal(a)
}

// proceed answers what [Session.AwaitPlan] has taken.
func (s *Session) proceed(a *asked) (*plan.Spec, error) {
	p := a.Told
	if s.negotiates {
		theirs, learned, err := s.answerParameters(a.Parameters, p, a.Local, min(a.Local.MTU, s.settled.MTU))
		if err != nil {
			return nil, err
		}
		p, s.settled.MaxOutstanding = learned, int(theirs.Outstanding)
	}
	s.adopt(p)
	return p, nil
}

// Handover ends this process's part of a session whose plan [Session.AwaitPlan] has returned. The connection stays open.
func (s *Session) Handover() (h Handover, err error) {
	if s.asked == nil || s.closed {
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
		Peer: s.o.Peer, Mine: s.o.Mine, Gbits: s.Gbits(), Negotiates: s.negotiates, Asked: *s.asked, Facts: *s.settled, Unread: s.in.buf,
	}, nil
}

// Resume continues a session that another process handed over. It owns the connection.
func Resume(conn net.Conn, h Handover, timeouts control.Timeouts) *Session {
	return &Session{
		Ends: control.Ends{Conn: conn}, in: newStream(conn, h.Unread...), unit: unitOf(h.Gbits),
		o:          Setup{Timeouts: timeouts, Peer: h.Peer, Mine: h.Mine, Gbits: h.Gbits},
		negotiates: h.Negotiates, settled: &h.Facts, asked: &h.Asked,
	}
}
