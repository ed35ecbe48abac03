package connect

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/admission"
	"github.com/gobw/gobw/internal/control/frame"
	"github.com/gobw/gobw/internal/control/native"
	"github.com/gobw/gobw/internal/perftest/wire"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
)

// late is when a test gives up on what must come: emulated and busy machines are slow.
const late = time.Minute

// calm is for tests in which nobody falls silent.
func calm() control.Timeouts {
	return control.Timeouts{Peer: late, Hello: late, Phase: late, Test: late, Parting: late}
}

func testPlan() *plan.Spec {
	return &plan.Spec{
		Operation: plan.Write, Kind: plan.Bandwidth, Transport: verbs.RC, Sizes: []int{64, 4096}, Iterations: 100, QPs: 2,
		TxDepth: 128, CQMod: 100, AtomicType: verbs.OpFetchAdd,
	}
}

// atMostMiB admits what needs no more than 1 MiB.
func atMostMiB(p *plan.Spec) error {
	if need := 4 * p.LargestSize() * max(p.QPs, 1); need > 1<<20 {
		return fmt.Errorf("the plan needs %d bytes", need)
	}
	return nil
}

// logBuffer collects a listener's log.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// listen starts a listener on an address of this package's own.
func listen(t *testing.T, o control.Options) *Listener {
	t.Helper()
	o.Address = "127.5.0.1:0"
	if o.Timeouts == (control.Timeouts{}) {
		o.Timeouts = calm()
	}
	l, err := Listen(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// pair makes both ends of a session in our dialect.
func pair(t *testing.T, lo control.Options, do control.Options) (client, server control.Session) {
	t.Helper()
	l := listen(t, lo)
	if do.Timeouts == (control.Timeouts{}) {
		do.Timeouts = calm()
	}
	ctx := testContext(t)
	type result struct {
		s   control.Session
		err error
	}
	accepted := make(chan result, 1)
	go func() {
		s, err := l.Accept(ctx)
		accepted <- result{s, err}
	}()
	client, err := Dial(ctx, l.Addr().String(), do)
	if err != nil {
		t.Fatal(err)
	}
	r := <-accepted
	if r.err != nil {
		t.Fatal(r.err)
	}
	closeBoth(t, client, r.s)
	return client, r.s
}

// closeBoth closes the ends of a session with the test, at once: each waits a moment for the other.
func closeBoth(t *testing.T, client, server control.Session) {
	t.Cleanup(func() {
		var wg sync.WaitGroup
		wg.Go(func() { _ = client.Close() })
		_ = server.Close()
		wg.Wait()
	})
}

// pipe makes both ends of a session in our dialect over a pipe, for tests about time in a bubble of their own.
func pipe(t *testing.T, clientBears, serverBears control.Timeouts) (client, server *native.Session) {
	t.Helper()
	a, b := net.Pipe()
	client = native.NewSession(a, control.Options{Dialled: true, Timeouts: clientBears.WithDefaults()})
	server = native.NewSession(b, control.Options{Timeouts: serverBears.WithDefaults()})
	closeBoth(t, client, server)
	both(t, func() error { return client.Introduce(t.Context()) }, func() error { return server.Introduce(t.Context()) })
	return client, server
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*late)
	t.Cleanup(cancel)
	return ctx
}

// both runs one step at both ends at once.
func both(t *testing.T, client, server func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- server() }()
	if err := client(); err != nil {
		t.Fatalf("client: %v", err)
	}
	if err := <-done; err != nil {
		t.Fatalf("server: %v", err)
	}
}

