package roce

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/wire"
	"github.com/gobw/gobw/verbs/verbstest"
)

// handPeer is a plain UDP socket that plays a RoCEv2 end by hand.
type handPeer struct {
	t    testing.TB
	conn *net.UDPConn
	raw  syscall.RawConn
	flow wire.Flow // from the peer to the device
	to   netip.AddrPort

	sent, received uint64 // packets
}

// newHandPeer makes a peer at an address of its own, and tells where its packets go.
func newHandPeer(t testing.TB) (h *handPeer, device netip.Addr) {
	t.Helper()
	own, device := verbstest.Address(), verbstest.Address()
	conn, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(own, wire.Port)))
	check(t, err)
	t.Cleanup(func() { check(t, conn.Close()) })
	raw, err := conn.SyscallConn()
	check(t, err)
	// Don't-fragment on an unconnected socket: the kernel writes IPv4 ID 0.
	var failed error
	check(t, raw.Control(func(fd uintptr) {
		failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IP, syscall.IP_MTU_DISCOVER, syscall.IP_PMTUDISC_DO)
	}))
	check(t, failed)
	to := netip.AddrPortFrom(device, wire.Port)
	flow, err := wire.NewFlow(netip.AddrPortFrom(own, wire.Port), to)
	check(t, err)
	return &handPeer{t: t, conn: conn, raw: raw, flow: flow, to: to}, device
}

// send seals a packet, whose last four bytes are for the ICRC, and sends it.
func (h *handPeer) send(packet []byte) {
	h.t.Helper()
	h.flow.Seal(packet, 0)
	h.sendSealed(packet)
}

// sendSealed sends a packet as it is; the device does not notice one of no bytes.
func (h *handPeer) sendSealed(packet []byte) {
	h.t.Helper()
	_, err := h.conn.WriteToUDPAddrPort(packet, h.to)
	check(h.t, err)
	if len(packet) > 0 {
		h.sent++
	}
}

// receive returns the packets that have arrived, without waiting.
func (h *handPeer) receive() []wire.Packet {
	h.t.Helper()
	var packets []wire.Packet
	for {
		b := make([]byte, 1<<16)
		n := 0
		var failed error
		check(h.t, h.raw.Control(func(fd uintptr) { n, _, failed = syscall.Recvfrom(int(fd), b, syscall.MSG_DONTWAIT) }))
		if errors.Is(failed, syscall.EAGAIN) {
			return packets
		}
		check(h.t, failed)
		p, err := wire.ParsePacket(b[:n])
		check(h.t, err)
		packets = append(packets, p)
		h.received++
	}
}

// captureSide is what the captures' README says of one end.
type captureSide struct {
	qpn, psn, rkey uint32
	va             uint64
}

// readSides reads the ends of a capture from the README beside it.
func readSides(t *testing.T, capture string) (a, b captureSide) {
	t.Helper()
	text, err := os.ReadFile("testdata/README.md")
	check(t, err)
	_, section, found := strings.Cut(string(text), "### "+capture+".pcap")
	if !found {
		t.Fatalf("README has no section for %s", capture)
	}
	section, _, _ = strings.Cut(section, "\n### ")
	line := regexp.MustCompile(
		`- ([ab]): QPN (0x[0-9a-f]+), first PSN (0x[0-9a-f]+), rkey (0x[0-9a-f]+), region va (0x[0-9a-f]+)`)
	number := func(s string) uint64 {
		v, err := strconv.ParseUint(s, 0, 64)
		check(t, err)
		return v
	}
	for _, m := range line.FindAllStringSubmatch(section, -1) {
		s := captureSide{uint32(number(m[2])), uint32(number(m[3])), uint32(number(m[4])), number(m[5])}
		if m[1] == "a" {
			a = s
		} else {
			b = s
		}
	}
	if a.qpn == 0 || b.qpn == 0 {
		t.Fatalf("README of %s names no ends", capture)
	}
	return a, b
}

// captured is a packet of a capture, and whether side a sent it.
type captured struct {
	wire.Packet
	fromA bool
}

