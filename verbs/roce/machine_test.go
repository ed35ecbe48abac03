package roce

import (
	"bytes"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/link"
	"github.com/gobw/gobw/verbs/roce/rc"
	"github.com/gobw/gobw/verbs/roce/wire"
	"github.com/gobw/gobw/verbs/tick"
)

// stage is a queue pair in RTS on an engine without sockets: machines are driven by hand, and time is an argument.
type stage struct {
	t  *testing.T
	e  *engine
	q  *queuePair
	cq *completionQueue
	mr verbs.MemoryRegion
	b  *verbs.Buffer

	sent    []wire.Packet
	batches []int // packets of each batch sent
	asked   []int // PSNs of the packets sent with AckReq
}

const (
	stageMTU  = 256
	firstPSN  = 0xfffffe // the numbers wrap soon
	peerQPN   = 0x77
	stageSize = 1 << 16
)

func newStage(t *testing.T, access verbs.Access) *stage {
	t.Helper()
	e := newEngine(Options{}, 1)
	d := &device{object: object{e: e}, info: deviceInfo(Options{})}
	e.device = d
	e.qps = make([]*queuePair, maxQP)
	s := &stage{t: t, e: e}
	pd, err := d.AllocPD()
	check(t, err)
	cq, err := d.CreateCQ(verbs.CompletionQueueOptions{Depth: 64})
	check(t, err)
	qp, err := pd.CreateQP(verbs.QueuePairOptions{SendCQ: cq, SendDepth: 32})
	check(t, err)
	s.b, err = verbs.Alloc(stageSize, verbs.MemoryOptions{})
	check(t, err)
	t.Cleanup(func() { check(t, s.b.Close()) })
	s.mr, err = pd.RegisterMemory(verbs.Borrow(s.b.Bytes()), 0, s.b.Len(), everything)
	check(t, err)
	s.q, s.cq = qp.(*queuePair), cq.(*completionQueue)
	e.out.Carry = func(_ *link.Path, b []byte, segment int) {
		n := 0
		for b := bytes.Clone(b); len(b) > 0; b = b[min(segment, len(b)):] {
			p, err := wire.ParsePacket(b[:min(segment, len(b))])
			check(t, err)
			s.sent = append(s.sent, p)
			n++
		}
		s.batches = append(s.batches, n)
	}
	at := heldSocket(netip.MustParseAddr("127.2.0.1"), 0)
	s.q.path, err = e.pathFor(at, at.Socket, netip.MustParseAddr("127.2.0.2"), link.Service{})
	check(t, err)
	s.q.path.Segments = link.MaxSegments
	s.q.attr = verbs.QueuePairAttributes{
		Access: access, PathMTU: verbs.MTU256, SendPSN: firstPSN, RecvPSN: firstPSN, DestQPN: peerQPN, MaxRDAtomic: 2,
		MaxDestRDAtomic: 2,
		Timeout:         14, RetryCount: 2, RNRRetry: 1, MinRNRTimer: 5,
	}
	s.q.mtu = stageMTU
	s.q.state = verbs.StateRTR
	s.q.beginReceiving()
	s.q.enterState(verbs.StateRTS)
	return s
}

// heldSocket is a socket without a kernel's: packets are given to the engine by hand.
func heldSocket(local netip.Addr, bufferBytes int) *socket {
	s := &socket{Socket: link.NewSocket(local, 0, Port, 1), paths: map[pathKey]*path{}, flows: map[netip.Addr]*rc.Flow{}}
	s.BufferBytes = bufferBytes
	return s
}

// inside is a member of a machine, which packets and time alone change otherwise.
func inside(machine any, names ...string) reflect.Value {
	v := reflect.ValueOf(machine).Elem()
	for _, name := range names {
		v = v.FieldByName(name)
	}
	return reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Elem()
}

// inFlight is what the queue pairs of a path have on the way, and have asked for, in bytes.
func inFlight(p *path) (sent, asked int64) {
	return inside(p.Flow, "window", "inFlight").Int(), inside(p.Flow, "reads", "inFlight").Int()
}

// request is a packet of the peer's requester.
type request struct {
	op     wire.Operation
	psn    int // from firstPSN
	bytes  int
	ack    bool
	length int // RETH
	key    uint32
	addr   uint64
}