func TestOursConversation(t *testing.T) {
	client, server := pair(t, control.Options{Program: "gobw server"}, control.Options{Program: "gobw client"})
	ctx := testContext(t)
	if client.Dialect() != control.Ours || server.Dialect() != control.Ours {
		t.Fatalf("dialects %v and %v, want ours", client.Dialect(), server.Dialect())
	}
	if got := server.PeerProgram(); got != "gobw client" {
		t.Errorf("server's peer is %q", got)
	}
	if got := client.RemoteAddr().Addr(); got != server.LocalAddr() {
		t.Errorf("client's peer is %v, server is %v", got, server.LocalAddr())
	}
	for test := range 2 { // several tests per session
		plan := testPlan()
		plan.QPs = 1 + test
		both(t, func() error {
			got, err := client.Propose(ctx, plan)
			if diff := cmp.Diff(got, plan); diff != "" {
				t.Errorf("client's plan (-got +want):\n%s", diff)
			}
			return err
		}, func() error {
			got, err := server.Propose(ctx, nil)
			if diff := cmp.Diff(got, plan); diff != "" {
				t.Errorf("server's plan (-got +want):\n%s", diff)
			}
			return err
		})
		facts := control.Facts{
			PageBytes: 4096, CacheLineBytes: 64, MTU: verbs.MTU1024, MaxOutstanding: 16,
			GIDs: []verbs.GIDEntry{{Index: 1, GID: verbs.GIDFromAddr(netip.MustParseAddr("192.0.2.1")), Type: verbs.GIDRoCEv2}},
		}
		both(t, func() error {
			got, err := client.Facts(ctx, control.Facts{MTU: verbs.MTU4096})
			if diff := cmp.Diff(got, facts); diff != "" {
				t.Errorf("facts (-got +want):\n%s", diff)
			}
			return err
		}, func() error {
			_, err := server.Facts(ctx, facts)
			return err
		})
		addresses := make([]control.Address, plan.QPs)
		for i := range addresses {
			addresses[i] = control.Address{QPN: uint32(17 + i), PSN: 0xabcdef, RKey: 5, Addr: 1 << 40, Bytes: 4096, HasGID: true}
		}
		exchange := func(s control.Session) func() error {
			return func() error {
				got, err := s.Exchange(ctx, addresses)
				if diff := cmp.Diff(got, addresses); diff != "" {
					t.Errorf("addresses (-got +want):\n%s", diff)
				}
				return err
			}
		}
		both(t, exchange(client), exchange(server))
		sync := func(s control.Session, p control.Phase, size int, last bool) func() error {
			return func() error { return s.Sync(ctx, p, size, last) }
		}
		both(t, sync(client, control.PhaseConnected, 0, false), sync(server, control.PhaseConnected, 0, false))
		for i := range plan.Sizes {
			last := i == len(plan.Sizes)-1
			both(t, sync(client, control.PhaseReady, i, last), sync(server, control.PhaseReady, i, last))
			both(t, sync(client, control.PhaseDone, i, last), sync(server, control.PhaseDone, i, last))
			figures := control.Figures{Size: 64, Iterations: 100, AverageBits: 1.5e9, Record: json.RawMessage(`{"run":1}`)}
			both(t, func() error {
				got, err := client.Report(ctx, control.Figures{})
				if diff := cmp.Diff(got, figures); diff != "" {
					t.Errorf("figures (-got +want):\n%s", diff)
				}
				return err
			}, func() error {
				_, err := server.Report(ctx, figures)
				return err
			})
		}
		both(t, sync(client, control.PhaseFinished, 0, true), sync(server, control.PhaseFinished, 0, true))
	}
	both(t, client.Close, func() error {
		p, err := server.Propose(ctx, nil)
		if p != nil {
			t.Errorf("plan %v after goodbye, want none", p)
		}
		return errors.Join(err, server.Close())
	})
}

