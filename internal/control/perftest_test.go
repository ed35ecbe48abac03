package control

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gobw/gobw/verbs"
)

func testFacts() Facts {
	return Facts{PageBytes: 4096, CacheLineBytes: 64, MTU: verbs.MTU1024, MaxOutstanding: 16}
}

func testAddresses(n, base int) []Address {
	var a []Address
	for i := range n {
		a = append(a, Address{
			QPN: uint32(base + i), PSN: 0x123456, RKey: 7, Addr: 0x7f00_0000_0000, HasGID: true, Outstanding: 1,
			GID: verbs.GIDFromAddr(netip.MustParseAddr("127.5.0.1")),
		})
	}
	return a
}

// TestPerftestBothEnds runs every conversation between two of our ends that speak perftest's dialect; with 6.29 the
// server learns the plan.
func TestPerftestBothEnds(t *testing.T) {
	for name, plan := range conversations() {
		for _, version := range []string{"6.27", "6.29"} {
			t.Run(name+"/"+version, func(t *testing.T) {
				l := listen(t, ListenOptions{LocalFacts: func() (Facts, error) { return testFacts(), nil }})
				ctx := testContext(t)
				learns := version == "6.29" && !plan.Bidirectional && !plan.Reversed
				type result struct {
					remote []Figures
					err    error
				}
				served := make(chan result, 1)
				go func() {
					session, err := l.Accept(ctx)
					if err != nil {
						served <- result{err: err}
						return
					}
					s := script{plan: &plan, facts: testFacts(), addresses: testAddresses(max(plan.QPs, 1), 0x20)}
					if learns {
						s.plan = nil
					}
					for range plan.Sizes {
						s.figures = append(s.figures, Figures{Size: 2, Iterations: 200, AverageBits: 2e9})
					}
					remote, err := s.drive(ctx, session)
					if err != nil {
						session.Fail(err)
					}
					served <- result{remote, err}
				}()
				session, err := Dial(ctx, l.Addr().String(), DialOptions{
					Timeouts: calm(), Perftest: PerftestOptions{Version: version, NoMarker: true, Gbits: true},
				})
				if err != nil {
					t.Fatal(err)
				}
				s := script{plan: &plan, facts: testFacts(), addresses: testAddresses(max(plan.QPs, 1), 0x10)}
				for range plan.Sizes {
					s.figures = append(s.figures, Figures{Size: 2, Iterations: 200, AverageBits: 1e9})
				}
				if version == "6.29" && !learns { // a server told its plan compares units: it has MiB/s
					session.Fail(nil)
					<-served
					return
				}
				_, err = s.drive(ctx, session)
				if err != nil {
					session.Fail(err)
					t.Errorf("client: %v", err)
				}
				r := <-served
				if r.err != nil {
					t.Errorf("server: %v", r.err)
				}
				for _, f := range r.remote {
					if learns && f.Iterations > 0 && f.AverageBits != 1e9 {
						t.Errorf("server heard %g bit/s from its client, want 1e9", f.AverageBits)
					}
				}
			})
		}
	}
}

// dialRaw connects to a listener as a peer that the test plays.
func dialRaw(t *testing.T, l *Listener) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(late))
	return conn
}

