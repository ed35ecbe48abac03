package rc

import (
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/wire"
	"github.com/gobw/gobw/verbs/tick"
)

// Requester is the sending half of a queue pair: what was asked of the peer and, on RC, not yet answered (IBTA
// 9.7.3). Its methods take packets and the time; ToSend says what is to be sent, Oldest which request is
// complete, and Deadline when OnTick is due.
type Requester struct {
	sendQueue
	Setup

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
	draining    bool         // no new request starts: SQD
	drained     bool         // and the event was raised
	fatal       verbs.Status // not Success: the oldest request that is not complete fails with it

	arrivals
	recovery
}

// Setup is what a queue pair's attributes say about its requester.
type Setup struct {
	Reliable            bool // RC
	MTU                 uint32
	Retries, RNRRetries uint8
	Reads               int       // READs and atomics that may be outstanding
	Timeout             tick.Time // 0: none
	Keeps               bool      // the peer keeps what arrives behind a gap
	Flow                *Flow
	Count               *Counts
}

// NewRequester makes the requester of a send queue of depth work requests.
func NewRequester(depth int) Requester {
	n := RingSize(depth)
	r := Requester{sendQueue: sendQueue{ring: make([]Work, n), mask: n - 1, depth: uint32(depth)}}
	r.Stop()
	return r
}

// Begin starts numbering at the transition to RTS.
func (r *Requester) Begin(psn uint32, setup Setup) {
	*r = Requester{
		sendQueue: r.sendQueue, Setup: setup, postPSN: psn, una: psn, nxt: psn, high: psn, reached: psn,
		askedPSN: (psn - 1) & wire.Mask24,
	}
	r.edge = psn
	r.left, r.rnrLeft = setup.Retries, setup.RNRRetries
	r.Stop()
}

// Reset discards everything.
func (r *Requester) Reset() {
	r.Stop()
	*r = Requester{sendQueue: r.sendQueue}
	r.released, r.Done, r.next, r.flushTo = r.Tail, r.Tail, r.Tail, r.Tail
	r.Stop()
}

// Change takes over what attributes say that have changed.
func (r *Requester) Change(setup Setup) {
	sent, asked := r.inFlight, r.awaited
	r.count(-sent, -asked)
	r.Setup = setup
	r.count(sent, asked)
}

// Stop ends all that is under way: nothing is in flight, and no clock runs.
func (r *Requester) Stop() {
	r.count(-r.inFlight, -r.awaited)
	r.mends = r.mends[:0]
	r.refusal, r.draining = verbs.Success, false
	r.probeAt, r.timerAt, r.rnrAt = tick.Never, tick.Never, 0
}

// count counts bytes sent, and asked for, in the queue pair's sums and the path's. What is on the way to a peer
// that may be gone is not in the path's.
func (r *Requester) count(sent, asked int) {
	r.inFlight, r.awaited = r.inFlight+sent, r.awaited+asked
	if r.Flow != nil && r.silent < silentProbes {
		r.Flow.add(sent, asked)
	}
}

// hear notes that the peer is there.
func (r *Requester) hear() {
	if r.silent >= silentProbes {
		r.Flow.add(r.inFlight, r.awaited)
	}
	r.silent = 0
}

// unask takes bytes of a READ off what is awaited.
func (r *Requester) unask(w *Work, bytes uint32) {
	w.awaited -= bytes
	r.count(0, -int(bytes))
}

// Posted numbers the request that was put into the next slot.
func (r *Requester) Posted() {
	w := r.At(r.Tail)
	if w.packets = 0; !w.IsLocal() {
		w.packets = PacketsOf(w.Length, r.MTU)
	}
	w.PSN = r.postPSN
	r.postPSN = w.end()
	r.Tail++
}

// Withdraw takes back the requests from first on, which nothing has looked at since they were posted.
func (r *Requester) Withdraw(first uint32) {
	if r.Tail != first {
		r.postPSN, r.Tail = r.At(first).PSN, first
	}
}

// HasWork tells whether ToSend may have something.
func (r *Requester) HasWork() bool { return r.next != r.Tail || len(r.mends) > 0 }