// TestOursHeartbeat keeps both ends silent for longer than the peer timeout; where they bear silence for
// different times, the shorter one decides.
func TestOursHeartbeat(t *testing.T) {
	impatient, patient := control.Timeouts{Peer: time.Second}, control.Timeouts{Peer: 30 * time.Second}
	for _, bears := range [][2]control.Timeouts{{impatient, impatient}, {impatient, patient}, {patient, impatient}} {
		synctest.Test(t, func(t *testing.T) {
			client, server := pipe(t, bears[0], bears[1])
			for _, s := range []*native.Session{client, server} {
				watched, cancel := s.Watch(t.Context())
				defer cancel()
				select {
				case <-watched.Done():
					t.Fatalf("an end lost its peer: %v", context.Cause(watched))
				case <-time.After(time.Minute):
				}
			}
			meet := func(s control.Session) func() error {
				return func() error { return s.Sync(t.Context(), control.PhaseConnected, 0, false) }
			}
			both(t, meet(client), meet(server))
		})
	}
}

func TestOursPeerError(t *testing.T) {
	client, server := pair(t, control.Options{}, control.Options{})
	ctx := testContext(t)
	watched, cancel := client.Watch(ctx)
	defer cancel()
	server.Fail(errors.New("create queue pair: rxe0: out of memory"))
	<-watched.Done()
	var peer *control.PeerError
	if err := context.Cause(watched); !errors.As(err, &peer) {
		t.Fatalf("watch ended with %v, want a PeerError", err)
	}
	if err := client.Sync(ctx, control.PhaseReady, 0, false); err == nil ||
		err.Error() != `peer said: "create queue pair: rxe0: out of memory"` {
		t.Errorf("sync: %v", err)
	}
}

func TestOursPeerGone(t *testing.T) {
	client, server := pair(t, control.Options{}, control.Options{})
	ctx := testContext(t)
	watched, cancel := client.Watch(ctx)
	defer cancel()
	start := time.Now()
	_ = server.(*native.Session).Conn.Close() // as if killed
	<-watched.Done()
	if err := context.Cause(watched); !errors.Is(err, control.ErrPeerLost) {
		t.Errorf("watch ended with %v, want peer lost", err)
	}
	if took := time.Since(start); took > late/2 {
		t.Errorf("took %v: it was not the end of the connection that showed", took)
	}
	if _, err := client.Report(ctx, control.Figures{}); !errors.Is(err, control.ErrPeerLost) ||
		!strings.Contains(err.Error(), "closed by the peer") {
		t.Errorf("report: %v", err)
	}
}

// TestOursPeerGoneWhileMeasuring is about the words: past the meeting, nobody waits for it any more.
func TestOursPeerGoneWhileMeasuring(t *testing.T) {
	client, server := pair(t, control.Options{}, control.Options{})
	ctx := testContext(t)
	ready := func(s control.Session) func() error {
		return func() error { return s.Sync(ctx, control.PhaseReady, 0, true) }
	}
	both(t, ready(client), ready(server))
	watched, cancel := client.Watch(ctx)
	defer cancel()
	_ = server.(*native.Session).Conn.Close()
	<-watched.Done()
	if err := context.Cause(watched); !errors.Is(err, control.ErrPeerLost) ||
		!strings.Contains(err.Error(), "lost while measuring") {
		t.Errorf("watch ended with %v, want a peer lost while measuring", err)
	}
}

// TestOursPeerSilent has a peer that answers the greeting and then says nothing, as one that was stopped.
func TestOursPeerSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own, peer := net.Pipe()
		go func() {
			b := wire.Hello{Version: 627, Ours: native.Version}.Encode()
			for _, kind := range []string{frame.KindChallenge, frame.KindHello} {
				b, _ = frame.Append(b, frame.Message{Kind: kind, Body: []byte(`{"text":{}}`)})
			}
			_, _ = io.CopyN(io.Discard, peer, wire.HelloBytes)
			_, _ = peer.Write(b)
			_, _ = io.Copy(io.Discard, peer)
			_ = peer.Close()
		}()
		bears := control.Timeouts{Peer: 3 * time.Second}.WithDefaults()
		client, err := greet(t.Context(), own, 627,
			control.Options{Timeouts: bears, Perftest: control.PerftestOptions{Version: "6.27"}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = client.Close() }()
		start := time.Now()
		_, err = client.Propose(t.Context(), testPlan())
		var gone *control.LostError
		if !errors.As(err, &gone) || !errors.Is(err, control.ErrSilent) || gone.Phase != "proposing the plan" {
			t.Errorf("propose: %v, want silence while proposing the plan", err)
		}
		if took := time.Since(start); took < bears.Peer || took > bears.Peer+bears.Peer/6 { // a heartbeat
			t.Errorf("took %v with a peer timeout of %v", took, bears.Peer)
		}
	})
}

