//go:build linux && cgo

package ibv

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gobw/gobw/verbs"
)

// fakeCM compiles the librdmacm of testdata and makes a device that uses it.
func fakeCM(t *testing.T, flags ...string) *device {
	t.Helper()
	source := filepath.Join("testdata", "fakecm.c")
	cc := compiler(t, source)
	library := filepath.Join(t.TempDir(), "librdmacm-fake.so")
	args := append([]string{
		"-std=gnu11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", library, source,
		"-Wl,--version-script=testdata/fakecm.map",
	}, flags...)
	if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return cmDevice(library)
}

// cmDevice is a device that uses a librdmacm.
func cmDevice(library string) *device {
	cm := librdmacm()
	cm.name = library
	d := &device{info: verbs.DeviceInfo{Name: "rxe0", Ports: 1}, cm: &cm}
	d.d = d
	return d
}

// recordedQP notes what is asked of it.
type recordedQP struct {
	verbs.QueuePair
	transport verbs.Transport
	moves     []verbs.QueuePairAttributes
}

func (q *recordedQP) QPN() uint32                { return 0x11 }
func (q *recordedQP) Transport() verbs.Transport { return q.transport }

func (q *recordedQP) Modify(a verbs.QueuePairAttributes) error {
	q.moves = append(q.moves, a)
	return nil
}

func peer(n int) netip.AddrPort { return netip.MustParseAddrPort(fmt.Sprintf("10.0.0.%d:18515", n)) }

func TestRDMACMMissing(t *testing.T) {
	d := cmDevice("librdmacm-that-is-not-there.so.1")
	_, err := d.DialCM(t.Context(), peer(1), verbs.CMOptions{})
	if err == nil || !strings.Contains(err.Error(), d.cm.name) ||
		!strings.Contains(verbs.RemedyOf(err), "apt install librdmacm1") {
		t.Errorf("error %v, remedy %q: want the library's name and how to install it", err, verbs.RemedyOf(err))
	}
	old := fakeCM(t, "-DOLD")
	_, err = old.ListenCM(peer(1), verbs.CMOptions{})
	if err == nil || !strings.Contains(err.Error(), "lacks rdma_establish@RDMACM_1.2") ||
		!strings.Contains(verbs.RemedyOf(err), "rdma-core 22") {
		t.Errorf("error %v, remedy %q: want the symbol that is missing and who has it", err, verbs.RemedyOf(err))
	}
}

func TestDialCM(t *testing.T) {
	d := fakeCM(t)
	tos := uint8(96)
	for _, transport := range []verbs.Transport{verbs.RC, verbs.UD} {
		c, err := d.DialCM(t.Context(), peer(11), verbs.CMOptions{Transport: transport, TOS: &tos})
		if err != nil {
			t.Fatal(err)
		}
		qp := &recordedQP{transport: transport}
		got, err := c.Join(t.Context(), qp, verbs.ConnectOptions{
			MaxRDAtomic: 16, MaxDestRDAtomic: 8, MinRNRTimer: 12, RetryCount: 3, RNRRetry: 7,
			AddressVector: verbs.AddressVector{TrafficClass: 8},
		})
		if err != nil {
			t.Fatal(err)
		}
		want := verbs.ConnectOptions{
			Port: 1, QKey: 0x01234567, PathMTU: verbs.MTU1024, DestQPN: 0x77, SendPSN: 9, RecvPSN: 5, MaxRDAtomic: 1,
			MaxDestRDAtomic: 1, MinRNRTimer: 12,
			Timeout: 18, RetryCount: 3, RNRRetry: 7,
			AddressVector: verbs.AddressVector{UseGID: true, SGIDIndex: 2, TrafficClass: 8, Port: 1},
		}
		if transport == verbs.UD {
			want = verbs.ConnectOptions{
				Port: 1, QKey: 0x01234567, DestQPN: 0x77, MaxRDAtomic: 16, MaxDestRDAtomic: 8, MinRNRTimer: 12, RetryCount: 3,
				RNRRetry:      7,
				AddressVector: verbs.AddressVector{DLID: 3, TrafficClass: 8, Port: 1},
			}
		}
		if got != want {
			t.Errorf("%v:\n got %+v\nwant %+v", transport, got, want)
		}
		if n := len(qp.moves); n != 2 || qp.moves[1].State != verbs.StateRTS {
			t.Errorf("%v: moves %+v, want RTR and RTS", transport, qp.moves)
		}
		if c.RemoteAddr() != peer(11) || !c.LocalAddr().IsValid() {
			t.Errorf("%v: from %v to %v", transport, c.LocalAddr(), c.RemoteAddr())
		}
		for range 2 {
			if err := c.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		}
	}
	if _, err := d.DialCM(t.Context(), peer(1), verbs.CMOptions{Transport: verbs.UC}); !errors.Is(err,
		verbs.ErrUnsupported) {
		t.Errorf("UC: %v", err)
	}
}

// TestDialCMWithoutReads: whoever asks for no READs in flight, and serves none, gets none.
func TestDialCMWithoutReads(t *testing.T) {
	c, err := fakeCM(t).DialCM(t.Context(), peer(1), verbs.CMOptions{})
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, c)
	qp := &recordedQP{transport: verbs.RC}
	got, err := c.Join(t.Context(), qp, verbs.ConnectOptions{})
	if err != nil || got.MaxRDAtomic != 0 || got.MaxDestRDAtomic != 0 {
		t.Errorf("%d READs in flight and %d served, %v; want none", got.MaxRDAtomic, got.MaxDestRDAtomic, err)
	}
	for _, m := range qp.moves {
		if m.MaxRDAtomic != 0 || m.MaxDestRDAtomic != 0 {
			t.Errorf("%+v: want no READs", m)
		}
	}
}