// SendPSN is the PSN of the packet sent next.
func (r *Requester) SendPSN() uint32 {
	if r.Reliable {
		return r.nxt
	}
	return r.postPSN
}

// Oldest is the oldest request, and how it ends; nil where it is not complete yet.
func (r *Requester) Oldest() (w *Work, status verbs.Status) {
	if r.Done == r.Tail {
		return nil, status
	}
	w = r.At(r.Done)
	isComplete := w.finished && r.Done != r.next
	if r.Reliable && w.packets > 0 {
		isComplete = w.started && wire.PSNDiff(r.una, w.PSN+w.packets) >= 0
	}
	switch {
	case int32(r.flushTo-r.Done) > 0:
		return w, verbs.FlushError
	case w.failure != verbs.Success:
		return w, w.failure
	case isComplete:
		return w, verbs.Success
	case r.isRefused():
		return w, r.refusal
	case r.fatal != verbs.Success:
		return w, r.fatal
	}
	return nil, status
}

// fail has the oldest request that is not complete end with a status.
func (r *Requester) fail(status verbs.Status) { r.fatal = status }

// Refuse has a request fail when everything before it is complete.
func (r *Requester) Refuse(index uint32, status verbs.Status) {
	r.At(index).failure = status
	r.mends = r.mends[:0]
	if index == r.next {
		r.packet = 0
	}
}

// IsDrained tells, once, that everything is complete that was started before SQD.
func (r *Requester) IsDrained() bool {
	if !r.draining || r.drained || r.Done != r.next || r.packet != 0 {
		return false
	}
	r.drained = true
	return true
}

// Drain keeps requests that have not started from starting.
func (r *Requester) Drain() {
	if !r.draining {
		r.draining, r.drained = true, false
	}
}

// Resume lets requests start. Those that wait to be flushed do not.
func (r *Requester) Resume() {
	r.draining = false
	if int32(r.flushTo-r.next) > 0 {
		r.next = r.flushTo
	}
}

// Outcome is why a queue pair stopped sending.
type Outcome uint8

// Outcomes.
const (
	Idle    Outcome = iota // nothing to send, or it waits for an event of its own
	Blocked                // the window is closed
	Paused                 // its share is used up: others first
	Begins                 // a READ or an atomic is to be checked, or a local request executed, and begun
	Ready                  // a packet is to be sent
)

// Packet is a packet to be sent.
type Packet struct {
	Index  uint32 // of the request
	Work   *Work
	K, End uint32 // it is packet k of the request, or asks for packets k to end of a READ
	Asks   bool   // for an ACK
	mends  bool   // it was sent before
	cost   int    // of the window
}

// ToSend puts into p what is to be sent now, by a queue pair that may send quantum packets before others.
func (r *Requester) ToSend(p *Packet, quantum int) Outcome {
	if r.rnrAt != 0 {
		return Idle
	}
	if len(r.mends) > 0 {
		if *p = r.nextMend(); p.mends {
			if quantum == 0 {
				return Paused
			}
			return Ready
		}
	}
	for r.next != r.Tail {
		w := r.At(r.next)
		*p = Packet{Index: r.next, Work: w, K: r.packet, End: w.packets}
		switch {
		// until the peer is heard of
		case w.failure != verbs.Success, r.Reliable && r.silent >= silentProbes && r.nxt != r.una:
			return Idle
		case w.finished: // a local one, behind what is sent again
			r.skip()
			continue
		case w.started:
		case r.draining, r.Reliable && !r.mayStart(w):
			return Idle
		case w.IsLocal(), w.IsResponded():
			return Begins
		default:
			w.started = true
		}
		if w.IsResponded() {
			if p.K = r.missing(w); p.K == w.packets { // its answer has come meanwhile
				r.skip()
				continue
			}
			if w.Opcode == verbs.OpRead && !r.Flow.reads.admits(int(w.Length), 0) {
				return Blocked
			}
			p.Asks = true
		}
		if quantum == 0 {
			return Paused
		}
		if r.Reliable && !w.IsResponded() {
			window := &r.Flow.window
			p.cost = r.cost(w, p.K, p.K+1)
			if !window.admits(p.cost, r.gapAllowance(window.size)) {
				return Blocked
			}
			p.Asks = r.wantsAck(p.K, p.cost, quantum, window.size-window.inFlight-p.cost, window.size)
		}
		return Ready
	}
	return Idle
}