// TestACountTakesAsLongAsItTakes: a peer that lives may be at work on its count for hours.
func TestACountTakesAsLongAsItTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := pipe(t, control.Timeouts{}, control.Timeouts{})
		defer func() { _ = client.Close() }()
		agreed := make(chan error, 1)
		go func() {
			_, err := server.Propose(t.Context(), nil)
			agreed <- err
		}()
		if _, err := client.Propose(t.Context(), testPlan()); err != nil {
			t.Fatal(err)
		}
		if err := <-agreed; err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(5 * time.Hour)
			agreed <- server.Sync(t.Context(), control.PhaseDone, 0, true)
		}()
		if err := client.Sync(t.Context(), control.PhaseDone, 0, true); err != nil {
			t.Error(err)
		}
		if err := <-agreed; err != nil {
			t.Error(err)
		}
	})
}

// TestOursPeerStalls has a peer whose heartbeats go on but which does not get on.
func TestOursPeerStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := pipe(t, control.Timeouts{Peer: time.Second, Phase: time.Minute}, control.Timeouts{})
		start := time.Now()
		err := client.Sync(t.Context(), control.PhaseConnected, 0, false)
		if !errors.Is(err, control.ErrPeerLost) || !strings.Contains(err.Error(), "it answers, but made no progress") {
			t.Errorf("sync: %v", err)
		}
		if took := time.Since(start); took != time.Minute {
			t.Errorf("took %v with a limit of a minute", took)
		}
	})
}

func TestOursCancel(t *testing.T) {
	client, _ := pair(t, control.Options{}, control.Options{})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupted"))
	if err := client.Sync(ctx, control.PhaseConnected, 0, false); err == nil ||
		!strings.Contains(err.Error(), "interrupted") {
		t.Errorf("sync: %v", err)
	}
}

func TestOursRefusals(t *testing.T) {
	for _, tt := range []struct {
		name string
		bad  control.Address
	}{
		{"QPN", control.Address{QPN: 1 << 24}},
		{"PSN", control.Address{PSN: 1 << 24}},
		{"outstanding", control.Address{Outstanding: -1}},
		{"memory that wraps", control.Address{Addr: 1<<64 - 8, Bytes: 16}},
	} {
		t.Run("address: "+tt.name, func(t *testing.T) {
			client, server := pair(t, control.Options{}, control.Options{})
			ctx := testContext(t)
			if err := server.(*native.Session).Send(native.KindAddresses, []control.Address{tt.bad}); err != nil {
				t.Fatal(err)
			}
			if _, err := client.Exchange(ctx, []control.Address{{}}); err == nil ||
				!strings.Contains(err.Error(), "address 0 is impossible") {
				t.Errorf("exchange: %v", err)
			}
		})
	}
	t.Run("memory", func(t *testing.T) {
		client, server := pair(t, control.Options{Admit: atMostMiB}, control.Options{})
		ctx := testContext(t)
		plan := testPlan()
		plan.Sizes = []int{1 << 20}
		go func() {
			_, err := server.Propose(ctx, nil)
			server.Fail(err)
		}()
		_, err := client.Propose(ctx, plan)
		if err == nil || !strings.Contains(err.Error(), `peer said: "the plan needs 8388608 bytes`) {
			t.Errorf("propose: %v", err)
		}
	})
}

