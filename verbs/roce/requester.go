package roce

import (
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/wire"
	"github.com/gobw/gobw/verbs/tick"
)

// requester is the sending half of a queue pair: what was asked of the peer and, on RC, not yet answered (IBTA 9.7.3). It is a
// value: it knows no socket, memory or completion queue. Its methods take packets and the time; toSend says what to send, and
// oldest which request is complete. transmit.go does it.
type requester struct {
	sendQueue
	requesterSetup

	charged, reading int // of the path's windows: bytes sent, and asked for

	postPSN uint32 // of the next request posted
	una     uint32 // oldest that is not acknowledged
	nxt     uint32 // next to be sent; behind high after a loss
	high    uint32 // beyond every PSN ever sent
	reached uint32 // the peer has executed everything before it; answers to READs may be missing
	packet  uint32 // next packet of the request at next

	inFlight    int          // bytes of SENDs and WRITEs on the way
	awaited     int          // bytes of answers to READs on the way
	outstanding int          // READs and atomics without all responses
	unasked     int          // bytes sent since the last packet with AckReq
	askedPSN    uint32       // of the last packet with AckReq
	refused     uint32       // the request that the peer refused, which fails once everything before it is complete
	refusal     verbs.Status // Success: none
	believedAt  tick.Time    // when the refusal is, unless the peer goes on answering
	draining    bool         // no new request starts: SQD
	drained     bool         // and the event was raised
	fatal       verbs.Status // not Success: the oldest request that is not complete fails with it

	arrivals
	recovery
}

// requesterSetup is what a queue pair's attributes say about its requester.
type requesterSetup struct {
	reliable            bool // RC
	mtu                 uint32
	retries, rnrRetries uint8
	reads               int       // READs and atomics that may be outstanding
	timeout             tick.Time // 0: none
	keeps               bool      // the peer keeps what arrives behind a gap
	flow                *flowControl
	count               *protocolCounts
}

// begin starts numbering at the transition to RTS.
func (r *requester) begin(psn uint32, setup requesterSetup) {
	*r = requester{
		sendQueue: r.sendQueue, requesterSetup: setup, postPSN: psn, una: psn, nxt: psn, high: psn, reached: psn, askedPSN: (psn - 1) & wire.Mask24,
	}
	r.edge = psn
	r.left, r.rnrLeft = setup.retries, setup.rnrRetries
	r.stop()
}

// reset discards everything.
func (r *requester) reset() {
	r.stop()
	*r = requester{sendQueue: r.sendQueue}
	r.released, r.done, r.next, r.flushTo = r.tail, r.tail, r.tail, r.tail
	r.stop()
}

// change takes over what attributes say that have changed.
func (r *requester) change(setup requesterSetup) {
	r.charge(0, 0)
	r.requesterSetup = setup
	r.recharge()
}

// stop ends all that is under way: nothing is in flight, and no clock runs.
func (r *requester) stop() {
	r.inFlight, r.awaited = 0, 0
	r.recharge()
	r.mends = r.mends[:0]
	r.refusal, r.draining = verbs.Success, false
	r.probeAt, r.timerAt, r.rnrAt = tick.Never, tick.Never, 0
}

// recharge brings the path's windows up to date with what is on the way. A peer that may be gone takes nothing.
func (r *requester) recharge() {
	if r.silent >= silentProbes {
		r.charge(0, 0)
	} else {
		r.charge(r.inFlight, r.awaited)
	}
}

func (r *requester) charge(sent, asked int) {
	if r.flow != nil {
		r.flow.window.inFlight += sent - r.charged
		r.flow.reads.inFlight += asked - r.reading
		r.charged, r.reading = sent, asked
	}
}

// posted numbers the request that was put into the next slot.
func (r *requester) posted() {
	w := r.at(r.tail)
	if w.packets = 0; !w.isLocal() {
		w.packets = packetsOf(w.length, r.mtu)
	}
	w.psn = r.postPSN
	r.postPSN = w.end()
	r.tail++
}

// hasWork tells whether toSend may have something.
func (r *requester) hasWork() bool { return r.next != r.tail || len(r.mends) > 0 }

