package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/verbstest"
)

func TestPingpong(t *testing.T) {
	iters := "200"
	if testing.Short() {
		iters = "50"
	}
	for _, kind := range []string{"RC", "UC", "UD", "RC -q 1", "RC -q 5"} {
		t.Run(kind, func(t *testing.T) {
			address := verbstest.Address().String()
			common := append([]string{
				"-d", "roce0", "-p", freePort(t, address), "-timeout", "1m", "-s", "1000", "-n", iters, "-c",
			}, strings.Fields(kind)...)
			server, err := parse(append(common, "-listen", address), io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			client, err := parse(append(common, address), io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			var said [2]bytes.Buffer
			served, came := pair(t, server, client, &said)
			if served != nil || came != nil {
				t.Fatalf("server: %v, client: %v", served, came)
			}
			for i := range said {
				if !strings.Contains(said[i].String(), iters+" iters in ") {
					t.Errorf("end %d prints no result: %s", i, said[i].String())
				}
			}
		})
	}
}

// freePort is a port for a server: whoever serves on this machine has 18515 at all of its addresses.
func freePort(t *testing.T, address string) string {
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// pair runs both ends and returns how they ended.
func pair(t *testing.T, server, client options, said *[2]bytes.Buffer) (served, came error) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- run(server, &said[0]) }()
	came = retry(ctx, func() error { return run(client, &said[1]) })
	return <-ended, came
}

// TestEndsDisagree gives the ends different options: whoever waits for what never comes ends, and says what to compare.
// They wait for real, as sockets are in play, and together; in 'make quick' it is a row that waits without spinning.
func TestEndsDisagree(t *testing.T) {
	for i, tt := range []struct{ server, client, serverSays, clientSays string }{
		{"-q 4", "", "52 of 13312 bytes came", "give both ends the same -q"},
		{"", "-q 4", "give both ends the same -q", "give both ends the same -q"},
		{"-n 100 -c UC", "-n 300 -c UC", "", "of 300: give both ends the same -c, -n"},
		{"-n 300 -c UC", "-n 100 -c UC", "of 300: give both ends the same -c, -n", ""},
	} {
		t.Run(tt.server+" and "+tt.client, func(t *testing.T) {
			if testing.Short() && i > 0 {
				t.Skip("short: the first")
			}
			t.Parallel()
			address := verbstest.Address().String()
			common := "-d roce0 -timeout 2s -p " + freePort(t, address)
			server, err := parse(strings.Fields(common+" -listen "+address+" "+tt.server), io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			client, err := parse(strings.Fields(common+" "+tt.client+" "+address), io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			served, came := pair(t, server, client, new([2]bytes.Buffer))
			for _, end := range []struct {
				name, want string
				err        error
			}{{"server", tt.serverSays, served}, {"client", tt.clientSays, came}} {
				if end.want != "" && (end.err == nil || !strings.Contains(end.err.Error(), end.want)) {
					t.Errorf("%s: %v, want %q", end.name, end.err, end.want)
				}
			}
		})
	}
}

func TestRefused(t *testing.T) {
	for line, want := range map[string]string{
		"-q 256":      "fewer than 256 queue pairs",
		"-q 9 -r 8":   "a receive for each (-r 8)",
		"-q 2 -c UD":  "ibv_srq_pingpong is over RC, not UD",
		"-n 0":        "want at least 1",
		"host1 host2": "2 hosts",
	} {
		if _, err := parse(strings.Fields(line), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}

// infiniBand is a device whose port has a LID, and a table without the connection's address.
type infiniBand struct{ verbs.Device }

func (infiniBand) Info() verbs.DeviceInfo { return verbs.DeviceInfo{} }

func (infiniBand) Port(int) (verbs.PortInfo, error) {
	return verbs.PortInfo{LinkLayer: verbs.LinkInfiniBand}, nil
}

func (infiniBand) GIDs(int) ([]verbs.GIDEntry, error) {
	return []verbs.GIDEntry{{GID: verbs.GID{0: 0xfe, 1: 0x80, 15: 1}}}, nil
}

// TestDefaults holds what holds without -s and -g to rdma-core's pingpongs.
func TestDefaults(t *testing.T) {
	for line, want := range map[string]int{"": 4096, "-c UC": 4096, "-c UD": 1024, "-c UD -s 64": 64} {
		if o, err := parse(strings.Fields(line), io.Discard); err != nil || o.size != want {
			t.Errorf("%q: %d bytes, %v, want %d", line, o.size, err, want)
		}
	}
	local := netip.MustParseAddr("192.0.2.1")
	if g, err := chooseGID(infiniBand{}, -1, local); err != nil || !g.GID.IsZero() {
		t.Errorf("InfiniBand without -g: %v, %v, want no GID", g, err)
	}
	if g, err := chooseGID(infiniBand{}, 0, local); err != nil || g.GID.IsZero() {
		t.Errorf("InfiniBand with -g 0: %v, %v", g, err)
	}
}

// TestPeerWithFewerQueuePairs has the other end tell fewer destinations than this one has queue pairs.
func TestPeerWithFewerQueuePairs(t *testing.T) {
	a, b := net.Pipe()
	defer func() { _ = errors.Join(a.Close(), b.Close()) }()
	go func() {
		// the error at the other end is looked at
		_, _ = b.Write(bytes.Repeat([]byte(destination{}.String()+"\x00"), sharedMost))
	}()
	e := end{o: options{shared: 2}, mine: make([]destination, 2), qps: make([]verbs.QueuePair, 2)}
	if err := e.meet(a, io.Discard); err == nil ||
		!strings.Contains(err.Error(), "the peer has 0 queue pairs, this end 2") {
		t.Error(err)
	}
}

// TestDestination uses a line as ibv_rc_pingpong sends it.
func TestDestination(t *testing.T) {
	const wire = "0000:000011:2b26b4:00000000000000000000ffffc0a84d01"
	d, err := parseDestination(wire + "\x00")
	if err != nil {
		t.Fatal(err)
	}
	want := destination{QPN: 0x11, PSN: 0x2b26b4, GID: verbs.GID{10: 0xff, 11: 0xff, 12: 192, 13: 168, 14: 77, 15: 1}}
	if d != want {
		t.Errorf("parsed %+v, want %+v", d, want)
	}
	if got := d.String(); got != wire || len(got)+1 != wireBytes {
		t.Errorf("wrote %q (%d bytes), want %q (%d)", got, len(got)+1, wire, wireBytes)
	}
	for _, bad := range []string{
		"", "0:1:2", "zzzz:000011:2b26b4:00000000000000000000ffffc0a84d01",
		"0000:1000000:000000:00000000000000000000ffffc0a84d01", "0000:000011:2b26b4:00",
	} {
		if _, err := parseDestination(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// retry goes on while the server is not listening yet.
func retry(ctx context.Context, f func() error) error {
	for {
		err := f()
		if err == nil || !strings.Contains(err.Error(), "refused") {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(10 * time.Millisecond):
		}
	}
}
