package connect

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/perftest/wire"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
)

// captured is one message of a captured conversation.
type captured struct {
	client bool // sent by the client
	bytes  []byte
}

// readCapture extracts the TCP payloads of a capture, in order, without retransmissions.
func readCapture(t testing.TB, name string) []captured {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "control", name+".pcap"))
	if err != nil {
		t.Fatal(err)
	}
	type segment struct {
		port uint16
		seq  uint32
	}
	seen := make(map[segment]bool)
	var messages []captured
	for b = b[24:]; len(b) >= 16; {
		n := int(binary.LittleEndian.Uint32(b[8:]))
		packet := b[16 : 16+n]
		b = b[16+n:]
		ip := packet[14:]
		ip = ip[:binary.BigEndian.Uint16(ip[2:])]
		tcp := ip[int(ip[0]&15)*4:]
		payload := tcp[int(tcp[12]>>4)*4:]
		id := segment{binary.BigEndian.Uint16(tcp), binary.BigEndian.Uint32(tcp[4:])}
		if len(payload) == 0 || seen[id] {
			continue
		}
		seen[id] = true
		messages = append(messages, captured{client: id.port != control.DefaultPort, bytes: payload})
	}
	return messages
}

// side collects the messages of one end.
func side(all []captured, client bool) [][]byte {
	var m [][]byte
	for _, c := range all {
		if c.client == client {
			m = append(m, c.bytes)
		}
	}
	return m
}

func isFarewell(b []byte) bool { return string(b) == "done\x00" }

// script is what one end of a captured test did, as arguments of the session's methods.
type script struct {
	version   string
	plan      *plan.Spec
	facts     control.Facts
	addresses []control.Address
	figures   []control.Figures // one per size that has a report
}

// scriptOf derives the arguments from the messages that the end sent.
func scriptOf(t *testing.T, plan plan.Spec, sent [][]byte) script {
	t.Helper()
	s := script{plan: &plan, version: string(bytes.TrimRight(sent[0], "\x00"))}
	s.facts = control.Facts{
		PageBytes:      int(binary.BigEndian.Uint32(sent[1])),
		CacheLineBytes: int(binary.BigEndian.Uint32(sent[2])),
		MTU:            verbs.MTU(sent[3][0] - '0'),
	}
	var items []byte
	for _, b := range sent[4:] {
		switch {
		case len(b) == wire.NegotiationBytes:
			n, err := wire.ParseNegotiation(b)
			if err != nil {
				t.Fatal(err)
			}
			s.facts.MaxOutstanding = int(n.Outstanding)
		case len(b) == wire.KeysBytes || len(b) == wire.KeysBytesNoGID:
			a, err := wire.ParseKeys(b)
			if err != nil {
				t.Fatal(err)
			}
			first := len(s.addresses) == 0 || s.addresses[0].QPN != a.QPN
			if first && len(s.addresses) < max(plan.QPs, 1) {
				s.addresses = append(s.addresses, a)
			}
		case len(b) == wire.ReportItem:
			if items = append(items, b...); len(items) == wire.ReportBytes {
				s.figures, items = append(s.figures, wire.DecodeReport(items, false)), nil
			}
		}
	}
	return s
}

// drive runs one end of a test through the session, as bench does.
func (s script) drive(ctx context.Context, session control.Session) ([]control.Figures, error) {
	plan, err := session.Propose(ctx, s.plan)
	if err != nil {
		return nil, err
	}
	if _, err := session.Facts(ctx, s.facts); err != nil {
		return nil, err
	}
	if plan.RDMACM {
		for _, p := range []control.Phase{control.PhaseListening, control.PhaseJoined} {
			if err := session.Sync(ctx, p, 0, false); err != nil {
				return nil, err
			}
		}
	}
	if _, err := session.Exchange(ctx, s.addresses); err != nil {
		return nil, err
	}
	if err := session.Sync(ctx, control.PhaseConnected, 0, false); err != nil {
		return nil, err
	}
	var remote []control.Figures
	figures := s.figures
	for i := range plan.Sizes {
		last := i == len(plan.Sizes)-1
		if err := session.Sync(ctx, control.PhaseReady, i, last); err != nil {
			return nil, err
		}
		if err := session.Sync(ctx, control.PhaseDone, i, last); err != nil {
			return nil, err
		}
		var local control.Figures
		switch {
		case len(figures) == len(plan.Sizes)-i:
			local, figures = figures[0], figures[1:]
		case len(figures) == 1 && last:
			local = figures[0]
		}
		f, err := session.Report(ctx, local)
		if err != nil {
			return nil, err
		}
		remote = append(remote, f)
	}
	if err := session.Sync(ctx, control.PhaseFinished, 0, true); err != nil {
		return nil, err
	}
	return remote, session.Close()
}

