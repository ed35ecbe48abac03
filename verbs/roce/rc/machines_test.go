package rc

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/wire"
	"github.com/gobw/gobw/verbs/tick"
)

const stageMTU = 256

// TestFaceToFace lets a requester and a responder exchange packets by hand, of which one is lost: a list of packets and
// a clock are all that they need. What is posted is executed once, in order.
func TestFaceToFace(t *testing.T) {
	ops := []verbs.Opcode{verbs.OpWrite, verbs.OpRead, verbs.OpFetchAdd, verbs.OpSend, verbs.OpRead}
	lengths := map[verbs.Opcode]int{verbs.OpWrite: 600, verbs.OpSend: 600, verbs.OpRead: 600, verbs.OpFetchAdd: 8}
	for lost := range 20 {
		for _, window := range []int{0, 1 << 20} {
			t.Run(fmt.Sprintf("lost=%d/window=%d", lost, window), func(t *testing.T) {
				a, b := newStation(0), newStation(0)
				x := newEnd(t, a, b, stageMTU, 2, window, len(ops))
				for _, op := range ops {
					x.post(op, lengths[op])
				}
				packets, now := 0, tick.Time(1)
				arrives := func() bool { packets++; return packets != lost }
				var done []verbs.Opcode
				for len(done) < len(ops) {
					x.requests(now, 64, func(b []byte, _ int) {
						if arrives() {
							p := parse(t, b)
							x.peer.receive(&p)
						}
					})
					x.peer.answers(64, func(a Answer, _ int) {
						if arrives() {
							x.take(a, now)
						}
					})
					for _, w := range x.completed() {
						done = append(done, w.Opcode)
					}
					if now += 1000; !x.out.HasWork() && len(done) < len(ops) {
						now = max(now, x.out.Deadline())
					}
					if x.out.OnTick(now); now > tick.Time(time.Minute) {
						t.Fatalf("%v are complete after a minute", done)
					}
				}
				if !slices.Equal(done, ops) || x.peer.next != x.out.SendPSN() {
					t.Errorf("%v are complete, the peer awaits PSN %#x, want %v and %#x", done, x.peer.next, ops, x.out.SendPSN())
				}
			})
		}
	}
}

// TestResponderAlone drives a responder without a queue pair or an engine.
func TestResponderAlone(t *testing.T) {
	var r Responder
	r.Begin(10, stageMTU, 2, nil, &Counts{})
	packet := func(op wire.Operation, psn uint32) *wire.Packet {
		t.Helper()
		code := wire.MakeOpcode(wire.RC, op)
		b := make([]byte, code.HeaderBytes()+wire.ICRCBytes)
		wire.PutBTH(b, code, wire.FlagAckReq, 1, psn)
		p, err := wire.ParsePacket(b)
		if err != nil {
			t.Fatal(err)
		}
		return &p
	}
	admit := func(op wire.Operation, psn uint32, want Admission) *wire.Packet {
		t.Helper()
		p := packet(op, psn)
		if got := r.Admit(p); got != want {
			t.Errorf("%v of PSN %d is %d, want %d", p.Opcode, psn, got, want)
		}
		return p
	}
	owes := func(s wire.Syndrome, psn uint32) {
		t.Helper()
		if !r.MayAcknowledge() {
			t.Fatalf("nothing may leave, want %v of PSN %d", s, psn)
		}
		if a := r.Acknowledgement(); a.AETH.Syndrome != s || a.PSN != psn {
			t.Errorf("%v of PSN %d is owed, want %v of %d", a.AETH.Syndrome, a.PSN, s, psn)
		}
	}
	read := admit(wire.ReadRequest, 10, InTurn)
	wire.RETH{Length: 3 * stageMTU}.Put(read.Raw[wire.BTHBytes:])
	if r.Asked(read) == nil {
		t.Fatal("a READ is refused")
	}
	r.Executed(admit(wire.WriteOnly, 13, InTurn))
	for k := range uint32(3) {
		if r.MayAcknowledge() {
			t.Errorf("the ACK of what follows a READ leaves before packet %d of its answer", k)
		}
		if a, ok := r.NextAnswer(); !ok || a.PSN != 10+k {
			t.Errorf("%v of PSN %d is due, want the READ's packet %d", a.Code, a.PSN, k)
		}
		r.Answered()
	}
	owes(wire.SyndromeAck, 13)
	admit(wire.WriteOnly, 15, Ignored)
	owes(wire.NAKSequenceError, 14)
	admit(wire.WriteOnly, 16, Ignored)
	admit(wire.WriteMiddle, 14, Misplaced)
	r.Repeat(admit(wire.WriteOnly, 13, Repeated))
	owes(wire.SyndromeAck, 13)
	r.Repeat(admit(wire.ReadRequest, 11, Repeated))
	if a, _ := r.reads.head(); a == nil || a.sent != 1 || a.end != 2 {
		t.Errorf("due is %+v, want the READ's second packet", a)
	}
	r.Forget()
	admit(wire.SendOnly, 14, InTurn)
	r.OweRNR(14, 5)
	owes(wire.SyndromeRNR|5, 14)
	r.Refuse(verbs.RemoteInvalidRequestError, 14)
	owes(wire.NAKInvalidRequest, 14)
	admit(wire.SendOnly, 14, Ignored)
}

