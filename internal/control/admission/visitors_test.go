package admission

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestManyGiveWayToOne: connections fill the house from a few places; one from another place still gets in, whatever
// they wait for, and keeps its place, and one of their own place is refused while all of them wait.
func TestManyGiveWayToOne(t *testing.T) {
	for name, stranger := range map[string]func(i int) string{
		"one address":                   func(int) string { return "192.0.2.1" },
		"eight addresses":               func(i int) string { return fmt.Sprintf("192.0.2.%d", 1+i%8) },
		"one IPv6 network":              func(i int) string { return fmt.Sprintf("2001:db8::%x", i) },
		"two IPv6 networks":             func(i int) string { return fmt.Sprintf("2001:db8:0:%x::%x", i%2, i) },
		"a /56":                         func(i int) string { return fmt.Sprintf("2001:db8:0:%x::1", i%256) },
		"a /48":                         func(i int) string { return fmt.Sprintf("2001:db8:0:%x::1", i*256%65536) },
		"an address of the own network": func(int) string { return "2001:db8:7::2" },
	} {
		for _, progress := range []Progress{Silent, Greeted, Waiting} {
			t.Run(fmt.Sprint(name, " ", progress), func(t *testing.T) {
				var v Visitors
				enter := func(address string, p Progress) *Visitor {
					conn, other := net.Pipe()
					t.Cleanup(func() { _, _ = conn.Close(), other.Close() })
					x, closed := v.Add(conn, netip.AddrPortFrom(netip.MustParseAddr(address), 1))
					if x == closed {
						return nil
					}
					v.Advance(x, p, time.Time{})
					return x
				}
				for i := range 2 * Most {
					enter(stranger(i), progress)
				}
				if more := enter(stranger(0), progress); (more == nil) != (progress == Waiting) {
					t.Errorf("one more of them: %v", more)
				}
				honest := enter("2001:db8:7::1", Waiting)
				if honest == nil {
					t.Fatal("there is no room for another")
				}
				for i := range 2 * Most {
					enter(stranger(i), progress)
				}
				if !slices.Contains(v.list, honest) || len(v.list) != Most {
					t.Errorf("it was put out, or there are %d", len(v.list))
				}
				if !v.Leave(honest) || v.Leave(honest) {
					t.Error("who leaves was there once")
				}
			})
		}
	}
}

// TestFewDescriptors: out of descriptors, a quarter of the visitors gives way and no more are
// admitted than the rest, until all have gone.
func TestFewDescriptors(t *testing.T) {
	var v Visitors
	enter := func() *Visitor {
		conn, other := net.Pipe()
		t.Cleanup(func() { _, _ = conn.Close(), other.Close() })
		x, _ := v.Add(conn, netip.MustParseAddrPort("192.0.2.1:1"))
		return x
	}
	for range 40 {
		enter()
	}
	v.makeRoom()
	enter()
	if len(v.list) != 30 {
		t.Errorf("%d stay of 40, want 30", len(v.list))
	}
	for range 100 {
		v.makeRoom()
	}
	last := enter()
	if len(v.list) != 1 || v.list[0] != last {
		t.Errorf("%d are left, want the newest", len(v.list))
	}
	v.Leave(last)
	for range Most + 1 {
		enter()
	}
	if len(v.list) != Most {
		t.Errorf("%d are admitted once all had gone, want %d", len(v.list), Most)
	}
}

// TestLongestHoldGivesWay: connections of as many addresses as there are places want to wait for a day; one that wants
// to wait for a moment gets in, also from one of their addresses, and stays.
func TestLongestHoldGivesWay(t *testing.T) {
	var v Visitors
	now := time.Now()
	enter := func(address string, hold time.Duration) *Visitor {
		conn, other := net.Pipe()
		t.Cleanup(func() { _, _ = conn.Close(), other.Close() })
		x, closed := v.Add(conn, netip.AddrPortFrom(netip.MustParseAddr(address), 1))
		if x == closed {
			return nil
		}
		v.Advance(x, Waiting, now.Add(hold))
		return x
	}
	for i := range Most {
		enter(fmt.Sprintf("192.0.2.%d", i), 24*time.Hour)
	}
	for _, address := range []string{"198.51.100.1", "192.0.2.1"} {
		x := enter(address, time.Minute)
		if x == nil {
			t.Fatalf("%s found no place", address)
		}
		enter("203.0.113.1", 25*time.Hour)
		enter("203.0.113.1", 25*time.Hour)
		select {
		case <-x.Out:
			t.Errorf("%s had to give way", address)
		default:
		}
	}
}

// TestBrokenListener: a listener that is broken ends Accept; one that has no descriptors goes on.
func TestBrokenListener(t *testing.T) {
	for errno, ends := range map[syscall.Errno]bool{
		syscall.EBADF: true, syscall.EINVAL: true, syscall.EMFILE: false, syscall.ECONNABORTED: false,
	} {
		ctx, cancel := context.WithCancel(t.Context())
		l := &failing{err: &net.OpError{Op: "accept", Err: errno}}
		err := (&Visitors{}).Accept(ctx, l, nil, func(error) { cancel() })
		if cancel(); (err != nil) != ends {
			t.Errorf("%v: ended with %v", errno, err)
		}
	}
}

// TestListenerThatFailsOn: what a listener tells again and again is told once, and asked for ever less often.
func TestListenerThatFailsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		l := &failing{err: &net.OpError{Op: "accept", Err: syscall.EPERM}}
		told := 0
		if err := (&Visitors{}).Accept(ctx, l, nil, func(error) { told++ }); err != nil {
			t.Fatal(err)
		}
		if told != 1 || l.calls > 4000 {
			t.Errorf("told %d times, asked %d times within an hour", told, l.calls)
		}
	})
}

// failing is a listener that only fails.
type failing struct {
	net.Listener
	err   error
	calls int
}

func (f *failing) Accept() (net.Conn, error) {
	f.calls++
	return nil, f.err
}