func (s *stage) packet(r request) *wire.Packet {
	s.t.Helper()
	op := wire.MakeOpcode(wire.RC, r.op)
	b := make([]byte, op.HeaderBytes(), 512)
	flags := wire.PadFlag(r.bytes)
	if r.ack {
		flags |= wire.FlagAckReq
	}
	wire.PutBTH(b, op, flags, s.q.qpn, uint32(firstPSN+r.psn)&wire.Mask24)
	addr, key := r.addr, r.key
	if addr == 0 {
		addr = s.mr.Addr()
	}
	if key == 0 {
		key = s.mr.RKey()
	}
	switch {
	case op.Has(wire.HasRETH):
		wire.RETH{Addr: addr, RKey: key, Length: uint32(r.length)}.Put(b[wire.BTHBytes:])
	case op.Has(wire.HasAtomicETH):
		wire.AtomicETH{Addr: addr, RKey: key, SwapAdd: 1}.Put(b[wire.BTHBytes:])
	}
	b = append(b, make([]byte, r.bytes+wire.PadBytes(r.bytes)+wire.ICRCBytes)...)
	p, err := wire.ParsePacket(b)
	check(s.t, err)
	return &p
}

// answered tells what was sent since, as opcodes and syndromes, and forgets it.
func (s *stage) answered() (ops []wire.Operation, syndromes []wire.Syndrome, psns []int) {
	s.t.Helper()
	s.e.out.Flush()
	for _, p := range s.sent {
		ops = append(ops, p.Opcode.Operation())
		syndromes = append(syndromes, p.AETH().Syndrome)
		psn := int(wire.PSNDiff(p.PSN(), firstPSN))
		psns = append(psns, psn)
		if p.AckReq() {
			s.asked = append(s.asked, psn)
		}
	}
	s.sent = nil
	return ops, syndromes, psns
}