// readCapture returns the RoCE packets of a capture, in order.
func readCapture(t testing.TB, name string) []captured {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", name+".pcap"))
	check(t, err)
	defer func() { check(t, file.Close()) }()
	var packets []captured
	for _, d := range readPcap(t, file) {
		if p, err := wire.ParsePacket(append([]byte(nil), d.Payload...)); err == nil {
			from := d.Source.Addr().AsSlice()
			packets = append(packets, captured{p, from[len(from)-1] == 1}) // 10.77.0.1, fd77::1 and fe80::ff:fe00:1
		}
	}
	return packets
}

// answer is what is compared of a response: all that a requester acts on. MSN is left out where resends make it vary.
type answer struct {
	opcode   wire.Opcode
	psn      uint32
	syndrome wire.Syndrome
	msn      uint32
	original uint64
	bytes    int
	sum      uint32 // of the payload
}

func (a answer) String() string {
	return fmt.Sprintf("%v psn %#x %v msn %d original %d, %d bytes sum %#x", a.opcode, a.psn, a.syndrome, a.msn,
		a.original, a.bytes, a.sum)
}

func answerOf(p *wire.Packet) answer {
	h := p.AETH()
	return answer{p.Opcode, p.PSN(), h.Syndrome, h.MSN, p.Original(), len(p.Payload), wire.UpdateICRC(0, p.Payload)}
}

const (
	captureRegion  = 131072
	captureReceive = 65536
)

// TestReplayResponder plays the requests of rxe's captures, one packet at a time, to a responder set up like the one in
// the capture, and compares every answer: opcode, PSN, syndrome, MSN, atomic result and READ data.
func TestReplayResponder(t *testing.T) {
	for _, tt := range []struct {
		capture string
		access  verbs.Access // of queue pair; 0: everything
		region  verbs.Access
		noReads bool
		receive uint32 // bytes of each receive; 8192
		filled  bool   // READ files: b's region holds the pattern
		part    bool   // the capture lacks answers that netem dropped: ours hold the captured ones in order
		lateMSN bool
		mtu     verbs.MTU                       // 1024
		words   []uint64                        // at the front of b's region
		instead map[wire.Syndrome]wire.Syndrome // where rxe departs from the specification
	}{
		{capture: "rc_send_only"},
		{capture: "rc_send_multi"},
		{capture: "rc_send_imm"},
		{capture: "rc_write_only"},
		{capture: "rc_write_multi"},
		{capture: "rc_write_imm"},
		{capture: "rc_write_ackreq", mtu: verbs.MTU256},
		{capture: "rc_read_small", filled: true},
		{capture: "rc_read_multi", filled: true},
		{capture: "rc_atomic", words: []uint64{100, 0x1122334455667788}},
		{capture: "rc_err_rkey"},
		{capture: "rc_err_read_rkey"},
		{capture: "rc_err_atomic_rkey"},
		{capture: "rc_err_write_range"},
		{capture: "rc_err_write_mraccess", region: everything &^ verbs.AccessRemoteWrite},
		{capture: "rc_err_write_qpaccess", access: everything &^ verbs.AccessRemoteWrite},
		{capture: "rc_err_read_nores", noReads: true},
		// A receive that is too short is an invalid request (IBTA 9.7.4.1.6); rxe calls it an operational error.
		{
			capture: "rc_err_send_len", receive: 32,
			instead: map[wire.Syndrome]wire.Syndrome{wire.NAKRemoteOperational: wire.NAKInvalidRequest},
		},
		{
			capture: "rc_err_send_len_multi", receive: 1500,
			instead: map[wire.Syndrome]wire.Syndrome{wire.NAKRemoteOperational: wire.NAKInvalidRequest},
		},
		{capture: "rc_retrans_timeout", part: true},
		{capture: "rc_retrans_lostack", part: true, lateMSN: true},
		{capture: "rc_retrans_loss", part: true, lateMSN: true},
		{capture: "rc_tclass"},
		{capture: "inline_unsig"},
		{capture: "bidir"},
		{capture: "rc_ipv6", filled: true},
		{capture: "rc_ipv6_ll", filled: true},
	} {
		t.Run(tt.capture, func(t *testing.T) {
			a, b := readSides(t, tt.capture)
			h, at := newHandPeer(t)
			e := newEnd(t, Options{Address: at}, pairOptions{transport: verbs.RC, bytes: captureRegion, depth: 64, sges: 1})
			region := tt.region
			if region == 0 {
				region = everything
			}
			mr, err := e.pd.RegisterMemory(e.buffer, 0, captureRegion, region)
			check(t, err)
			defer func() { check(t, mr.Close()) }()
			if tt.filled {
				for i := range 40000 {
					e.buffer.Bytes()[i] = byte(7*i + 3)
				}
			}
			for i, w := range tt.words {
				binary.NativeEndian.PutUint64(e.buffer.Bytes()[8*i:], w)
			}
			c := captureConnection(t, e, h, a, b)
			if tt.mtu != 0 {
				c.PathMTU = tt.mtu
			}
			if tt.access != 0 {
				c.Access = tt.access
			}
			if tt.noReads {
				c.MaxDestRDAtomic = 0
			}
			check(t, verbs.InitQP(e.qp, c))
			size := tt.receive
			if size == 0 {
				size = 8192
			}
			for i := range uint64(40) {
				check(t,
					e.qp.PostReceive([]verbs.ReceiveRequest{
						{ID: i, SGEs: []verbs.SGE{{Addr: e.buffer.Addr() + captureReceive, Length: size, LKey: e.mr.LKey()}}},
					}))
			}
			check(t, verbs.ConnectQP(e.qp, c))

			var want, got []answer
			for _, p := range readCapture(t, tt.capture) {
				switch {
				case !p.fromA && p.Opcode.Has(wire.IsResponse):
					x := answerOf(&p.Packet)
					if other, ok := tt.instead[x.syndrome]; ok && x.opcode.Has(wire.HasAETH) {
						x.syndrome = other
					}
					want = append(want, x)
				case p.fromA && !p.Opcode.Has(wire.IsResponse):
					h.send(retarget(p.Packet, e.qp.QPN(), b, mr))
					for _, r := range e.answers(h) {
						got = append(got, answerOf(&r))
					}
				}
			}
			compareAnswers(t, want, got, tt.part, tt.lateMSN)
		})
	}
}