// TestReadQueue holds more READs than were agreed, and repeats.
func TestReadQueue(t *testing.T) {
	r := newReadQueue(3) // rounded up to 4
	for i := range 4 {
		if r.add(readWork{psn: uint32(10 * i), packets: 10}) == nil {
			t.Fatalf("READ %d refused", i)
		}
	}
	if r.add(readWork{psn: 40, packets: 10}) != nil {
		t.Error("a fifth READ is served, want 4 at most")
	}
	sent := func(work, from uint32) {
		t.Helper()
		a, _ := r.head()
		if a == nil || a.work != work || a.sent != from {
			t.Fatalf("due is %+v, want READ %d from packet %d", a, work, from)
		}
		a.sent = a.end
	}
	sent(0, 0)
	i, w := r.find(7)
	if w == nil || i != 0 {
		t.Fatalf("READ of PSN 7 not found")
	}
	r.repeat(dueAnswer{work: i, from: 7, sent: 7, end: 10, again: true})
	r.repeat(dueAnswer{work: i, from: 8, sent: 8, end: 10, again: true}) // is due already
	sent(1, 0)
	sent(2, 0)
	sent(3, 0)
	sent(0, 7)
	if a, _ := r.head(); a != nil {
		t.Errorf("%+v is due, want nothing", a)
	}
	r.repeat(dueAnswer{work: i, from: 0, sent: 0, end: 10, again: true})
	if r.add(readWork{psn: 40, packets: 10}) == nil {
		t.Error("a READ is refused because of a repeat that nobody waits for")
	}
	sent(4, 0) // the repeat is of a READ that is forgotten
	if _, w := r.find(3); w != nil {
		t.Error("a READ is remembered beyond the ring")
	}
}

// TestAnswersGoBack: a peer that keeps nothing behind a gap drops all other answers until what it has asked for again
// comes. So that comes next, and nothing is sent that the peer will drop.
func TestAnswersGoBack(t *testing.T) {
	r := newReadQueue(4)
	for i := range 3 {
		r.add(readWork{psn: uint32(1000 * i), packets: 1000})
	}
	sent := func(work, from, to uint32) {
		t.Helper()
		for k := from; k != to; k++ {
			a, _ := r.head()
			if a == nil || a.work != work || a.sent != k {
				t.Fatalf("due is %+v, want packet %d of READ %d", a, k, work)
			}
			if a.sent++; a.sent == a.end {
				r.passed(a)
			}
		}
	}
	again := func(work, from uint32) bool {
		return r.goBack(dueAnswer{work: work, from: from, sent: from, end: 1000, again: true})
	}
	sent(0, 0, 500)
	again(0, 100) // packet 100 was lost
	again(1, 0)   // the READs behind it are asked for, too
	sent(0, 100, 1000)
	sent(1, 0, 300)
	if !again(0, 998) { // lost at the end of an answer that has left
		t.Error("an answer that has left takes no place when it goes back")
	}
	again(1, 0)
	again(2, 0)
	sent(0, 998, 1000)
	sent(1, 0, 1000)
	sent(2, 0, 20)
	packets := 0
	for ; r.fresh > 0 && packets < 1e6; packets++ { // somebody replays the READ
		a, _ := r.head()
		if again(2, 0); packets%100 == 0 {
			again(1, 0)
		}
		if a.sent++; a.sent == a.end {
			r.passed(a)
		}
	}
	if most := (2*mostBacks + 4) * 1000; packets > most {
		t.Errorf("the answer left after %d packets, want %d at most", packets, most)
	}
}