// TestUntoldServer serves no client that does not say what it tests, sends it nothing, and says how to do it.
func TestUntoldServer(t *testing.T) {
	l := listen(t, ListenOptions{LocalFacts: func() (Facts, error) { return testFacts(), nil }})
	conn := dialRaw(t, l)
	if _, err := conn.Write(hello{version: "6.06"}.encode()); err != nil {
		t.Fatal(err)
	}
	session, err := l.Accept(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	_, err = session.Propose(t.Context(), nil)
	if err == nil || !strings.Contains(err.Error(), "gobw serve --perftest 'ib_send_bw -c UD -s 1024'") {
		t.Errorf("propose: %v", err)
	}
	session.Fail(err)
	if got, _ := io.ReadAll(conn); len(got) > 0 {
		t.Errorf("the client got %q, want nothing", got)
	}
}

// TestNegotiation312 serves a build of perftest without the mlx5 header.
func TestNegotiation312(t *testing.T) {
	l := listen(t, ListenOptions{LocalFacts: func() (Facts, error) { return testFacts(), nil }})
	conn := dialRaw(t, l)
	answers := make(chan []byte, 1)
	plan := bw(Read, 4096, qps(3))
	go func() {
		var got []byte
		for _, m := range [][]byte{
			hello{version: "6.29"}.encode(),
			{0, 0, 0x10, 0},
			{0, 0, 0, 64},
			{'3', 0},
			negotiationOf(&plan, true, verbs.MTU1024, 16).encode(negotiationBytesNoMLX5),
		} {
			_, _ = conn.Write(m)
			got = make([]byte, len(m))
			if _, err := io.ReadFull(conn, got); err != nil {
				break
			}
		}
		answers <- got
	}()
	session, err := l.Accept(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	defer session.Fail(nil)
	got, err := session.Propose(testContext(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(*got, plan); diff != "" {
		t.Errorf("plan (-got +want):\n%s", diff)
	}
	if b := <-answers; len(b) != negotiationBytesNoMLX5 {
		t.Errorf("answer of %d bytes", len(b))
	}
	if g, ok := session.(interface{ Gbits() bool }); !ok || !g.Gbits() {
		t.Error("the server does not follow its client's --report_gbits")
	}
}

// TestLearnedPlanIsBounded refuses a client whose test needs more memory than the server grants.
func TestLearnedPlanIsBounded(t *testing.T) {
	l := listen(t, ListenOptions{MaxMemory: 1 << 20, LocalFacts: func() (Facts, error) { return testFacts(), nil }})
	conn := dialRaw(t, l)
	plan := bw(Write, 1<<30, qps(16384))
	go func() {
		for _, m := range [][]byte{
			hello{version: "6.29"}.encode(),
			{0, 0, 0x10, 0},
			{0, 0, 0, 64},
			{'3', 0},
			negotiationOf(&plan, false, verbs.MTU1024, 16).encode(negotiationBytes),
		} {
			_, _ = conn.Write(m)
			if _, err := io.ReadFull(conn, make([]byte, len(m))); err != nil {
				return
			}
		}
	}()
	session, err := l.Accept(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	defer session.Fail(nil)
	if _, err := session.Propose(testContext(t), nil); err == nil || !strings.Contains(err.Error(), "--max-memory allows 1048576") {
		t.Errorf("propose: %v", err)
	}
}

func TestPerftestWatch(t *testing.T) {
	l := listen(t, ListenOptions{})
	conn := dialRaw(t, l)
	_, _ = conn.Write(hello{version: "6.06"}.encode())
	session, err := l.Accept(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	defer session.Fail(nil)
	watched, cancel := session.Watch(testContext(t))
	defer cancel()
	start := time.Now()
	_ = conn.Close()
	<-watched.Done()
	if err := context.Cause(watched); !errors.Is(err, ErrPeerLost) {
		t.Errorf("watch ended with %v", err)
	}
	if took := time.Since(start); took > late/2 {
		t.Errorf("took %v: it was not the end of the connection that showed", took)
	}
}

// TestPerftestSilence has the peer stop before each of its messages.
func TestPerftestSilence(t *testing.T) {
	messages := readCapture(t, "send_bw_rc")
	plan := bw(Send, 65536)
	s := scriptOf(t, plan, side(messages, false))
	timeouts := calm()
	timeouts.Phase, timeouts.Test = 100*time.Millisecond, 100*time.Millisecond
	for n := 1; n < len(side(messages, true))-1; n++ {
		l := listen(t, ListenOptions{Timeouts: timeouts, Perftest: PerftestOptions{Version: "6.06"}})
		conn := dialRaw(t, l)
		go func() {
			sent := 0
			for _, m := range messages {
				if !m.client {
					if _, err := io.ReadFull(conn, make([]byte, len(m.bytes))); err != nil {
						return
					}
					continue
				}
				if sent++; sent > n {
					return
				}
				_, _ = conn.Write(m.bytes)
			}
		}()
		session, err := l.Accept(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.drive(testContext(t), session)
		if !errors.Is(err, ErrPeerLost) || !errors.Is(err, errSilent) {
			t.Errorf("silent after message %d: %v", n, err)
		}
		session.Fail(err)
	}
}

func TestPerftestRefusesPlans(t *testing.T) {
	for _, tt := range []struct {
		plan Plan
		want string
	}{
		{bw(Write, 64, func(p *Plan) { p.Sizes = []int{64, 128} }), "one size"},
		{bw(Write, 64, func(p *Plan) { p.Runs = 3 }), "once per connection"},
		{lat(Write, 64, qps(2)), "one queue pair"},
		{bw(Write, 64, func(p *Plan) { p.Noncontig = &Noncontig{} }), "non-contiguous"},
		{bw(Write, 64, func(p *Plan) { p.AllSizes = true }), "2, 4, …"},
	} {
		if err := checkPerftestPlan(&tt.plan); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %q", err, tt.want)
		}
	}
}

func TestKeys(t *testing.T) {
	text := "0000:0001:000012:2b26b4:00000342:00005635982f1000:00:00:00:00:00:00:00:00:00:00:ff:ff:c0:a8:4d:01:00000000:\x00"
	want := Address{
		QPN: 0x12, PSN: 0x2b26b4, RKey: 0x342, Addr: 0x5635982f1000, HasGID: true, Outstanding: 1,
		GID: verbs.GIDFromAddr(netip.MustParseAddr("192.168.77.1")),
	}
	got, err := parseKeys([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("address (-got +want):\n%s", diff)
	}
	if b := encodeKeys(got); string(b) != text {
		t.Errorf("encodes to %q", b)
	}
	for _, bad := range []string{"", text[:58], text[:107] + "x", strings.Replace(text, "ff:ff", "ff:gg", 1), strings.Replace(text, "4d:01", "04d:1", 1), strings.Replace(text, ":\x00", "0\x00", 1)} {
		if a, err := parseKeys([]byte(bad)); err == nil {
			t.Errorf("parseKeys(%q) = %+v, want an error", bad, a)
		}
	}
}

func FuzzKeys(f *testing.F) {
	f.Add(encodeKeys(Address{QPN: 18, HasGID: true}))
	f.Add(encodeKeys(Address{QPN: 18}))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := parseKeys(b)
		if err != nil {
			return
		}
		if again, err := parseKeys(encodeKeys(a)); err != nil || again != a {
			t.Errorf("%+v decodes again as %+v, %v", a, again, err)
		}
	})
}

func FuzzNegotiation(f *testing.F) {
	plan := bw(Write, 4096)
	f.Add(negotiationOf(&plan, false, verbs.MTU1024, 16).encode(negotiationBytes))
	f.Add(negotiationOf(&plan, true, verbs.MTU1024, 16).encode(negotiationBytesNoMLX5))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := parseNegotiation(b)
		if err != nil {
			return
		}
		if again, err := parseNegotiation(n.encode(len(b))); err != nil || again != n {
			t.Errorf("%+v decodes again as %+v, %v", n, again, err)
		}
		if p, err := n.plan(); err == nil {
			if err := p.Check(); err != nil {
				t.Errorf("%+v makes a plan that is refused: %v", n, err)
			}
		}
	})
}

func FuzzReport(f *testing.F) {
	f.Add(make([]byte, 40))
	f.Fuzz(func(t *testing.T, b []byte) {
		var items [reportItems][8]byte
		for i := range items {
			if len(b) >= 8 {
				copy(items[i][:], b)
				b = b[8:]
			}
		}
		for _, u := range []unit{unitMiB, unitGbit} {
			if r := decodeReport(items, u); plausible(r) && (math.IsNaN(r.AverageBits) || r.AverageBits < 0) {
				t.Errorf("%+v is no report", r)
			}
		}
	})
}

// FuzzHostileClient feeds a server arbitrary bytes for a whole conversation: it must end, with an error or without.
func FuzzHostileClient(f *testing.F) {
	for _, name := range []string{"write_bw_rc", "write_lat_rc", "send_bw_b", "master_write_bw", "mm_q"} {
		f.Add(bytes.Join(side(readCapture(f, name), true), nil))
	}
	f.Add(hello{version: "6.27", ours: 1}.encode())
	b, _ := appendFrame(hello{version: "6.27", ours: 1}.encode(), message{Kind: kindHello})
	b, _ = appendFrame(b, message{Kind: kindPropose, Plan: testPlan()})
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) { hostile(t, b, true) })
}

// FuzzHostileServer does the same to a client.
func FuzzHostileServer(f *testing.F) {
	for _, name := range []string{"write_bw_rc", "write_lat_rc", "send_bw_b", "master_write_bw"} {
		f.Add(bytes.Join(side(readCapture(f, name), false), nil))
	}
	b, _ := appendFrame(hello{version: "6.27", ours: 1}.encode(), message{Kind: kindHello})
	f.Add(binary.BigEndian.AppendUint32(b, 1<<24))
	f.Fuzz(func(t *testing.T, b []byte) { hostile(t, b, false) })
}

func hostile(t *testing.T, b []byte, peerIsClient bool) {
	t.Helper()
	timeouts := Timeouts{Peer: 100 * time.Millisecond, Hello: 100 * time.Millisecond, Phase: 100 * time.Millisecond, Test: 100 * time.Millisecond}
	ours, theirs := net.Pipe()
	go func() {
		_ = theirs.SetDeadline(time.Now().Add(late))
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		_, _ = theirs.Write(b)
		_ = theirs.Close()
	}()
	defer func() { _ = ours.Close() }()
	plan := bw(Send, 4096, bidi)
	s := script{plan: &plan, facts: testFacts(), addresses: testAddresses(1, 1)}
	ctx, cancel := context.WithTimeout(t.Context(), 2*late)
	defer cancel()
	var session Session
	var err error
	if peerIsClient {
		l := &Listener{o: ListenOptions{Timeouts: timeouts, LocalFacts: func() (Facts, error) { return testFacts(), nil }}, closed: make(chan struct{})}
		var first [helloBytes]byte
		if _, err := io.ReadFull(ours, first[:]); err != nil {
			return
		}
		h, err := parseHello(first[:])
		if err != nil {
			return
		}
		v, err := parseVersion(h.version)
		if err != nil || v < versionOldest {
			return
		}
		if session, err = l.session(ours, h, v, h.ours > 0, func() {}); err != nil {
			return
		}
		if v >= versionNegotiates {
			s.plan = nil
		}
	} else if session, err = greet(ctx, ours, 627, DialOptions{Timeouts: timeouts, Perftest: PerftestOptions{Version: "6.27"}}); err != nil {
		return
	}
	if _, err := s.drive(ctx, session); err != nil {
		session.Fail(err)
	}
	if ctx.Err() != nil {
		t.Errorf("the session outlived its deadlines: %v", ctx.Err())
	}
}