func captureConnection(t *testing.T, e *end, h *handPeer, a, b captureSide) verbs.ConnectOptions {
	t.Helper()
	own, err := e.device.DefaultGID()
	check(t, err)
	if own.GID.Addr() != h.to.Addr() {
		t.Fatalf("the device is at %v, want %v", own.GID, h.to.Addr())
	}
	peer := h.conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
	return verbs.ConnectOptions{
		Access: everything, PathMTU: verbs.MTU1024, DestQPN: a.qpn, SendPSN: b.psn, RecvPSN: a.psn,
		AddressVector: verbs.AddressVector{DGID: verbs.GIDFromAddr(peer), SGIDIndex: own.Index, UseGID: true},
		MaxRDAtomic:   4, MaxDestRDAtomic: 4, MinRNRTimer: 12, Timeout: 14, RetryCount: 7, RNRRetry: 7,
	}
}

// retarget rewrites a captured request for our responder: queue pair, keys and addresses.
func retarget(p wire.Packet, qpn uint32, b captureSide, mr verbs.MemoryRegion) []byte {
	out := append([]byte(nil), p.Raw...)
	binary.BigEndian.PutUint32(out[4:], uint32(out[4])<<24|qpn)
	key := func(k uint32) uint32 {
		if k == b.rkey {
			return mr.RKey()
		}
		return k
	}
	at := func(va uint64) uint64 { return va - b.va + mr.Addr() }
	if p.Opcode.Has(wire.HasRETH) {
		r := p.RETH()
		wire.RETH{Addr: at(r.Addr), RKey: key(r.RKey), Length: r.Length}.Put(out[wire.BTHBytes:])
	}
	if p.Opcode.Has(wire.HasAtomicETH) {
		x := p.AtomicETH()
		x.Addr, x.RKey = at(x.Addr), key(x.RKey)
		x.Put(out[wire.BTHBytes:])
	}
	return out
}

