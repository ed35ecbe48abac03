package connect

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gobw/gobw/internal/control/admission"
)

// slots are what may run at once. The client that came first is served first, but networks and addresses take turns: if
// one was served since a client of it came, this client stands behind all who had come by then. So neither a client
// with many connections nor one with ever new addresses delays an earlier client for more than a turn.
type slots struct {
	most    int
	keepers int // nobody else gets one while so many keep theirs; 0: no matter how many

	mu          sync.Mutex
	held, queue []*slot
	count       uint64 // of arrivals and turns
	// addresses and networks: when they had their last turn, while somebody waits who came before
	served map[netip.Prefix]uint64
}

// slot is a client that waits for one, or has it.
type slot struct {
	of    *slots
	by    netip.AddrPort
	came  uint64
	since time.Time     // when it got the slot
	turn  chan struct{} // closed when it gets the slot
	keeps bool          // it does not leave it to others
}

// take waits for a slot until the context ends. If it gets none, busy says who holds them.
func (s *slots) take(ctx context.Context, by netip.AddrPort) (mine *slot, busy string) {
	mine = &slot{of: s, by: by, turn: make(chan struct{})}
	s.mu.Lock()
	s.count++
	mine.came = s.count
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

// kept is how many are not left to others. The lock is held.
func (s *slots) kept() (n int) {
	for _, h := range s.held {
		if h.keeps {
			n++
		}
	}
	return n
}

func without(list []*slot, gone *slot) []*slot {
	return slices.DeleteFunc(list, func(x *slot) bool { return x == gone })
}

// dealOut gives what is free to those whose turn it is. The lock is held.
func (s *slots) dealOut() {
	place := func(x *slot) (at [5]uint64) {
		for i, source := range admission.SourcesOf(x.by) {
			at[i] = max(s.served[source], x.came)
		}
		at[4] = x.came
		return at
	}
	earlier := func(a, b *slot) int {
		x, y := place(a), place(b)
		return slices.Compare(x[:], y[:])
	}
	for len(s.held) < s.most && len(s.queue) > 0 && (s.keepers == 0 || s.kept() < s.keepers) {
		next := slices.MinFunc(s.queue, earlier)
		s.queue, s.held = without(s.queue, next), append(s.held, next)
		s.count++
		s.note(next.by)
		next.since = time.Now()
		close(next.turn)
	}
}

// note notes that a source has its turn. Turns before all who wait came decide nothing any more, and those that
// are long ago little. The lock is held.
func (s *slots) note(by netip.AddrPort) {
	first := s.count
	for _, x := range s.queue {
		first = min(first, x.came)
	}
	first = max(first, max(s.count, 2*admission.Most)-2*admission.Most)
	if s.served == nil {
		s.served = map[netip.Prefix]uint64{}
	}
	maps.DeleteFunc(s.served, func(_ netip.Prefix, turn uint64) bool { return turn < first })
	for _, source := range admission.SourcesOf(by) {
		s.served[source] = s.count
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