func TestResponder(t *testing.T) {
	const none = wire.Syndrome(0xff)
	type step struct {
		request
		want     wire.Syndrome // answered after this packet; none: nothing
		psn      int           // of the answer
		expected int           // PSN awaited then, from firstPSN
	}
	for _, tt := range []struct {
		name     string
		access   verbs.Access
		receives int
		steps    []step
		state    verbs.QPState
		statuses []verbs.Status // of completions
	}{
		{"a WRITE of three packets", everything, 0, []step{
			{request{op: wire.WriteFirst, bytes: 256, length: 600}, none, 0, 1},
			{request{op: wire.WriteMiddle, psn: 1, bytes: 256}, none, 0, 2},
			{request{op: wire.WriteLast, psn: 2, bytes: 88, ack: true}, wire.SyndromeAck, 2, 3},
		}, verbs.StateRTS, nil},
		{"one NAK per gap", everything, 0, []step{
			{request{op: wire.WriteOnly, psn: 1, bytes: 4, length: 4}, wire.NAKSequenceError, 0, 0},
			{request{op: wire.WriteOnly, psn: 2, bytes: 4, length: 4, ack: true}, none, 0, 0},
			{request{op: wire.WriteOnly, psn: 0, bytes: 4, length: 4, ack: true}, wire.SyndromeAck, 0, 1},
			{request{op: wire.WriteOnly, psn: 2, bytes: 4, length: 4}, wire.NAKSequenceError, 1, 1},
		}, verbs.StateRTS, nil},
		{"a duplicate is acknowledged, not executed", everything, 1, []step{
			{request{op: wire.SendOnly, bytes: 4}, none, 0, 1},
			{request{op: wire.SendOnly, bytes: 4}, wire.SyndromeAck, 0, 1},
		}, verbs.StateRTS, []verbs.Status{verbs.Success}},
		{"no receive", everything, 0, []step{
			{request{op: wire.SendOnly, bytes: 4, ack: true}, wire.SyndromeRNR | 5, 0, 0},
			{request{op: wire.SendOnly, psn: 1, bytes: 4, ack: true}, none, 0, 0},
		}, verbs.StateRTS, nil},
		{"MIDDLE without FIRST", everything, 1, []step{
			{request{op: wire.SendMiddle, bytes: 256}, wire.NAKInvalidRequest, 0, 0},
		}, verbs.StateError, []verbs.Status{verbs.FlushError}},
		{"WRITE within a SEND", everything, 1, []step{
			{request{op: wire.SendFirst, bytes: 256}, none, 0, 1},
			{request{op: wire.WriteOnly, psn: 1, bytes: 4, length: 4}, wire.NAKInvalidRequest, 1, 1},
		}, verbs.StateError, []verbs.Status{verbs.RemoteInvalidRequestError}},
		{"FIRST shorter than the MTU", everything, 1, []step{
			{request{op: wire.SendFirst, bytes: 255}, wire.NAKInvalidRequest, 0, 0},
		}, verbs.StateError, []verbs.Status{verbs.FlushError}},
		{"LAST without payload", everything, 0, []step{
			{request{op: wire.WriteFirst, bytes: 256, length: 256}, none, 0, 1},
			{request{op: wire.WriteLast, psn: 1}, wire.NAKInvalidRequest, 1, 1},
		}, verbs.StateError, nil},
		{"more than the RETH says", everything, 0, []step{
			{request{op: wire.WriteOnly, bytes: 8, length: 4}, wire.NAKInvalidRequest, 0, 0},
		}, verbs.StateError, nil},
		{"less than the RETH says", everything, 0, []step{
			{request{op: wire.WriteOnly, bytes: 4, length: 8}, wire.NAKInvalidRequest, 0, 0},
		}, verbs.StateError, nil},
		{"no right on the queue pair", verbs.AccessRemoteRead, 0, []step{
			{request{op: wire.WriteOnly, bytes: 4, length: 4}, wire.NAKInvalidRequest, 0, 0},
		}, verbs.StateError, nil},
		{"bad key", everything, 0, []step{
			{request{op: wire.WriteOnly, bytes: 4, length: 4, key: 1}, wire.NAKRemoteAccessError, 0, 0},
		}, verbs.StateError, nil},
		{"length 0 needs no key", everything, 0, []step{
			{request{op: wire.WriteOnly, key: 1, ack: true}, wire.SyndromeAck, 0, 1},
		}, verbs.StateRTS, nil},
		{"range that wraps", everything, 0, []step{
			{request{op: wire.WriteOnly, bytes: 8, length: 8, addr: 1<<64 - 4}, wire.NAKRemoteAccessError, 0, 0},
		}, verbs.StateError, nil},
		{"misaligned atomic", everything, 0, []step{
			{request{op: wire.FetchAdd, addr: 4}, wire.NAKInvalidRequest, 0, 0},
		}, verbs.StateError, nil},
		{"message longer than the receive", everything, 1, []step{
			{request{op: wire.SendFirst, bytes: 256}, none, 0, 1},
			{request{op: wire.SendLast, psn: 1, bytes: 256}, wire.NAKInvalidRequest, 1, 1},
		}, verbs.StateError, []verbs.Status{verbs.LocalLengthError}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t, tt.access)
			for range tt.receives {
				check(t,
					s.q.PostReceive([]verbs.ReceiveRequest{{SGEs: []verbs.SGE{{Addr: s.mr.Addr(), Length: 300, LKey: s.mr.LKey()}}}}))
			}
			for i, x := range tt.steps {
				s.q.onRequest(s.packet(x.request))
				s.e.flushAcks()
				_, syndromes, psns := s.answered()
				got, psn := none, 0
				if len(syndromes) > 0 {
					got, psn = syndromes[0], psns[0]
				}
				if got != x.want || psn != x.psn || len(syndromes) > 1 {
					t.Errorf("step %d: answers %v for PSN %v, want %v for %d", i, syndromes, psns, x.want, x.psn)
				}
				if e := int(wire.PSNDiff(s.q.respond.Expected, firstPSN)); e != x.expected {
					t.Errorf("step %d: expects PSN %d, want %d", i, e, x.expected)
				}
			}
			if s.q.state != tt.state {
				t.Errorf("state %v, want %v", s.q.state, tt.state)
			}
			var statuses []verbs.Status
			for s.cq.head != s.cq.tail {
				statuses = append(statuses, s.cq.take().Status)
			}
			if len(statuses) != len(tt.statuses) || len(statuses) > 0 && statuses[0] != tt.statuses[0] {
				t.Errorf("completions %v, want %v", statuses, tt.statuses)
			}
		})
	}
}

// TestNAKOutlivesACK owes a NAK and then, before it has left, an ACK: the NAK goes.
func TestNAKOutlivesACK(t *testing.T) {
	s := newStage(t, everything)
	s.q.onRequest(s.packet(request{op: wire.WriteOnly, psn: 1, bytes: 4, length: 4}))
	s.q.onRequest(s.packet(request{op: wire.WriteOnly, psn: -1, bytes: 4, length: 4, ack: true})) // a duplicate
	s.e.flushAcks()
	if _, syndromes, psns := s.answered(); len(syndromes) != 1 || syndromes[0] != wire.NAKSequenceError || psns[0] != 0 {
		t.Errorf("answers %v for %v, want one NAK for PSN 0", syndromes, psns)
	}
}

