package connect

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// slots are the tests that may run at once. Who waits is served in the order of arrival.
type slots struct {
	most int

	mu    sync.Mutex
	held  []*slot
	queue []chan *slot
}

// slot is one that is taken.
type slot struct {
	by    netip.AddrPort
	since time.Time
}

// take waits for a slot, no longer than until the context ends. Without one it says who holds them.
func (s *slots) take(ctx context.Context, by netip.AddrPort) (release func(), busy string) {
	s.mu.Lock()
	if len(s.held) < s.most && len(s.queue) == 0 {
		mine := s.give(by)
		s.mu.Unlock()
		return s.releaser(mine), ""
	}
	turn := make(chan *slot, 1)
	s.queue = append(s.queue, turn)
	s.mu.Unlock()
	select {
	case mine := <-turn:
		mine.by, mine.since = by, time.Now()
		return s.releaser(mine), ""
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case mine := <-turn: // it came at the same moment
		mine.by, mine.since = by, time.Now()
		return s.releaser(mine), ""
	default:
	}
	s.queue = slices.DeleteFunc(s.queue, func(c chan *slot) bool { return c == turn })
	return nil, s.holders()
}

// give makes a slot. The lock is held.
func (s *slots) give(by netip.AddrPort) *slot {
	mine := &slot{by: by, since: time.Now()}
	s.held = append(s.held, mine)
	return mine
}

func (s *slots) releaser(mine *slot) func() {
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.held = slices.DeleteFunc(s.held, func(x *slot) bool { return x == mine })
		if len(s.queue) > 0 && len(s.held) < s.most {
			s.queue[0] <- s.give(netip.AddrPort{})
			s.queue = s.queue[1:]
		}
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
