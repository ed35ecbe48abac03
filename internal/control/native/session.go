// Package native is our own dialect of the control session: length-prefixed JSON with heartbeats.
package native

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
)

// Options is what distinguishes one session of our dialect from another.
type Options struct {
	Dialled  bool
	Timeouts control.Timeouts
	Program  string
	Wait     time.Duration          // client: how long it waits for a server that serves others
	Token    []byte                 // a shared secret that both ends must prove; nil: none
	Admit    func(*plan.Spec) error // server: refuses plans; nil: none
	Release  func()                 // server: gives the listener's slot back
}

// Session speaks our dialect. A reader goroutine owns the connection's receiving half and sorts what comes in; a
// heartbeat goroutine shows the peer that this end lives and judges the peer's silence. Methods belong to one goroutine,
// except Watch and Sync, which may run at once.
type Session struct {
	control.Ends
	o       Options
	plan    *plan.Spec
	pending *plan.Spec // server: proposed, and not yet answered

	r       *bufio.Reader
	more    chan struct{} // server: the reader may go on after a plan
	paused  atomic.Bool   // it waits for that
	inbox   chan Message
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

	wait     time.Duration // the client's
	interval time.Duration // of heartbeats
}

// inboxMessages is how many messages may have come before they are due: the ends take turns, so a goodbye may follow what
// was asked for, and nothing else.
const inboxMessages = 2

// NewSession starts a session on a connection whose first messages were exchanged. It owns the connection.
func NewSession(conn net.Conn, o Options) *Session {
	s := newSession(conn, o)
	s.begin()
	return s
}

func newSession(conn net.Conn, o Options) *Session {
	s := &Session{
		Ends: control.Ends{Conn: conn, Client: o.Dialled}, o: o, r: bufio.NewReader(conn), interval: Interval(o.Timeouts.Peer),
		inbox: make(chan Message, inboxMessages), more: make(chan struct{}, 1),
		pace: make(chan time.Duration, 1),
		dead: make(chan struct{}),
		stop: make(chan struct{}),
	}
	s.setDoing("greeting")
	s.silence.bears = o.Timeouts.Peer
	return s
}

// begin starts reading and the heartbeat.
func (s *Session) begin() {
	s.start = time.Now()
	s.wg.Go(s.read)
	every := s.interval // which an introduction changes: the beat is told by pace
	s.wg.Go(func() { s.beat(every) })
}

// Dialect is [Ours].
func (s *Session) Dialect() control.Dialect { return control.Ours }

// PeerProgram is the peer's name and version as it gave them.
func (s *Session) PeerProgram() string { return s.program }

// maxWait bounds how long a client may stand in a queue.
const maxWait = 24 * time.Hour

// Introduce exchanges the hello messages: who the ends are and how much silence they bear.
func (s *Session) Introduce(ctx context.Context) error {
	if err := s.prove(ctx); err != nil {
		return err
	}
	err := s.Send(Message{
		Kind: KindHello, Program: s.o.Program, PeerTimeoutMs: s.o.Timeouts.Peer.Milliseconds(), WaitMs: s.o.Wait.Milliseconds(),
	})
	if err != nil {
		return err
	}
	m, err := s.receive(ctx, s.o.Timeouts.Hello)
	switch {
	case err != nil:
		return err
	case m.Kind == KindChallenge:
		return errors.New("the server asks for a token: give --token-file with the one that it has")
	case m.Kind != KindHello:
		return s.protest(fmt.Sprintf("%.20q message where %q was due", m.Kind, KindHello))
	}
	s.program = m.Program
	s.wait = time.Duration(min(max(m.WaitMs, 0), int64(maxWait/time.Millisecond))) * time.Millisecond
	s.interval = s.paceFor(m.PeerTimeoutMs)
	s.pace <- s.interval
	return nil
}

// Propose sends the client's plan, or waits for it at the server.
func (s *Session) Propose(ctx context.Context, p *plan.Spec) (*plan.Spec, error) {
	if s.o.Dialled {
		s.setDoing("proposing the plan")
		if p == nil {
			return nil, errors.New("propose: no plan")
		}
		if err := s.Send(Message{Kind: KindPropose, Plan: p}); err != nil {
			return nil, err
		}
		m, err := s.expect(ctx, KindPlan, s.o.Timeouts.Phase+s.o.Wait)
		if err != nil {
			return nil, err
		}
		if m.Plan == nil {
			return nil, s.protest("plan message without a plan")
		}
		s.plan = m.Plan
		return m.Plan, nil
	}
	s.setDoing("waiting for the client's plan")
	asked := s.pending
	s.pending = nil
	if asked == nil {
		var err error
		if asked, err = s.receivePlan(ctx, s.o.Timeouts.Phase); err != nil || asked == nil {
			return nil, err
		}
	}
	if err := s.Send(Message{Kind: KindPlan, Plan: asked}); err != nil {
		return nil, err
	}
	s.plan = asked
	s.goOn()
	return asked, nil
}

// swap sends a message and waits for the peer's of the same kind.
func (s *Session) swap(ctx context.Context, doing string, local Message, timeout time.Duration) (Message, error) {
	s.setDoing(doing)
	if err := s.Send(local); err != nil {
		return Message{}, err
	}
	return s.expect(ctx, local.Kind, timeout)
}

