// Package wire is perftest's dialect of the control session, described in docs/perftest.md.
package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
)

// partingGrace is how long this end may measure after the peer has closed, where a test ends without a word (write
// latency).
const partingGrace = 2 * time.Second

// Session speaks perftest's dialect: exchanges in which the client writes N bytes, the server reads and answers
// them. Each message is one write, because a stock peer reads each with one read. Methods belong to one goroutine,
// except Watch, which may run beside any.
type Session struct {
	control.Ends
	in *stream
	o  control.Options
	v  Versions

	answered bool // this server has sent its version
	plan     *plan.Spec
	sequence sequence
	gbits    bool              // reports are in Gb/s, not MiB/s; a server without a plan takes the client's unit
	facts    *control.Facts    // the peer's; nil: not exchanged yet
	local    [][]byte          // this end's keys, encoded
	remote   []control.Address // the peer's keys of the first pass
	lastDone bool              // the last size is done
	once     sync.Once

	calls      atomic.Int32 // calls that are exchanging messages: they report a closed connection themselves
	nothingDue atomic.Bool  // no message is due any more: a closed connection is the normal end
}

// Resume starts a session on a connection whose first messages have been read. unread is what came behind them and is
// not used yet. answered is the version that this end has sent; 0: none. The session owns the connection.
func Resume(conn net.Conn, unread []byte, v Versions, answered Version, o control.Options) *Session {
	s := &Session{
		Ends: control.Ends{Conn: conn, Client: o.Dialled}, in: newStream(conn, unread), o: o.WithDefaults(), v: v,
		gbits: o.Perftest.Gbits,
	}
	if s.answered = answered != 0; s.answered {
		s.v.Mine = answered
	}
	return s
}

// Dialect is [control.Perftest].
func (s *Session) Dialect() control.Dialect { return control.Perftest }

// PeerProgram is the peer's version.
func (s *Session) PeerProgram() string { return "perftest " + s.v.Peer.String() }

// Propose takes this end's plan. A server without one learns it from a client that negotiates; other clients say
// nothing of their test, and the error tells how to start the server for them.
func (s *Session) Propose(ctx context.Context, p *plan.Spec) (*plan.Spec, error) {
	if s.plan != nil {
		return nil, errors.New("perftest runs one test per connection: run gobw at both ends, or call once per test")
	}
	if p != nil && p.RDMACM && s.o.RDMA == nil {
		return nil, errors.New("the other end is a perftest on TCP; with -R both its queue pairs and its control " +
			"connection are RDMA CM's: " +
			"start both ends with -R, this one under perftest's name (ib_write_bw -R, gobw version --install-links)")
	}
	if s.adopt(p); s.o.Dialled {
		return p, nil
	}
	if !s.answered {
		_ = s.Conn.SetWriteDeadline(time.Now().Add(s.o.Timeouts.Peer))
		mine, err := AnswerVersion(s.Conn, s.v, p != nil)
		if err != nil {
			return nil, err
		}
		s.v.Mine = mine
	}
	if p == nil && s.o.LocalFacts == nil {
		return nil, s.v.untold()
	}
	if p == nil { // the client tells it at the end of the facts
		local, err := s.o.LocalFacts()
		if err == nil {
			_, err = s.Facts(ctx, local)
		}
		if err != nil {
			return nil, err
		}
	}
	return s.plan, s.o.Admit(s.plan)
}

func (s *Session) adopt(p *plan.Spec) {
	if s.plan = p; p != nil {
		s.sequence = sequenceOf(p)
	}
}

// AnswerVersion is the server's half of the first exchange. It returns the version that it has sent. told says that the
// server was given a test: only then can it serve a client that does not describe one.
func AnswerVersion(conn net.Conn, v Versions, told bool) (mine Version, err error) { //nolint:revive // told is no mode
	if !told && v.Peer < VersionNegotiates {
		return 0, v.untold()
	}
	if mine = v.Mine; mine == 0 {
		mine = VersionUsual
		if v.Peer >= VersionNegotiates {
			mine = versionConditional
		}
	}
	if _, err := conn.Write((Hello{Version: mine}).Encode()); err != nil {
		return 0, control.Lost(context.Background(), "answering the version", err)
	}
	return mine, nil
}

// untold is why a client that does not say its test is refused.
func (v Versions) untold() error {
	return fmt.Errorf("the client is perftest %s, which does not say what it tests: start the server for it, e.g. "+
		"gobw serve --perftest 'ib_send_bw -c UD -s 1024', or under the tool's own name (gobw version --install-links)",
		v.Peer)
}

