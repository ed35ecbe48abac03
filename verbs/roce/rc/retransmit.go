package rc

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

	suspects int // packets that probes have sent again and whose second answers have not come
	// suspect is the next PSN to be sent at the time when the latest probe was answered. A second answer to a packet that
	// was not lost comes before the answer to suspect, or never.
	suspect uint32

	sampling  bool
	resampled bool // the sample is of a packet that was sent again because the peer missed it
	samplePSN uint32
	sampleAt  tick.Time

	gapKnown bool
	gap      uint32 // PSN of the answer that was missing last

	nak   uint32 // PSN of the latest sequence NAK
	nakAt tick.Time
}

// TimerStretch makes the timer as long as the specification allows (four times the nominal timeout, IBTA 9.7.6.1.3):
// the probe repairs losses, the timer only gives up, and a peer whose processor was taken away for a while is not dead.
const TimerStretch = 4

// How long a requester waits without progress before it probes.
const (
	ShortestProbe = 100 * time.Microsecond
	FirstProbe    = time.Millisecond // while the round trip is not known
	// firstReadProbe is longer than any round trip of a usual network: a READ asked for twice is answered twice.
	firstReadProbe = 250 * time.Millisecond
	longestProbe   = 50 * time.Millisecond
	// silentProbes without an answer make a peer one that may be gone: what is in flight to it
	// no longer counts in the path's window.
	silentProbes = 2
)

// spend uses one retry and reports whether there was one.
func (r *Requester) spend() bool {
	if r.left == 0 {
		r.Count.RetriesExceeded++
		r.fail(verbs.RetryExceeded)
		return false
	}
	r.left--
	return true
}

// sample starts timing a round trip by a packet that will be answered. One that the peer has missed and is sent again
// comes before another: what follows waits behind it, and says nothing of the path.
func (r *recovery) sample(psn uint32, again bool, now tick.Time) {
	if again || !r.sampling {
		r.sampling, r.resampled, r.samplePSN, r.sampleAt = true, again, psn, now
	}
}

// unsample forgets a sample that a resend would falsify (Karn and Partridge 1987).
func (r *recovery) unsample() { r.sampling = false }

// onProgress is called when the oldest unacknowledged PSN moved. The probe's interval, which doubles with each probe,
// becomes short again once a round trip is measured, or an answer comes within two round trips of the latest probe. Any
// other answer proves nothing: the path may have become longer than the interval.
func (r *Requester) onProgress(now tick.Time) {
	took := now - r.lastAt
	probed := r.silent > 0 && took <= 2*r.Flow.trip.smoothed // the latest probe made the progress
	if r.sampling && wire.PSNDiff(r.una, r.samplePSN) > 0 {
		d, low := now-r.sampleAt, r.Flow.trip.standing()
		r.sampling, r.probes = false, 0
		waited := probed && took >= low     // behind a gap that the probe has closed
		overtaken := r.resampled && d < low // the packet was late and not lost: this answers its first copy
		if !waited && !overtaken {
			r.Flow.trip.observe(d)
		}
	} else if r.probes > 0 && took <= 2*r.Flow.trip.smoothed {
		r.probes = 0
	}
	r.left, r.rnrLeft = r.Retries, r.RNRRetries
	r.hear()
	r.probeAt, r.timerAt = tick.Never, tick.Never
	if r.una != r.high {
		r.schedule(now)
	}
}

// arm starts the clocks when something is sent and nothing was outstanding.
func (r *Requester) arm(now tick.Time) {
	if r.probeAt == tick.Never {
		r.schedule(now)
	}
}

func (r *Requester) schedule(now tick.Time) {
	r.probeAt = now + r.probeInterval()
	r.timerAt = tick.Never
	if r.Timeout != 0 {
		r.timerAt = now + max(r.Timeout, 4*r.Flow.trip.smoothed)
	}
}

// Deadline is when OnTick wants to be called.
func (r *Requester) Deadline() tick.Time {
	at := min(r.probeAt, r.timerAt)
	if r.rnrAt != 0 {
		at = r.rnrAt
	}
	return at
}

