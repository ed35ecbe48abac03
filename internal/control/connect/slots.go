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

// slots are places for clients. The client that came first gets the next free one.
type slots struct {
	most int

	mu          sync.Mutex
	held, queue []*slot
}

// slot is a client that waits for one, or has it.
type slot struct {
	of    *slots
	by    netip.AddrPort
	since time.Time     // when it got the slot
	turn  chan struct{} // closed when it gets the slot
	keeps bool          // it cannot lose the slot
}

// take waits for a slot until the context ends. If it gets none, busy says who holds them.
func (s *slots) take(ctx context.Context, by netip.AddrPort) (mine *slot, busy string) {
	mine = &slot{of: s, by: by, turn: make(chan struct{})}
	s.mu.Lock()
	s.queue = append(s.queue, mine)
	s.dealOut()
	s.mu.Unlock()
	select {
	case <-mine.turn:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if mine.since.IsZero() {
		s.queue = without(s.queue, mine)
		return nil, s.holders()
	}
	return mine, ""
}

// release gives the slot back. It may be called twice.
func (x *slot) release() {
	s := x.of
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = without(s.held, x)
	s.dealOut()
}

// keep says that the client cannot lose the slot.
func (x *slot) keep() {
	x.of.mu.Lock()
	defer x.of.mu.Unlock()
	x.keeps = true
}

// overdue tells whether the client must give its slot to another: somebody waits, no slot is free, the client has had
// its slot for longer than after, and longest of those that can lose theirs.
func (x *slot) overdue(after time.Duration) bool {
	s := x.of
	s.mu.Lock()
	defer s.mu.Unlock()
	first := slices.IndexFunc(s.held, func(h *slot) bool { return !h.keeps })
	return len(s.queue) > 0 && len(s.held) >= s.most && first >= 0 && s.held[first] == x && time.Since(x.since) > after
}

func without(list []*slot, gone *slot) []*slot {
	return slices.DeleteFunc(list, func(x *slot) bool { return x == gone })
}

// dealOut gives free slots to the clients that came first. The lock is held.
func (s *slots) dealOut() {
	for len(s.held) < s.most && len(s.queue) > 0 {
		next := s.queue[0]
		s.queue, s.held = s.queue[1:], append(s.held, next)
		next.since = time.Now()
		close(next.turn)
	}
}

// waiting tells whether somebody waits.
func (s *slots) waiting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue) > 0
}

// Status says who is served and since when.
func (l *Listener) Status() string {
	l.slots.mu.Lock()
	defer l.slots.mu.Unlock()
	if len(l.slots.held) == 0 && !l.seats.waiting() {
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
	if len(who) == 0 {
		return "busy with others that came before"
	}
	return "busy " + strings.Join(who, ", ")
}