// oldest is the oldest request, and how it ends; nil where it is not complete yet.
func (r *requester) oldest() (w *sendWork, status verbs.Status) {
	if r.done == r.tail {
		return nil, status
	}
	w = r.at(r.done)
	isComplete := w.finished && r.done != r.next
	if r.reliable && w.packets > 0 {
		isComplete = w.started && wire.PSNDiff(r.una, w.psn+w.packets) >= 0
	}
	switch {
	case int32(r.flushTo-r.done) > 0:
		return w, verbs.FlushError
	case w.failure != verbs.Success:
		return w, w.failure
	case isComplete:
		return w, verbs.Success
	case r.fatal != verbs.Success:
		return w, r.fatal
	}
	return nil, status
}

// fail has the oldest request that is not complete end with a status, or with what the peer has refused it for.
func (r *requester) fail(status verbs.Status) {
	if r.fatal = status; r.isRefused() {
		r.fatal = r.refusal
	}
}

// refuse has a request fail when everything before it is complete.
func (r *requester) refuse(index uint32, status verbs.Status) {
	r.at(index).failure = status
	r.mends = r.mends[:0]
}

// isDrained tells, once, that everything is complete that was started before SQD.
func (r *requester) isDrained() bool {
	if !r.draining || r.drained || r.done != r.next || r.packet != 0 {
		return false
	}
	r.drained = true
	return true
}

// drain keeps requests that have not started from starting.
func (r *requester) drain() {
	if !r.draining {
		r.draining, r.drained = true, false
	}
}

// resume lets requests start. Those that wait to be flushed do not.
func (r *requester) resume() {
	r.draining = false
	if int32(r.flushTo-r.next) > 0 {
		r.next = r.flushTo
	}
}

// outcome is why a queue pair stopped sending.
type outcome uint8

const (
	idle    outcome = iota // nothing to send, or it waits for an event of its own
	blocked                // the window is closed
	paused                 // its share is used up: others first
	begins                 // a request is to be checked, or executed where it is local, and begun
	ready                  // a packet is to be sent
)

// outgoing is a packet to be sent.
type outgoing struct {
	index  uint32 // of the request
	w      *sendWork
	k, end uint32 // it is packet k of the request, or asks for packets k to end of a READ
	asks   bool   // for an ACK
	mends  bool   // it was sent before
	cost   int    // of the window
}

// toSend is what is to be sent now, by a queue pair that may send quantum packets before others.
func (r *requester) toSend(quantum int) (p outgoing, why outcome) {
	if r.rnrAt != 0 {
		return p, idle
	}
	if p = r.nextMend(); p.mends {
		if quantum == 0 {
			return p, paused
		}
		return p, ready
	}
	for r.next != r.tail {
		w := r.at(r.next)
		p = outgoing{index: r.next, w: w, k: r.packet, end: w.packets}
		switch {
		case w.failure != verbs.Success, r.reliable && r.silent >= silentProbes && r.nxt != r.una: // until the peer is heard of
			return p, idle
		case w.finished: // a local one, behind what is sent again
			r.skip()
			continue
		case w.started:
		case r.draining, r.reliable && !r.mayStart(w):
			return p, idle
		default:
			return p, begins
		}
		if w.isResponded() {
			if p.k = r.missing(w); p.k == w.packets { // its answer has come meanwhile
				r.skip()
				continue
			}
			if r.recharge(); w.opcode == verbs.OpRead && !r.flow.reads.admits(int(w.length), 0) {
				return p, blocked
			}
			p.asks = true
		}
		if quantum == 0 {
			return p, paused
		}
		if r.reliable && !w.isResponded() {
			window := &r.flow.window
			p.cost = r.cost(w, p.k, p.k+1)
			if r.recharge(); !window.admits(p.cost, r.gapAllowance(window.size)) {
				return p, blocked
			}
			p.asks = r.wantsAck(p.k, p.cost, quantum, window.size-window.inFlight-p.cost, window.size)
		}
		return p, ready
	}
	return p, idle
}