// playPeer plays one half of a captured conversation on conn and compares what comes back with the other half.
func playPeer(conn net.Conn, all []captured, peerIsClient bool, same func(i int, got, want []byte) bool) error {
	for i, m := range all {
		if m.client == peerIsClient {
			if _, err := conn.Write(m.bytes); err != nil {
				return fmt.Errorf("message %d: %w", i+1, err)
			}
			continue
		}
		if isFarewell(m.bytes) {
			continue // we do not say it
		}
		got := make([]byte, len(m.bytes))
		if _, err := io.ReadFull(conn, got); err != nil {
			return fmt.Errorf("message %d, %d bytes %q: %w", i+1, len(m.bytes), m.bytes, err)
		}
		if !same(i, got, m.bytes) {
			return fmt.Errorf("message %d:\n got %q\nwant %q", i+1, got, m.bytes)
		}
	}
	if c, ok := conn.(*net.TCPConn); ok {
		if err := c.CloseWrite(); err != nil {
			return err
		}
	}
	rest, err := io.ReadAll(conn)
	if len(rest) > 0 {
		return fmt.Errorf("%d bytes too many: %q", len(rest), rest)
	}
	return err
}

func bw(op plan.Operation, size int, change ...func(*plan.Spec)) plan.Spec {
	p := plan.Spec{Operation: op, Kind: plan.Bandwidth, Transport: verbs.RC, Sizes: []int{size}, Iterations: 200}
	if op == plan.Atomic {
		p.AtomicType = verbs.OpFetchAdd
	}
	for _, c := range change {
		c(&p)
	}
	return p
}

func lat(op plan.Operation, size int, change ...func(*plan.Spec)) plan.Spec {
	p := bw(op, size, change...)
	p.Kind = plan.Latency
	return p
}

func uc(p *plan.Spec) { p.Transport = verbs.UC }

func ud(p *plan.Spec) { p.Transport = verbs.UD }

func bidi(p *plan.Spec) { p.Bidirectional = true }

func imm(p *plan.Spec) { p.WriteImm = true }

func all(p *plan.Spec) { p.AllSizes, p.Sizes = true, plan.AllSizes() }

func reversed(p *plan.Spec) {
	p.Reversed = true
}

func seconds(p *plan.Spec) { p.Iterations, p.Duration = 0, 2*time.Second }

func qps(n int) func(*plan.Spec) { return func(p *plan.Spec) { p.QPs = n } }

func iters(n int) func(*plan.Spec) { return func(p *plan.Spec) { p.Iterations = uint64(n) } }

// conversations are the captures that ran to their end, and the test that each one was.
func conversations() map[string]plan.Spec {
	return map[string]plan.Spec{
		"write_bw_rc": bw(plan.Write, 65536), "write_bw_uc": bw(plan.Write, 4096, uc),
		"write_bw_q4": bw(plan.Write, 4096, qps(4), iters(100)),
		"write_bw_a":  bw(plan.Write, 2, all, iters(5)), "write_bw_b": bw(plan.Write, 4096, bidi),
		"write_bw_b_a": bw(plan.Write, 2, all, bidi, iters(5)),
		"write_bw_D2":  bw(plan.Write, 4096, seconds), "write_bw_both": bw(plan.Write, 4096, bidi, iters(100)),
		"write_bw_reversed": bw(plan.Write, 4096, reversed, iters(100)),
		"read_bw_rc":        bw(plan.Read, 65536), "read_bw_b": bw(plan.Read, 4096, bidi, iters(100)),
		"read_bw_D2":   bw(plan.Read, 4096, seconds),
		"atomic_bw_rc": bw(plan.Atomic, 8), "atomic_bw_b": bw(plan.Atomic, 8, bidi, iters(100)),
		"send_bw_rc": bw(plan.Send, 65536), "send_bw_uc": bw(plan.Send, 4096, uc, iters(100)),
		"send_bw_ud": bw(plan.Send, 1024, ud),
		"send_bw_a":  bw(plan.Send, 2, all, iters(5)), "send_bw_b": bw(plan.Send, 4096, bidi),
		"send_bw_b_a": bw(plan.Send, 2, all, bidi, iters(5)),
		"send_bw_D2":  bw(plan.Send, 4096, seconds), "send_bw_q2": bw(plan.Send, 4096, qps(2), iters(100)),
		"send_lat_rc": lat(plan.Send, 2), "send_lat_ud": lat(plan.Send, 2, ud),
		"send_lat_a": lat(plan.Send, 2, all, iters(10)), "send_lat_D2": lat(plan.Send, 2, seconds),
		"write_lat_rc": lat(plan.Write, 2), "write_lat_uc": lat(plan.Write, 2, uc, iters(100)),
		"write_lat_a":  lat(plan.Write, 2, all, iters(10)),
		"write_lat_D2": lat(plan.Write, 2, seconds), "read_lat_rc": lat(plan.Read, 2), "atomic_lat_rc": lat(plan.Atomic, 8),
		"master_write_bw": bw(plan.Write, 4096), "master_send_bw": bw(plan.Send, 4096),
		"master_write_lat":    lat(plan.Write, 2),
		"master_write_bw_imm": bw(plan.Write, 4096, imm), "master_write_lat_imm": lat(plan.Write, 2, imm),
		"cross_write_bw_s45_cmaster": bw(plan.Write, 4096), "cross_write_bw_smaster_c45": bw(plan.Write, 4096),
		"cross_send_lat_s45_cmaster": lat(plan.Send, 2),
		"mm_mtu":                     bw(plan.Write, 4096, iters(100)), "master_mm_mtu": bw(plan.Write, 4096),
		"mm_gbits": bw(plan.Write, 4096, iters(100)),
		"mm_iters": bw(plan.Write, 4096, iters(100)), "mm_size_small": bw(plan.Write, 4096, iters(100)),
	}
}

