package rc

import (
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/wire"
	"github.com/gobw/gobw/verbs/tick"
)

// The completer is the requester's receiving side: what ACKs, NAKs and answers mean
// for what was sent (IBTA 9.7.5, 9.7.7).

// Owns tells whether a PSN in a response is of what is outstanding: others were never sent, or are stale.
func (r *Requester) Owns(psn uint32) bool {
	if wire.PSNDiff(psn, r.high) < 0 && wire.PSNDiff(psn, r.una) >= 0 {
		return true
	}
	if wire.PSNDiff(psn, r.una) < 0 {
		r.onRepeated()
	}
	r.Count.StrayResponses++
	return false
}

// OnAck handles ACK, RNR NAK and NAK of a PSN that is outstanding.
func (r *Requester) OnAck(psn uint32, s wire.Syndrome, now tick.Time) {
	next := (psn + 1) & wire.Mask24
	switch s.Class() {
	case wire.ClassACK:
		r.advance(next, now)
		r.imply(next, now)
		if s == syndromeRepeated && r.Keeps { // other answers to copies may follow
			r.onRepeated()
		} else {
			r.probeAnswered(psn)
		}
	case wire.ClassRNR:
		r.advance(psn, now)
		if r.una != psn {
			r.imply(psn, now)
			return
		}
		if r.rnrAt != 0 {
			return // a copy: nothing was sent since
		}
		r.Count.RNRNAKsReceived++
		r.left = r.Retries // the peer is there: timeouts in a long wait for a receive do not add up
		r.hear()
		if r.RNRRetries != 7 {
			if r.rnrLeft == 0 {
				r.fail(verbs.RNRRetryExceeded)
				return
			}
			r.rnrLeft--
		}
		r.rewind(psn)
		r.rnrAt = now + r.Flow.trip.clock.Ticks(s.RNRTimer())
	case wire.ClassNAK:
		if s == wire.NAKSequenceError {
			r.onSequenceError(psn, now)
			return
		}
		r.refusal, r.refused = nakStatus(s), psn
		// the NAK is not of the READ whose answer was lost: that one is asked for again, as rxe does
		if r.advance(psn, now); r.una != psn {
			r.imply(psn, now)
		}
	case wire.ClassReserved:
	}
}

// nakStatus is how a request ends that the peer refuses.
func nakStatus(s wire.Syndrome) verbs.Status {
	switch s {
	case wire.NAKInvalidRequest:
		return verbs.RemoteInvalidRequestError
	case wire.NAKRemoteAccessError:
		return verbs.RemoteAccessError
	case wire.NAKRemoteOperational:
		return verbs.RemoteOperationError
	default:
		return verbs.BadResponseError
	}
}

// isRefused tells whether the oldest request is one that the peer refused.
func (r *Requester) isRefused() bool { return r.refusal != verbs.Success && r.una == r.refused }

// onSequenceError goes back to the packet the peer waits for.
func (r *Requester) onSequenceError(psn uint32, now tick.Time) {
	if r.rnrAt != 0 {
		return // the RNR wait resends from there anyway
	}
	r.Count.SequenceNAKsReceived++
	probed := r.probing && wire.PSNDiff(r.probeTo, psn) > 0
	r.probing, r.suspects = false, 0
	progressed := psn != r.una
	r.advance(psn, now)
	behind := r.una != psn
	if behind { // a READ before it has not been answered
		if r.imply(psn, now); !r.Keeps {
			return
		}
	} else if !progressed {
		if r.nakAt != 0 && r.nak == psn && now-r.nakAt < r.Flow.trip.smoothed {
			return // a copy: what was sent again cannot have been seen
		}
		if !r.spend() {
			return
		}
	}
	r.Flow.onLoss(now)
	adjacent := r.nakAt != 0 && psn == (r.nak+1)&wire.Mask24
	r.nak, r.nakAt = psn, now
	_, w := r.find(psn)
	switch {
	// the peer tells of a gap once: nothing behind this one came before the probe
	case probed && r.Keeps && w != nil && w.IsResponded():
		r.edge = psn
		r.expect(r.probeTo)
	case r.Keeps && w != nil && (behind || !adjacent):
		x := span{from: psn, to: (psn + 1) & wire.Mask24}
		if w.IsResponded() {
			x.to = w.end()
		}
		r.sendAgain(x)
	default:
		r.rewind(psn)
	}
}

// imply takes what a response says about answers before it: those that are not here were lost.
func (r *Requester) imply(to uint32, now tick.Time) {
	switch {
	case r.Keeps:
		if !r.expect(to) {
			return
		}
	case wire.PSNDiff(to, r.una) <= 0, r.gapKnown && r.gap == r.una:
		return
	default:
		r.gapKnown, r.gap = true, r.una
		r.rewind(r.una)
	}
	r.Count.ImpliedNAKs++
	r.Flow.onLoss(now)
}

