package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// ourOptions is what distinguishes one session of our dialect from another.
type ourOptions struct {
	dialled   bool
	timeouts  Timeouts
	program   string
	maxMemory uint64
	release   func() // server: gives the listener's slot back
}

// ourSession speaks our dialect. A reader goroutine owns the connection's receiving half and sorts what comes in; a
// heartbeat goroutine shows the peer that this end lives and judges the peer's silence. Methods belong to one goroutine,
// except Watch and Sync, which may run at once.
type ourSession struct {
	conn net.Conn
	o    ourOptions
	plan *Plan

	inbox   chan message
	start   time.Time
	silence silence

	pace chan time.Duration // new heartbeat interval, once the peer has said what it bears
	dead chan struct{}      // closed when the peer is lost, said an error, or left
	why  error              // set before dead is closed
	once sync.Once
	stop chan struct{} // closed by Close and Fail
	end  sync.Once
	wg   sync.WaitGroup

	writing sync.Mutex

	doing   atomic.Pointer[string] // what the session waits for, for errors
	leaving atomic.Bool            // the peer said goodbye
	program string                 // the peer's name and version
}

func newOurSession(conn net.Conn, o ourOptions) *ourSession {
	s := &ourSession{
		conn: conn, o: o,
		inbox: make(chan message, 64),
		pace:  make(chan time.Duration, 1),
		dead:  make(chan struct{}),
		stop:  make(chan struct{}),
	}
	s.setDoing("greeting")
	s.start, s.silence.bears = time.Now(), o.timeouts.Peer
	s.wg.Go(s.read)
	s.wg.Go(s.beat)
	return s
}

// Dialect is [Ours].
func (s *ourSession) Dialect() Dialect { return Ours }

// Dialled tells whether this end is the client.
func (s *ourSession) Dialled() bool { return s.o.dialled }

// LocalAddr is this end's address of the control connection.
func (s *ourSession) LocalAddr() netip.Addr { return addrOf(s.conn.LocalAddr()).Addr() }

// RemoteAddr is the peer's address and port.
func (s *ourSession) RemoteAddr() netip.AddrPort { return addrOf(s.conn.RemoteAddr()) }

// ServerPort is the port on which the server was found.
func (s *ourSession) ServerPort() uint16 { return serverPort(s.conn, s.o.dialled) }

// PeerProgram is the peer's name and version as it gave them.
func (s *ourSession) PeerProgram() string { return s.program }

// introduce exchanges the hello messages: who the ends are and how much silence they bear.
func (s *ourSession) introduce(ctx context.Context) error {
	err := s.send(message{
		Kind: kindHello, Program: s.o.program, PeerTimeoutMs: s.o.timeouts.Peer.Milliseconds(),
	})
	if err != nil {
		return err
	}
	m, err := s.expect(ctx, kindHello, s.o.timeouts.Hello)
	if err != nil {
		return err
	}
	s.program = m.Program
	bears := s.o.timeouts.Peer
	if theirs := time.Duration(m.PeerTimeoutMs) * time.Millisecond; theirs > 0 && theirs < bears {
		bears = theirs
	}
	s.pace <- interval(bears)
	return nil
}

