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
	most int

	mu          sync.Mutex
	held, queue []*slot
	served      []netip.Prefix // addresses and networks, latest last
}

// slot is a client that waits for one, or has it.
type slot struct {
	by    netip.AddrPort
	since time.Time     // it has it
	turn  chan struct{} // closed by then
}

// take waits for a slot, no longer than until the context ends. Without one it says who holds them.
func (s *slots) take(ctx context.Context, by netip.AddrPort) (release func(), busy string) {
	mine := &slot{by: by, turn: make(chan struct{})}
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
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.held = without(s.held, mine)
		s.dealOut()
	}), ""
}

func without(list []*slot, gone *slot) []*slot {
	return slices.DeleteFunc(list, func(x *slot) bool { return x == gone })
}

// dealOut gives what is free to those whose turn it is. The lock is held.
func (s *slots) dealOut() {
	last := func(x *slot) []int {
		from := admission.SourcesOf(x.by)
		return []int{slices.Index(s.served, from[0]), slices.Index(s.served, from[1])}
	}
	for len(s.held) < s.most && len(s.queue) > 0 {
		next := slices.MinFunc(s.queue, func(a, b *slot) int { return slices.Compare(last(a), last(b)) })
		s.queue, s.held = without(s.queue, next), append(s.held, next)
		for _, source := range admission.SourcesOf(next.by) {
			s.served = append(slices.DeleteFunc(s.served, func(p netip.Prefix) bool { return p == source }), source)
		}
		if over := len(s.served) - 2*admission.Most; over > 0 { // more than wait
			s.served = slices.Delete(s.served, 0, over)
		}
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
