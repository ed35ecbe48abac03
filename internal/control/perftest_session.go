package control

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/gobw/gobw/verbs"
)

// partingGrace is how long a closed connection stays no fault where a test ends without a word (write latency).
const partingGrace = 2 * time.Second

// perftestSetup is what the first message has settled.
type perftestSetup struct {
	dialled  bool
	timeouts Timeouts
	peer     perftestVersion
	mine     perftestVersion // 0 at a server: answer as suits the client
	gbits    bool
	rdma     bool                  // by RDMA CM: keys are a struct, not text
	facts    func() (Facts, error) // server: see ListenOptions.LocalFacts
	release  func()
	memory   uint64 // server: most bytes that a plan learned from a client may need; 0: no limit
}

// perftestSession speaks perftest's dialect: exchanges in which the client writes N bytes, the server reads and answers
// them. Each message is one write, because a stock peer reads each with one read. Methods belong to one goroutine,
// except Watch, which may run beside any.
type perftestSession struct {
	conn net.Conn
	in   *stream
	o    perftestSetup

	plan       *Plan
	sequence   sequence
	unit       unit
	negotiates bool
	settled    *Facts    // the peer's facts, where Propose had to exchange them
	local      [][]byte  // this end's keys, encoded
	remote     []Address // of the first pass
	reported   bool
	closed     bool

	calls atomic.Int32 // calls that are exchanging messages: they report a closed connection themselves
	over  atomic.Bool  // nothing more is due: a closed connection is the normal end
}

// checkPerftestServer refuses servers that the advertised version cannot talk to.
func checkPerftestServer(peer, advertised perftestVersion) error {
	switch {
	case peer < versionOldest:
		return fmt.Errorf("the server is perftest %s; versions below %s speak another protocol: upgrade it", peer, versionOldest)
	case peer == versionNegotiates && advertised < versionNegotiates:
		return fmt.Errorf("the server is perftest %s, which negotiates parameters with every client; this client advertised %s: add --perftest-version %s",
			peer, advertised, versionConditional)
	}
	return nil
}

func newPerftestSession(conn net.Conn, o perftestSetup) *perftestSession {
	s := &perftestSession{conn: conn, in: newStream(conn), o: o, unit: unitOf(o.gbits)}
	s.negotiates = o.peer >= versionNegotiates && o.mine >= versionNegotiates
	return s
}

// Dialect is [Perftest].
func (s *perftestSession) Dialect() Dialect { return Perftest }

// Dialled tells whether this end is the client.
func (s *perftestSession) Dialled() bool { return s.o.dialled }

// LocalAddr is this end's address of the control connection.
func (s *perftestSession) LocalAddr() netip.Addr { return addrOf(s.conn.LocalAddr()).Addr() }

// RemoteAddr is the peer's address and port.
func (s *perftestSession) RemoteAddr() netip.AddrPort { return addrOf(s.conn.RemoteAddr()) }

// ServerPort is the port on which the server was found.
func (s *perftestSession) ServerPort() uint16 { return serverPort(s.conn, s.o.dialled) }

// PeerProgram is the peer's version.
func (s *perftestSession) PeerProgram() string { return "perftest " + s.o.peer.String() }

// Gbits tells whether figures cross the wire in Gb/s, not MiB/s: a negotiating client's choice at its server.
func (s *perftestSession) Gbits() bool { return s.unit == unitGbit }

// Propose takes this end's plan. A server without one learns it from a client that negotiates; other clients say
// nothing of their test, and the error tells how to start the server for them. A second Propose at the server has no
// further test: perftest has one per connection.
func (s *perftestSession) Propose(ctx context.Context, p *Plan) (*Plan, error) {
	if s.plan != nil {
		if !s.o.dialled && p == nil {
			return nil, nil
		}
		return nil, errors.New("perftest runs one test per connection: run gobw at both ends, or call once per test")
	}
	if p != nil {
		if err := checkPerftestPlan(p); err != nil {
			return nil, err
		}
		if p.RDMACM && !s.o.rdma {
			return nil, errors.New("the other end is a perftest on TCP; with -R both its queue pairs and its control connection are RDMA CM's: " +
				"start both ends with -R, this one under perftest's name (ib_write_bw -R, gobw install-links)")
		}
	}
	if !s.o.dialled {
		if err := s.answerVersion(p); err != nil {
			return nil, err
		}
	}
	if p == nil {
		local, err := s.o.facts()
		if err != nil {
			return nil, err
		}
		remote, learned, err := s.exchangeFacts(ctx, local, nil)
		if err != nil {
			return nil, err
		}
		if err := checkMemory(learned, s.o.memory); err != nil {
			return nil, err
		}
		s.settled, p = &remote, learned
	}
	s.adopt(p)
	return p, nil
}

func (s *perftestSession) adopt(p *Plan) {
	s.plan, s.sequence = p, sequenceOf(p)
}