// answers drives the device until a packet has been worked off, and returns what the peer got.
func (e *end) answers(h *handPeer) []wire.Packet {
	e.t.Helper()
	var c [16]verbs.Completion
	var all []wire.Packet
	late := time.Now().Add(time.Minute)
	for quiet := 0; quiet < 3; quiet++ {
		_, err := e.cq.Poll(c[:])
		check(e.t, err)
		if got := h.receive(); len(got) > 0 || e.onTheWay(h) && time.Now().Before(late) {
			all = append(all, got...)
			quiet = 0
		}
	}
	return all
}

// onTheWay tells whether a packet has left one end and is not at the other: a busy
// kernel delivers loopback packets later.
func (e *end) onTheWay(h *handPeer) bool {
	c, err := e.device.Counters(1)
	check(e.t, err)
	arrived := c["rcvd_pkts"] + c["malformed"] + c["unknown_qp"] + c["wrong_path"] + c["bad_pkey"] + c["icrc_err"]
	return arrived < h.sent || h.received < c["sent_pkts"]
}

func compareAnswers(t *testing.T, want, got []answer, part, lateMSN bool) {
	t.Helper()
	if lateMSN {
		for i := range want {
			want[i].msn = 0
		}
		for i := range got {
			got[i].msn = 0
		}
	}
	if part { // got holds want in order
		k := 0
		for _, g := range got {
			if k < len(want) && g == want[k] {
				k++
			}
		}
		if k < len(want) {
			t.Errorf("answer %d of the capture is missing: %v; ours:", k, want[k])
			for _, g := range got {
				t.Log(g)
			}
		}
		return
	}
	for i := range max(len(want), len(got)) {
		var w, g any = "nothing", "nothing"
		if i < len(want) {
			w = want[i]
		}
		if i < len(got) {
			g = got[i]
		}
		if w != g {
			t.Errorf("answer %d: %v, want %v", i, g, w)
		}
	}
}

// TestReplayUnreliable plays UC captures to a receiver: all messages that crossed the wire complete, and nothing is
// answered. Of uc_loss rxe completes 4; the 7 whole messages are what the specification asks for.
func TestReplayUnreliable(t *testing.T) {
	for _, tt := range []struct {
		capture  string
		messages int
		bytes    uint32 // of each; 0: they differ
	}{{"uc_send", 3, 0}, {"uc_loss", 7, 3000}} {
		t.Run(tt.capture, func(t *testing.T) {
			a, b := readSides(t, tt.capture)
			h, at := newHandPeer(t)
			e := newEnd(t, Options{Address: at}, pairOptions{transport: verbs.UC, bytes: captureRegion, depth: 64, sges: 1})
			c := captureConnection(t, e, h, a, b)
			check(t, verbs.InitQP(e.qp, c))
			for i := range uint64(40) {
				check(t,
					e.qp.PostReceive([]verbs.ReceiveRequest{
						{ID: i, SGEs: []verbs.SGE{{Addr: e.buffer.Addr() + captureReceive, Length: 8192, LKey: e.mr.LKey()}}},
					}))
			}
			check(t, verbs.ConnectQP(e.qp, c))
			for _, p := range readCapture(t, tt.capture) {
				if p.fromA {
					h.send(retarget(p.Packet, e.qp.QPN(), b, e.mr))
				}
			}
			var found [64]verbs.Completion
			n := 0
			for more, end := 20, time.Now().Add(5*time.Second); more > 0 && time.Now().Before(end); {
				k, err := e.cq.Poll(found[n:])
				check(t, err)
				if n += k; n >= tt.messages {
					more-- // none may follow
				}
			}
			if n != tt.messages {
				t.Errorf("%d messages completed, want %d", n, tt.messages)
			}
			for i, x := range found[:n] {
				if x.Status != verbs.Success || x.ID != uint64(i) || (tt.bytes > 0 && x.Bytes != tt.bytes) {
					t.Errorf("completion %d: %+v, want %d bytes", i, x, tt.bytes)
				}
			}
			if got := h.receive(); len(got) > 0 {
				t.Errorf("%d packets came back, want none", len(got))
			}
		})
	}
}

