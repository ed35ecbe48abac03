package roce

import (
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/wire"
	"github.com/gobw/gobw/verbs/tick"
)

// recovery is what a requester does about silence (IBTA 9.7.6): a timer that spends a retry, the wait after an RNR NAK,
// and, besides the specification, a probe: after max(4 × smoothed round trip, 100 µs) without progress a packet is sent
// again, which spends no retry. Deadlines are arguments and results; nobody sleeps here.
type recovery struct {
	probeAt tick.Time
	timerAt tick.Time
	rnrAt   tick.Time // 0: not waiting

	left, rnrLeft uint8 // retries

	probes  uint8 // since a round trip was confirmed: the interval doubles with each
	silent  uint8 // probes since the latest progress
	probing bool  // an answer to a probe is awaited
	probed  uint32
	lastAt  tick.Time // when the latest probe was due
	probeTo uint32    // next to be sent when the latest probe left

	suspects int    // packets that probes have sent again and whose second answers have not come
	suspect  uint32 // next to be sent when the latest probe was answered: second answers come before its own, or never

	sampling  bool
	resampled bool // the sample is of a packet that was sent again because the peer missed it
	samplePSN uint32
	sampleAt  tick.Time

	gapKnown bool
	gap      uint32 // PSN of the answer that was missing last

	nak   uint32 // PSN of the latest sequence NAK
	nakAt tick.Time
}

// timerStretch makes the timer as long as the specification allows (four times the nominal timeout, IBTA 9.7.6.1.3): the
// probe repairs losses, the timer only gives up, and a peer whose processor was taken away for a while is not dead.
const timerStretch = 4

const (
	shortestProbe = 100 * time.Microsecond
	firstProbe    = time.Millisecond // while the round trip is not known
	// firstReadProbe is longer than any round trip of a usual network: a READ asked for twice is answered twice.
	firstReadProbe = 250 * time.Millisecond
	longestProbe   = 50 * time.Millisecond
	// silentProbes without an answer make a peer one that may be gone: what is in flight to it no longer counts in the path's window.
	silentProbes = 2
)

// spend uses one retry and reports whether there was one.
func (r *requester) spend() bool {
	if r.left == 0 {
		r.count.retriesExceeded++
		r.fail(verbs.RetryExceeded)
		return false
	}
	r.left--
	return true
}

// sample starts timing a round trip by a packet that will be answered.
func (r *recovery) sample(psn uint32, now tick.Time) {
	if !r.sampling {
		r.sampling, r.resampled, r.samplePSN, r.sampleAt = true, false, psn, now
	}
}

// resample times the round trip of a packet that the peer has missed and is sent again: what follows waits behind it, and says
// nothing of the path.
func (r *recovery) resample(psn uint32, now tick.Time) {
	r.sampling, r.resampled, r.samplePSN, r.sampleAt = true, true, psn, now
}

// unsample forgets a sample that a resend would falsify (Karn and Partridge 1987).
func (r *recovery) unsample() { r.sampling = false }

// onProgress is called when the oldest unacknowledged PSN moved. The probe's interval, which doubles with each probe, becomes short
// again once a round trip is measured, or an answer comes within two round trips of the latest probe. Any other answer proves
// nothing: the path may have become longer than the interval.
func (r *requester) onProgress(now tick.Time) {
	took := now - r.lastAt
	probed := r.silent > 0 && took <= 2*r.flow.trip.smoothed // the latest probe made the progress
	if r.sampling && wire.PSNDiff(r.una, r.samplePSN) > 0 {
		d, low := now-r.sampleAt, r.flow.trip.standing()
		r.sampling, r.probes = false, 0
		waited := probed && took >= low     // behind a gap that the probe has closed
		overtaken := r.resampled && d < low // the packet was late and not lost: this answers its first copy
		if !waited && !overtaken {
			r.flow.trip.observe(d)
		}
	} else if r.probes > 0 && took <= 2*r.flow.trip.smoothed {
		r.probes = 0
	}
	r.left, r.rnrLeft, r.silent = r.retries, r.rnrRetries, 0
	r.probeAt, r.timerAt = tick.Never, tick.Never
	if r.una != r.high {
		r.schedule(now)
	}
}

// arm starts the clocks when something is sent and nothing was outstanding.
func (r *requester) arm(now tick.Time) {
	if r.probeAt == tick.Never {
		r.schedule(now)
	}
}

func (r *requester) schedule(now tick.Time) {
	r.probeAt = now + r.probeInterval()
	r.timerAt = tick.Never
	if r.timeout != 0 {
		r.timerAt = now + max(r.timeout, 4*r.flow.trip.smoothed)
	}
}