// TestAnswersGoBackOften: a peer that moves on may lose something again and again, behind answers that have left too,
// and after any number of READs. It hears of a loss 50 packets later.
func TestAnswersGoBackOften(t *testing.T) {
	const size = 1000
	r := newReadQueue(4)
	again := func(r *readQueue, work, from uint32) {
		r.goBack(dueAnswer{work: work, from: from, sent: from, end: size, again: true})
	}
	for i := range uint32(3) {
		r.add(readWork{psn: size * i, packets: size})
	}
	for a, _ := r.head(); a != nil; a, _ = r.head() { // all leave
		a.sent = a.end
	}
	for k := range uint32(50) {
		again(&r, 0, 10*k)
		again(&r, 1, 0)
		again(&r, 2, 0)
		a, _ := r.head()
		if a == nil || a.work != 0 || a.sent != 10*k {
			t.Fatalf("due is %+v, want packet %d of READ 0", a, 10*k)
		}
		a.sent += 15
	}

	const reads, outstanding, delay, timeout = 16, 4, 50, 1000
	for _, first := range []uint32{0, 1<<31 + 5} {
		r, random := newReadQueue(outstanding), rand.New(rand.NewPCG(1, 2))
		r.tail = first
		due, end := place{work: first}, first // what the peer waits for, and has asked for
		var asked []place
		packets, heard, arrive := uint32(0), uint32(0), uint32(0)
		for ; due.work != first+reads && packets < 100*reads*size; packets++ {
			for end != first+reads && end-due.work < outstanding && r.add(readWork{psn: size * end, packets: size}) != nil {
				end++
			}
			if packets == arrive {
				for _, x := range asked {
					again(&r, x.work, x.packet)
				}
				asked = nil
			}
			gap := false
			if a, _ := r.head(); a != nil {
				x := place{a.work, a.sent}
				if a.sent++; a.sent == a.end {
					r.passed(a)
				}
				switch arrived := random.Float64() > 0.03; {
				case arrived && x == due:
					heard = packets
					if due.packet++; due.packet == size {
						due = place{work: due.work + 1}
					}
				case arrived:
					gap = r.isAhead(x, due) && arrive <= heard
				}
			}
			if gap || packets-heard > timeout && asked == nil {
				asked, arrive, heard = []place{due}, packets+delay, packets
				for w := due.work + 1; w != end; w++ {
					asked = append(asked, place{work: w})
				}
			}
		}
		if most := uint32(5 * reads * size); packets > most {
			t.Errorf("from READ %d on %d packets left for %d, want %d at most", first, packets, reads*size, most)
		}
	}
}

// TestReadQueueWraps: after 2^32 READs and atomics, an hour of them, the latest are found still.
func TestReadQueueWraps(t *testing.T) {
	r := newReadQueue(4)
	r.tail = 1<<32 - 2
	for psn := range uint32(4) {
		if r.add(readWork{psn: psn, packets: 1}) == nil {
			t.Fatalf("READ %d refused", psn)
		}
	}
	for psn := range uint32(4) {
		if i, w := r.find(psn); w == nil || w.psn != psn || i != psn-2 {
			t.Errorf("READ %d is found as %+v at %d", psn, w, i)
		}
		if a, w := r.head(); a == nil || w.psn != psn {
			t.Errorf("%+v of %+v is due, want READ %d", a, w, psn)
		} else {
			a.sent = a.end
		}
	}
}

func TestWindow(t *testing.T) {
	w := window{size: 100 << 10, maximum: 128 << 10, backlog: 128 << 10}
	if !w.admits(1<<20, 0) {
		t.Error("a packet larger than the window never leaves")
	}
	w.inFlight = 90 << 10
	if w.admits(11<<10, 0) {
		t.Error("admits more than its size")
	}
	w.onLoss(1000, 100)
	once := w.size
	w.onLoss(1050, 100)
	if w.size != once || once >= 100<<10 {
		t.Errorf("two losses of one round trip close it from %d over %d to %d, want once", 100<<10, once, w.size)
	}
	for now := tick.Time(2000); now < 100000; now += 1000 {
		w.onLoss(now, 100)
	}
	if w.size != minWindow {
		t.Errorf("closes to %d, want %d", w.size, minWindow)
	}
}