// TestReplyTakesACK answers a WRITE by one of its own, or by several: what leaves as a batch takes the ACK along, and
// what is one packet where that is quicker.
func TestReplyTakesACK(t *testing.T) {
	for _, tt := range []struct {
		replies int
		apart   bool
		want    []int // packets of each batch
	}{{1, true, []int{1, 1}}, {1, false, []int{2}}, {3, true, []int{4}}} {
		replies, want := tt.replies, tt.want
		s := newStage(t, everything)
		s.e.replies.turn, s.e.replies.apart = trialTurns, tt.apart
		s.q.onRequest(s.packet(request{op: wire.WriteOnly, bytes: 4, length: 4, ack: true}))
		check(t, s.q.PostSend(slices.Repeat([]verbs.SendRequest{{
			Opcode: verbs.OpWrite, SGEs: []verbs.SGE{{Addr: s.mr.Addr(), Length: 4, LKey: s.mr.LKey()}}, RemoteAddr: 1, RKey: 1,
		}}, replies)))
		if !slices.Equal(s.batches, want) {
			t.Errorf("%d replies: batches of %v packets, want %v", replies, s.batches, want)
		}
		ops, _, _ := s.answered()
		if len(ops) != replies+1 || ops[replies] != wire.Acknowledge {
			t.Errorf("%d replies: %v, want the ACK last", replies, ops)
		}
	}
}

// TestACKWaitsForAnswer owes an ACK of a WRITE that came before a READ. By the time it leaves, a WRITE behind the READ
// has been executed: an ACK that tells of it would tell that the READ's answer was lost (IBTA 9.7.5.2.7).
func TestACKWaitsForAnswer(t *testing.T) {
	s := newStage(t, everything)
	s.q.onRequest(s.packet(request{op: wire.WriteOnly, bytes: 4, length: 4, ack: true}))
	s.q.onRequest(s.packet(request{op: wire.ReadRequest, psn: 1, length: 4}))
	s.q.onRequest(s.packet(request{op: wire.WriteFirst, psn: 2, bytes: stageMTU, length: 2 * stageMTU}))
	s.e.flushAcks()
	if ops, _, psns := s.answered(); len(ops) > 0 {
		t.Errorf("%v for %v before the READ has its answer", ops, psns)
	}
	s.e.transmit(0)
	ops, _, psns := s.answered()
	if !slices.Equal(ops, []wire.Operation{wire.ReadResponseOnly, wire.Acknowledge}) || !slices.Equal(psns, []int{1, 2}) {
		t.Errorf("%v for %v, want the answer to the READ with PSN 1 and an ACK for 2", ops, psns)
	}
}

// TestAtomicIsNotRepeated replays a FETCH_ADD: the saved result comes back and the word stays.
func TestAtomicIsNotRepeated(t *testing.T) {
	s := newStage(t, everything)
	for range 3 {
		s.q.onRequest(s.packet(request{op: wire.FetchAdd}))
		s.e.transmit(0)
		ops, _, psns := s.answered()
		if len(ops) != 1 || ops[0] != wire.AtomicAcknowledge || psns[0] != 0 {
			t.Errorf("answers %v for %v, want one atomic acknowledgement for PSN 0", ops, psns)
		}
	}
	if got := s.b.Bytes()[0]; got != 1 {
		t.Errorf("the word is %d, want 1", got)
	}
}

// TestBurst has WRITEs leave together: each batch holds what follows a packet that is at least as long.
func TestBurst(t *testing.T) {
	s := newStage(t, everything)
	for _, n := range []uint32{600, 600, 200, 200} {
		check(t, s.q.post(&verbs.SendRequest{
			Opcode: verbs.OpWrite, SGEs: []verbs.SGE{{Addr: s.mr.Addr(), Length: n, LKey: s.mr.LKey()}}, RemoteAddr: s.mr.Addr(),
			RKey: s.mr.RKey(),
		}))
	}
	s.q.kick()
	s.e.transmit(0)
	s.e.out.Flush()
	if want := []int{2, 1, 2, 1, 2}; !slices.Equal(s.batches, want) {
		t.Errorf("batches of %v packets, want %v: FIRST and MIDDLE, LAST, and so again, two of one packet", s.batches, want)
	}
	if ops, _, _ := s.answered(); len(ops) != 8 {
		t.Errorf("%v left, want 8 packets", ops)
	}
}

func (s *stage) post(op verbs.Opcode, n int) {
	s.t.Helper()
	r := verbs.SendRequest{
		ID: uint64(s.q.request.Tail), Opcode: op, Flags: verbs.Signaled, RemoteAddr: 0x1000, RKey: 1,
		SGEs: []verbs.SGE{{Addr: s.mr.Addr(), Length: uint32(n), LKey: s.mr.LKey()}},
	}
	check(s.t, s.q.post(&r))
	s.q.kick()
}

func (s *stage) ack(psn int, syndrome wire.Syndrome, now tick.Time) {
	b := make([]byte, wire.BTHBytes+wire.AETHBytes+wire.ICRCBytes)
	wire.PutBTH(b, wire.RCAcknowledge, 0, s.q.qpn, uint32(firstPSN+psn)&wire.Mask24)
	wire.AETH{Syndrome: syndrome}.Put(b[wire.BTHBytes:])
	p, err := wire.ParsePacket(b)
	check(s.t, err)
	s.q.onResponse(&p, now)
}

