package coordinate

import (
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/gobw/gobw/internal/fabric/wire"
)

// server takes connections and lets those in that prove themselves.
type server struct {
	listener net.Listener
	met      chan *peer
	mu       sync.Mutex
	pending  map[net.Conn]bool
	closed   bool
	stop     chan struct{}
	wg       sync.WaitGroup
	slots    chan struct{}
	key      wire.Key
	version  string
	note     func(string, ...any)
	lastNote time.Time
}

const (
	proveWithin = 5 * time.Second
	mostPending = 256 // connections that have proven nothing yet
)

func listen(l net.Listener, c *coordinator) *server {
	s := &server{
		listener: l, met: make(chan *peer, 64), pending: map[net.Conn]bool{}, stop: make(chan struct{}), slots: make(chan struct{}, mostPending),
		key: c.cfg.Key, version: c.cfg.Version, note: c.note,
	}
	s.wg.Go(s.accept)
	return s
}

func (s *server) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			select {
			case <-s.stop:
				return
			case <-time.After(50 * time.Millisecond): // out of descriptors, perhaps
				continue
			}
		}
		s.slots <- struct{}{}
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			_ = conn.Close()
			return
		}
		s.pending[conn] = true
		s.wg.Go(func() {
			s.meet(conn)
			<-s.slots
		})
		s.mu.Unlock()
	}
}

// meet hears who somebody is.
func (s *server) meet(conn net.Conn) {
	keep := false
	defer func() {
		s.mu.Lock()
		delete(s.pending, conn)
		s.mu.Unlock()
		if !keep {
			_ = conn.Close()
		}
	}()
	if conn.SetDeadline(time.Now().Add(proveWithin)) != nil {
		return
	}
	h, proof, err := s.key.Meet(conn)
	if err == nil && h.Version != s.version {
		err = fmt.Errorf("it is gobw %.40q, rank 0 is %.40q: run the same on all hosts", h.Version, s.version)
	}
	if err != nil {
		_ = wire.Write(conn, &wire.Message{Kind: wire.KindRefused, Text: err.Error()})
		s.refused(conn, h, err)
		if h == nil || len(proof) == 0 { // only who has proven himself is known by his rank
			return
		}
	} else if wire.Write(conn, &wire.Message{Kind: wire.KindWelcome, Challenge: &wire.Challenge{Proof: proof}}) != nil || conn.SetDeadline(time.Time{}) != nil {
		return
	}
	p := newPeer(conn, h)
	p.excluded = err != nil
	select {
	case s.met <- p:
		keep = true
	case <-s.stop:
	}
}

// refused tells the user of a stranger, at most once a second.
func (s *server) refused(conn net.Conn, h *wire.Hello, err error) {
	s.mu.Lock()
	quiet := time.Since(s.lastNote) < time.Second
	if !quiet {
		s.lastNote = time.Now()
	}
	s.mu.Unlock()
	if quiet {
		return
	}
	who := conn.RemoteAddr().String()
	if h != nil {
		who += fmt.Sprintf(" (says it is rank %d on %q)", h.Rank, wire.Clean(h.Host))
	}
	s.note("refused %s: %s", who, wire.Clean(err.Error()))
}

// close stops taking connections and ends those that have not been let in.
func (s *server) close() {
	s.mu.Lock()
	s.closed = true
	close(s.stop)
	_ = s.listener.Close()
	for c := range s.pending {
		_ = c.Close()
	}
	s.mu.Unlock()
	select { // accept may wait for a slot
	case <-s.slots:
	default:
	}
	s.wg.Wait()
	for {
		select {
		case p := <-s.met:
			_ = p.conn.Close()
		default:
			return
		}
	}
}