// outstandingPSNs is how many numbers a READ may take before others start behind it. From 2^23 on an answer could not
// be told from a stale one (IBTA 9.7.2); the margin is more than any window of SENDs and WRITEs.
const outstandingPSNs = 1<<23 - 1<<20

// mayStart tells whether the request at next may start as far as the requests before it are concerned.
func (r *Requester) mayStart(w *Work) bool {
	if w.Flags&verbs.Fence != 0 && r.outstanding > 0 {
		return false
	}
	ahead := (w.PSN - r.una) & wire.Mask24
	if w.IsResponded() {
		if r.outstanding >= r.Reads && r.Reads > 0 { // none allowed: the check of the request says so
			return false
		}
		if ahead > 0 {
			ahead += w.packets
		}
	}
	return ahead <= outstandingPSNs
}

// Begun notes how the check of a request has ended, and, where it is local, its execution.
func (r *Requester) Begun(w *Work, status verbs.Status) {
	if w.failure = status; status != verbs.Success {
		return
	}
	w.started = true
	if w.IsLocal() {
		w.finished = true
		r.skip()
	} else if w.IsResponded() {
		r.outstanding++
	}
}

// skip moves on from a request that has nothing more to send: a local one, or a READ whose answer has arrived.
func (r *Requester) skip() {
	w := r.At(r.next)
	r.next++
	r.packet = 0
	if w.packets > 0 && wire.PSNDiff(w.end(), r.nxt) > 0 {
		r.nxt = w.end()
	}
}

// cost is what packets from…to of a request count in the window.
func (r *Requester) cost(w *Work, from, to uint32) int {
	n := int(to-from) * (int(r.MTU) + packetOverhead)
	if to == w.packets {
		n -= int(w.packets*r.MTU - w.Length)
	}
	return n
}

const (
	// askEvery bounds what is sent without asking for an ACK: the peer's ACKs are the
	// clock by which a wide window is sent.
	askEvery = 64 << 10
	// awaitedPackets is the same in packets, for a request whose completion somebody waits for: a queue of small ones is
	// empty long before askEvery, and would wait for an ACK of them all.
	awaitedPackets = 32
	// LazyPackets are sent between two that ask, where nobody waits for completions.
	LazyPackets = 32
)

// wantsAck decides on AckReq for packet k of the request at next. The packet costs so much of the window,
// and room bytes are left behind it. It asks where nothing can follow now, and else at least every quarter
// of the window, or every eighth at the end of the queue pair's turn. A lazy request leaves asking to a
// later one; the probe asks if none comes.
func (r *Requester) wantsAck(k uint32, cost, left, room, window int) bool {
	w := r.At(r.next)
	r.unasked += cost
	follows := k+1 < w.packets
	if !follows && r.next+1 != r.Tail {
		n := r.At(r.next + 1)
		follows = n.Flags&verbs.Fence == 0 && n.packets > 0 && !n.IsResponded() && !r.draining
	}
	if w.Lazy && (r.nxt-r.askedPSN)&wire.Mask24 < LazyPackets && r.nxt == r.high && r.Flow.trip.smoothed != 0 {
		follows = true
	}
	awaited := k+1 == w.packets && w.Flags&verbs.Signaled != 0 && !w.Lazy &&
		(r.nxt-r.askedPSN)&wire.Mask24 >= awaitedPackets
	if follows && !awaited && 2*cost <= room && r.unasked < min(window/4, askEvery) {
		return false
	}
	if left == 1 && follows && !awaited && r.unasked < min(window/8, askEvery) {
		return false // others send in between, then this one goes on
	}
	r.unasked = 0
	return true
}

// Sent notes that a packet has left.
func (r *Requester) Sent(p *Packet, now tick.Time) {
	w := p.Work
	switch {
	case p.mends:
		x := &r.mends[0]
		x.from = (w.PSN + p.End) & wire.Mask24
		if x.probe {
			r.Count.Probes++
		} else {
			r.Count.ResentPackets++
			r.sample((x.from-1)&wire.Mask24, true, now)
		}
	case w.IsResponded():
		r.asked(w, p.K, now)
	case r.Reliable:
		r.sentData(p, now)
	default: // nobody answers
		if r.packet++; r.packet == w.packets {
			w.finished = true
			r.skip()
		}
	}
}