func TestListenerBusyAndAgain(t *testing.T) {
	var log logBuffer
	soon := calm()
	soon.Parting = 50 * time.Millisecond
	l := listen(t, control.Options{Timeouts: soon, Log: slog.New(slog.NewTextHandler(&log, nil))})
	ctx := testContext(t)
	accepted := make(chan control.Session)
	go func() {
		for {
			s, err := l.Accept(ctx)
			if err != nil {
				close(accepted)
				return
			}
			accepted <- s
		}
	}()
	for range 3 {
		first, err := Dial(ctx, l.Addr().String(), control.Options{Timeouts: calm()})
		if err != nil {
			t.Fatal(err)
		}
		server := <-accepted
		second, err := Dial(ctx, l.Addr().String(), control.Options{Timeouts: calm()})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = second.Propose(ctx, testPlan()); !errors.Is(err, control.ErrBusy) ||
			!strings.Contains(err.Error(), "busy since") {
			t.Errorf("second client: %v, want busy", err)
		}
		_ = second.Close()
		both(t, first.Close, func() error {
			_, err := server.Propose(ctx, nil)
			return errors.Join(err, server.Close())
		})
	}
	_ = l.Close()
	if _, open := <-accepted; open {
		t.Error("accept goes on after close")
	}
	if !strings.Contains(log.String(), "client turned away") {
		t.Errorf("log has no word of the second client:\n%s", log.String())
	}
}

// TestListenerSilent has more connections that say nothing than the listener keeps: a client is served nevertheless.
func TestListenerSilent(t *testing.T) {
	var log logBuffer
	l := listen(t, control.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	ctx := testContext(t)
	for range admission.Most + 10 {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
	}
	go func() {
		if server, err := l.Accept(ctx); err == nil {
			_ = server.Close()
		}
	}()
	client, err := Dial(ctx, l.Addr().String(), control.Options{Timeouts: calm()})
	if err != nil {
		t.Fatalf("a client among silent connections: %v", err)
	}
	_ = client.Close()
	if !strings.Contains(log.String(), "is closed") {
		t.Errorf("log has no word of it:\n%s", log.String())
	}
}

// TestListenerNextClient has clients that come while the session of the last one is being closed: they are served, not
// turned away.
func TestListenerNextClient(t *testing.T) {
	l := listen(t, control.Options{})
	ctx := testContext(t)
	var last control.Session
	for range 5 {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if _, err := conn.Write(wire.Hello{Version: 629}.Encode()); err != nil {
			t.Fatal(err)
		}
		if last != nil {
			closing := last
			time.AfterFunc(10*time.Millisecond, func() { closing.Fail(nil) })
		}
		if last, err = l.Accept(ctx); err != nil {
			t.Fatal(err)
		}
	}
	last.Fail(nil)
}

func TestListenerAllow(t *testing.T) {
	var log logBuffer
	l := listen(t, control.Options{
		Allow: []netip.Prefix{netip.MustParsePrefix("127.5.0.8/32")},
		Log:   slog.New(slog.NewTextHandler(&log, nil)),
	})
	ctx := testContext(t)
	if _, err := Dial(ctx, l.Addr().String(),
		control.Options{Timeouts: calm(), Source: netip.MustParseAddr("127.5.0.9")}); err == nil {
		t.Error("a client outside --allow was served")
	} else if !strings.Contains(err.Error(), "--allow") {
		t.Errorf("the refused client has no word of --allow: %v", err)
	}
	s, err := Dial(ctx, l.Addr().String(), control.Options{Timeouts: calm(), Source: netip.MustParseAddr("127.5.0.8")})
	if err != nil {
		t.Fatalf("a client inside --allow: %v", err)
	}
	go func() {
		if server, err := l.Accept(ctx); err == nil {
			_ = server.Close()
		}
	}()
	_ = s.Close()
	if !strings.Contains(log.String(), "--allow") {
		t.Errorf("log has no word of the refused client:\n%s", log.String())
	}
}

// TestListenerGarbage meets what a public port meets, and serves a real client afterwards.
func TestListenerGarbage(t *testing.T) {
	t.Parallel() // it waits for two seconds, for real: a listener has a socket
	var log logBuffer
	hasty := calm()
	hasty.Hello = 2 * time.Second
	l := listen(t, control.Options{Timeouts: hasty, Log: slog.New(slog.NewTextHandler(&log, nil))})
	ctx := testContext(t)
	tooLong := wire.Hello{Version: 627, Ours: 1}.Encode()
	tooLong = binary.BigEndian.AppendUint32(tooLong, 1<<31)
	garbage := []struct {
		name string
		send []byte
	}{
		{"nothing", nil},
		{"half a message", []byte("6.27\x00go")},
		{"http", []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")},
		{"tls", bytes.Repeat([]byte{0x16, 3, 1}, 40)},
		{"no NUL", []byte("6.27272727272727")},
		{"marker without version", []byte("6.27\x00gobw/x\x00\x00\x00\x00\x00")},
		{"old perftest", wire.Hello{Version: 560}.Encode()},
		{"absurd length", tooLong},
		{"broken JSON", append(wire.Hello{Version: 627, Ours: 1}.Encode(), 0, 0, 0, 3, '{', '"', 'x')},
	}
	var wg sync.WaitGroup
	for _, tt := range garbage {
		wg.Go(func() {
			conn, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
				return
			}
			defer func() { _ = conn.Close() }()
			_, _ = conn.Write(tt.send)
			_ = conn.SetReadDeadline(time.Now().Add(late))
			if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: not dropped", tt.name)
			}
		})
	}
	wg.Wait()
	go func() {
		if server, err := l.Accept(ctx); err == nil {
			_ = server.Close()
		}
	}()
	s, err := Dial(ctx, l.Addr().String(), control.Options{Timeouts: calm()})
	if err != nil {
		t.Fatalf("a real client afterwards: %v", err)
	}
	_ = s.Close()
	_ = l.Close() // which waits until the listener has told why
	if n := strings.Count(log.String(), "client dropped"); n != len(garbage) {
		t.Errorf("%d clients dropped in the log, want %d:\n%s", n, len(garbage), log.String())
	}
}