func (s *stage) completions() (ids []uint64, last verbs.Status) {
	for s.cq.head != s.cq.tail {
		x := s.cq.take()
		ids, last = append(ids, x.ID), x.Status
	}
	return ids, last
}

func (s *stage) wantSent(now tick.Time, psns ...int) {
	s.t.Helper()
	s.e.transmit(now)
	_, _, got := s.answered()
	if len(got) != len(psns) {
		s.t.Errorf("sends PSNs %v, want %v", got, psns)
		return
	}
	for i := range got {
		if got[i] != psns[i] {
			s.t.Errorf("sends PSNs %v, want %v", got, psns)
			return
		}
	}
}

func TestRequesterGoesBack(t *testing.T) {
	s := newStage(t, everything)
	s.post(verbs.OpWrite, 600) // PSN 0…2
	s.post(verbs.OpSend, 10)   // 3
	s.wantSent(0, 0, 1, 2, 3)
	s.ack(1, wire.NAKSequenceError, 10)
	s.wantSent(10, 1, 2, 3)
	s.ack(9, wire.SyndromeAck, 20) // never sent
	if ids, _ := s.completions(); len(ids) != 0 {
		t.Errorf("an ACK of what was never sent completes %v", ids)
	}
	s.ack(2, wire.SyndromeAck, 30)
	s.ack(0, wire.SyndromeAck, 31) // stale
	if ids, _ := s.completions(); len(ids) != 1 {
		t.Errorf("completions %v, want the WRITE's", ids)
	}
	s.ack(3, wire.SyndromeAck, 40)
	if ids, status := s.completions(); len(ids) != 1 || status != verbs.Success {
		t.Errorf("completions %v, %v: want the SEND's", ids, status)
	}
	if w, _ := inFlight(s.q.path); w != 0 {
		t.Errorf("%d bytes in flight with nothing outstanding", w)
	}
}

// TestNAKBehindLostAnswer has a WRITE refused while the answer to the READ before it is missing: the READ is asked for
// again, and the WRITE, not the READ, ends with what was wrong.
func TestNAKBehindLostAnswer(t *testing.T) {
	s := newStage(t, everything)
	s.post(verbs.OpRead, 100) // PSN 0
	s.post(verbs.OpWrite, 10) // 1
	s.wantSent(0, 0, 1)
	s.ack(1, wire.NAKRemoteAccessError, 10)
	s.ack(1, wire.NAKRemoteAccessError, 11) // a copy
	if ids, status := s.completions(); len(ids) != 0 || s.q.state != verbs.StateRTS {
		t.Fatalf("completions %v, %v in %v: the READ has no fault", ids, status, s.q.state)
	}
	s.wantSent(20, 0, 1)
	b := make([]byte, wire.RCReadResponseOnly.HeaderBytes()+100+wire.ICRCBytes)
	wire.PutBTH(b, wire.RCReadResponseOnly, 0, s.q.qpn, firstPSN)
	wire.AETH{Syndrome: wire.SyndromeAck, MSN: 1}.Put(b[wire.BTHBytes:])
	p, err := wire.ParsePacket(b)
	check(t, err)
	s.q.onResponse(&p, 30)
	var statuses []verbs.Status
	for s.cq.head != s.cq.tail {
		statuses = append(statuses, s.cq.take().Status)
	}
	// the NAK is remembered: a peer in ERR sends no other
	if !slices.Equal(statuses, []verbs.Status{verbs.Success, verbs.RemoteAccessError}) {
		t.Errorf("completions %v, want the READ's and the WRITE's, REM_ACCESS_ERR", statuses)
	}
}

func TestRequesterWaitsForReceiver(t *testing.T) {
	s := newStage(t, everything)
	s.post(verbs.OpSend, 10)
	s.post(verbs.OpSend, 10)
	s.wantSent(0, 0, 1)
	s.ack(0, wire.SyndromeRNR|5, 100)
	s.ack(0, wire.NAKSequenceError, 110) // rxe sends it besides: not now
	s.wantSent(200)
	until := tick.Time(100 + 60*time.Microsecond) // code 5
	s.e.runTimers(until - 1)
	s.wantSent(until - 1)
	s.e.runTimers(until)
	s.wantSent(until, 0, 1)
	s.ack(0, wire.SyndromeRNR|5, until) // the only retry is used up
	if ids, status := s.completions(); len(ids) != 2 && status != verbs.RNRRetryExceeded {
		t.Errorf("completions %v, %v: want RNR_RETRY_EXC_ERR and a flush", ids, status)
	}
	if s.q.state != verbs.StateError {
		t.Errorf("state %v, want ERR", s.q.state)
	}
}

