package connect

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/admission"
	"github.com/gobw/gobw/internal/control/frame"
	"github.com/gobw/gobw/internal/control/native"
	"github.com/gobw/gobw/internal/perftest/wire"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/internal/testrun"
	"github.com/gobw/gobw/verbs"
)

func testFacts() control.Facts {
	return control.Facts{PageBytes: 4096, CacheLineBytes: 64, MTU: verbs.MTU1024, MaxOutstanding: 16}
}

func testAddresses(n, base int) []control.Address {
	var a []control.Address
	for i := range n {
		a = append(a, control.Address{
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
				l := listen(t, control.Options{LocalFacts: func() (control.Facts, error) { return testFacts(), nil }})
				ctx := testContext(t)
				learns := version == "6.29" && !plan.Bidirectional && !plan.Reversed
				type result struct {
					remote []control.Figures
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
						s.figures = append(s.figures, control.Figures{Size: 2, Iterations: 200, AverageBits: 2e9})
					}
					remote, err := s.drive(ctx, session)
					if err != nil {
						session.Fail(err)
					}
					served <- result{remote, err}
				}()
				session, err := Dial(ctx, l.Addr().String(), control.Options{
					Timeouts: calm(), Perftest: control.PerftestOptions{Version: version, NoMarker: true, Gbits: true},
				})
				if err != nil {
					t.Fatal(err)
				}
				s := script{plan: &plan, facts: testFacts(), addresses: testAddresses(max(plan.QPs, 1), 0x10)}
				for range plan.Sizes {
					s.figures = append(s.figures, control.Figures{Size: 2, Iterations: 200, AverageBits: 1e9})
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
	l := listen(t, control.Options{LocalFacts: func() (control.Facts, error) { return testFacts(), nil }})
	conn := dialRaw(t, l)
	if _, err := conn.Write(wire.Hello{Version: 606}.Encode()); err != nil {
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
	l := listen(t, control.Options{LocalFacts: func() (control.Facts, error) { return testFacts(), nil }})
	conn := dialRaw(t, l)
	answers := make(chan []byte, 1)
	plan := bw(plan.Read, 4096, qps(3))
	go func() {
		var got []byte
		for _, m := range [][]byte{
			wire.Hello{Version: 629}.Encode(),
			{0, 0, 0x10, 0},
			{0, 0, 0, 64},
			{'3', 0},
			wire.NegotiationOf(&plan, true, verbs.MTU1024, 16).Encode(wire.NegotiationBytesNoMLX5),
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
	if b := <-answers; len(b) != wire.NegotiationBytesNoMLX5 {
		t.Errorf("answer of %d bytes", len(b))
	}
}

// TestLearnedPlanIsBounded refuses a client whose test needs more memory than the server grants.
func TestLearnedPlanIsBounded(t *testing.T) {
	l := listen(t,
		control.Options{Admit: atMostMiB, LocalFacts: func() (control.Facts, error) { return testFacts(), nil }})
	conn := dialRaw(t, l)
	plan := bw(plan.Write, 1<<30, qps(16384))
	go func() {
		for _, m := range [][]byte{
			wire.Hello{Version: 629}.Encode(),
			{0, 0, 0x10, 0},
			{0, 0, 0, 64},
			{'3', 0},
			wire.NegotiationOf(&plan, false, verbs.MTU1024, 16).Encode(wire.NegotiationBytes),
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
	if _, err := session.Propose(testContext(t), nil); err == nil || !strings.Contains(err.Error(), "the plan needs") {
		t.Errorf("propose: %v", err)
	}
}

func TestPerftestWatch(t *testing.T) {
	l := listen(t, control.Options{})
	conn := dialRaw(t, l)
	_, _ = conn.Write(wire.Hello{Version: 606}.Encode())
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
	if err := context.Cause(watched); !errors.Is(err, control.ErrPeerLost) {
		t.Errorf("watch ended with %v", err)
	}
	if took := time.Since(start); took > late/2 {
		t.Errorf("took %v: it was not the end of the connection that showed", took)
	}
}

// TestPerftestSilence has the peer stop before each of its messages.
func TestPerftestSilence(t *testing.T) {
	messages := readCapture(t, "send_bw_rc")
	plan := bw(plan.Send, 65536)
	s := scriptOf(t, plan, side(messages, false))
	timeouts := calm()
	timeouts.Hello, timeouts.Phase, timeouts.Test = 300*time.Millisecond, 100*time.Millisecond, 100*time.Millisecond
	for n := 1; n < len(side(messages, true))-1; n++ {
		l := listen(t, control.Options{Timeouts: timeouts, Perftest: control.PerftestOptions{Version: "6.06"}})
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
		if !errors.Is(err, control.ErrPeerLost) || !errors.Is(err, control.ErrSilent) {
			t.Errorf("silent after message %d: %v", n, err)
		}
		session.Fail(err)
	}
}

// TestPerftestFollowsBytes has a peer that is late with each of its messages: it may be, where it has much memory to
// register and much in flight.
func TestPerftestFollowsBytes(t *testing.T) {
	messages := readCapture(t, "send_bw_rc")
	plan := bw(plan.Send, 65536)
	plan.TxDepth = 15000
	s := scriptOf(t, plan, side(messages, false))
	timeouts := calm()
	timeouts.Phase, timeouts.Test = 20*time.Millisecond, late
	l := listen(t, control.Options{Timeouts: timeouts, Perftest: control.PerftestOptions{Version: "6.06"}})
	conn := dialRaw(t, l)
	go func() {
		for _, m := range messages {
			if m.client {
				time.Sleep(5 * timeouts.Phase)
				_, _ = conn.Write(m.bytes)
			} else if _, err := io.ReadFull(conn, make([]byte, len(m.bytes))); err != nil {
				return
			}
		}
	}()
	session, err := l.Accept(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err = s.drive(testContext(t), session); err != nil {
		t.Error(err)
	}
	session.Fail(err)
}

// FuzzHostileClient feeds a server arbitrary bytes for a whole conversation: it must end, with an error or without.
func FuzzHostileClient(f *testing.F) {
	for _, name := range []string{"write_bw_rc", "write_lat_rc", "send_bw_b", "master_write_bw", "mm_q"} {
		f.Add(bytes.Join(side(readCapture(f, name), true), nil))
	}
	f.Add(wire.Hello{Version: 627, Ours: 1}.Encode())
	b, _ := frame.Append(wire.Hello{Version: 627, Ours: 1}.Encode(),
		frame.Message{Kind: frame.KindHello, Body: []byte(`{"text":{}}`)})
	m, _ := frame.Of(native.KindPropose, testPlan())
	b, _ = frame.Append(b, m)
	f.Add(b)
	testrun.Fuzz(f, func(t *testing.T, b []byte) { hostile(t, b, true) })
}

// FuzzHostileServer does the same to a client.
func FuzzHostileServer(f *testing.F) {
	for _, name := range []string{"write_bw_rc", "write_lat_rc", "send_bw_b", "master_write_bw"} {
		f.Add(bytes.Join(side(readCapture(f, name), false), nil))
	}
	b := wire.Hello{Version: 627, Ours: 1}.Encode()
	for _, kind := range []string{frame.KindChallenge, frame.KindHello} {
		b, _ = frame.Append(b, frame.Message{Kind: kind, Body: []byte(`{"text":{}}`)})
	}
	f.Add(binary.BigEndian.AppendUint32(b, 1<<24))
	testrun.Fuzz(f, func(t *testing.T, b []byte) { hostile(t, b, false) })
}

func hostile(t *testing.T, b []byte, peerIsClient bool) {
	t.Helper()
	timeouts := control.Timeouts{
		Peer: 100 * time.Millisecond, Hello: 100 * time.Millisecond, Phase: 100 * time.Millisecond,
		Test: 100 * time.Millisecond,
	}
	ours, theirs := net.Pipe()
	go func() {
		_ = theirs.SetDeadline(time.Now().Add(late))
		heard := make(chan struct{}, 1)
		go func() {
			for answer := make([]byte, 4096); ; {
				if _, err := theirs.Read(answer); err != nil {
					return
				}
				select {
				case heard <- struct{}{}:
				default:
				}
			}
		}()
		_, _ = theirs.Write(b)
		for answered := true; answered; { // who goes at once is not heard beyond the hello
			select {
			case <-heard:
			case <-time.After(2 * time.Millisecond):
				answered = false
			}
		}
		_ = theirs.Close()
	}()
	defer func() { _ = ours.Close() }()
	plan := bw(plan.Send, 4096, bidi)
	s := script{plan: &plan, facts: testFacts(), addresses: testAddresses(1, 1)}
	ctx, cancel := context.WithTimeout(t.Context(), 2*late)
	defer cancel()
	var session control.Session
	var err error
	if peerIsClient {
		l := &Listener{
			o:   control.Options{Timeouts: timeouts, LocalFacts: func() (control.Facts, error) { return testFacts(), nil }},
			ctx: ctx,
		}
		c := &Client{Conn: ours, o: &l.o, Release: func() {}}
		if err := l.meet(&admission.Visitor{Conn: ours}, c); err != nil {
			return
		}
		session = c.Session()
		if c.said.Hello.Version >= wire.VersionNegotiates {
			s.plan = nil
		}
	} else if session,
		err = greet(ctx, ours, 627,
		control.Options{Timeouts: timeouts, Perftest: control.PerftestOptions{Version: "6.27"}}); err != nil {
		return
	}
	if _, err := s.drive(ctx, session); err != nil {
		session.Fail(err)
	}
	if ctx.Err() != nil {
		t.Errorf("the session outlived its deadlines: %v", ctx.Err())
	}
}