// Facts exchanges page size, cache line and MTU, and the parameters where both ends negotiate. Only these of the
// remote facts are known; MaxOutstanding is 0 where nothing told it.
func (s *Session) Facts(ctx context.Context, local control.Facts) (control.Facts, error) {
	defer s.o.Waiting(false)()
	if s.facts == nil {
		remote, err := s.preamble(ctx, local)
		if err == nil && s.v.negotiate() {
			remote.MaxOutstanding, err = s.negotiate(ctx, local, min(local.MTU, remote.MTU))
		}
		if err != nil {
			return remote, err
		}
		s.facts = &remote
	}
	return *s.facts, nil
}

// swapBytes swaps one number, a size in bytes.
func (s *Session) swapBytes(ctx context.Context, what string, mine int) (theirs int, err error) {
	b, err := s.swap(ctx, "exchanging "+what, binary.BigEndian.AppendUint32(nil, uint32(mine)))
	if err != nil {
		return 0, err
	}
	if theirs = int(int32(binary.BigEndian.Uint32(b))); theirs < 1 || theirs > 1<<30 {
		err = control.Malformed("exchanging %s: %d bytes", what, theirs)
	}
	return theirs, err
}

// preamble swaps page size, cache line and MTU.
func (s *Session) preamble(ctx context.Context, local control.Facts) (remote control.Facts, err error) {
	remote.PageBytes, err = s.swapBytes(ctx, "page sizes", local.PageBytes)
	if err == nil {
		remote.CacheLineBytes, err = s.swapBytes(ctx, "cache lines", local.CacheLineBytes)
	}
	if err != nil {
		return remote, err
	}
	b, err := s.swap(ctx, "exchanging MTUs", []byte{'0' + byte(local.MTU), 0})
	if err != nil {
		return remote, err
	}
	remote.MTU = verbs.MTU(b[0] - '0')
	if remote.MTU.Bytes() == 0 || b[1] != 0 {
		return remote, control.Malformed("exchanging MTUs: %q is none of perftest's codes 1 to 5", b)
	}
	return remote, nil
}

// negotiatingPhase is what errors call the exchange of parameters.
const negotiatingPhase = "negotiating parameters"

// negotiate compares the parameters; a server without a plan takes the client's. Both ends send theirs before either
// complains, so that each can say what differs. It returns how many READs and atomics the peer's device serves.
func (s *Session) negotiate(ctx context.Context, local control.Facts, mtu verbs.MTU) (outstanding int, err error) {
	if !s.o.Dialled {
		return s.answerParameters(ctx, local, mtu)
	}
	mine := s.ownNegotiation(mtu, local.MaxOutstanding)
	b, err := s.swap(ctx, negotiatingPhase, mine.Encode(NegotiationBytes))
	if err != nil {
		return 0, err
	}
	theirs, err := ParseNegotiation(b)
	if err == nil {
		err = mine.mismatches(theirs)
	}
	return int(theirs.Outstanding), err
}

// answerParameters takes a client's parameters and answers with this end's.
func (s *Session) answerParameters(ctx context.Context, local control.Facts, mtu verbs.MTU) (outstanding int,
	err error,
) {
	b, err := s.take(ctx, negotiatingPhase, NegotiationBytesNoMLX5, s.o.Timeouts.Phase)
	if err != nil {
		return 0, err
	}
	// A build without the mlx5 header sends 8 bytes less and then waits for the answer.
	rest, err := s.in.take(ctx, NegotiationBytes-NegotiationBytesNoMLX5, 200*time.Millisecond)
	switch {
	case err == nil:
		b = append(b, rest...)
	case !errors.Is(err, control.ErrSilent):
		return 0, s.explain(ctx, negotiatingPhase, err)
	}
	theirs, err := ParseNegotiation(b)
	if err != nil {
		return 0, err
	}
	if s.plan == nil {
		p, err := theirs.plan()
		if err != nil {
			return 0, err
		}
		s.adopt(p)
		s.gbits = theirs.values[unitCode] == 0
	}
	mine := s.ownNegotiation(mtu, local.MaxOutstanding)
	if err := s.write(negotiatingPhase, mine.Encode(len(b))); err != nil {
		return 0, err
	}
	return int(theirs.Outstanding), mine.mismatches(theirs)
}

// patience is how long this end waits for the peer's next message. The peer may register memory before it sends.
func (s *Session) patience() time.Duration { return s.o.Timeouts.ForPhase(control.PhaseJoined, s.plan) }

// ownNegotiation is what this end sends to negotiate.
func (s *Session) ownNegotiation(mtu verbs.MTU, outstanding int) negotiation {
	n := NegotiationOf(s.plan, s.gbits, mtu, outstanding)
	if s.o.RDMA != nil {
		n.values[flagRDMA] = 1
	}
	return n
}