// sameMessage compares byte for byte, except where no one can be held to: the reports of a target that measured
// nothing (perftest sends what lies in memory) and the device attributes in the negotiation.
func sameMessage(plan plan.Spec, ours bool) func(int, []byte, []byte) bool {
	target := ours == plan.Reversed
	return func(_ int, got, want []byte) bool {
		switch {
		case len(want) == 8 && target && !plan.Bidirectional:
			return true
		case len(want) == 8: // the message rate is divided by 10^6 on its way out: one bit may be rounded
			d := int64(binary.BigEndian.Uint64(got) - binary.BigEndian.Uint64(want))
			return d >= -1 && d <= 1
		case len(want) == wire.NegotiationBytes:
			const end = wire.AtOutstanding + 4
			return bytes.Equal(got[:80], want[:80]) && bytes.Equal(got[wire.AtOutstanding:end], want[wire.AtOutstanding:end])
		}
		return bytes.Equal(got, want)
	}
}

// playServer plays the server of a captured conversation to one client.
func playServer(t *testing.T, messages []captured, plan plan.Spec) (address string, played <-chan error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.5.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	done := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			done <- err
			return
		}
		defer func() { _ = conn.Close() }()
		_ = conn.SetDeadline(time.Now().Add(late))
		done <- playPeer(conn, messages, false, sameMessage(plan, true))
	}()
	return l.Addr().String(), done
}

func TestReplayAsClient(t *testing.T) {
	for name, plan := range conversations() {
		t.Run(name, func(t *testing.T) {
			messages := readCapture(t, name)
			ctx := testContext(t)
			s := scriptOf(t, plan, side(messages, true))
			address, played := playServer(t, messages, plan)
			session, err := Dial(ctx, address, control.Options{
				Timeouts: calm(), Perftest: control.PerftestOptions{Version: s.version, NoMarker: true},
			})
			if err != nil {
				t.Fatal(err)
			}
			remote, err := s.drive(ctx, session)
			if err != nil {
				session.Fail(err)
				t.Errorf("session: %v", err)
			}
			if err := <-played; err != nil {
				t.Fatalf("peer: %v", err)
			}
			checkRemote(t, remote, scriptOf(t, plan, side(messages, false)).figures, plan.Bidirectional || plan.Reversed)
		})
	}
}