// advance takes everything before to as executed by the peer, and moves on as far as answers to READs are here.
func (r *Requester) advance(to uint32, now tick.Time) {
	if wire.PSNDiff(to, r.reached) > 0 {
		r.reached = to
	}
	from, acked := r.una, 0
	for i := r.Done; i != r.Tail; i++ {
		w := r.At(i)
		end := w.end()
		if w.packets == 0 || wire.PSNDiff(r.una, end) >= 0 {
			continue
		}
		if w.IsResponded() {
			for r.una != end && r.take(r.una) {
				r.una = (r.una + 1) & wire.Mask24
			}
			if r.una != end {
				break
			}
			r.answered(w)
			continue
		}
		stop := end
		if wire.PSNDiff(r.reached, end) < 0 {
			stop = r.reached
		}
		n := wire.PSNDiff(stop, r.una)
		if n <= 0 {
			break
		}
		if flown := wire.PSNDiff(r.nxt, r.una); flown > 0 { // not rewound: still in flight
			a := (r.una - w.PSN) & wire.Mask24
			bytes := r.cost(w, a, a+uint32(min(flown, n)))
			r.count(-bytes, 0)
			acked += bytes
		}
		if r.una = stop; stop != end {
			break
		}
	}
	if r.una == from {
		return
	}
	r.onProgress(now)
	if acked > 0 {
		r.Flow.window.onAcked(acked, &r.Flow.trip)
	}
	if wire.PSNDiff(r.una, r.nxt) > 0 { // acknowledged although it was to be sent again
		r.seek(r.una)
	}
	if wire.PSNDiff(r.una, r.edge) > 0 {
		r.edge = r.una
	}
}

// answered notes that a READ or atomic has all its data: another may start.
func (r *Requester) answered(w *Work) {
	r.outstanding--
	r.unask(w, w.awaited)
}

// Place looks for the request that an answer of n bytes is for, and its place there; it is not wanted where it is here
// already, or nobody asked. The answer acknowledges what came before.
func (r *Requester) Place(psn uint32, n int, read bool, now tick.Time) (index, offset uint32, wanted bool) {
	if wire.PSNDiff(psn, r.una) >= keptPSNs || r.has(psn) {
		return 0, 0, false
	}
	index, w := r.find(psn)
	if w == nil || !w.IsResponded() || !w.started {
		return 0, 0, false
	}
	if psn != r.una {
		r.advance(psn, now)
		r.imply(psn, now)
		if psn != r.una && !r.Keeps {
			return 0, 0, false
		}
	}
	offset = ((psn - w.PSN) & wire.Mask24) * r.MTU
	if read != (w.Opcode == verbs.OpRead) || read && uint32(n) != min(r.MTU, w.Length-offset) {
		if psn == r.una {
			r.fail(verbs.BadResponseError)
		}
		return 0, 0, false
	}
	return index, offset, true
}

// Arrived notes that the answer of a PSN, n bytes for request index, is in its place. ends is that it was the
// last one of a READ as the peer sees it.
func (r *Requester) Arrived(index, psn uint32, n int, ends bool, now tick.Time) {
	w := r.At(index)
	r.unask(w, min(uint32(n), w.awaited))
	next := (psn + 1) & wire.Mask24
	oldest := psn == r.una
	if oldest {
		r.una = next
		if wire.PSNDiff(next, r.reached) > 0 {
			r.reached = next
		}
		if next == w.end() {
			r.answered(w)
		}
		r.onProgress(now)
		r.advance(next, now)
		if wire.PSNDiff(r.una, r.nxt) > 0 {
			r.seek(r.una)
		}
	} else {
		r.keep(psn)
	}
	if wire.PSNDiff(next, r.edge) > 0 {
		r.edge = next
	}
	if ends && next != w.end() && r.probing && psn == r.probed && oldest { // the answer to a probe
		r.probing, r.suspects = false, 0
		r.Count.ResentPackets++
		r.loseAsked(now)
	} else {
		r.probeAnswered(psn)
	}
	if r.marked && wire.PSNDiff(psn, r.mark) >= 0 {
		if r.askAgain(); len(r.mends) > 0 {
			r.Flow.onLoss(now)
		}
	}
	if n > 0 {
		r.Flow.reads.onAcked(n, &r.Flow.trip)
	}
}

// loseAsked takes as lost what was asked before the latest probe and is not here: peers answer in order.
func (r *Requester) loseAsked(now tick.Time) {
	if wire.PSNDiff(r.probeTo, r.una) <= 0 {
		return
	}
	r.Flow.onLoss(now)
	if r.Keeps {
		r.edge = r.una
		r.expect(r.probeTo)
	} else {
		r.rewind(r.una)
	}
}
