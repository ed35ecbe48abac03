package connect

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gobw/gobw/internal/control/admission"
)

// slots are what may run at once. Networks and addresses that wait take turns: of them the one that was served longest ago, then
// who came first. So a client that waits many times delays no other.
type slots struct {
	most        int
	fromNetwork int // of one network; 0: all

	mu     sync.Mutex
	held   []*slot
	queue  []*waiter
	served []netip.Prefix // addresses and networks, latest last
}

// waiter is a client that waits for a slot.
type waiter struct {
	by   netip.AddrPort
	turn chan *slot
}

// slot is one that is taken.
type slot struct {
	by    netip.AddrPort
	since time.Time
}

// take waits for a slot, no longer than until the context ends. Without one it says who holds them.
func (s *slots) take(ctx context.Context, by netip.AddrPort) (release func(), busy string) {
	w := &waiter{by: by, turn: make(chan *slot, 1)}
	s.mu.Lock()
	s.queue = append(s.queue, w)
	s.dealOut()
	s.mu.Unlock()
	select {
	case mine := <-w.turn:
		return s.releaser(mine), ""
	default:
	}
	select {
	case mine := <-w.turn:
		return s.releaser(mine), ""
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case mine := <-w.turn: // it came at the same moment
		return s.releaser(mine), ""
	default:
	}
	s.queue = slices.DeleteFunc(s.queue, func(x *waiter) bool { return x == w })
	return nil, s.holders()
}

// dealOut gives what is free to those whose turn it is. The lock is held.
func (s *slots) dealOut() {
	for len(s.held) < s.most {
		i := s.next()
		if i < 0 {
			return
		}
		s.queue[i].turn <- s.give(s.queue[i].by)
		s.queue = slices.Delete(s.queue, i, i+1)
	}
}

// waiting tells whether somebody waits.
func (s *slots) waiting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue) > 0
}

// give makes a slot. The lock is held.
func (s *slots) give(by netip.AddrPort) *slot {
	mine := &slot{by: by, since: time.Now()}
	s.held = append(s.held, mine)
	for _, source := range []netip.Prefix{admission.NetworkOf(by.Addr()), admission.AddressOf(by.Addr())} {
		s.served = append(slices.DeleteFunc(s.served, func(p netip.Prefix) bool { return p == source }), source)
	}
	if over := len(s.served) - 2*admission.Most; over > 0 { // more than wait
		s.served = slices.Delete(s.served, 0, over)
	}
	return mine
}

// next is whose turn it is, -1: nobody's. The lock is held.
func (s *slots) next() int {
	turn := func(w *waiter) [2]int {
		return [2]int{slices.Index(s.served, admission.NetworkOf(w.by.Addr())), slices.Index(s.served, admission.AddressOf(w.by.Addr()))}
	}
	best := -1
	for i, w := range s.queue {
		if s.fromNetwork > 0 && s.heldBy(admission.NetworkOf(w.by.Addr())) >= s.fromNetwork {
			continue
		}
		a := turn(w)
		if best < 0 {
			best = i
		} else if b := turn(s.queue[best]); slices.Compare(a[:], b[:]) < 0 {
			best = i
		}
	}
	return best
}

func (s *slots) heldBy(network netip.Prefix) int {
	n := 0
	for _, h := range s.held {
		if admission.NetworkOf(h.by.Addr()) == network {
			n++
		}
	}
	return n
}

func (s *slots) releaser(mine *slot) func() {
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.held = slices.DeleteFunc(s.held, func(x *slot) bool { return x == mine })
		s.dealOut()
	})
}

// Status says who is served and since when.
func (l *Listener) Status() string {
	l.slots.mu.Lock()
	defer l.slots.mu.Unlock()
	if len(l.slots.held) == 0 {
		return "idle"
	}
	return l.slots.holders()
}

// holders says who is being served. The lock is held.
func (s *slots) holders() string {
	var who []string
	for _, h := range s.held {
		who = append(who, fmt.Sprintf("since %s with %s", h.since.Format("15:04:05"), h.by))
	}
	return "busy " + strings.Join(who, ", ")
}