// outstandingPSNs is how many numbers a READ may take before others start behind it. From 2^23 on an answer could not be
// told from a stale one (IBTA 9.7.2); the margin is more than any window of SENDs and WRITEs.
const outstandingPSNs = 1<<23 - 1<<20

// mayStart tells whether the request at next may start as far as the requests before it are concerned.
func (r *requester) mayStart(w *sendWork) bool {
	if w.flags&verbs.Fence != 0 && r.outstanding > 0 {
		return false
	}
	ahead := (w.psn - r.una) & wire.Mask24
	if w.isResponded() {
		if r.outstanding >= r.reads {
			return false
		}
		if ahead > 0 {
			ahead += w.packets
		}
	}
	return ahead <= outstandingPSNs
}

// begun notes how the check of a request has ended, and, where it is local, its execution.
func (r *requester) begun(w *sendWork, status verbs.Status) {
	if w.failure = status; status != verbs.Success {
		return
	}
	w.started = true
	if w.isLocal() {
		w.finished = true
		r.skip()
	} else if w.isResponded() {
		r.outstanding++
	}
}

// skip moves on from a request that has nothing more to send: a local one, or a READ whose answer has arrived.
func (r *requester) skip() {
	w := r.at(r.next)
	r.next++
	r.packet = 0
	if w.packets > 0 && wire.PSNDiff(w.end(), r.nxt) > 0 {
		r.nxt = w.end()
	}
}

// cost is what packets from…to of a request count in the window.
func (r *requester) cost(w *sendWork, from, to uint32) int {
	n := int(to-from) * (int(r.mtu) + packetOverhead)
	if to == w.packets {
		n -= int(w.packets*r.mtu - w.length)
	}
	return n
}

const (
	// askEvery bounds what is sent without asking for an ACK: the peer's ACKs are the clock by which a wide window is sent.
	askEvery = 64 << 10
	// awaitedPackets is the same in packets, for a request whose completion somebody waits for: a queue of small ones is empty
	// long before askEvery, and would wait for an ACK of them all.
	awaitedPackets = 32
	// lazyPackets are sent between two that ask, where nobody waits for completions.
	lazyPackets = 32
)

// wantsAck decides on AckReq for packet k of the request at next, which costs so much of a window with room more bytes: where
// nothing can follow now, else about every half window. A lazy request leaves asking to a later one; the probe asks if none comes.
func (r *requester) wantsAck(k uint32, cost, left, room, window int) bool {
	w := r.at(r.next)
	r.unasked += cost
	follows := k+1 < w.packets
	if !follows && r.next+1 != r.tail {
		n := r.at(r.next + 1)
		follows = n.flags&verbs.Fence == 0 && n.packets > 0 && !n.isResponded() && !r.draining
	}
	if w.lazy && (r.nxt-r.askedPSN)&wire.Mask24 < lazyPackets && r.nxt == r.high && r.flow.trip.smoothed != 0 {
		follows = true
	}
	awaited := k+1 == w.packets && w.flags&verbs.Signaled != 0 && !w.lazy && (r.nxt-r.askedPSN)&wire.Mask24 >= awaitedPackets
	if follows && !awaited && 2*cost <= room && r.unasked < min(window/4, askEvery) {
		return false
	}
	if left == 1 && follows && !awaited && r.unasked < min(window/8, askEvery) {
		return false // others send in between, then this one goes on
	}
	r.unasked = 0
	return true
}

// sent notes that a packet has left.
func (r *requester) sent(p *outgoing, now tick.Time) {
	w := p.w
	switch {
	case p.mends:
		x := &r.mends[0]
		x.from = (w.psn + p.end) & wire.Mask24
		if x.probe {
			r.count.probes++
		} else {
			r.count.resentPackets++
			r.resample((x.from-1)&wire.Mask24, now)
		}
	case w.isResponded():
		r.asked(w, p.k, now)
	case r.reliable:
		r.sentData(p, now)
	default: // nobody answers
		if r.packet++; r.packet == w.packets {
			w.finished = true
			r.skip()
		}
	}
}