// TestDialCMBadLuck: every way in which a connection does not come about has a reason and a remedy.
func TestDialCMBadLuck(t *testing.T) {
	d := fakeCM(t)
	for _, tt := range []struct {
		peer      int
		transport verbs.Transport
		is        error
		want      string
		remedy    string
	}{
		{2, verbs.RC, syscall.ENODEV, "no RDMA device leads there", "ip route get"},
		{3, verbs.RC, syscall.ETIMEDOUT, "ADDR_ERROR: connection timed out", "ip route get"},
		{4, verbs.RC, syscall.ECONNREFUSED, "nobody listens there by RDMA CM", "listen by RDMA CM"},
		{4, verbs.UD, syscall.ECONNREFUSED, "nobody listens there by RDMA CM", "listen by RDMA CM"},
		{5, verbs.RC, syscall.ECONNRESET, "the peer's program rejects the connection", "listen by RDMA CM"},
		{6, verbs.RC, syscall.ETIMEDOUT, "UNREACHABLE: connection timed out", "listen by RDMA CM"},
		{7, verbs.RC, context.DeadlineExceeded, "connect to 10.0.0.7:18515 by RDMA CM: context deadline exceeded", ""},
		{8, verbs.RC, nil, "the way there leads through mlx5_9", "use mlx5_9"},
		{10, verbs.RC, syscall.ENETUNREACH, "resolve 10.0.0.10 by RDMA CM: rxe0: network is unreachable", "ip route get"},
	} {
		t.Run(fmt.Sprintf("%d %v", tt.peer, tt.transport), func(t *testing.T) {
			limit := time.Minute
			if errors.Is(tt.is, context.DeadlineExceeded) {
				limit = time.Second
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			c, err := d.DialCM(ctx, peer(tt.peer), verbs.CMOptions{Transport: tt.transport})
			if err == nil {
				_, err = c.Join(ctx, &recordedQP{transport: tt.transport}, verbs.ConnectOptions{})
				if err := c.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("error %v, want %q and %v", err, tt.want, tt.is)
			}
			if !strings.Contains(verbs.RemedyOf(err), tt.remedy) {
				t.Errorf("remedy %q, want %q", verbs.RemedyOf(err), tt.remedy)
			}
		})
	}
}

func TestCMGone(t *testing.T) {
	d := fakeCM(t)
	gone := func(c verbs.CMConnection) bool {
		select {
		case <-c.Gone():
			return true
		case <-time.After(time.Minute):
			return false
		}
	}
	for _, n := range []int{1, 9} {
		c, err := d.DialCM(t.Context(), peer(n), verbs.CMOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Join(t.Context(), &recordedQP{transport: verbs.RC}, verbs.ConnectOptions{}); err != nil {
			t.Fatal(err)
		}
		if n == 1 {
			select {
			case <-c.Gone():
				t.Error("a peer that is there is gone")
			default:
			}
			if err := c.Disconnect(); err != nil {
				t.Error(err)
			}
		}
		if !gone(c) {
			t.Errorf("peer %d: a disconnected peer is not gone", n)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestListenCM(t *testing.T) {
	d := fakeCM(t)
	at := netip.MustParseAddrPort("0.0.0.0:2")
	l, err := d.ListenCM(at, verbs.CMOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if l.Addr() != at {
		t.Errorf("listens at %v, want %v", l.Addr(), at)
	}
	_, err = l.Accept(t.Context()) // the first came in on another device
	if !errors.Is(err, verbs.ErrForeignRequest) || !strings.Contains(verbs.RemedyOf(err), "use mlx5_9") {
		t.Errorf("a request on another device: %v, remedy %q", err, verbs.RemedyOf(err))
	}
	c, err := l.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	qp := &recordedQP{transport: verbs.RC}
	got, err := c.Join(t.Context(), qp, verbs.ConnectOptions{MaxRDAtomic: 4, MaxDestRDAtomic: 4})
	if err != nil || got.DestQPN != 0x77 || got.MaxRDAtomic != 1 || len(qp.moves) != 2 {
		t.Errorf("joined %+v, %v, moves %d", got, err, len(qp.moves))
	}
	if c.RemoteAddr() != netip.MustParseAddrPort("10.0.0.11:40000") {
		t.Errorf("client %v", c.RemoteAddr())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := l.Accept(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nobody comes: %v", err)
	}
	patient := make(chan error, 1) // the end of another's time is not its end
	go func() {
		_, err := l.Accept(t.Context())
		patient <- err
	}()
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		if _, err := l.Accept(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one of two who wait: %v", err)
		}
		cancel()
	}
	for _, x := range []interface{ Close() error }{c, l, l} {
		if err := x.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if err := <-patient; !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("the other of two who wait: %v", err)
	}
	if _, err := l.Accept(t.Context()); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	_, err = d.ListenCM(netip.MustParseAddrPort("0.0.0.0:1"), verbs.CMOptions{})
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(verbs.RemedyOf(err), "another port") {
		t.Errorf("a port in use: %v, remedy %q", err, verbs.RemedyOf(err))
	}
}