func TestReplayAsServer(t *testing.T) {
	for name, plan := range conversations() {
		t.Run(name, func(t *testing.T) {
			messages := readCapture(t, name)
			ctx := testContext(t)
			s := scriptOf(t, plan, side(messages, false))
			l := listen(t, control.Options{Perftest: control.PerftestOptions{Version: s.version}})
			played := make(chan error, 1)
			go func() {
				conn, err := net.Dial("tcp", l.Addr().String())
				if err != nil {
					played <- err
					return
				}
				defer func() { _ = conn.Close() }()
				_ = conn.SetDeadline(time.Now().Add(late))
				played <- playPeer(conn, messages, true, sameMessage(plan, false))
			}()
			session, err := l.Accept(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if session.Dialect() != control.Perftest || session.Dialled() {
				t.Errorf("dialect %v, dialled %v", session.Dialect(), session.Dialled())
			}
			remote, err := s.drive(ctx, session)
			if err != nil {
				session.Fail(err)
				t.Errorf("session: %v", err)
			}
			if err := <-played; err != nil {
				t.Fatalf("peer: %v", err)
			}
			checkRemote(t, remote, scriptOf(t, plan, side(messages, true)).figures, plan.Bidirectional || !plan.Reversed)
		})
	}
}

// checkRemote compares the figures that Report returned with those the peer sent;
// a peer that measured nothing has none.
func checkRemote(t *testing.T, remote, sent []control.Figures, measured bool) {
	t.Helper()
	var got []control.Figures
	for _, f := range remote {
		if f.Iterations > 0 {
			got = append(got, f)
		}
	}
	if !measured {
		sent = nil
	}
	if len(got) != len(sent) {
		t.Fatalf("%d reports from the peer, want %d", len(got), len(sent))
	}
	for i := range got {
		if got[i].Size != sent[i].Size || got[i].Iterations != sent[i].Iterations ||
			got[i].AverageBits != sent[i].AverageBits {
			t.Errorf("report %d: got %+v, want %+v", i, got[i], sent[i])
		}
	}
}

// TestEveryCaptureIsUsed keeps the list of conversations complete.
func TestEveryCaptureIsUsed(t *testing.T) {
	elsewhere := map[string]string{
		"mm_q": "TestReplayMismatch", "mm_gid": "TestReplayMismatch", "master_mm_size": "TestReplayMismatch",
		"mm_tool_b":      "TestReplayMismatch",
		"write_bw_nogid": "TestReplayPeerDies", "mm_size": "TestReplayPeerDies", "mm_tool": "TestReplayPeerDies",
		"die_client": "TestReplayPeerDies", "mm_send_size": "TestReplayPeerDies",
		"mm_conn": "TestReplayPeerDies", "mm_send_iters": "TestReplayPeerDies", "mm_send_lat_iters": "TestReplayServerStuck",
		"cross628_s45_c628": "TestVersion628", "cross628_s628_c45": "TestVersion628", "cross628_s628_c629": "TestVersion628",
		"write_bw_noxchg": "no bytes were sent: --dont_xchg_versions cannot work",
	}
	files, err := filepath.Glob("testdata/control/*.pcap")
	if err != nil || len(files) == 0 {
		t.Fatalf("captures: %v, %v", files, err)
	}
	list := conversations()
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".pcap")
		if _, replayed := list[name]; !replayed && elsewhere[name] == "" {
			t.Errorf("%s is replayed by no test", name)
		}
	}
}

// replayServer runs our server against the client half of a capture, ignoring what the stock server had answered.
func replayServer(t *testing.T, messages []captured, o control.Options, s script) error {
	t.Helper()
	ctx := testContext(t)
	l := listen(t, o)
	played := make(chan struct{})
	go func() {
		defer close(played)
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_ = conn.SetDeadline(time.Now().Add(late))
		for _, m := range messages {
			if m.client {
				if _, err := conn.Write(m.bytes); err != nil {
					return
				}
			} else if _, err := io.ReadFull(conn, make([]byte, len(m.bytes))); err != nil {
				return
			}
		}
	}()
	session, err := l.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.drive(ctx, session)
	session.Fail(err)
	<-played
	return err
}