// TestRequesterAnswers answers requests by hand, as in the captures' edge_req, and looks at completions and resends.
// Where rxe departs from the specification the specification's outcome is wanted.
func TestRequesterAnswers(t *testing.T) {
	ack := func(psn uint32, s wire.Syndrome) []byte { return response(wire.RCAcknowledge, psn, s, nil) }
	const first = 0x500
	type wants struct {
		statuses []verbs.Status
		resent   []uint32 // PSNs sent again
		state    verbs.QPState
	}
	for _, tt := range []struct {
		name    string
		post    []verbs.Opcode
		answers [][]byte
		want    wants
	}{
		{"ACK", ops(verbs.OpSend), [][]byte{ack(first, 0x1f)}, wants{statuses: ok(1), state: verbs.StateRTS}},
		{"ACK with no credit", ops(verbs.OpSend), [][]byte{ack(first, 0x00)}, wants{statuses: ok(1), state: verbs.StateRTS}},
		{"ACK with 6 credits", ops(verbs.OpSend), [][]byte{ack(first, 0x05)}, wants{statuses: ok(1), state: verbs.StateRTS}},
		{
			"sequence NAK", ops(verbs.OpSend), [][]byte{ack(first, 0x60)}, wants{resent: []uint32{first}, state: verbs.StateRTS},
		},
		{
			"invalid request", ops(verbs.OpSend),
			[][]byte{ack(first, 0x61)},
			wants{[]verbs.Status{verbs.RemoteInvalidRequestError}, nil, verbs.StateError},
		},
		{
			"access error", ops(verbs.OpWrite),
			[][]byte{ack(first, 0x62)},
			wants{[]verbs.Status{verbs.RemoteAccessError}, nil, verbs.StateError},
		},
		{
			"operational error", ops(verbs.OpSend),
			[][]byte{ack(first, 0x63)},
			wants{[]verbs.Status{verbs.RemoteOperationError}, nil, verbs.StateError},
		},
		{"reserved syndrome", ops(verbs.OpSend), [][]byte{ack(first, 0x40)}, wants{state: verbs.StateRTS}},
		{
			"one ACK for three", ops(verbs.OpSend, verbs.OpSend, verbs.OpSend),
			[][]byte{ack(first+2, 0x1f)},
			wants{statuses: ok(3), state: verbs.StateRTS},
		},
		{
			"ACK of the middle", ops(verbs.OpSend, verbs.OpSend, verbs.OpSend),
			[][]byte{ack(first+1, 0x1f)},
			wants{statuses: ok(2), state: verbs.StateRTS},
		},
		{"ACK never asked for", ops(verbs.OpSend), [][]byte{ack(first+5, 0x1f)}, wants{state: verbs.StateRTS}},
		{"stale ACK", ops(verbs.OpSend), [][]byte{ack(first-1, 0x1f)}, wants{state: verbs.StateRTS}},
		{
			"sequence NAK at the second", ops(verbs.OpSend, verbs.OpSend, verbs.OpSend),
			[][]byte{ack(first+1, 0x60)},
			wants{ok(1), []uint32{first + 1, first + 2}, verbs.StateRTS},
		},
		{
			"READ response", ops(verbs.OpRead),
			[][]byte{response(wire.RCReadResponseOnly, first, 0x1f, make([]byte, 64))},
			wants{statuses: ok(1), state: verbs.StateRTS},
		},
		{
			"READ response acknowledges what came before", ops(verbs.OpSend, verbs.OpRead),
			[][]byte{response(wire.RCReadResponseOnly, first+1, 0x1f, make([]byte, 64))},
			wants{statuses: ok(2), state: verbs.StateRTS},
		},
		{
			"READ answered out of order is asked again", ops(verbs.OpRead, verbs.OpSend),
			[][]byte{ack(first+1, 0x1f)},
			wants{nil, []uint32{first, first + 1}, verbs.StateRTS},
		},
		{
			"READ response too long", ops(verbs.OpRead),
			[][]byte{response(wire.RCReadResponseOnly, first, 0x1f, make([]byte, 128))},
			wants{[]verbs.Status{verbs.BadResponseError}, nil, verbs.StateError},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, at := newHandPeer(t)
			e := newEnd(t, Options{Address: at}, pairOptions{transport: verbs.RC, bytes: 8192, depth: 64, sges: 1})
			c := captureConnection(t, e, h, captureSide{qpn: 0x77, psn: 0x100}, captureSide{psn: first})
			c.Timeout = 0 // no transport timer
			check(t, verbs.InitQP(e.qp, c))
			check(t, verbs.ConnectQP(e.qp, c))
			for i, op := range tt.post {
				check(t, e.qp.PostSend([]verbs.SendRequest{{
					ID: uint64(i), Opcode: op, Flags: verbs.Signaled, RemoteAddr: 4096, RKey: 1,
					SGEs: []verbs.SGE{{Addr: e.buffer.Addr(), Length: 64, LKey: e.mr.LKey()}},
				}}))
			}
			sent := e.answers(h)
			for i := 1; i < len(sent); { // on a busy machine probes are among them
				if sent[i].PSN() == sent[i-1].PSN() || sent[i].PSN() == first {
					sent = slices.Delete(sent, i, i+1)
				} else {
					i++
				}
			}
			if len(sent) < len(tt.post) {
				t.Fatalf("%d packets sent for %d requests", len(sent), len(tt.post))
			}
			for i := range tt.post {
				if sent[i].PSN() != first+uint32(i) || sent[i].DestQPN() != 0x77 {
					t.Errorf("packet %d: %v psn %#x to qp %#x", i, sent[i].Opcode, sent[i].PSN(), sent[i].DestQPN())
				}
			}
			for _, b := range tt.answers {
				binary.BigEndian.PutUint32(b[4:], e.qp.QPN())
				h.send(b)
			}
			statuses, resent := e.settle(h, len(tt.want.statuses), tt.want.resent)
			if fmt.Sprint(statuses) != fmt.Sprint(tt.want.statuses) {
				t.Errorf("completed with %v, want %v", statuses, tt.want.statuses)
			}
			for _, psn := range tt.want.resent {
				if !resent[psn] {
					t.Errorf("psn %#x was not sent again", psn)
				}
			}
			if e.qp.State() != tt.want.state {
				t.Errorf("state %v, want %v", e.qp.State(), tt.want.state)
			}
		})
	}
}

