package frame

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobw/gobw/internal/control"
)

// Options is what distinguishes one session from another.
type Options struct {
	Dialled bool
	Bears   time.Duration // the peer timeout: how long the peer may be silent
	Token   []byte        // a shared secret that both ends prove; nil: none
	From    Handover      // of another process that began the session; zero: it begins here
}

// Handover is the state of a session that one process passes to another.
type Handover struct {
	Messages []Message `json:"messages,omitempty"` // that have come and were not received
	Unread   []byte    `json:"unread,omitempty"`   // the bytes behind them that are no longer in the connection
	Hello    Hello     `json:"hello"`              // the peer's
	In       *seal     `json:"in,omitempty"`       // of what the peer says; nil: there is no token
	Out      *seal     `json:"out,omitempty"`
}

// Session is one conversation. A reader goroutine owns the connection's receiving half; a heartbeat goroutine shows the
// peer that this end lives and judges the peer's silence. Messages are received by one goroutine; any may send.
type Session struct {
	control.Ends
	o       Options
	r       *bufio.Reader
	start   time.Time
	silence silence

	inbox  chan Message
	due    chan int      // to a reader that has paused: the longest message that Receive waits for
	paused atomic.Bool   // the reader waits for due, in front of a long message
	came   chan struct{} // something has come: a message, or the beginning of a long one
	beats  float64       // heartbeats that the peer has sent

	pace chan time.Duration // a new interval of heartbeats, once the peer has said its timeout
	life context.Context    //nolint:containedctx // ends, with its cause, when the peer is lost, said an error, or left
	die  context.CancelCauseFunc
	stop chan struct{} // closed by End, Abandon and Handover
	end  sync.Once
	wg   sync.WaitGroup

	inKnown chan struct{} // closed once it is known whether in is nil; the reader waits for it after a hello
	in      *seal         // of what the peer says; nil: there is no token

	writing sync.Mutex
	out     *seal
	doing   atomic.Pointer[string] // what this end waits for, for errors
	leaving atomic.Bool            // the peer said goodbye
	theirs  Hello                  // the peer's, once the ends have met
}

// inboxMessages is how many messages may have come before they are due. The ends take turns, so a correct peer sends at
// most an answer and a goodbye ahead.
const inboxMessages = 4

// New starts a session on a connection, which it owns.
func New(conn net.Conn, o Options) *Session {
	s := &Session{
		Ends: control.Ends{Conn: conn, Client: o.Dialled}, o: o, start: time.Now(), theirs: o.From.Hello,
		r:     bufio.NewReader(io.MultiReader(bytes.NewReader(o.From.Unread), conn)),
		inbox: make(chan Message, inboxMessages), due: make(chan int), came: make(chan struct{}, 1),
		pace: make(chan time.Duration, 1), stop: make(chan struct{}),
	}
	s.inKnown, s.in, s.out = make(chan struct{}), o.From.In, o.From.Out
	if o.Token == nil || o.From.In != nil {
		close(s.inKnown)
	}
	s.life, s.die = context.WithCancelCause(context.Background())
	for _, m := range o.From.Messages[:min(len(o.From.Messages), inboxMessages)] {
		s.inbox <- m
	}
	s.Doing("greeting")
	s.silence.bears = o.Bears
	s.wg.Go(s.read)
	every := s.interval() // a hello changes it
	s.wg.Go(func() { s.beat(every) })
	return s
}

// PeerProgram is the peer's name and version as it gave them.
func (s *Session) PeerProgram() string { return control.Bounded(s.theirs.Program) }

// maxWait bounds how long a client may stand in a queue.
const maxWait = 24 * time.Hour

// PeerWaits is how long the peer waits while others are served.
func (s *Session) PeerWaits() time.Duration {
	return time.Duration(min(max(s.theirs.WaitMs, 0), maxWait.Milliseconds())) * time.Millisecond
}

// Silence is how long the peer has said nothing.
func (s *Session) Silence() time.Duration {
	return time.Since(s.start) - time.Duration(s.silence.heard.Load())
}

// Doing notes what this end is about, for errors.
func (s *Session) Doing(what string) { s.doing.Store(&what) }

// read takes what the peer sends until the connection ends.
func (s *Session) read() {
	for {
		m, err := s.next()
		if err != nil {
			s.die(s.readFailed(err))
			return
		}
		s.silence.listen(time.Since(s.start))
		switch m.Kind {
		case KindError, KindBusy:
			s.die(&control.PeerError{
				Message: control.Bounded(m.Error), Busy: m.Kind == KindBusy, Cause: m.Cause, Fix: control.Bounded(m.Fix),
			})
			return
		case KindBye:
			s.leaving.Store(true)
		}
		select {
		case s.inbox <- m:
			s.noteArrival()
		default:
			s.die(errUnasked)
			return
		}
		if m.Kind == KindHello {
			select {
			case <-s.inKnown:
			case <-s.stop:
				s.die(errStopped)
				return
			}
		}
	}
}

