package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"
)

// maxGreeting bounds the connections that have not finished their first message, or wait for the listener to be free.
const maxGreeting = 64

// Listener admits clients, one session at a time: a second client hears "busy since …". Whoever sends garbage, sends
// slowly or sends nothing is logged and dropped within a time limit, and the listener goes on.
type Listener struct {
	o        ListenOptions
	listener net.Listener
	sessions chan Session
	closed   chan struct{}
	once     sync.Once
	wg       sync.WaitGroup

	mu       sync.Mutex
	busy     bool
	free     chan struct{} // closed when the client that has the listener is gone
	since    time.Time
	with     netip.AddrPort
	greeting []net.Conn // oldest first
	failed   error      // why the listener stopped, if it did by itself
}

// Listen opens the port. Close the listener to stop.
func Listen(o ListenOptions) (*Listener, error) {
	o.Timeouts = o.Timeouts.withDefaults()
	if o.Address == "" {
		o.Address = ":" + strconv.Itoa(DefaultPort)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Perftest.Version != "" {
		if _, err := parseVersion(o.Perftest.Version); err != nil {
			return nil, err
		}
	}
	listener, err := openPort(o)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", o.Address, err)
	}
	l := &Listener{
		o: o, listener: listener,
		sessions: make(chan Session),
		closed:   make(chan struct{}),
	}
	l.wg.Go(l.admit)
	return l, nil
}

func openPort(o ListenOptions) (net.Listener, error) {
	if o.RDMA != nil {
		return listenRDMA(o.RDMA, o.Address, o.Timeouts)
	}
	config := net.ListenConfig{KeepAliveConfig: keepAlive(o.Timeouts.Peer)}
	return config.Listen(context.Background(), "tcp", o.Address)
}

// Addr is where the listener listens.
func (l *Listener) Addr() netip.AddrPort { return addrOf(l.listener.Addr()) }

// Accept waits for the next client. Close or Fail its session before the next one can come.
func (l *Listener) Accept(ctx context.Context) (Session, error) {
	select {
	case s := <-l.sessions:
		return s, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-l.closed:
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.failed != nil {
			return nil, l.failed
		}
		return nil, net.ErrClosed
	}
}

// Close stops listening and drops clients that no Accept has returned. Sessions go on.
func (l *Listener) Close() error {
	l.shut(nil)
	l.wg.Wait()
	return nil
}

func (l *Listener) shut(why error) {
	l.once.Do(func() {
		l.mu.Lock()
		l.failed = why
		for _, conn := range l.greeting {
			_ = conn.SetDeadline(time.Unix(1, 0))
		}
		l.mu.Unlock()
		close(l.closed)
		_ = l.listener.Close()
	})
}

// admit accepts connections until the listener closes.
func (l *Listener) admit() {
	for {
		conn, err := l.listener.Accept()
		if err != nil {
			select {
			case <-l.closed:
				return
			default:
			}
			if _, temporary := errors.AsType[net.Error](err); temporary { // out of file descriptors, a client that went before accept
				l.o.Log.Warn("accept", "err", err)
				select {
				case <-l.closed:
					return
				case <-time.After(50 * time.Millisecond):
				}
				continue
			}
			l.shut(fmt.Errorf("accept: %w", err))
			return
		}
		from := addrOf(conn.RemoteAddr())
		if !l.allowed(from.Addr()) {
			l.o.Log.Warn("client refused: its address is not in --allow", "client", from)
			_ = conn.Close()
			continue
		}
		l.mu.Lock()
		if len(l.greeting) >= maxGreeting { // who holds connections without a word must not keep others out
			oldest := l.greeting[0]
			l.greeting = l.greeting[1:]
			l.o.Log.Warn("too many connections that say nothing: the oldest is dropped", "client", addrOf(oldest.RemoteAddr()), "limit", maxGreeting)
			_ = oldest.Close()
		}
		l.greeting = append(l.greeting, conn)
		l.mu.Unlock()
		l.wg.Go(func() { l.greet(conn, from) })
	}
}

func (l *Listener) allowed(a netip.Addr) bool {
	if len(l.o.Allow) == 0 {
		return true
	}
	for _, p := range l.o.Allow {
		if p.Contains(a.WithZone("")) {
			return true
		}
	}
	return false
}