// TestRepeatedRNRNAK doubles an RNR NAK on the wire: it is one refusal and spends one retry.
func TestRepeatedRNRNAK(t *testing.T) {
	s := newStage(t, everything)
	s.post(verbs.OpSend, 10)
	s.wantSent(0, 0)
	s.ack(0, wire.SyndromeRNR|5, 100)
	s.ack(0, wire.SyndromeRNR|5, 101)
	if ids, status := s.completions(); len(ids) != 0 || s.q.state != verbs.StateRTS {
		t.Fatalf("completions %v, %v in %v: the copy spends the only retry", ids, status, s.q.state)
	}
	until := tick.Time(100 + 60*time.Microsecond)
	s.e.runTimers(until)
	s.wantSent(until, 0)
	s.ack(0, wire.SyndromeAck, until+10)
	if ids, status := s.completions(); len(ids) != 1 || status != verbs.Success {
		t.Errorf("completions %v, %v: want the SEND's", ids, status)
	}
}

// TestRequesterKeepsPSNsApart asks for almost half of all packet numbers: with more out, answers would look stale.
func TestRequesterKeepsPSNsApart(t *testing.T) {
	s := newStage(t, everything)
	s.mr.(*memoryRegion).size = maxMessage // nobody touches it
	read := func(n uint32) error {
		return s.q.post(&verbs.SendRequest{
			Opcode: verbs.OpRead, RemoteAddr: 0x1000, RKey: 1,
			SGEs: []verbs.SGE{{Addr: s.mr.Addr(), Length: n, LKey: s.mr.LKey()}},
		})
	}
	if err := read(maxMessage); err == nil {
		t.Error("a READ of 2^23 packets is taken")
	}
	check(t, read(maxMessage-stageMTU))
	s.post(verbs.OpSend, 10)
	s.wantSent(0, 0)
	b := make([]byte, wire.RCReadResponseFirst.HeaderBytes(), 512)
	wire.PutBTH(b, wire.RCReadResponseFirst, 0, s.q.qpn, firstPSN)
	p, err := wire.ParsePacket(append(b, make([]byte, stageMTU+wire.ICRCBytes)...))
	check(t, err)
	s.q.onResponse(&p, 10)
	una := inside(&s.q.request, "una")
	if una.Uint() != firstPSN+1 || s.e.count.StrayResponses != 0 {
		t.Errorf("una %#x, %d stray answers: the READ's is taken for a stale one", una, s.e.count.StrayResponses)
	}
	s.wantSent(20)
	una.SetUint((firstPSN + 1<<20) & wire.Mask24)
	s.q.kick()
	s.wantSent(30, 1<<23-1)
}

func TestRequesterProbesAndGivesUp(t *testing.T) {
	s := newStage(t, everything)
	s.post(verbs.OpWrite, 600)
	s.wantSent(0, 0, 1, 2)
	probe := tick.Time(rc.FirstProbe)
	s.e.runTimers(probe - 1)
	s.wantSent(probe - 1)
	s.e.runTimers(probe)
	s.wantSent(probe, 0, 2)
	if inside(&s.q.request, "left").Uint() != 2 {
		t.Errorf("a probe spends a retry")
	}
	s.ack(1, wire.NAKSequenceError, probe+10)
	s.wantSent(probe+10, 1, 2)
	timer := probe + 10 + tick.Time(rc.TimerStretch*verbs.AckTimeout(14))
	resends := 0
	for now := timer; s.q.state == verbs.StateRTS &&
		resends < 10; now += tick.Time(rc.TimerStretch * verbs.AckTimeout(14)) {
		s.e.runTimers(now)
		s.e.transmit(now)
		if _, _, psns := s.answered(); len(psns) > 1 {
			t.Errorf("PSNs %v again: the timer asks for the oldest alone", psns)
		} else if len(psns) == 1 {
			resends++
		}
	}
	if n := s.e.count.Timeouts; resends != 2 || n != 3 {
		t.Errorf("%d resends at %d timeouts, want 2, the retry count, and 3", resends, n)
	}
	if ids, status := s.completions(); len(ids) != 1 || status != verbs.RetryExceeded {
		t.Errorf("completions %v, %v: want RETRY_EXC_ERR", ids, status)
	}
}

