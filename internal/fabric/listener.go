package fabric

import (
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/frame"
)

// listener takes connections and lets those in that prove themselves.
type listener struct {
	net.Listener
	met     chan *peer
	ctx     context.Context //nolint:containedctx // ends all that have not been let in
	stop    context.CancelFunc
	wg      sync.WaitGroup
	key     []byte
	version string
	note    func(string, ...any)

	mu       sync.Mutex
	pending  []net.Conn // that have proven nothing yet, the oldest first
	lastNote time.Time
}

const (
	proveWithin = 5 * time.Second
	mostPending = 256 // connections that have proven nothing yet
)

func listen(l net.Listener, c *coordinator) *listener {
	s := &listener{Listener: l, met: make(chan *peer, 64), key: c.cfg.Key, version: c.cfg.Version, note: c.note}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.wg.Go(s.accept)
	return s
}

func (s *listener) accept() {
	for {
		conn, err := s.Accept()
		if err != nil {
			select {
			case <-s.ctx.Done():
				return
			case <-time.After(50 * time.Millisecond): // out of descriptors, perhaps
				continue
			}
		}
		s.admit(conn)
		s.wg.Go(func() { s.meet(conn) })
	}
}

// admit notes a connection. Where too many wait, the oldest of the address that has most of them gives way: connections that are
// held open, and made again, keep nobody out.
func (s *listener) admit(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = append(s.pending, conn)
	if len(s.pending) <= mostPending {
		return
	}
	from := func(c net.Conn) netip.Addr { return control.AddrOf(c.RemoteAddr()).Addr() }
	held := map[netip.Addr]int{}
	most := netip.Addr{}
	for _, c := range s.pending {
		if held[from(c)]++; held[from(c)] > held[most] {
			most = from(c)
		}
	}
	i := slices.IndexFunc(s.pending, func(c net.Conn) bool { return from(c) == most })
	_ = s.pending[i].Close()
	s.pending = slices.Delete(s.pending, i, i+1)
}

// proven takes a connection from those that wait; false: it had to give way.
func (s *listener) proven(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.pending, conn)
	if i < 0 {
		return false
	}
	s.pending = slices.Delete(s.pending, i, i+1)
	return true
}

// meet hears who somebody is.
func (s *listener) meet(conn net.Conn) {
	session := frame.New(conn, frame.Options{Bears: orphanAfter, Token: s.key})
	theirs, err := session.Meet(s.ctx, frame.Hello{Program: s.version}, proveWithin)
	p := newPeer(session, theirs.Program)
	if err == nil {
		err = json.Unmarshal(theirs.More, &p.hello)
	}
	if known := s.proven(conn); err != nil || !known {
		if err != nil && s.ctx.Err() == nil {
			s.refused(conn, err)
			session.End(frame.KindError, err.Error(), false)
		}
		session.Abandon()
		return
	}
	select {
	case s.met <- p:
	case <-s.ctx.Done():
		session.Abandon()
	}
}

// refused tells the user of a stranger, at most once a second.
func (s *listener) refused(conn net.Conn, err error) {
	s.mu.Lock()
	quiet := time.Since(s.lastNote) < time.Second
	if !quiet {
		s.lastNote = time.Now()
	}
	s.mu.Unlock()
	if !quiet {
		s.note("refused %s: %v", conn.RemoteAddr(), err)
	}
}

// close stops taking connections and ends those that have not been let in.
func (s *listener) close() {
	s.stop()
	_ = s.Close()
	s.wg.Wait()
	for {
		select {
		case p := <-s.met:
			p.session.Abandon()
		default:
			return
		}
	}
}
