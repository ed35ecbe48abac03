package connect

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/gobw/gobw/internal/control/admission"
)

// TestTurns: of those that wait, networks take turns, then their addresses, then who came first.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slots{most: 1}
		type turn struct {
			who     string
			release func()
		}
		turns := make(chan turn, 100)
		arrive := func(who string) {
			go func() {
				release, _ := s.take(context.Background(), netip.MustParseAddrPort(who))
				turns <- turn{who, release}
			}()
			synctest.Wait()
		}
		const a, b, c, d = "192.0.2.1:1", "192.0.2.2:1", "[2001:db8::1]:1", "[2001:db8::2]:1"
		for _, who := range []string{a, a, a, a, c, d, c, d, b} {
			arrive(who)
		}
		var got []string
		for range 9 {
			x := <-turns
			got = append(got, x.who)
			if x.who == b && len(got) < 9 {
				arrive(b) // who comes back stands behind those that wait
			}
			x.release()
			synctest.Wait()
		}
		want := []string{a, c, b, a, d, b, a, c, b}
		if !slices.Equal(got, want) {
			t.Errorf("served %v, want %v", got, want)
		}
		for range len(s.queue) + 1 {
			(<-turns).release()
			synctest.Wait()
		}
		if len(s.served) > 2*admission.Most {
			t.Errorf("%d sources are remembered", len(s.served))
		}
	})
}
