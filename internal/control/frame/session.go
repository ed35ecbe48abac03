package frame

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
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
	// PauseAfter is the kind of message after which nothing is read until somebody waits for more: another process may read on.
	PauseAfter string
	From       Handover // of another process that began the session; zero: it begins here
}

// Handover is a session between two processes.
type Handover struct {
	Unread []byte        `json:"unread,omitempty"` // what was read of the connection and not used
	Beat   time.Duration `json:"beat_ns"`          // pace of heartbeats that the ends have agreed on
	Hello  Hello         `json:"hello"`            // the peer's
}

// Session is one conversation. A reader goroutine owns the connection's receiving half; a heartbeat goroutine shows the peer that
// this end lives and judges the peer's silence. Messages are received by one goroutine; any may send.
type Session struct {
	control.Ends
	o       Options
	r       *bufio.Reader
	start   time.Time
	silence silence

	mu      sync.Mutex
	inbox   []Message
	due     int           // the longest message that Receive waits for; 0: it does not wait
	arrived chan struct{} // the inbox may hold something
	awaited chan struct{} // due may have changed
	paused  atomic.Bool   // the reader waits until Receive is called

	interval time.Duration      // of heartbeats
	pace     chan time.Duration // a new one, once the peer has said its timeout
	life     context.Context    //nolint:containedctx // ends, with its cause, when the peer is lost, said an error, or left
	die      context.CancelCauseFunc
	stop     chan struct{} // closed by End, Abandon and Handover
	end      sync.Once
	wg       sync.WaitGroup

	writing sync.Mutex
	doing   atomic.Pointer[string] // what this end waits for, for errors
	leaving atomic.Bool            // the peer said goodbye
	theirs  Hello                  // once they have met
}

// inboxMessages is how many messages may have come before they are due: the ends take turns, so a goodbye may follow what
// was asked for, and nothing else.
const inboxMessages = 2

// New starts a session on a connection, which it owns.
func New(conn net.Conn, o Options) *Session {
	s := &Session{
		Ends: control.Ends{Conn: conn, Client: o.Dialled}, o: o, start: time.Now(),
		r: bufio.NewReader(io.MultiReader(bytes.NewReader(o.From.Unread), conn)), interval: o.From.Beat, theirs: o.From.Hello,
		arrived: make(chan struct{}, 1), awaited: make(chan struct{}, 1), pace: make(chan time.Duration, 1),
		stop: make(chan struct{}),
	}
	s.life, s.die = context.WithCancelCause(context.Background())
	if s.interval == 0 {
		s.interval = Interval(o.Bears)
	}
	s.Doing("greeting")
	s.silence.bears = o.Bears
	s.wg.Go(s.read)
	every := s.interval // which a hello changes
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
	var f reader
	beats := 0
	for {
		n, err := f.length(s.r)
		if err == nil && n == 0 {
			if beats++; float64(beats) > heartbeatsPerSecond*(1+time.Since(s.start).Seconds()) {
				s.die(&control.FormatError{Err: errUnasked})
				return
			}
			s.silence.listen(time.Since(s.start))
			continue
		}
		if err == nil && n > Short {
			most, waiting := s.awaitReceiver()
			if !waiting {
				return
			}
			if n > most {
				err = tooLong(n, most)
			}
		}
		var m Message
		if err == nil {
			m, err = f.message(s.r, n)
		}
		if err != nil {
			s.die(s.readFailed(err))
			return
		}
		s.silence.listen(time.Since(s.start))
		switch m.Kind {
		case KindError, KindBusy:
			s.die(&control.PeerError{Message: control.Bounded(m.Error), Busy: m.Kind == KindBusy, Lost: m.Lost})
			return
		case KindBye:
			s.leaving.Store(true)
		}
		if !s.deliver(m) {
			s.die(&control.FormatError{Err: errUnasked})
			return
		}
		if m.Kind == s.o.PauseAfter {
			if _, waiting := s.awaitReceiver(); !waiting {
				return
			}
		}
	}
}

// errUnasked is a peer that sends ahead of its turn.
var errUnasked = errors.New("it sent unexpected messages")

func (s *Session) readFailed(err error) error {
	if _, format := errors.AsType[*control.FormatError](err); format {
		return err
	}
	if s.leaving.Load() && errors.Is(err, io.EOF) {
		return s.saidGoodbye()
	}
	return control.Lost(context.Background(), *s.doing.Load(), err)
}

func (s *Session) saidGoodbye() error {
	return &control.LostError{Phase: *s.doing.Load(), Cause: errors.New("it said goodbye")}
}