// noteArrival wakes Await.
func (s *Session) noteArrival() {
	select {
	case s.came <- struct{}{}:
	default:
	}
}

// next reads the next message. Between two messages it may end with errStopped; then another process can go on.
func (s *Session) next() (Message, error) {
	for {
		prefix, err := s.r.Peek(prefixBytes)
		if err != nil {
			return Message{}, err
		}
		n := lengthOf(prefix)
		if n == 0 {
			if s.beats++; s.beats > heartbeatsPerSecond*(1+time.Since(s.start).Seconds()) {
				return Message{}, errUnasked
			}
			s.silence.listen(time.Since(s.start))
		}
		if n > Short {
			if err := s.awaitReceiver(n); err != nil {
				return Message{}, err
			}
		}
		_, _ = s.r.Discard(prefixBytes)
		if n == 0 {
			continue
		}
		m, err := message(s.r, n, s.inSeal())
		if errors.Is(err, errStopped) { // nobody can go on in the middle of a message
			err = io.ErrUnexpectedEOF
		}
		return m, err
	}
}

// inSeal is the seal of what the peer says; nil before both ends have met.
func (s *Session) inSeal() *seal {
	select {
	case <-s.inKnown:
		return s.in
	default:
		return nil
	}
}

// errUnasked is a peer that sends ahead of its turn.
var errUnasked = control.Malformed("it sent unexpected messages")

// errStopped ends the reader when this end stops. It is the error of the read deadline that Handover sets.
var errStopped = os.ErrDeadlineExceeded

func (s *Session) readFailed(err error) error {
	_, format := errors.AsType[*control.FormatError](err)
	switch {
	case format, errors.Is(err, errStopped):
		return err
	case s.leaving.Load() && errors.Is(err, io.EOF):
		return s.saidGoodbye()
	}
	return control.Lost(context.Background(), *s.doing.Load(), err)
}

func (s *Session) saidGoodbye() error {
	return &control.LostError{Phase: *s.doing.Load(), Cause: errors.New("it said goodbye")}
}

// awaitReceiver pauses the reader in front of a message of n bytes until somebody waits for one that long.
func (s *Session) awaitReceiver(n int) error {
	s.paused.Store(true)
	s.noteArrival()
	defer s.paused.Store(false)
	select {
	case most := <-s.due:
		s.silence.listen(time.Since(s.start)) // the pause was not the peer's silence
		if s.inSeal() != nil {
			n -= tagBytes
		}
		if n > most {
			return tooLong(n, most)
		}
		return nil
	case <-s.stop:
		return errStopped
	}
}

// Receive waits for the next message, of at most so many bytes and no longer than the limit (0: for ever). Messages
// that came before the end of the connection are delivered first.
func (s *Session) Receive(ctx context.Context, most int, limit time.Duration) (Message, error) {
	return s.wait(ctx, limit, s.inbox, s.due, most)
}

// Await waits until a message or the beginning of a long one has come, but no longer than the limit. Receive then takes
// the message.
func (s *Session) Await(ctx context.Context, limit time.Duration) error {
	_, err := s.wait(ctx, limit, nil, nil, 0)
	return err
}

// wait takes a message from the inbox once there is one. Without an inbox it takes none, and returns once one has come.
func (s *Session) wait(ctx context.Context, limit time.Duration, inbox <-chan Message, due chan<- int,
	most int,
) (Message, error) {
	var over <-chan time.Time
	if limit > 0 {
		over = time.After(limit)
	}
	for {
		select { // what has come goes before the end of the session
		case m := <-inbox:
			return m, nil
		default:
		}
		if inbox == nil && (len(s.inbox) > 0 || s.paused.Load()) {
			return Message{}, nil
		}
		select {
		case m := <-inbox:
			return m, nil
		case <-s.came:
		case due <- most:
			due = nil // the reader is told once
		case <-s.life.Done():
			if len(s.inbox) == 0 {
				return Message{}, context.Cause(s.life)
			}
		case <-ctx.Done():
			return Message{}, fmt.Errorf("%s: %w", *s.doing.Load(), context.Cause(ctx))
		case <-over: // the peer lives and does nothing
			cause := fmt.Errorf("it answers, but made no progress for %v", limit)
			return Message{}, &control.LostError{Phase: *s.doing.Load(), Cause: cause}
		}
	}
}