// answerVersion is the server's half of the first exchange.
func (s *perftestSession) answerVersion(p *Plan) error {
	if p == nil && (s.o.peer < versionNegotiates || s.o.facts == nil) {
		return fmt.Errorf("the client is perftest %s, which does not say what it tests: start the server for it, e.g. "+
			"gobw serve --perftest 'ib_send_bw -c UD -s 1024', or under the tool's own name (gobw install-links)", s.o.peer)
	}
	if s.o.mine == 0 {
		s.o.mine = 627
		if s.o.peer >= versionNegotiates {
			s.o.mine = versionConditional
		}
	}
	s.negotiates = s.o.peer >= versionNegotiates && s.o.mine >= versionNegotiates
	if s.o.peer == versionNegotiates && !s.negotiates {
		return fmt.Errorf("the client is perftest %s, which negotiates parameters with every server; this one advertises %s: use --perftest-version %s",
			s.o.peer, s.o.mine, versionConditional)
	}
	return s.write("answering the version", hello{version: s.o.mine.String()}.encode())
}

// Facts exchanges page size, cache line and MTU, and the parameters where both ends negotiate. Only these of the
// remote facts are known; MaxOutstanding is 0 where nothing told it.
func (s *perftestSession) Facts(ctx context.Context, local Facts) (Facts, error) {
	if s.plan == nil {
		return Facts{}, errors.New("facts before a plan")
	}
	if s.settled != nil {
		return *s.settled, nil
	}
	remote, _, err := s.exchangeFacts(ctx, local, s.plan)
	return remote, err
}

// exchangeFacts does the preamble. Without a plan it learns the client's.
func (s *perftestSession) exchangeFacts(ctx context.Context, local Facts, p *Plan) (Facts, *Plan, error) {
	var remote Facts
	number := func(what string, v int) (int, error) {
		b, err := s.exchange(ctx, what, binary.BigEndian.AppendUint32(nil, uint32(v)))
		if err != nil {
			return 0, err
		}
		n := int(int32(binary.BigEndian.Uint32(b)))
		if n < 1 || n > 1<<30 {
			return 0, &formatError{fmt.Errorf("%s: %d bytes", what, n)}
		}
		return n, nil
	}
	var err error
	if remote.PageBytes, err = number("exchanging page sizes", local.PageBytes); err != nil {
		return Facts{}, nil, err
	}
	if remote.CacheLineBytes, err = number("exchanging cache lines", local.CacheLineBytes); err != nil {
		return Facts{}, nil, err
	}
	b, err := s.exchange(ctx, "exchanging MTUs", []byte{'0' + byte(local.MTU), 0})
	if err != nil {
		return Facts{}, nil, err
	}
	remote.MTU = verbs.MTU(b[0] - '0')
	if remote.MTU.Bytes() == 0 || b[1] != 0 {
		return Facts{}, nil, &formatError{fmt.Errorf("exchanging MTUs: %q is none of perftest's codes 1 to 5", b)}
	}
	if !s.negotiates {
		return remote, p, nil
	}
	n, learned, err := s.negotiate(ctx, p, local, min(local.MTU, remote.MTU))
	remote.MaxOutstanding = int(n.Outstanding)
	return remote, learned, err
}

// negotiate compares the parameters. Both ends send theirs before either complains, so that each can say what differs.
func (s *perftestSession) negotiate(ctx context.Context, p *Plan, local Facts, mtu verbs.MTU) (negotiation, *Plan, error) {
	const doing = "negotiating parameters"
	gbits := s.unit == unitGbit
	if s.o.dialled {
		mine := s.negotiationOf(p, gbits, mtu, local.MaxOutstanding)
		b, err := s.exchange(ctx, doing, mine.encode(negotiationBytes))
		if err != nil {
			return negotiation{}, nil, err
		}
		theirs, err := parseNegotiation(b)
		if err != nil {
			return negotiation{}, nil, err
		}
		return theirs, p, mine.mismatches(theirs)
	}
	b, err := s.take(ctx, doing, negotiationBytesNoMLX5, s.o.timeouts.Phase)
	if err != nil {
		return negotiation{}, nil, err
	}
	// A build without the mlx5 header sends 8 bytes less and then waits for the answer.
	rest, err := s.in.take(ctx, negotiationBytes-negotiationBytesNoMLX5, 200*time.Millisecond)
	switch {
	case err == nil:
		b = append(b, rest...)
	case !errors.Is(err, errSilent):
		return negotiation{}, nil, s.explain(ctx, doing, err)
	}
	theirs, err := parseNegotiation(b)
	if err != nil {
		return negotiation{}, nil, err
	}
	if p == nil { // answer with the client's own parameters
		if p, err = theirs.plan(); err != nil {
			return negotiation{}, nil, err
		}
		gbits = theirs.Unit == 0
	}
	s.unit = unitOf(gbits)
	mine := s.negotiationOf(p, gbits, mtu, local.MaxOutstanding)
	if err := s.write(doing, mine.encode(len(b))); err != nil {
		return negotiation{}, nil, err
	}
	return theirs, p, mine.mismatches(theirs)
}

func (s *perftestSession) negotiationOf(p *Plan, gbits bool, mtu verbs.MTU, outstanding int) negotiation {
	n := negotiationOf(p, gbits, mtu, outstanding)
	n.Features[featureRDMA] = s.o.rdma
	return n
}