// Exchange swaps the keys, first pass. One-sided latency tests put a barrier in front.
func (s *Session) Exchange(ctx context.Context, local []control.Address) ([]control.Address, error) {
	defer s.o.Waiting(false)()
	s.local = nil
	for _, a := range local {
		s.local = append(s.local, s.encode(a))
	}
	if _, err := s.run(ctx, s.sequence.opening, "greeting", s.patience(), control.Figures{}); err != nil {
		return nil, err
	}
	s.remote = nil
	for i := range local {
		a, err := s.keys(ctx, fmt.Sprintf("exchanging keys of queue pair %d", i), i, s.patience())
		if err != nil {
			return nil, err
		}
		s.remote = append(s.remote, a)
	}
	if s.plan.RDMACM { // RDMA CM has chosen the GIDs
		return s.remote, nil
	}
	return s.remote, checkGIDFamilies(local[0], s.remote[0])
}

// call begins a call that exchanges messages, and returns what ends it.
func (s *Session) call(measuring bool) (end func()) {
	waited := s.o.Waiting(measuring)
	s.calls.Add(1)
	return func() {
		waited()
		s.calls.Add(-1)
	}
}

// Sync does what the tool does at that phase; often that is nothing.
func (s *Session) Sync(ctx context.Context, phase control.Phase, _ int, last bool) error {
	defer s.call(phase == control.PhaseDone)()
	var steps []step
	switch phase {
	case control.PhaseListening, control.PhaseJoined:
		steps = []step{stepBarrier}
	case control.PhaseConnected:
		steps = s.sequence.connected
	case control.PhaseReady:
		steps = s.sequence.ready
	case control.PhaseDone:
		if s.lastDone = last; last || !s.sequence.lastAlone {
			steps = s.sequence.done
		}
	case control.PhaseFinished:
		steps = s.sequence.finished
	}
	limit := s.o.Timeouts.ForPhase(phase, s.plan)
	if _, err := s.run(ctx, steps, "waiting for the peer to be "+phase.String(), limit, control.Figures{}); err != nil {
		return err
	}
	// Nothing is due after the finish, nor after the last size if neither report nor finish has steps.
	if phase == control.PhaseFinished || s.lastDone && len(s.sequence.report)+len(s.sequence.finished) == 0 {
		s.nothingDue.Store(true)
	}
	return nil
}

// Report swaps figures where the tool does.
func (s *Session) Report(ctx context.Context, local control.Figures) (remote control.Figures, err error) {
	defer s.call(false)()
	if s.lastDone || !s.sequence.lastAlone {
		remote, err = s.run(ctx, s.sequence.report, "waiting for the peer's next size", s.patience(), local)
	}
	return remote, err
}

// swapReports is one exchange of figures. In a test of one direction the initiator drops the target's figures.
func (s *Session) swapReports(ctx context.Context, local control.Figures) (remote control.Figures, err error) {
	var theirs []byte
	for mine := range slices.Chunk(encodeReport(local, s.gbits), ReportItem) {
		b, err := s.swap(ctx, "exchanging reports", mine)
		if err != nil {
			return remote, err
		}
		theirs = append(theirs, b...)
	}
	initiator := s.o.Dialled != s.plan.Reversed
	if s.plan.Infinite || !s.plan.Bidirectional && initiator {
		return remote, nil // a stock target sends whatever lies in its memory; so do both ends of an endless test
	}
	if remote = DecodeReport(theirs, s.gbits); !plausible(remote) {
		return control.Figures{},
			control.Malformed("its report is no report (size %d, average %g bit/s): the ends are out of step; %s",
				remote.Size, remote.AverageBits, agree("-q, -a and -b"))
	}
	return remote, nil
}

// Watch returns a context that ends when the connection closes: the only sign of life that perftest gives. The context
// does not end while a call exchanges messages, because that call fails itself, nor when nothing more is due.
func (s *Session) Watch(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.in.over, func() {
		grace := 50 * time.Millisecond // a call may be about to read what came before the end
		if s.sequence.partingUnannounced {
			grace = partingGrace // the peer may have finished just before this end
		}
		t := time.NewTicker(grace)
		defer t.Stop()
		for {
			select {
			case <-t.C:
			case <-ctx.Done():
				return
			}
			if s.nothingDue.Load() {
				return
			}
			if s.calls.Load() == 0 {
				cancel(s.explain(context.Background(), "measuring", context.Cause(s.in.over)))
				return
			}
		}
	})
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// Fail closes: perftest has no message for errors.
func (s *Session) Fail(error) {
	s.once.Do(func() {
		s.o.Release()
		_ = s.Conn.Close()
		s.in.wg.Wait()
	})
}

// Close ends as perftest does, without a farewell. It waits a second for the peer to close: an old peer sends a
// farewell, and a connection closed with unread bytes is reset.
func (s *Session) Close() error {
	s.o.Release()
	if c, ok := s.Conn.(interface{ CloseWrite() error }); ok {
		_ = c.CloseWrite()
	}
	select {
	case <-s.in.over.Done():
	case <-time.After(time.Second):
	}
	s.Fail(nil)
	return nil
}