// Facts exchanges what the two systems are.
func (s *Session) Facts(ctx context.Context, local control.Facts) (control.Facts, error) {
	m, err := s.swap(ctx, "exchanging facts", Message{Kind: kindFacts, Facts: &local}, s.o.Timeouts.Phase)
	if err != nil {
		return control.Facts{}, err
	}
	if m.Facts == nil {
		return control.Facts{}, s.protest("facts message without facts")
	}
	return *m.Facts, nil
}

// Exchange swaps addresses.
func (s *Session) Exchange(ctx context.Context, local []control.Address) ([]control.Address, error) {
	m, err := s.swap(ctx, "exchanging addresses", Message{Kind: KindAddresses, Addresses: local}, s.o.Timeouts.Phase)
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
func (s *Session) Sync(ctx context.Context, phase control.Phase, size int, last bool) error {
	m, err := s.swap(ctx, "waiting for the peer to be "+phase.String(),
		Message{Kind: kindSync, Phase: phase.String(), Size: size, Last: last}, s.o.Timeouts.ForPhase(phase, s.plan))
	if err != nil {
		return err
	}
	if m.Phase != phase.String() || m.Size != size || m.Last != last {
		return s.protest(fmt.Sprintf("it is at %s %d, this end at %s %d", m.Phase, m.Size, phase, size))
	}
	if phase == control.PhaseReady {
		s.setDoing("measuring")
	}
	return nil
}

// Report swaps figures.
func (s *Session) Report(ctx context.Context, local control.Figures) (control.Figures, error) {
	m, err := s.swap(ctx, "exchanging figures", Message{Kind: kindReport, Figures: &local}, s.o.Timeouts.Phase)
	if err != nil {
		return control.Figures{}, err
	}
	if m.Figures == nil {
		return control.Figures{}, s.protest("report message without figures")
	}
	return *m.Figures, nil
}

// Watch returns a context that ends when the peer is lost or reports an error.
func (s *Session) Watch(ctx context.Context) (context.Context, context.CancelFunc) {
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
func (s *Session) Fail(err error) {
	_ = s.finish(Message{Kind: KindError, Error: control.Bounded(err.Error()), Lost: errors.Is(err, control.ErrPeerLost)})
}

// Close says goodbye and closes.
func (s *Session) Close() error { return s.finish(Message{Kind: kindBye}) }

// finish sends the last message, waits until the peer has it (or a second), and ends the goroutines. A connection
// closed with unread bytes would be reset and the last message lost.
func (s *Session) finish(last Message) error {
	s.end.Do(func() {
		if s.o.Release != nil {
			s.o.Release()
		}
		if s.Send(last) == nil {
			if c, ok := s.Conn.(interface{ CloseWrite() error }); ok {
				_ = c.CloseWrite()
			}
			select {
			case <-s.dead:
			case <-time.After(min(time.Second, s.o.Timeouts.Peer)):
			}
		}
		close(s.stop)
		_ = s.Conn.Close()
	})
	s.wg.Wait()
	return nil
}

// Abandon closes without a word.
func (s *Session) Abandon() {
	s.end.Do(func() {
		if s.o.Release != nil {
			s.o.Release()
		}
		close(s.stop)
		_ = s.Conn.Close()
	})
	s.wg.Wait()
}

// protest reports a peer that does not keep to the protocol.
func (s *Session) protest(what string) error {
	return &control.FormatError{Err: fmt.Errorf("%s: %s", *s.doing.Load(), what)}
}

func (s *Session) setDoing(what string) { s.doing.Store(&what) }

// Send writes one message; the peer must take it within the peer timeout.
func (s *Session) Send(m Message) error {
	b, err := AppendFrame(nil, m)
	if err != nil {
		return err
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	_ = s.Conn.SetWriteDeadline(time.Now().Add(s.o.Timeouts.Peer))
	if _, err := s.Conn.Write(b); err != nil {
		return s.sendFailed(err)
	}
	return nil
}

// sendFailed prefers the peer's own words, which may just be arriving, to the broken pipe.
func (s *Session) sendFailed(err error) error {
	select {
	case <-s.dead:
		return s.why
	case <-time.After(100 * time.Millisecond):
		return control.Lost(context.Background(), *s.doing.Load(), err)
	}
}

// expect waits for a message of the given kind.
func (s *Session) expect(ctx context.Context, want Kind, limit time.Duration) (Message, error) {
	m, err := s.receive(ctx, limit)
	if err != nil {
		return Message{}, err
	}
	if m.Kind == kindBye {
		return Message{}, &control.LostError{Phase: *s.doing.Load(), Cause: errors.New("it said goodbye")}
	}
	if m.Kind != want {
		return Message{}, s.protest(fmt.Sprintf("%q message where %q was due", m.Kind, want))
	}
	return m, nil
}

// receive waits for the next message that is no heartbeat. Messages that came before the end of the connection are
// delivered first.
func (s *Session) receive(ctx context.Context, limit time.Duration) (Message, error) {
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
		return Message{}, s.why
	case <-ctx.Done():
		return Message{}, fmt.Errorf("%s: %w", *s.doing.Load(), context.Cause(ctx))
	case <-timer.C:
		return Message{}, &control.LostError{Phase: *s.doing.Load(), Cause: fmt.Errorf("it lives but did not get there within %v", limit)}
	}
}

// die records why the session ended; the first reason counts.
func (s *Session) die(err error) {
	s.once.Do(func() {
		s.why = err
		close(s.dead)
	})
}