// greet reads the first message and turns the connection into a session, or tells the client why not.
func (l *Listener) greet(conn net.Conn, from netip.AddrPort) {
	greeted := func() {
		l.mu.Lock()
		l.greeting = slices.DeleteFunc(l.greeting, func(c net.Conn) bool { return c == conn })
		l.mu.Unlock()
	}
	defer greeted()
	drop := func(what string, err error) {
		l.o.Log.Warn(what, "client", from, "err", err)
		_ = conn.Close()
	}
	_ = conn.SetDeadline(time.Now().Add(l.o.Timeouts.Hello))
	select {
	case <-l.closed: // shut may have missed this connection's deadline
		_ = conn.Close()
		return
	default:
	}
	var b [helloBytes]byte
	if n, err := io.ReadFull(conn, b[:]); err != nil {
		drop(fmt.Sprintf("client dropped after %d of the first message's %d bytes", n, helloBytes), err)
		return
	}
	theirs, err := parseHello(b[:])
	if err != nil {
		drop("client dropped: it speaks neither perftest's dialect nor ours", err)
		return
	}
	marked := theirs.ours > 0 && !l.o.Perftest.NoMarker && l.o.RDMA == nil
	peer, err := parseVersion(theirs.version)
	if err != nil {
		drop("client dropped", err)
		return
	}
	if !marked && peer < versionOldest {
		drop("client dropped", fmt.Errorf("it is perftest %s; versions below %s speak another protocol", theirs.version, versionOldest))
		return
	}
	release, since, with := l.takeSoon(from)
	greeted()
	if release == nil {
		why := fmt.Sprintf("busy since %s with %s", since.Format("15:04:05"), with)
		l.o.Log.Info("client turned away", "client", from, "why", why)
		if marked {
			l.tell(conn, message{Kind: kindBusy, Error: why})
		}
		_ = conn.Close()
		return
	}
	s, err := l.session(conn, theirs, peer, marked, release)
	if err != nil {
		release()
		drop("client dropped", err)
		return
	}
	select {
	case l.sessions <- s:
		if l.o.Once {
			l.shut(nil)
		}
	case <-l.closed:
		_ = s.Close()
	}
}

// takeSoon is take with patience for the client before.
func (l *Listener) takeSoon(from netip.AddrPort) (release func(), since time.Time, with netip.AddrPort) {
	late := time.NewTimer(l.o.Timeouts.Parting)
	defer late.Stop()
	for {
		release, free := l.take(from)
		if release != nil {
			return release, time.Time{}, netip.AddrPort{}
		}
		select {
		case <-free:
			continue
		case <-late.C:
		case <-l.closed:
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		return nil, l.since, l.with
	}
}

// take reserves the listener for a client. A nil release comes with what closes when the listener is free.
func (l *Listener) take(from netip.AddrPort) (release func(), free <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy {
		return nil, l.free
	}
	l.busy, l.since, l.with, l.free = true, time.Now(), from, make(chan struct{})
	var once sync.Once
	return func() {
		once.Do(func() {
			l.mu.Lock()
			l.busy = false
			close(l.free)
			l.mu.Unlock()
		})
	}, nil
}

// session answers the first message in the dialect that both ends speak.
func (l *Listener) session(conn net.Conn, theirs hello, peer perftestVersion, marked bool, release func()) (Session, error) {
	if !marked {
		_ = conn.SetDeadline(time.Time{})
		setup := perftestSetup{
			timeouts: l.o.Timeouts, peer: peer, gbits: l.o.Perftest.Gbits, facts: l.o.LocalFacts, release: release,
			memory: l.o.MaxMemory, rdma: l.o.RDMA != nil,
		}
		if l.o.Perftest.Version != "" {
			setup.mine, _ = parseVersion(l.o.Perftest.Version)
		}
		return newPerftestSession(conn, setup), nil
	}
	if _, err := conn.Write(hello{version: "6.27", ours: ourVersion}.encode()); err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Time{})
	if err := checkOurVersion(theirs.ours, "client"); err != nil {
		l.tellFramed(conn, message{Kind: kindError, Error: fmt.Sprintf(
			"the server speaks gobw/%d, the client gobw/%d: upgrade the older one", ourVersion, theirs.ours)})
		return nil, err
	}
	s := newOurSession(conn, ourOptions{
		timeouts: l.o.Timeouts, program: l.o.Program, maxMemory: l.o.MaxMemory, release: release,
	})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // ends a session that is still being introduced when the listener closes
		select {
		case <-l.closed:
			cancel()
		case <-ctx.Done():
		}
	}()
	if err := s.introduce(ctx); err != nil {
		s.abandon()
		return nil, err
	}
	return s, nil
}

// tell answers a client of our dialect with one message and lets it read it.
func (l *Listener) tell(conn net.Conn, m message) {
	if _, err := conn.Write(hello{version: "6.27", ours: ourVersion}.encode()); err != nil {
		return
	}
	l.tellFramed(conn, m)
}

func (l *Listener) tellFramed(conn net.Conn, m message) {
	_ = conn.SetDeadline(time.Now().Add(l.o.Timeouts.Peer))
	b, err := appendFrame(nil, m)
	if err != nil {
		return
	}
	if _, err := conn.Write(b); err != nil {
		return
	}
	if c, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = c.CloseWrite()
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(conn, 1<<16)) // until the client closes: a reset would lose the message
}