func TestReplayMismatch(t *testing.T) {
	for _, tt := range []struct {
		name string
		plan plan.Spec
		want string
	}{
		{"mm_q", bw(plan.Write, 4096, iters(100)), "make sure both ends agree on the tool and -q"},
		{"mm_gid", bw(plan.Write, 4096, iters(100)), "GID families differ"},
		{"master_mm_size", bw(plan.Write, 4096), "size mismatch: local=4096, remote=8192"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			messages := readCapture(t, tt.name)
			s := scriptOf(t, tt.plan, side(messages, false))
			err := replayServer(t, messages, control.Options{Perftest: control.PerftestOptions{Version: s.version}}, s)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	t.Run("mm_tool_b", func(t *testing.T) { // works by accident: the same number of messages
		messages := readCapture(t, "mm_tool_b")
		s := scriptOf(t, bw(plan.Write, 4096, iters(100)), side(messages, false))
		if err := replayServer(t, messages, control.Options{Perftest: control.PerftestOptions{Version: s.version}},
			s); err != nil {
			t.Error(err)
		}
	})
}

// TestReplayPeerDies replays conversations whose client went away in the middle.
func TestReplayPeerDies(t *testing.T) {
	for _, tt := range []struct {
		name string
		plan plan.Spec
	}{
		{"mm_size", bw(plan.Write, 4096, iters(100))},
		{"mm_tool", bw(plan.Send, 4096, iters(100))},
		{"die_client", bw(plan.Write, 4096, seconds)},
		{"mm_send_size", bw(plan.Send, 4096, iters(100))},
		{"mm_conn", bw(plan.Write, 4096, uc, iters(100))},
		{"mm_send_iters", bw(plan.Send, 4096, iters(100))},
		// keys of 59 bytes; Soft-RoCE then refuses to connect without a GID
		{"write_bw_nogid", bw(plan.Write, 4096, iters(100))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			messages := readCapture(t, tt.name)
			s := scriptOf(t, tt.plan, side(messages, false))
			err := replayServer(t, messages, control.Options{Perftest: control.PerftestOptions{Version: s.version}}, s)
			var gone *control.LostError
			if !errors.As(err, &gone) || !strings.Contains(gone.Hint, "make sure both ends agree on") {
				t.Errorf("got %v, want the peer lost and the likely mismatch", err)
			}
		})
	}
}

// TestReplayServerStuck replays a server that waits for more messages than the client sends, until it is killed.
func TestReplayServerStuck(t *testing.T) {
	messages := readCapture(t, "mm_send_lat_iters")
	plan := lat(plan.Send, 2, iters(50))
	s := scriptOf(t, plan, side(messages, true))
	address, played := playServer(t, messages, plan)
	ctx := testContext(t)
	timeouts := calm()
	timeouts.Test = 200 * time.Millisecond
	session, err := Dial(ctx, address,
		control.Options{Timeouts: timeouts, Perftest: control.PerftestOptions{Version: s.version, NoMarker: true}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.drive(ctx, session)
	if !errors.Is(err, control.ErrPeerLost) || !strings.Contains(err.Error(), "waiting for the peer to be finished") ||
		!strings.Contains(err.Error(), "-n") {
		t.Errorf("got %v", err)
	}
	session.Fail(err)
	if err := <-played; err != nil {
		t.Error(err)
	}
}

// TestVersion628 meets the release that negotiates with everyone.
func TestVersion628(t *testing.T) {
	t.Run("its server, our default client", func(t *testing.T) {
		peer, err := wire.ParseVersion(string(bytes.TrimRight(side(readCapture(t, "cross628_s628_c45"), false)[0], "\x00")))
		if err != nil {
			t.Fatal(err)
		}
		if err := (wire.Versions{Peer: peer, Mine: 627}).Check(); err == nil ||
			!strings.Contains(err.Error(), "--perftest-version 6.29") {
			t.Errorf("got %v, want the flag to use", err)
		}
		if err := (wire.Versions{Peer: peer, Mine: 629}).Check(); err != nil {
			t.Error(err)
		}
	})
	t.Run("its server, our 6.29 client", func(t *testing.T) { // as 6.29 did, until the capture's end
		messages := readCapture(t, "cross628_s628_c629")
		if n := side(messages, false); len(n) < 5 || len(n[4]) != wire.NegotiationBytes {
			t.Fatalf("the 6.28 server sent %d messages", len(n))
		}
	})
	t.Run("its client, our server", func(t *testing.T) {
		messages := readCapture(t, "cross628_s45_c628")
		if n := side(messages, true); len(n) < 5 || len(n[4]) != wire.NegotiationBytes {
			t.Fatalf("the 6.28 client does not negotiate in this capture: %d messages", len(n))
		}
		facts := control.Facts{PageBytes: 4096, CacheLineBytes: 64, MTU: verbs.MTU1024, MaxOutstanding: 128}
		l := listen(t, control.Options{LocalFacts: func() (control.Facts, error) { return facts, nil }})
		ctx := testContext(t)
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		answers := make(chan [][]byte, 1)
		go func() {
			var got [][]byte
			_ = conn.SetDeadline(time.Now().Add(late))
			for _, m := range side(messages, true)[:5] {
				if _, err := conn.Write(m); err != nil {
					break
				}
				b := make([]byte, len(m))
				if _, err := io.ReadFull(conn, b); err != nil {
					break
				}
				got = append(got, b)
			}
			answers <- got
		}()
		session, err := l.Accept(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer session.Fail(nil)
		spec, err := session.Propose(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		if spec.Operation != plan.Write || spec.Kind != plan.Bandwidth || spec.Sizes[0] != 4096 || spec.Iterations != 100 ||
			spec.QPs != 1 {
			t.Errorf("learned %+v", spec)
		}
		got := <-answers
		if len(got) != 5 || string(got[0][:4]) != "6.29" || !bytes.Equal(got[4][:80], side(messages, true)[4][:80]) {
			t.Errorf("answers %q", got)
		}
	})
}
