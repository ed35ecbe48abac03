package roce

import (
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/wire"
	"github.com/gobw/gobw/verbs/tick"
)

// requester is the sending half of an RC queue pair: what was asked of the peer and not yet answered (IBTA 9.7.3). It is a
// value: it knows no socket, path or completion queue. Its methods take the time and say what to do; transmit.go does it.
type requester struct {
	*sendQueue
	requesterSetup

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

	arrivals
	recovery
}

// requesterSetup is what a queue pair's attributes say about its requester.
type requesterSetup struct {
	mtu                 uint32
	retries, rnrRetries uint8
	reads               int       // READs and atomics that may be outstanding
	timeout             tick.Time // 0: none
	keeps               bool      // the peer keeps what arrives behind a gap
}

// begin starts numbering at the transition to RTS.
func (r *requester) begin(psn uint32, setup requesterSetup, trip *roundTrip) {
	*r = requester{sendQueue: r.sendQueue, requesterSetup: setup, postPSN: psn, una: psn, nxt: psn, high: psn, reached: psn, askedPSN: (psn - 1) & wire.Mask24}
	r.trip, r.edge = trip, psn
	r.left, r.rnrLeft = setup.retries, setup.rnrRetries
	r.probeAt, r.timerAt = tick.Never, tick.Never
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

// start notes that a request has passed its checks.
func (r *requester) start(w *sendWork) {
	w.started = true
	if w.isResponded() {
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
	if w.lazy && (r.nxt-r.askedPSN)&wire.Mask24 < lazyPackets && r.nxt == r.high && r.trip.smoothed != 0 {
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

// sent notes that packet k of the request at next has left.
func (r *requester) sent(k uint32, cost int, asks bool, now tick.Time) {
	w := r.at(r.next)
	owed := wire.PSNDiff(r.askedPSN, r.una) >= 0 // an answer to what was sent before
	if asks {
		r.askedPSN = r.nxt
		r.sample(r.nxt, now)
	}
	r.inFlight += cost
	r.nxt = (r.nxt + 1) & wire.Mask24
	r.packet = k + 1
	if r.packet == w.packets {
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

// asked notes that the request at next, a READ or an atomic, has left for its packets from k on.
func (r *requester) asked(k uint32, now tick.Time) {
	w := r.at(r.next)
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
func (r *requester) rewind(psn uint32) (resent int) {
	if wire.PSNDiff(r.nxt, psn) <= 0 {
		return 0
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
	resent = int(wire.PSNDiff(r.nxt, psn))
	if wire.PSNDiff(psn, r.samplePSN) <= 0 {
		r.unsample()
	}
	r.edge, r.marked = psn, false
	r.mends = r.mends[:0]
	r.seek(psn)
	return resent
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
