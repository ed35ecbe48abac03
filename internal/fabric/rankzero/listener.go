package rankzero

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/admission"
	"github.com/gobw/gobw/internal/control/frame"
	"github.com/gobw/gobw/internal/fabric"
	"github.com/gobw/gobw/report/plain"
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

	visitors admission.Visitors
	mu       sync.Mutex
	told     map[string]bool // of whom, and why, the user was told
	refused  map[netip.Addr]error
}

const (
	proveWithin   = 5 * time.Second
	mostStrangers = 100 // of whom the user is told
)

// sameSecret is what helps those who do not know this run's key.
const sameSecret = "set the same GOBW_FABRIC_SECRET at all ranks"

func listen(l net.Listener, c *coordinator) *listener {
	s := &listener{
		Listener: l, met: make(chan *peer, 64), key: c.cfg.Key, version: c.cfg.Version, note: c.note, told: map[string]bool{},
		refused: map[netip.Addr]error{},
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.wg.Go(func() {
		if err := s.visitors.Accept(s.ctx, l, s.take, func(error) {}); err != nil && s.ctx.Err() == nil {
			s.note("no more ranks can come: %v", err)
		}
	})
	return s
}

func (s *listener) take(conn net.Conn) {
	if v, closed := s.visitors.Add(conn, control.AddrOf(conn.RemoteAddr())); closed != v {
		s.wg.Go(func() { s.meet(v) })
	}
}

// meet hears who somebody is.
func (s *listener) meet(v *admission.Visitor) {
	session := frame.New(v.Conn, frame.Options{Bears: fabric.OrphanAfter, Token: s.key})
	theirs, err := session.Meet(s.ctx, frame.Hello{Program: s.version}, proveWithin)
	p := &peer{session: session, program: theirs.Program}
	if err == nil {
		err = json.Unmarshal(theirs.More, &p.hello)
	}
	if stays := s.visitors.Leave(v); err != nil || !stays {
		if err != nil && s.ctx.Err() == nil {
			if errors.Is(err, frame.ErrWrongToken) || errors.Is(err, frame.ErrNoToken) {
				err = errors.New("another secret, or another job: " + sameSecret)
			}
			s.tell(v.From.Addr(), err)
			session.End(frame.Message{Kind: frame.KindError, Error: err.Error()})
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

// tell tells the user of a stranger, once: those who wait for a run try again and again.
func (s *listener) tell(from netip.Addr, why error) {
	what := fmt.Sprintf("refused %s: %v", from, why)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.refused) < mostStrangers {
		s.refused[from] = why
	}
	if !s.told[what] && len(s.told) < mostStrangers {
		s.told[what] = true
		s.note("%s", what)
	}
}

// refusal is why a process of one of some addresses was refused; nil: none was.
func (s *listener) refusal(addresses []netip.Addr) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range addresses {
		if why := s.refused[a.Unmap()]; why != nil {
			return why
		}
	}
	return nil
}

// strangers are all that were refused, and why; empty: none.
func (s *listener) strangers() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for from, why := range s.refused {
		out = append(out, fmt.Sprintf("%s: %v", from, why))
	}
	slices.Sort(out)
	return plain.Few(out, 3, "; ")
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
