package connect

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/rdmacm"
	"github.com/gobw/gobw/internal/perftest/wire"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/internal/testrun/meeting"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce"
)

// managedPair is two devices of ours with an RDMA CM in memory.
func managedPair(t *testing.T) (server, client verbs.Device) {
	t.Helper()
	m := &meeting.Manager{}
	open := func(at netip.Addr) (verbs.Device, error) {
		return roce.New(roce.Options{Address: at}).Open(roce.DeviceName)
	}
	return m.Open(t, open), m.Open(t, open)
}

// TestRDMABothEnds runs every conversation over queue pairs, with keys of both lengths, with and without -R.
func TestRDMABothEnds(t *testing.T) {
	at, from := managedPair(t)
	for name, spec := range conversations() {
		if strings.HasPrefix(name, "mm_") || strings.HasPrefix(name, "cross_") || spec.Transport == verbs.UC &&
			spec.Kind == plan.Latency {
			continue // nothing new by RDMA
		}
		for _, version := range []string{"6.27", "6.29"} {
			t.Run(name+"/"+version, func(t *testing.T) {
				spec.RDMACM = spec.Transport != verbs.UC && len(spec.Sizes) == 1
				l := listen(t, control.Options{RDMA: at})
				ctx := testContext(t)
				served := make(chan error, 1)
				go func() {
					session, err := l.Accept(ctx)
					if err == nil {
						err = converse(ctx, session, spec)
					}
					served <- err
				}()
				session, err := Dial(ctx, l.Addr().String(),
					control.Options{Timeouts: calm(), RDMA: from, Perftest: control.PerftestOptions{Version: version}})
				if err != nil {
					t.Fatal(err)
				}
				if session.Dialect() != control.Perftest {
					t.Errorf("dialect %v", session.Dialect())
				}
				if err := errors.Join(converse(ctx, session, spec), <-served); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// converse runs one end as bench does, by RDMA CM where the plan says so.
func converse(ctx context.Context, session control.Session, plan plan.Spec) error {
	s := script{plan: &plan, facts: testFacts(), addresses: testAddresses(max(plan.QPs, 1), 0x20)}
	for _, size := range plan.Sizes {
		s.figures = append(s.figures,
			control.Figures{Size: uint64(size), Iterations: 5, PeakBits: 8e9, AverageBits: 8e9, MessagesPerS: 1e6})
	}
	_, err := s.drive(ctx, session)
	return err
}

// TestRDMAMessages plays a stock client of 4.5 by hand: one SEND a message, keys of 56 bytes, barriers
// before and behind the connections of -R.
func TestRDMAMessages(t *testing.T) {
	at, from := managedPair(t)
	l := listen(t, control.Options{RDMA: at})
	ctx := testContext(t)
	plan := bw(plan.Write, 65536)
	plan.RDMACM = true
	served := make(chan error, 1)
	go func() {
		session, err := l.Accept(ctx)
		if err == nil {
			err = converse(ctx, session, plan)
		}
		served <- err
	}()
	conn, err := rdmacm.Dial(ctx, from, l.Addr(), netip.Addr{}, late)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(late))
	version := make([]byte, 16)
	copy(version, "6.06")
	keys := wire.EncodeKeysRDMA(testAddresses(1, 7)[0], wire.KeysBytesRDMA)
	report := make([]byte, 8)
	messages := [][]byte{
		version,
		{0, 0, 0x10, 0},
		{0, 0, 0, 0x40},
		{'5', 0},
		make([]byte, wire.KeysBytesRDMA), // about to connect
		make([]byte, wire.KeysBytesRDMA), // connected by RDMA CM
		keys, keys, keys,                 // addresses, again, barrier
		keys, // the test is over
		report, report, report, report, report,
		keys, // close
	}
	for i, m := range messages {
		if _, err := conn.Write(m); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		b := make([]byte, 1024)
		n, err := conn.Read(b)
		if err != nil || n != len(m) {
			t.Fatalf("answer %d has %d bytes, want %d: %v", i, n, len(m), err)
		}
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestRDMARefused(t *testing.T) {
	at, from := managedPair(t)
	ctx := testContext(t)
	began := time.Now()
	_, err := Dial(ctx, "127.20.1.1:20999", control.Options{Timeouts: calm(), RDMA: from, Wait: 300 * time.Millisecond})
	if !errors.Is(err, syscall.ECONNREFUSED) || time.Since(began) < 200*time.Millisecond {
		t.Errorf("after %v: %v, want a refusal after some tries", time.Since(began), err)
	}
	unmanaged := struct{ verbs.Device }{at}
	_, err = Dial(ctx, "127.20.1.1:20999", control.Options{Timeouts: calm(), RDMA: unmanaged})
	if err == nil || !errors.Is(err, verbs.ErrUnsupported) || !strings.Contains(verbs.RemedyOf(err), "-R") {
		t.Errorf("a device without RDMA CM: %v, remedy %q", err, verbs.RemedyOf(err))
	}
	_, err = Listen(control.Options{RDMA: unmanaged})
	if !errors.Is(err, verbs.ErrUnsupported) {
		t.Errorf("a device without RDMA CM listens: %v", err)
	}
}

// TestRDMAPeerGone: a peer that ends is noticed at once, while this end waits in a call, and while it is measuring.
func TestRDMAPeerGone(t *testing.T) {
	for _, waiting := range []bool{true, false} {
		client, server := rdmaPairConversing(t)
		ctx := testContext(t)
		watch, unwatch := client.Watch(ctx)
		defer unwatch()
		began := time.Now()
		server.Fail(nil)
		if waiting {
			err := client.Sync(ctx, control.PhaseDone, 0, true)
			if !errors.Is(err, control.ErrPeerLost) {
				t.Errorf("waiting: %v, want a lost peer", err)
			}
		} else {
			<-watch.Done()
			if !errors.Is(context.Cause(watch), control.ErrPeerLost) {
				t.Errorf("measuring: %v, want a lost peer", context.Cause(watch))
			}
		}
		if took := time.Since(began); took > late/2 {
			t.Errorf("took %v: it was not the end of the connection that showed", took)
		}
		client.Fail(nil)
	}
}

// rdmaPairConversing is two ends that have agreed on a plan and exchanged addresses.
func rdmaPairConversing(t *testing.T) (client, server control.Session) {
	t.Helper()
	at, from := managedPair(t)
	l := listen(t, control.Options{RDMA: at})
	ctx := testContext(t)
	plan := bw(plan.Write, 65536)
	begin := func(s control.Session) error {
		if _, err := s.Propose(ctx, &plan); err != nil {
			return err
		}
		if _, err := s.Facts(ctx, testFacts()); err != nil {
			return err
		}
		if _, err := s.Exchange(ctx, testAddresses(1, 9)); err != nil {
			return err
		}
		return s.Sync(ctx, control.PhaseConnected, 0, false)
	}
	accepted := make(chan control.Session, 1)
	failed := make(chan error, 1)
	go func() {
		s, err := l.Accept(ctx)
		if err == nil {
			err = begin(s)
		}
		accepted <- s
		failed <- err
	}()
	client, err := Dial(ctx, l.Addr().String(), control.Options{Timeouts: calm(), RDMA: from})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(begin(client), <-failed); err != nil {
		t.Fatal(err)
	}
	return client, <-accepted
}

// TestRDMASilence: a client that connects and says nothing is dropped, and the next one is served.
func TestRDMASilence(t *testing.T) {
	t.Parallel() // it waits for two seconds, for real: the connection is of a device
	at, from := managedPair(t)
	log := &logBuffer{}
	hasty := calm()
	hasty.Hello = 2 * time.Second
	l := listen(t, control.Options{RDMA: at, Timeouts: hasty, Log: slog.New(slog.NewTextHandler(log, nil))})
	ctx := testContext(t)
	silent, err := rdmacm.Dial(ctx, from, l.Addr(), netip.Addr{}, late)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := silent.Read(make([]byte, 16)); !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
		t.Errorf("the silent client hears %v, want the end", err)
	}
	_ = silent.Close()
	if !strings.Contains(log.String(), "0 of the first message's 16 bytes") {
		t.Errorf("log %q", log.String())
	}
	loud, err := rdmacm.Dial(ctx, from, l.Addr(), netip.Addr{}, late)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = loud.Close() }()
	if _, err := loud.Write(make([]byte, 512+1)); err == nil {
		t.Error("a message beyond the limit is sent")
	}
	for range 3 * 4 { // more than is due: the listener hangs up
		if _, err := loud.Write([]byte("GET / HTTP/1.0\r\n")); err != nil {
			break
		}
	}
	if _, err := loud.Read(make([]byte, 16)); err == nil {
		t.Error("a client that speaks another protocol is answered")
	}
}