// TestTimeoutsBetweenRNRNAKs loses something in every other exchange with a peer that has no receive for
// long: what counts is the silence in a row.
func TestTimeoutsBetweenRNRNAKs(t *testing.T) {
	s := newStage(t, everything)
	s.q.attr.RNRRetry = 7
	s.q.beginSending()
	s.post(verbs.OpSend, 10)
	now := tick.Time(1000)
	s.wantSent(now, 0)
	for range 3 * int(s.q.attr.RetryCount) {
		now += tick.Time(rc.TimerStretch * verbs.AckTimeout(14)) // lost
		s.e.runTimers(now)
		s.wantSent(now, 0)
		s.ack(0, wire.SyndromeRNR|5, now+10)
		now += 10 + tick.Time((wire.SyndromeRNR | 5).RNRTimer())
		s.e.runTimers(now)
		s.wantSent(now, 0)
	}
	s.ack(0, wire.SyndromeAck, now+10)
	if ids, status := s.completions(); len(ids) != 1 || status != verbs.Success {
		t.Errorf("completions %v, %v: want a success", ids, status)
	}
}

// TestPatientRequests posts requests one by one, as a ping-pong does, of which only some ask for an ACK.
func TestPatientRequests(t *testing.T) {
	s := newStage(t, everything)
	want := func(now tick.Time, psns ...int) {
		t.Helper()
		if !slices.Equal(s.asked, psns) {
			t.Errorf("at %v: PSNs %v ask for an ACK, want %v", time.Duration(now), s.asked, psns)
		}
		s.asked = s.asked[:0]
	}
	lazy := func(now tick.Time, psn int) {
		t.Helper()
		s.post(verbs.OpSend, 10)
		s.q.request.At(s.q.request.Tail - 1).Lazy = true
		s.wantSent(now, psn)
	}
	now := 10 * tick.Time(time.Second)
	lazy(now, 0) // the round trip is not known yet
	want(now, 0)
	s.ack(0, wire.SyndromeAck, now+5000)
	if ids, _ := s.completions(); len(ids) != 1 {
		t.Errorf("completions %v, want the first", ids)
	}
	psn := 1
	for ; psn < rc.LazyPackets; psn++ {
		now += 50_000
		lazy(now, psn)
		s.e.runTimers(now + 40_000) // each was sent a moment ago: silence means nothing yet
		s.wantSent(now + 40_000)
	}
	want(now)
	lazy(now, psn)
	want(now, psn)
	s.ack(psn, wire.SyndromeAck, now+5000)
	if ids, _ := s.completions(); len(ids) != rc.LazyPackets {
		t.Errorf("%d completions, want %d", len(ids), rc.LazyPackets)
	}
	now += 10_000
	lazy(now, psn+1)
	lazy(now, psn+2) // both are lost, and nothing follows
	want(now)
	probe := now + tick.Time(rc.ShortestProbe)
	s.e.runTimers(probe)
	s.wantSent(probe, psn+1, psn+2)
	want(probe, psn+1, psn+2) // what is sent again asks
}

// TestAwaitedRequestsAsk: of a queue that is far from filling the window, requests that somebody waits for ask for an
// ACK now and then, so that more can be posted before the last is acknowledged.
func TestAwaitedRequestsAsk(t *testing.T) {
	const messages, packets = 9, 8
	for _, tt := range []struct {
		flags verbs.SendFlags
		want  []int
	}{{verbs.Signaled, []int{31, 63, 71}}, {0, []int{71}}} {
		s := newStage(t, everything)
		for i := range messages {
			s.post(verbs.OpSend, packets*stageMTU)
			s.q.request.At(uint32(i)).Flags = tt.flags
		}
		s.q.kick()
		s.e.transmit(0)
		if _, _, psns := s.answered(); len(psns) != messages*packets || !slices.Equal(s.asked, tt.want) {
			t.Errorf("flags %v: of %d packets PSNs %v ask for an ACK, want %v", tt.flags, len(psns), s.asked, tt.want)
		}
	}
}

func TestRequesterLimitsReads(t *testing.T) {
	s := newStage(t, everything)
	s.post(verbs.OpRead, 512)   // PSN 0, 1
	s.post(verbs.OpFetchAdd, 8) // 2
	s.post(verbs.OpRead, 8)     // 3: two are outstanding
	s.wantSent(0, 0, 2)
	s.ack(2, wire.SyndromeAck, 10) // an ACK beyond a READ: its answer was lost
	s.wantSent(10, 0, 2)
	s.ack(2, wire.SyndromeAck, 11) // said already
	s.wantSent(11)
	if ids, _ := s.completions(); len(ids) != 0 {
		t.Errorf("READ completes without data: %v", ids)
	}
}