// Propose sends the client's plan, or waits for it at the server.
func (s *ourSession) Propose(ctx context.Context, p *Plan) (*Plan, error) {
	if s.o.dialled {
		s.setDoing("proposing the plan")
		if p == nil {
			return nil, errors.New("propose: no plan")
		}
		if err := p.Check(); err != nil {
			return nil, err
		}
		if err := s.send(message{Kind: kindPropose, Plan: p}); err != nil {
			return nil, err
		}
		m, err := s.expect(ctx, kindPlan, s.o.timeouts.Phase)
		if err != nil {
			return nil, err
		}
		if m.Plan == nil {
			return nil, s.protest("plan message without a plan")
		}
		if err := m.Plan.Check(); err != nil {
			return nil, s.protest("the server's plan: " + err.Error())
		}
		s.plan = m.Plan
		return m.Plan, nil
	}
	s.setDoing("waiting for the client's plan")
	m, err := s.receive(ctx, s.o.timeouts.Phase)
	switch {
	case err != nil:
		return nil, err
	case m.Kind == kindBye:
		return nil, nil
	case m.Kind != kindPropose || m.Plan == nil:
		return nil, s.protest(fmt.Sprintf("%q message where a plan was due", m.Kind))
	}
	if err := m.Plan.Check(); err != nil {
		return nil, err
	}
	if err := checkMemory(m.Plan, s.o.maxMemory); err != nil {
		return nil, err
	}
	if err := s.send(message{Kind: kindPlan, Plan: m.Plan}); err != nil {
		return nil, err
	}
	s.plan = m.Plan
	return m.Plan, nil
}

// Facts exchanges what the two systems are.
func (s *ourSession) Facts(ctx context.Context, local Facts) (Facts, error) {
	s.setDoing("exchanging facts")
	if err := s.send(message{Kind: kindFacts, Facts: &local}); err != nil {
		return Facts{}, err
	}
	m, err := s.expect(ctx, kindFacts, s.o.timeouts.Phase)
	if err != nil {
		return Facts{}, err
	}
	if m.Facts == nil {
		return Facts{}, s.protest("facts message without facts")
	}
	return *m.Facts, nil
}

// Exchange swaps addresses.
func (s *ourSession) Exchange(ctx context.Context, local []Address) ([]Address, error) {
	s.setDoing("exchanging addresses")
	if err := s.send(message{Kind: kindAddresses, Addresses: local}); err != nil {
		return nil, err
	}
	m, err := s.expect(ctx, kindAddresses, s.o.timeouts.Phase)
	if err != nil {
		return nil, err
	}
	if len(m.Addresses) != len(local) {
		return nil, s.protest(fmt.Sprintf("%d addresses, this end has %d queue pairs", len(m.Addresses), len(local)))
	}
	for i, a := range m.Addresses {
		if a.QPN > 0xff_ffff || a.PSN > 0xff_ffff || a.Outstanding < 0 || a.Addr+a.Bytes < a.Addr {
			return nil, s.protest(fmt.Sprintf("address %d is impossible: QPN %#x, PSN %#x, %d bytes at %#x", i, a.QPN, a.PSN, a.Bytes, a.Addr))
		}
	}
	return m.Addresses, nil
}

// Sync meets the peer at a phase.
func (s *ourSession) Sync(ctx context.Context, phase Phase, size int, last bool) error {
	s.setDoing("waiting for the peer to be " + phase.String())
	if err := s.send(message{Kind: kindSync, Phase: phase.String(), Size: size, Last: last}); err != nil {
		return err
	}
	m, err := s.expect(ctx, kindSync, s.o.timeouts.forPhase(phase, s.plan))
	if err != nil {
		return err
	}
	if m.Phase != phase.String() || m.Size != size || m.Last != last {
		return s.protest(fmt.Sprintf("it is at %s %d, this end at %s %d", m.Phase, m.Size, phase, size))
	}
	if phase == PhaseReady {
		s.setDoing("measuring")
	}
	return nil
}

// Report swaps figures.
func (s *ourSession) Report(ctx context.Context, local Figures) (Figures, error) {
	s.setDoing("exchanging figures")
	if err := s.send(message{Kind: kindReport, Figures: &local}); err != nil {
		return Figures{}, err
	}
	m, err := s.expect(ctx, kindReport, s.o.timeouts.Phase)
	if err != nil {
		return Figures{}, err
	}
	if m.Figures == nil {
		return Figures{}, s.protest("report message without figures")
	}
	return *m.Figures, nil
}

// Watch returns a context that ends when the peer is lost or reports an error.
func (s *ourSession) Watch(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-s.dead:
			cancel(s.why)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-done
	}
}