func (r *Requester) sentData(p *Packet, now tick.Time) {
	owed := wire.PSNDiff(r.askedPSN, r.una) >= 0 // an answer to what was sent before
	if p.Asks {
		r.askedPSN = r.nxt
		r.sample(r.nxt, false, now)
	}
	r.count(p.cost, 0)
	r.nxt = (r.nxt + 1) & wire.Mask24
	r.packet = p.K + 1
	if r.packet == p.Work.packets {
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
func (r *Requester) asked(w *Work, k uint32, now tick.Time) {
	r.unasked, r.packet = 0, 0
	if w.Opcode == verbs.OpRead {
		w.awaited = w.Length - k*r.MTU
		r.count(0, int(w.awaited))
	}
	r.sample((w.PSN+k)&wire.Mask24, false, now)
	r.nxt = w.end()
	r.next++
	r.advanceHigh()
	r.arm(now)
}

func (r *Requester) advanceHigh() {
	if wire.PSNDiff(r.nxt, r.high) > 0 {
		r.high = r.nxt
	}
}

// missing is the first packet of a READ or atomic that has not arrived.
func (r *Requester) missing(w *Work) (k uint32) {
	if d := wire.PSNDiff(r.una, w.PSN); d > 0 {
		k = min(uint32(d), w.packets)
	}
	for k < w.packets && r.has(w.PSN+k) {
		k++
	}
	return k
}

// find looks for the request that a PSN belongs to.
func (r *Requester) find(psn uint32) (uint32, *Work) {
	for i := r.Done; i != r.Tail; i++ {
		w := r.At(i)
		if w.packets > 0 && wire.PSNDiff(psn, w.end()) < 0 {
			if wire.PSNDiff(psn, w.PSN) < 0 {
				break
			}
			return i, w
		}
	}
	return 0, nil
}

// rewind makes psn the next to be sent: nothing from there on counts as being on the way.
func (r *Requester) rewind(psn uint32) {
	if wire.PSNDiff(r.nxt, psn) <= 0 {
		return
	}
	for i := r.Done; i != r.Tail; i++ {
		w := r.At(i)
		if w.packets == 0 || wire.PSNDiff(psn, w.end()) >= 0 {
			continue
		}
		if wire.PSNDiff(w.PSN, r.nxt) >= 0 {
			break
		}
		if w.IsResponded() {
			r.unask(w, w.awaited)
			continue
		}
		a, b := uint32(0), w.packets
		if wire.PSNDiff(psn, w.PSN) > 0 {
			a = (psn - w.PSN) & wire.Mask24
		}
		if wire.PSNDiff(r.nxt, w.end()) < 0 {
			b = (r.nxt - w.PSN) & wire.Mask24
		}
		r.count(-r.cost(w, a, b), 0)
	}
	r.Count.ResentPackets += uint64(wire.PSNDiff(r.nxt, psn))
	if wire.PSNDiff(psn, r.samplePSN) <= 0 {
		r.unsample()
	}
	r.edge, r.marked = psn, false
	r.mends = r.mends[:0]
	r.seek(psn)
}

// seek sets the position of the next packet.
func (r *Requester) seek(psn uint32) {
	r.nxt, r.packet, r.unasked = psn, 0, 0
	i := r.Done
	for ; i != r.Tail; i++ {
		w := r.At(i)
		if w.packets == 0 {
			if !w.finished {
				break
			}
			continue
		}
		if wire.PSNDiff(psn, w.end()) < 0 {
			if !w.IsResponded() {
				r.packet = (psn - w.PSN) & wire.Mask24
			}
			break
		}
	}
	r.next = i
}

// PacketsOf is how many packets carry a message of length bytes.
func PacketsOf(length, mtu uint32) uint32 {
	if length <= mtu || mtu == 0 {
		return 1
	}
	return (length + mtu - 1) / mtu
}