// deadline is when onTick wants to be called.
func (r *requester) deadline() tick.Time {
	at := min(r.probeAt, r.timerAt)
	if r.rnrAt != 0 {
		at = r.rnrAt
	}
	if r.isRefused() {
		at = min(at, r.believedAt)
	}
	return at
}

func (r *requester) probeInterval() tick.Time {
	t := &r.flow.trip
	d := t.firstProbe
	if t.smoothed != 0 {
		d = max(4*t.smoothed, t.shortestProbe)
	} else if w := r.at(r.done); r.done != r.next && w.isResponded() {
		return max(t.firstReadProbe, d<<min(r.probes, 16))
	}
	most := t.longestProbe
	if r.timeout != 0 {
		most = min(most, r.timeout/2) // before the timer, which spends a retry
	}
	return min(d<<min(r.probes, 16), max(most, d))
}

// onTick does what is due.
func (r *requester) onTick(now tick.Time) {
	defer r.recharge()
	if r.isRefused() && now >= r.believedAt {
		r.fatal = r.refusal
		return
	}
	if r.rnrAt != 0 {
		if now < r.rnrAt {
			return
		}
		r.rnrAt = 0
		r.schedule(now)
	}
	if r.una == r.high {
		r.probeAt, r.timerAt = tick.Never, tick.Never
		return
	}
	switch {
	case now >= r.timerAt:
		r.count.timeouts++
		if !r.spend() {
			return
		}
		r.flow.onLoss(now)
		r.unsample() // what follows waits behind the gap: its round trip is not the path's
		r.probe(now)
		r.schedule(now)
	case now >= r.probeAt:
		r.probe(now)
		r.probes = min(r.probes+1, 16)
		r.silent = min(r.silent+1, 16)
		r.probeAt = now + r.probeInterval()
	}
}

// probe sends the oldest packet again, and the newest: a peer that misses something between them says so by a NAK, and what waits in
// the socket of a busy peer is not sent twice. Of READs and atomics, and where a NAK or a probe has said it before, it is
// the oldest alone. A NAK where no retry is left would be fatal.
func (r *requester) probe(now tick.Time) {
	r.gapKnown = false
	r.lastAt = now
	if r.nxt == r.una { // not in flight: it will be sent anyway
		return
	}
	newest := (r.nxt - 1) & wire.Mask24
	again := r.silent > 0 || r.left < max(r.retries, 1) || r.nakAt != 0 && r.nak == r.una
	unseen := r.unseenRead()
	r.probing, r.probed, r.probeTo = true, r.una, r.nxt
	switch {
	case unseen != nil && again:
		r.sendAgain(span{from: r.una, to: unseen.end(), probe: true})
	case unseen != nil:
		r.probed = newest
		r.probeOf(newest)
	default:
		r.probeOf(r.una)
		if newest != r.una && !again && !r.answersWith(r.una) && !r.answersWith(newest) {
			r.probeOf(newest)
		}
	}
}

// unseenRead is the oldest request, where it is a READ of several packets that the peer may not have seen; else nil. Whoever asks for its
// first packet alone makes a peer that lacks it remember two READs, and forget another whose answer may be lost. The newest packet
// shows what the peer lacks: it answers with a NAK, or everything before was answered. Peers that keep nothing behind a gap forget
// nothing that is awaited; the kernel's rxe would never again answer what is before the newest packet of a READ.
func (r *requester) unseenRead() *sendWork {
	_, w := r.find(r.una)
	if !r.keeps || w == nil || w.opcode != verbs.OpRead || w.packets == 1 || wire.PSNDiff(r.reached, w.psn) > 0 {
		return nil
	}
	return w
}

func (r *requester) probeOf(psn uint32) {
	if r.keeps || wire.PSNDiff(psn, r.askedPSN) <= 0 || r.answersWith(psn) { // others answer twice only what they were asked to answer
		r.suspects++
	}
	r.sendAgain(span{from: psn, to: (psn + 1) & wire.Mask24, probe: true})
}

// answersWith tells whether data answer the packet: it is of a READ or an atomic.
func (r *requester) answersWith(psn uint32) bool {
	_, w := r.find(psn)
	return w == nil || w.isResponded()
}

// probeAnswered notes a response to psn, and counts which of the packets that probes have sent again the peer had lacked. Those that
// it had it answers twice, before it answers anything that was sent later.
func (r *requester) probeAnswered(psn uint32) {
	switch {
	case r.suspects == 0:
	case r.probing && wire.PSNDiff(r.una, r.probed) > 0:
		r.probing, r.suspect = false, r.nxt
	case !r.probing && wire.PSNDiff(psn, r.suspect) >= 0:
		r.count.resentPackets += uint64(r.suspects)
		r.suspects = 0
	}
}

// onRepeated notes a response which shows that the peer has received a packet twice.
func (r *requester) onRepeated() { r.suspects = max(r.suspects-1, 0) }
