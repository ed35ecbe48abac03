package connect

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
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
		if len(s.served) > 2*maxVisitors {
			t.Errorf("%d sources are remembered", len(s.served))
		}
	})
}

// TestNetworkOfAddresses: one host's 64 bits of IPv6 addresses do not fill the house, not even with clients that wait.
func TestNetworkOfAddresses(t *testing.T) {
	var v visitors
	enter := func(address string) *visitor {
		conn, other := net.Pipe()
		t.Cleanup(func() { _, _ = conn.Close(), other.Close() })
		x, _ := v.add(conn, netip.AddrPortFrom(netip.MustParseAddr(address), 1))
		if x != nil {
			v.advance(x, waiting)
		}
		return x
	}
	entered := 0
	for i := range 300 {
		if enter(fmt.Sprintf("2001:db8::%x", i+1)) != nil {
			entered++
		}
	}
	if entered != maxFromNetwork {
		t.Errorf("%d of 300 addresses of one network wait, want %d", entered, maxFromNetwork)
	}
	if enter("2001:db8:0:1::1") == nil || enter("192.0.2.1") == nil {
		t.Error("others do not get in")
	}
}

// TestWaitingClientsGiveWay: clients that wait fill the house from a few addresses, and one from another still gets in, and keeps its place.
func TestWaitingClientsGiveWay(t *testing.T) {
	for name, stranger := range map[string]func(i int) string{
		"eight addresses":   func(i int) string { return fmt.Sprintf("192.0.2.%d", 1+i%8) },
		"two IPv6 networks": func(i int) string { return fmt.Sprintf("2001:db8:0:%x::%x", i%2, i) },
	} {
		t.Run(name, func(t *testing.T) {
			var v visitors
			enter := func(address string) *visitor {
				conn, other := net.Pipe()
				t.Cleanup(func() { _, _ = conn.Close(), other.Close() })
				x, _ := v.add(conn, netip.AddrPortFrom(netip.MustParseAddr(address), 1))
				if x != nil {
					v.advance(x, waiting)
				}
				return x
			}
			for i := range 2 * maxVisitors {
				enter(stranger(i))
			}
			honest := enter("198.51.100.7")
			if honest == nil {
				t.Fatal("there is no room for another")
			}
			for i := range 2 * maxVisitors {
				enter(stranger(i))
			}
			if !slices.Contains(v.list, honest) || len(v.list) > maxVisitors {
				t.Errorf("it was put out, or there are %d", len(v.list))
			}
		})
	}
}

// TestPlacesOfANetwork: one network never has all places, and who comes from another need not wait behind it.
func TestPlacesOfANetwork(t *testing.T) {
	s := &slots{most: 4, fromNetwork: 2}
	now, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 {
		if release, _ := s.take(now, netip.MustParseAddrPort("[2001:db8::1]:1")); release == nil {
			t.Fatal("no place")
		}
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	go s.take(ctx, netip.MustParseAddrPort("[2001:db8::2]:1"))
	if release, _ := s.take(now, netip.MustParseAddrPort("[2001:db8::3]:1")); release != nil {
		t.Error("a third place of one network")
	}
	if release, _ := s.take(now, netip.MustParseAddrPort("192.0.2.1:1")); release == nil {
		t.Error("no place for another network")
	}
}