func ops(o ...verbs.Opcode) []verbs.Opcode { return o }

func ok(n int) []verbs.Status { return make([]verbs.Status, n) }

// response builds a responder's packet, without its ICRC; the queue pair number is filled in later.
func response(o wire.Opcode, psn uint32, s wire.Syndrome, payload []byte) []byte {
	b := make([]byte, wire.BTHBytes)
	wire.PutBTH(b, o, 0, 0, psn)
	b = append(b, header(wire.AETHBytes, wire.AETH{Syndrome: s, MSN: 1})...)
	return append(append(b, payload...), 0, 0, 0, 0)
}

// settle drives the device until as many completions and resends as wanted have come, and a moment longer.
func (e *end) settle(h *handPeer, completions int, again []uint32) (statuses []verbs.Status, resent map[uint32]bool) {
	e.t.Helper()
	resent = make(map[uint32]bool)
	missing := func() bool {
		for _, psn := range again {
			if !resent[psn] {
				return true
			}
		}
		return len(statuses) < completions
	}
	late := time.Now().Add(60 * time.Second)
	enough := time.Now().Add(3 * time.Millisecond)
	for time.Now().Before(enough) || (missing() && time.Now().Before(late)) {
		var c [16]verbs.Completion
		n, err := e.cq.Poll(c[:])
		check(e.t, err)
		for _, x := range c[:n] {
			statuses = append(statuses, x.Status)
		}
		for _, p := range h.receive() {
			resent[p.PSN()] = true
		}
	}
	return statuses, resent
}