// RestartClocks starts the clocks that run anew, after the cycle counter has gone back.
func (r *Requester) RestartClocks(now tick.Time) {
	r.unsample()
	r.nakAt, r.lastAt = 0, 0
	if r.probeAt != tick.Never {
		r.schedule(now)
	}
	if r.rnrAt != 0 {
		r.rnrAt = now
	}
}

func (r *Requester) probeInterval() tick.Time {
	t := &r.Flow.trip
	d := t.firstProbe
	if t.smoothed != 0 {
		d = max(4*t.smoothed, t.shortestProbe)
	} else if w := r.At(r.Done); r.Done != r.next && w.IsResponded() {
		return max(t.firstReadProbe, d<<min(r.probes, 16))
	}
	most := t.longestProbe
	if r.Timeout != 0 {
		most = min(most, r.Timeout/2) // before the timer, which spends a retry
	}
	return min(d<<min(r.probes, 16), max(most, d))
}

// OnTick does what is due.
func (r *Requester) OnTick(now tick.Time) {
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
		r.Count.Timeouts++
		if !r.spend() {
			return
		}
		r.Flow.onLoss(now)
		r.unsample() // what follows waits behind the gap: its round trip is not the path's
		r.probe(now)
		r.schedule(now)
	case now >= r.probeAt:
		r.probe(now)
		r.probes = min(r.probes+1, 16)
		if r.silent++; r.silent == silentProbes {
			r.Flow.add(-r.inFlight, -r.awaited)
		}
		r.silent = min(r.silent, 16)
		r.probeAt = now + r.probeInterval()
	}
}

// probe sends the oldest packet again, and the newest: a peer that misses something between them says so by a NAK,
// and what waits in the socket of a busy peer is not sent twice. It sends the oldest alone in three cases: the
// packets are READs or atomics, the peer has already named the gap by a NAK, or an earlier probe got no answer. With
// no retry left a NAK would end the queue pair.
func (r *Requester) probe(now tick.Time) {
	r.gapKnown = false
	r.lastAt = now
	if r.nxt == r.una { // not in flight: it will be sent anyway
		return
	}
	newest := (r.nxt - 1) & wire.Mask24
	again := r.silent > 0 || r.left < max(r.Retries, 1) || r.nakAt != 0 && r.nak == r.una
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

// unseenRead returns the oldest request if it is a READ of several packets that the peer may not have seen; else nil.
// Such a READ is not probed by its first packet alone. A peer that lacks the READ would take the probe for a READ of
// its own; it remembers a fixed number of READs, and would forget another one whose answer may be lost. The newest
// packet is sent instead: the peer answers it with a NAK, or it has answered everything before. This is for peers
// that keep packets behind a gap. Other peers forget nothing that is awaited, and rxe would never again answer the
// packets before the newest one of a READ.
func (r *Requester) unseenRead() *Work {
	_, w := r.find(r.una)
	if !r.Keeps || w == nil || w.Opcode != verbs.OpRead || w.packets == 1 || wire.PSNDiff(r.reached, w.PSN) > 0 {
		return nil
	}
	return w
}

func (r *Requester) probeOf(psn uint32) {
	// others answer twice only what they were asked to answer
	if r.Keeps || wire.PSNDiff(psn, r.askedPSN) <= 0 || r.answersWith(psn) {
		r.suspects++
	}
	r.sendAgain(span{from: psn, to: (psn + 1) & wire.Mask24, probe: true})
}

// answersWith tells whether data answer the packet: it is of a READ or an atomic.
func (r *Requester) answersWith(psn uint32) bool {
	_, w := r.find(psn)
	return w == nil || w.IsResponded()
}

// probeAnswered notes a response to psn, and counts which of the packets that probes have sent again the peer had
// lacked. Those that it had it answers twice, before it answers anything that was sent later.
func (r *Requester) probeAnswered(psn uint32) {
	switch {
	case r.suspects == 0:
	case r.probing && wire.PSNDiff(r.una, r.probed) > 0:
		r.probing, r.suspect = false, r.nxt
	case !r.probing && wire.PSNDiff(psn, r.suspect) >= 0:
		r.Count.ResentPackets += uint64(r.suspects)
		r.suspects = 0
	}
}

// onRepeated notes a response which shows that the peer has received a packet twice.
func (r *Requester) onRepeated() { r.suspects = max(r.suspects-1, 0) }