func (r *requester) sentData(p *outgoing, now tick.Time) {
	owed := wire.PSNDiff(r.askedPSN, r.una) >= 0 // an answer to what was sent before
	if p.asks {
		r.askedPSN = r.nxt
		r.sample(r.nxt, now)
	}
	r.inFlight += p.cost
	r.nxt = (r.nxt + 1) & wire.Mask24
	r.packet = p.k + 1
	if r.packet == p.w.packets {
		r.next++
		r.packet = 0
	}
	r.advanceHigh()
	if owed {
		r.arm(now)
	} else {
		r.schedule(now) // silence counts from the latest packet
	}
}

// asked notes that a READ or an atomic has left for its packets from k on.
func (r *requester) asked(w *sendWork, k uint32, now tick.Time) {
	r.unasked, r.packet = 0, 0
	if w.opcode == verbs.OpRead {
		w.awaited = w.length - k*r.mtu
		r.awaited += int(w.awaited)
	}
	r.sample((w.psn+k)&wire.Mask24, now)
	r.nxt = w.end()
	r.next++
	r.advanceHigh()
	r.arm(now)
}

func (r *requester) advanceHigh() {
	if wire.PSNDiff(r.nxt, r.high) > 0 {
		r.high = r.nxt
	}
}

// missing is the first packet of a READ or atomic that has not arrived.
func (r *requester) missing(w *sendWork) (k uint32) {
	if d := wire.PSNDiff(r.una, w.psn); d > 0 {
		k = min(uint32(d), w.packets)
	}
	for k < w.packets && r.has(w.psn+k) {
		k++
	}
	return k
}

// find looks for the request that a PSN belongs to.
func (r *requester) find(psn uint32) (uint32, *sendWork) {
	for i := r.done; i != r.tail; i++ {
		w := r.at(i)
		if w.packets > 0 && wire.PSNDiff(psn, w.end()) < 0 {
			if wire.PSNDiff(psn, w.psn) < 0 {
				break
			}
			return i, w
		}
	}
	return 0, nil
}

// rewind makes psn the next to be sent: nothing from there on counts as being on the way.
func (r *requester) rewind(psn uint32) {
	if wire.PSNDiff(r.nxt, psn) <= 0 {
		return
	}
	for i := r.done; i != r.tail; i++ {
		w := r.at(i)
		if w.packets == 0 || wire.PSNDiff(psn, w.end()) >= 0 {
			continue
		}
		if wire.PSNDiff(w.psn, r.nxt) >= 0 {
			break
		}
		if w.isResponded() {
			r.awaited -= int(w.awaited)
			w.awaited = 0
			continue
		}
		a, b := uint32(0), w.packets
		if wire.PSNDiff(psn, w.psn) > 0 {
			a = (psn - w.psn) & wire.Mask24
		}
		if wire.PSNDiff(r.nxt, w.end()) < 0 {
			b = (r.nxt - w.psn) & wire.Mask24
		}
		r.inFlight -= r.cost(w, a, b)
	}
	r.count.resentPackets += uint64(wire.PSNDiff(r.nxt, psn))
	if wire.PSNDiff(psn, r.samplePSN) <= 0 {
		r.unsample()
	}
	r.edge, r.marked = psn, false
	r.mends = r.mends[:0]
	r.seek(psn)
}

// seek sets the position of the next packet.
func (r *requester) seek(psn uint32) {
	r.nxt, r.packet, r.unasked = psn, 0, 0
	i := r.done
	for ; i != r.tail; i++ {
		w := r.at(i)
		if w.packets == 0 {
			if !w.finished {
				break
			}
			continue
		}
		if wire.PSNDiff(psn, w.end()) < 0 {
			if !w.isResponded() {
				r.packet = (psn - w.psn) & wire.Mask24
			}
			break
		}
	}
	r.next = i
}

// packetsOf is how many packets carry a message of length bytes.
func packetsOf(length, mtu uint32) uint32 {
	if length <= mtu || mtu == 0 {
		return 1
	}
	return (length + mtu - 1) / mtu
}