// Expect waits, as Receive does, for a message of a kind, and decodes it.
func Expect[T any](ctx context.Context, s *Session, kind string, most int, limit time.Duration) (v T, err error) {
	m, err := s.Receive(ctx, most, limit)
	switch {
	case err != nil:
		return v, err
	case m.Kind == KindBye:
		return v, s.saidGoodbye()
	case m.Kind != kind:
		return v, s.Protest("%.20q message where %q was due", m.Kind, kind)
	}
	return Decode[T](m)
}

// Protest reports a peer that does not keep to the protocol.
func (s *Session) Protest(format string, args ...any) error {
	return control.Malformed("%s: %w", *s.doing.Load(), fmt.Errorf(format, args...))
}

// Send sends a message. It fails if the peer does not take it within the peer timeout.
func (s *Session) Send(kind string, body any) error { return s.sendThenSeal(kind, body, nil) }

// sendThenSeal sends a message. What is sent after it has this seal, if there is one.
func (s *Session) sendThenSeal(kind string, body any, next *seal) error {
	m, err := Of(kind, body)
	if err != nil {
		return err
	}
	return s.send(m, next)
}

func (s *Session) send(m Message, next *seal) error {
	text, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("%s message: %w", m.Kind, err)
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	b := appendFrame(nil, s.out.close(text))
	if next != nil {
		s.out = next
	}
	return s.writeLocked(b)
}

// write sends a heartbeat, which has no seal.
func (s *Session) write(b []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.writeLocked(b)
}

func (s *Session) writeLocked(b []byte) error {
	_ = s.Conn.SetWriteDeadline(time.Now().Add(s.o.Bears))
	if _, err := s.Conn.Write(b); err != nil {
		select { // the peer's own words, which may just be arriving, are better than the broken pipe
		case <-s.life.Done():
			return context.Cause(s.life)
		case <-time.After(100 * time.Millisecond):
			return control.Lost(context.Background(), *s.doing.Load(), err)
		}
	}
	return nil
}

// Watch returns a context that ends, with its cause, when the peer is lost or reports an error.
func (s *Session) Watch(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.life, func() { cancel(context.Cause(s.life)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// Parting is how long the peer may take to hear the last word.
const Parting = time.Second

// End says a last word of kind error, busy or bye and closes. It waits until the peer has it, or for [Parting].
func (s *Session) End(m Message) {
	m.Error, m.Fix = control.Bounded(m.Error), control.Bounded(m.Fix)
	s.close(func() {
		if s.send(m, nil) == nil {
			_ = s.Conn.SetReadDeadline(time.Now().Add(min(Parting, s.o.Bears)))
			hearOut(s.Conn)
		}
	})
}

// Abandon closes without a word.
func (s *Session) Abandon() { s.close(func() {}) }

func (s *Session) close(parting func()) {
	s.end.Do(func() {
		parting()
		close(s.stop)
		_ = s.Conn.Close()
	})
	s.wg.Wait()
}

// Handover ends this process's part of a session between two messages. The connection stays open for another process.
func (s *Session) Handover() (Handover, error) {
	s.end.Do(func() {
		close(s.stop)
		_ = s.Conn.SetReadDeadline(time.Unix(1, 0))
	})
	s.wg.Wait()
	h := Handover{Hello: s.theirs, In: s.in, Out: s.out}
	if err := context.Cause(s.life); !errors.Is(err, errStopped) {
		_ = s.Conn.Close()
		return h, err
	}
	for len(s.inbox) > 0 {
		h.Messages = append(h.Messages, <-s.inbox)
	}
	h.Unread, _ = s.r.Peek(s.r.Buffered())
	return h, nil
}

// Farewell says a last word on a connection whose session another process had, and lets the peer read it.
func (h *Handover) Farewell(conn net.Conn, m Message) {
	_ = conn.SetDeadline(time.Now().Add(Parting))
	text, err := json.Marshal(m)
	if h.Out != nil {
		text = append(text, h.Out.tag(lastFrame, text)...)
	}
	if err == nil {
		_, err = conn.Write(appendFrame(nil, text))
	}
	if err == nil {
		hearOut(conn)
	}
}

// hearOut says that nothing more comes, and discards what the peer still says until it closes: a connection that is
// closed with unread bytes is reset, and the peer may lose the last word.
func hearOut(conn net.Conn) {
	if c, can := conn.(interface{ CloseWrite() error }); can {
		_ = c.CloseWrite()
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(conn, 1<<20))
}
