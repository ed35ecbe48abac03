package connect

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/gobw/gobw/internal/control/admission"
)

// turns are those that clients of one slot take.
type turns struct {
	slots
	taken chan turn
}

type turn struct {
	who string
	*slot
}

// arrive lets a client wait for its turn.
func (x *turns) arrive(who string) {
	go func() {
		mine, _ := x.take(context.Background(), netip.MustParseAddrPort(who))
		x.taken <- turn{who, mine}
	}()
	synctest.Wait()
}

func newTurns() *turns { return &turns{slots: slots{most: 1}, taken: make(chan turn, 1000)} }

// TestTurns: who comes first is served first; who was served stands behind those that wait, and so does its network.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTurns()
		const a, b, c, d, e = "192.0.2.1:1", "192.0.2.2:1", "[2001:db8::1]:1", "[2001:db8::2]:1", "[2001:db8:0:1::2]:1"
		for _, who := range []string{a, a, a, a, c, d, c, e, d, b} {
			s.arrive(who)
		}
		var got []string
		for range 11 {
			x := <-s.taken
			got = append(got, x.who)
			if x.who == b && len(got) < 9 {
				s.arrive(b) // who comes back stands behind those that wait
			}
			x.release()
			synctest.Wait()
		}
		want := []string{a, a, c, b, a, e, b, a, d, b, c}
		if !slices.Equal(got, want) {
			t.Errorf("served %v, want %v", got, want)
		}
	})
}

// TestNewSources: clients of ever new addresses and networks, two of which always wait, do not overtake one that came
// before them and was served just now; and little is remembered of them.
func TestNewSources(t *testing.T) {
	const honest = "192.0.2.1:1"
	for name, stranger := range map[string]func(i int) string{
		"IPv4": func(i int) string { return fmt.Sprintf("198.51.%d.%d:1", i/256, i%256) },
		"/64":  func(i int) string { return fmt.Sprintf("[2001:db8:0:%x::1]:1", i) },
		"/48":  func(i int) string { return fmt.Sprintf("[2001:db8:%x::1]:1", i) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTurns()
				s.arrive(honest)
				(<-s.taken).release()
				s.arrive(stranger(0))
				s.arrive(stranger(1))
				s.arrive(honest)
				since, most := 0, 0
				for i := range 2000 {
					x := <-s.taken
					if since++; x.who == honest {
						most, since = max(most, since), 0
						s.arrive(honest)
					} else {
						s.arrive(stranger(i + 2))
					}
					x.release()
					synctest.Wait()
				}
				if most == 0 || most > 4 || since > 4 {
					t.Errorf("the honest client waited for %d and %d others", most, since)
				}
				if len(s.served) > 8*admission.Most {
					t.Errorf("%d sources are remembered", len(s.served))
				}
				s.most = 1000
				for range len(s.queue) + 1 {
					(<-s.taken).release()
					synctest.Wait()
				}
			})
		})
	}
}