// Exchange swaps the keys, first pass. Latency tests put a barrier in front.
func (s *perftestSession) Exchange(ctx context.Context, local []Address) ([]Address, error) {
	if s.plan == nil {
		return nil, errors.New("addresses before a plan")
	}
	if want := max(s.plan.QPs, 1); len(local) != want {
		return nil, fmt.Errorf("%d addresses for %d queue pairs", len(local), want)
	}
	s.local = nil
	for _, a := range local {
		s.local = append(s.local, s.encode(a))
	}
	if err := s.run(ctx, s.sequence.opening, "greeting"); err != nil {
		return nil, err
	}
	s.remote = nil
	for i := range local {
		a, err := s.keys(ctx, fmt.Sprintf("exchanging keys of queue pair %d", i), i)
		if err != nil {
			return nil, err
		}
		s.remote = append(s.remote, a)
	}
	if s.plan.RDMACM { // which has found the way by itself
		return s.remote, nil
	}
	return s.remote, checkGIDFamilies(local[0], s.remote[0])
}

// Sync does what the tool does at that phase; often that is nothing.
func (s *perftestSession) Sync(ctx context.Context, phase Phase, _ int, last bool) error {
	if s.plan == nil {
		return errors.New("a phase before a plan")
	}
	s.calls.Add(1)
	defer s.calls.Add(-1)
	var steps []step
	switch phase {
	case PhaseHello: // Exchange does it: the barrier carries the keys
	case PhaseListening, PhaseJoined:
		steps = []step{stepBarrier}
	case PhaseConnected:
		steps = s.sequence.connected
	case PhaseReady:
		steps = s.sequence.ready
	case PhaseDone:
		steps = s.sequence.done
		if last {
			steps = s.sequence.lastDone
		}
		s.reported = last
	case PhaseFinished:
		steps = s.sequence.finished
	}
	if err := s.run(ctx, steps, "waiting for the peer to be "+phase.String()); err != nil {
		return err
	}
	// Nothing is due after the last of these.
	if phase == PhaseFinished || phase == PhaseDone && last && len(s.sequence.lastReport)+len(s.sequence.finished) == 0 {
		s.over.Store(true)
	}
	return nil
}

// Report swaps figures where the tool does. In a test of one direction only the initiator's figures mean anything: the
// target's are dropped.
func (s *perftestSession) Report(ctx context.Context, local Figures) (Figures, error) {
	if s.plan == nil {
		return Figures{}, errors.New("figures before a plan")
	}
	s.calls.Add(1)
	defer s.calls.Add(-1)
	steps := s.sequence.report
	if s.reported { // the last size is done
		steps = s.sequence.lastReport
	}
	var remote Figures
	for _, st := range steps {
		if st != stepReport {
			if err := s.run(ctx, []step{st}, "waiting for the peer's next size"); err != nil {
				return Figures{}, err
			}
			continue
		}
		mine := encodeReport(local, s.unit)
		var theirs [reportItems][8]byte
		for i := range mine {
			b, err := s.exchange(ctx, "exchanging reports", mine[i][:])
			if err != nil {
				return Figures{}, err
			}
			copy(theirs[i][:], b)
		}
		remote = decodeReport(theirs, s.unit)
		initiator := s.o.dialled != s.plan.Reversed
		if !s.plan.Bidirectional && initiator {
			remote = Figures{} // a stock target answers with whatever lay in its memory
		} else if !plausible(remote) {
			return Figures{}, &formatError{fmt.Errorf("its report is no report (size %d, average %g bit/s): the ends are out of step; %s",
				remote.Size, remote.AverageBits, s.agree("-q, -a and -b"))}
		}
	}
	return remote, nil
}

// Watch returns a context that ends when the connection closes: the only sign of life that perftest gives. While a call
// is exchanging messages it is that call that fails, and once nothing more is due nothing fails.
func (s *perftestSession) Watch(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-s.in.dead:
		case <-ctx.Done():
			return
		}
		grace := 50 * time.Millisecond // what came before the end may be about to be read
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
			if s.over.Load() {
				return
			}
			if s.calls.Load() == 0 {
				cancel(s.explain(context.Background(), "measuring", s.in.err))
				return
			}
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-done
	}
}

// Fail closes: perftest has no message for errors.
func (s *perftestSession) Fail(error) { s.shut() }

// Close ends as perftest does: no farewell of ours; one of an old peer is read, because a connection closed with unread
// bytes is reset.
func (s *perftestSession) Close() error {
	if s.closed {
		return nil
	}
	if s.o.release != nil {
		s.o.release()
	}
	if c, ok := s.conn.(interface{ CloseWrite() error }); ok {
		_ = c.CloseWrite()
	}
	select {
	case <-s.in.dead:
	case <-time.After(time.Second):
	}
	s.shut()
	return nil
}

func (s *perftestSession) shut() {
	if s.closed {
		return
	}
	s.closed = true
	if s.o.release != nil {
		s.o.release()
	}
	_ = s.conn.Close()
	s.in.wg.Wait()
}
