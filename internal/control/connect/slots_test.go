package connect

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// queue is one slot, and the order in which clients have it.
type queue struct {
	slots
	taken chan turn
}

type turn struct {
	who string
	*slot
}

// arrive lets a client wait for its turn.
func (x *queue) arrive(ctx context.Context, who string) {
	go func() {
		if mine, _ := x.take(ctx, netip.MustParseAddrPort(who)); mine != nil {
			x.taken <- turn{who, mine}
		}
	}()
	synctest.Wait()
}

func newQueue() *queue { return &queue{slots: slots{most: 1}, taken: make(chan turn, 100)} }

// TestTurns: clients are served in the order in which they came, whatever their addresses are; one that gives up is
// left out, and one that comes again stands behind all who wait.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newQueue()
		const a, b, c = "192.0.2.1:1", "192.0.2.2:1", "[2001:db8::1]:1"
		patient := context.Background()
		impatient, giveUp := context.WithCancel(patient)
		for _, who := range []string{a, a, c} {
			s.arrive(patient, who)
		}
		s.arrive(impatient, c)
		s.arrive(patient, b)
		giveUp()
		synctest.Wait()
		var got []string
		for range 5 {
			x := <-s.taken
			if got = append(got, x.who); len(got) == 1 {
				s.arrive(patient, a)
			}
			x.release()
			synctest.Wait()
		}
		if want := []string{a, a, c, b, a}; !slices.Equal(got, want) {
			t.Errorf("served %v, want %v", got, want)
		}
	})
}

// TestNewSources: clients of ever new addresses, two of which always wait, do not overtake one that came before them.
func TestNewSources(t *testing.T) {
	const honest = "192.0.2.1:1"
	synctest.Test(t, func(t *testing.T) {
		s, stranger := newQueue(), func(i int) string { return fmt.Sprintf("[2001:db8:%x::1]:1", i) }
		s.arrive(t.Context(), stranger(0))
		s.arrive(t.Context(), stranger(1))
		s.arrive(t.Context(), honest)
		since, served := 0, 0
		for i := range 200 {
			x := <-s.taken
			if since++; x.who == honest {
				since = 0
				served++
				s.arrive(t.Context(), honest)
			} else {
				s.arrive(t.Context(), stranger(i+2))
			}
			x.release()
			synctest.Wait()
			if since > 2 {
				t.Fatalf("%d others were served while the honest client waited", since)
			}
		}
		if served < 60 {
			t.Errorf("the honest client was served %d times of 200", served)
		}
		for range 3 {
			(<-s.taken).release()
			synctest.Wait()
		}
	})
}

// TestOverdue: of those that have not agreed on a test, the one that has its seat longest loses it, and only where
// others wait.
func TestOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newQueue()
		s.most = 2
		s.arrive(t.Context(), "192.0.2.1:1")
		s.arrive(t.Context(), "192.0.2.2:1")
		first, second := <-s.taken, <-s.taken
		time.Sleep(time.Second)
		overdue := func() [2]bool { return [2]bool{first.overdue(time.Second / 2), second.overdue(time.Second / 2)} }
		if got := overdue(); got != [2]bool{} {
			t.Errorf("nobody waits: %v", got)
		}
		s.arrive(t.Context(), "192.0.2.3:1")
		if got := overdue(); got != [2]bool{true, false} {
			t.Errorf("another waits: %v", got)
		}
		first.keep()
		if got := overdue(); got != [2]bool{false, true} {
			t.Errorf("the first has agreed: %v", got)
		}
		second.release()
		(<-s.taken).release()
		first.release()
	})
}