func TestVersionMismatch(t *testing.T) {
	t.Run("newer client", func(t *testing.T) {
		l := listen(t, control.Options{})
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		_, _ = conn.Write(wire.Hello{Version: 627, Ours: 2}.Encode())
		var b [wire.HelloBytes]byte
		if _, err := io.ReadFull(conn, b[:]); err != nil {
			t.Fatal(err)
		}
		said, err := io.ReadAll(conn)
		if err != nil || !strings.Contains(string(said), "the server speaks gobw/1, the client gobw/2") {
			t.Errorf("server said %q, %v", said, err)
		}
	})
	if err := native.CheckVersion(2, 1); err == nil ||
		!strings.Contains(err.Error(), "the server speaks gobw/2, the client gobw/1") {
		t.Errorf("newer server: %v", err)
	}
}

// TestOtherVersion: a server of before or after this version's greeting is said to be one, with what to do.
func TestOtherVersion(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.ReadFull(conn, make([]byte, wire.HelloBytes))
		_, _ = conn.Write(wire.Hello{Version: 627, Ours: 1}.Encode())
		hello, err := frame.Of(frame.KindHello, struct{}{}) // before 2026-11 no challenge came first
		if err == nil {
			var b []byte
			if b, err = frame.Append(nil, hello); err == nil {
				_, err = conn.Write(b)
			}
		}
		if err != nil {
			t.Error(err)
		}
		_, _ = io.Copy(io.Discard, conn)
	}()
	_, err = Dial(t.Context(), l.Addr().String(), control.Options{Program: "gobw v9", Timeouts: calm()})
	want := l.Addr().String() + " runs another version of gobw, or is not gobw; here is gobw v9 ("
	if err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(verbs.RemedyOf(err), "gobw version") {
		t.Errorf("%v, remedy %q; want %q", err, verbs.RemedyOf(err), want)
	}
}