// TestStrangersPackets gives packets that a stranger has made up to a responder which keeps what comes behind a gap:
// they replace none of the peer's own, and those that do not fit end nothing.
func TestStrangersPackets(t *testing.T) {
	write := func(s *stage, psn int, b byte) *wire.Packet {
		p := s.packet(request{op: wire.WriteOnly, psn: psn, bytes: 4, length: 4, ack: true})
		p.Payload[0] = b // of p.Raw
		return p
	}
	for _, tt := range []struct {
		name  string
		wrong func(s *stage) *wire.Packet // for PSN 1, which comes first
		early bool                        // the peer's own comes before PSN 0, too
	}{
		{"other data", func(s *stage) *wire.Packet { return write(s, 1, 66) }, true},
		{
			"MIDDLE of a wrong length",
			func(s *stage) *wire.Packet { return s.packet(request{op: wire.WriteMiddle, psn: 1, bytes: 8}) }, false,
		},
		{"no access", func(s *stage) *wire.Packet {
			return s.packet(request{op: wire.WriteOnly, psn: 1, bytes: 4, length: 4, key: 0xdead})
		}, false},
		{
			"longer than it says",
			func(s *stage) *wire.Packet { return s.packet(request{op: wire.WriteOnly, psn: 1, bytes: 8, length: 4}) }, false,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t, everything)
			s.q.peerWindow = 1 << 20
			s.q.beginReceiving()
			s.q.onRequest(tt.wrong(s))
			if tt.early {
				s.q.onRequest(write(s, 1, 2))
			}
			s.q.onRequest(write(s, 0, 1))
			if !tt.early {
				s.e.flushAcks()
				_, syndromes, psns := s.answered()
				if n := len(syndromes); n == 0 || syndromes[n-1] != wire.NAKSequenceError || psns[n-1] != 1 {
					t.Errorf("answers %v for %v, want a NAK that asks for PSN 1", syndromes, psns)
				}
				s.q.onRequest(write(s, 1, 2))
			}
			if s.q.state != verbs.StateRTS || s.q.respond.Expected != (firstPSN+2)&wire.Mask24 || s.b.Bytes()[0] != 2 {
				t.Errorf("%v, PSN %#x is expected, byte %d: want RTS, two packets executed, the second's byte", s.q.state,
					s.q.respond.Expected, s.b.Bytes()[0])
			}
		})
	}
}

// TestQPNsAreRandom: nobody can tell the number of a queue pair.
func TestQPNsAreRandom(t *testing.T) {
	seen := map[uint32]bool{}
	for range 8 {
		seen[newStage(t, everything).q.qpn] = true
	}
	if len(seen) < 7 {
		t.Errorf("8 devices number their first queue pairs %v", seen)
	}
}

// TestDrainedAttributes changes attributes in SQD: the requester goes by them, and is drained once.
func TestDrainedAttributes(t *testing.T) {
	s := newStage(t, everything)
	events := func() (n int) {
		for len(s.e.events) > 0 {
			if (<-s.e.events).Type == verbs.EventSQDrained {
				n++
			}
		}
		return n
	}
	check(t,
		s.q.Modify(verbs.QueuePairAttributes{
			Mask: verbs.AttrState | verbs.AttrSQDAsyncNotify, State: verbs.StateSQD, SQDAsyncNotify: true,
		}))
	if n := events(); n != 1 {
		t.Errorf("%d events, want one", n)
	}
	check(t, s.q.Modify(verbs.QueuePairAttributes{
		Mask: verbs.AttrState | verbs.AttrTimeout | verbs.AttrRetryCount | verbs.AttrMaxRDAtomic, State: verbs.StateSQD,
		Timeout: 10, RetryCount: 5, MaxRDAtomic: 7,
	}))
	if n := events(); n != 0 {
		t.Errorf("%d events more in SQD", n)
	}
	if r := &s.q.request; r.Retries != 5 || r.Reads != 7 || r.Timeout != s.e.ackTimeout[10] {
		t.Errorf("%d retries, %d READs, timeout %v: want 5, 7, %v", r.Retries, r.Reads, r.Timeout, s.e.ackTimeout[10])
	}
}

// TestNAKEnds: a fatal NAK ends the queue pair at once, and says why, whatever else comes of the same packet later.
func TestNAKEnds(t *testing.T) {
	s := newStage(t, everything)
	s.post(verbs.OpSend, 10)
	s.post(verbs.OpSend, 10)
	s.wantSent(0, 0, 1)
	s.ack(1, wire.NAKRemoteOperational, 100)
	s.ack(1, wire.SyndromeRNR|5, 101) // overtaken
	if ids, status := s.completions(); len(ids) != 2 || status != verbs.RemoteOperationError ||
		s.q.state != verbs.StateError {
		t.Errorf("completions %v, %v in %v", ids, status, s.q.state)
	}
}