// awaitReceiver pauses the reader until somebody waits for a message, and tells of how many bytes at most; false: the session ends.
func (s *Session) awaitReceiver() (most int, waiting bool) {
	s.paused.Store(true)
	defer s.paused.Store(false)
	for {
		s.mu.Lock()
		most = s.due
		s.mu.Unlock()
		if most > 0 {
			s.silence.listen(time.Since(s.start))
			return most, true
		}
		select {
		case <-s.awaited:
		case <-s.stop:
			return 0, false
		}
	}
}

// deliver puts a message into the inbox; false: too many have come unasked.
func (s *Session) deliver(m Message) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.inbox) == inboxMessages {
		return false
	}
	s.inbox, s.due = append(s.inbox, m), 0
	nudge(s.arrived)
	return true
}

// take is the oldest message; where there is none it notes how long the next may be.
func (s *Session) take(most int) (Message, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.inbox) == 0 {
		s.due = most
		nudge(s.awaited)
		return Message{}, false
	}
	m := s.inbox[0]
	s.inbox = append(s.inbox[:0], s.inbox[1:]...)
	return m, true
}

func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Receive waits for the next message, of at most so many bytes and no longer than the limit (0: for ever). Messages that came
// before the end of the connection are delivered first.
func (s *Session) Receive(ctx context.Context, most int, limit time.Duration) (Message, error) {
	var over <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		over = timer.C
	}
	for {
		if m, is := s.take(most); is {
			return m, nil
		}
		select {
		case <-s.arrived:
		case <-s.life.Done():
			if m, is := s.take(most); is {
				return m, nil
			}
			return Message{}, context.Cause(s.life)
		case <-ctx.Done():
			return Message{}, fmt.Errorf("%s: %w", *s.doing.Load(), context.Cause(ctx))
		case <-over:
			return Message{}, &control.LostError{Phase: *s.doing.Load(), Cause: fmt.Errorf("it answers, but made no progress for %v", limit)}
		}
	}
}

// Await waits, as Receive does, until there is a message, and leaves it to Receive or Handover.
func (s *Session) Await(ctx context.Context, most int, limit time.Duration) (kind string, err error) {
	m, err := s.Receive(ctx, most, limit)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.inbox = append([]Message{m}, s.inbox...)
	}
	return m.Kind, err
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
	return wrong("%s: %w", *s.doing.Load(), fmt.Errorf(format, args...))
}

// Send says something; the peer must take it while its silence would be borne.
func (s *Session) Send(kind string, body any) error {
	m, err := Of(kind, body)
	if err != nil {
		return err
	}
	return s.send(m)
}

func (s *Session) send(m Message) error {
	b, err := Append(nil, m)
	if err != nil {
		return err
	}
	return s.write(b)
}

func (s *Session) write(b []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
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

// End says a last word of kind error, busy or bye and closes. It waits until the peer has it, or a second.
func (s *Session) End(kind, words string, lost bool) {
	s.close(func() {
		if s.send(Message{Kind: kind, Error: control.Bounded(words), Lost: lost}) == nil {
			closeWrite(s.Conn)
			s.mu.Lock()
			s.due = Short // a reader that has paused goes on, and sees the peer close
			s.mu.Unlock()
			nudge(s.awaited)
			select {
			case <-s.life.Done():
			case <-time.After(min(time.Second, s.o.Bears)):
			}
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

// Handover ends this process's part of a session that has paused. The connection stays open for another process.
func (s *Session) Handover() (Handover, error) {
	s.end.Do(func() { close(s.stop) })
	s.wg.Wait()
	h := Handover{Beat: s.interval, Hello: s.theirs}
	select {
	case <-s.life.Done():
		_ = s.Conn.Close()
		return h, context.Cause(s.life)
	default:
	}
	var err error
	for _, m := range s.inbox {
		if h.Unread, err = Append(h.Unread, m); err != nil {
			return h, err
		}
	}
	read := make([]byte, s.r.Buffered())
	_, err = io.ReadFull(s.r, read)
	h.Unread = append(h.Unread, read...)
	return h, err
}

// Farewell says a last word on a connection that has no session, and lets the peer read it.
func Farewell(conn net.Conn, m Message, within time.Duration) {
	_ = conn.SetDeadline(time.Now().Add(within))
	if write(conn, m) != nil {
		return
	}
	closeWrite(conn)
	_, _ = io.Copy(io.Discard, io.LimitReader(conn, 1<<20)) // until the peer closes: a reset would lose the message
}

func closeWrite(conn net.Conn) {
	if c, can := conn.(interface{ CloseWrite() error }); can {
		_ = c.CloseWrite()
	}
}