// Fail tells the peer why this end gives up, and closes.
func (s *ourSession) Fail(err error) {
	_ = s.finish(message{Kind: kindError, Error: err.Error()})
}

// Close says goodbye and closes.
func (s *ourSession) Close() error { return s.finish(message{Kind: kindBye}) }

// finish sends the last message, waits until the peer has it (or a second), and ends the goroutines. A connection
// closed with unread bytes would be reset and the last message lost.
func (s *ourSession) finish(last message) error {
	s.end.Do(func() {
		if s.o.release != nil {
			s.o.release()
		}
		if s.send(last) == nil {
			if c, ok := s.conn.(interface{ CloseWrite() error }); ok {
				_ = c.CloseWrite()
			}
			select {
			case <-s.dead:
			case <-time.After(min(time.Second, s.o.timeouts.Peer)):
			}
		}
		close(s.stop)
		_ = s.conn.Close()
	})
	s.wg.Wait()
	return nil
}

// abandon closes without a word.
func (s *ourSession) abandon() {
	s.end.Do(func() {
		if s.o.release != nil {
			s.o.release()
		}
		close(s.stop)
		_ = s.conn.Close()
	})
	s.wg.Wait()
}

// protest reports a peer that does not keep to the protocol.
func (s *ourSession) protest(what string) error {
	return &formatError{fmt.Errorf("%s: %s", *s.doing.Load(), what)}
}

func (s *ourSession) setDoing(what string) { s.doing.Store(&what) }

// send writes one message; the peer must take it within the peer timeout.
func (s *ourSession) send(m message) error {
	b, err := appendFrame(nil, m)
	if err != nil {
		return err
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	_ = s.conn.SetWriteDeadline(time.Now().Add(s.o.timeouts.Peer))
	if _, err := s.conn.Write(b); err != nil {
		return s.sendFailed(err)
	}
	return nil
}

// sendFailed prefers the peer's own words, which may just be arriving, to the broken pipe.
func (s *ourSession) sendFailed(err error) error {
	select {
	case <-s.dead:
		return s.why
	case <-time.After(100 * time.Millisecond):
		return lost(context.Background(), *s.doing.Load(), err)
	}
}

// expect waits for a message of the given kind.
func (s *ourSession) expect(ctx context.Context, want kind, limit time.Duration) (message, error) {
	m, err := s.receive(ctx, limit)
	if err != nil {
		return message{}, err
	}
	if m.Kind == kindBye {
		return message{}, &LostError{Phase: *s.doing.Load(), Cause: errors.New("it said goodbye")}
	}
	if m.Kind != want {
		return message{}, s.protest(fmt.Sprintf("%q message where %q was due", m.Kind, want))
	}
	return m, nil
}

// receive waits for the next message that is no heartbeat. Messages that came before the end of the connection are
// delivered first.
func (s *ourSession) receive(ctx context.Context, limit time.Duration) (message, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case m := <-s.inbox:
		return m, nil
	default:
	}
	select {
	case m := <-s.inbox:
		return m, nil
	case <-s.dead:
		select {
		case m := <-s.inbox:
			return m, nil
		default:
		}
		return message{}, s.why
	case <-ctx.Done():
		return message{}, fmt.Errorf("%s: %w", *s.doing.Load(), context.Cause(ctx))
	case <-timer.C:
		return message{}, &LostError{Phase: *s.doing.Load(), Cause: fmt.Errorf("it lives but did not get there within %v", limit)}
	}
}

// die records why the session ended; the first reason counts.
func (s *ourSession) die(err error) {
	s.once.Do(func() {
		s.why = err
		close(s.dead)
	})
}

// addrOf is a TCP address with IPv4 in its own form.
func addrOf(a net.Addr) netip.AddrPort {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	p := t.AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
}

// serverPort is the server's port of a connection.
func serverPort(c net.Conn, dialled bool) uint16 {
	if dialled {
		return addrOf(c.RemoteAddr()).Port()
	}
	return addrOf(c.LocalAddr()).Port()
}
