package roce

import (
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/wire"
)

// recovery is what a requester does about silence (IBTA 9.7.6): a timer that spends a retry, the wait after an RNR NAK,
// and, besides the specification, a probe: after max(4 × smoothed round trip, 100 µs) without progress the oldest
// unacknowledged packet is sent again, which spends nothing. Deadlines are arguments and results; nobody sleeps here.
type recovery struct {
	timed   bool // in engine.timed
	probeAt verbs.Ticks
	timerAt verbs.Ticks
	rnrAt   verbs.Ticks // 0: not waiting

	left, rnrLeft uint8 // retries

	probes  uint8 // without progress: the interval doubles
	probing bool
	probed  uint32

	sampling  bool
	samplePSN uint32
	sampleAt  verbs.Ticks
	smoothed  verbs.Ticks // round trip; 0: not known

	gapKnown bool
	gap      uint32 // READ or atomic that was asked again
}

// timerStretch makes the timer as long as the specification allows (four times the nominal timeout, IBTA 9.7.6.1.3): the
// probe repairs losses, the timer only gives up, and a peer whose processor was taken away for a while is not dead.
const timerStretch = 4

const (
	shortestProbe = 100 * time.Microsecond
	firstProbe    = time.Millisecond // while the round trip is not known
	longestProbe  = 50 * time.Millisecond
)

func (r *recovery) refill(a *verbs.QueuePairAttributes) {
	r.left, r.rnrLeft = a.RetryCount, a.RNRRetry
	r.probes, r.probing = 0, false
}

// spend uses one retry and reports whether there was one.
func (r *recovery) spend() bool {
	if r.left == 0 {
		return false
	}
	r.left--
	return true
}

func (r *recovery) roundTrip() verbs.Ticks { return r.smoothed }

// sample starts timing a round trip by a packet that will be answered.
func (r *recovery) sample(psn uint32, now verbs.Ticks) {
	if !r.sampling {
		r.sampling, r.samplePSN, r.sampleAt = true, psn, now
	}
}

// unsample forgets a sample that a resend would falsify (Karn).
func (r *recovery) unsample() { r.sampling = false }

// onProgress is called when the oldest unacknowledged PSN moved.
func (r *requester) onProgress(q *queuePair, now verbs.Ticks) {
	if r.sampling && wire.PSNDiff(r.una, r.samplePSN) > 0 {
		r.sampling = false
		if d := now - r.sampleAt; r.smoothed == 0 {
			r.smoothed = d
		} else {
			r.smoothed += (d - r.smoothed) / 8
		}
	}
	r.left, r.rnrLeft, r.probes = q.attr.RetryCount, q.attr.RNRRetry, 0
	if r.una == r.high {
		r.probeAt, r.timerAt = never, never
		return
	}
	r.schedule(q, now)
}

// arm starts the clocks when something is sent and nothing was outstanding.
func (r *requester) arm(e *engine, q *queuePair, now verbs.Ticks) {
	if !r.timed {
		r.timed = true
		e.timed = append(e.timed, q)
	} else if r.probeAt != never {
		return
	}
	r.schedule(q, now)
}

func (r *requester) schedule(q *queuePair, now verbs.Ticks) {
	e := q.e
	r.probeAt = now + r.probeInterval(e)
	r.timerAt = never
	if q.attr.Timeout != 0 {
		r.timerAt = now + e.ackTimeout[q.attr.Timeout&31]
	}
	e.timer(min(r.probeAt, r.timerAt))
}

func (r *requester) probeInterval(e *engine) verbs.Ticks {
	d := e.firstProbe
	if r.smoothed != 0 {
		d = max(4*r.smoothed, e.shortestProbe)
	}
	return min(d<<min(r.probes, 16), e.longestProbe)
}

// onTick does what is due and returns the queue pair's next deadline.
func (q *queuePair) onTick(now verbs.Ticks) verbs.Ticks {
	r := &q.request
	if r.rnrAt != 0 {
		if now < r.rnrAt {
			return r.rnrAt
		}
		r.rnrAt = 0
		r.schedule(q, now)
		q.kick()
	}
	if r.una == r.high {
		r.probeAt, r.timerAt = never, never
		return never
	}
	if now >= r.timerAt {
		q.e.count.timeouts++
		if !r.spend() {
			q.e.count.retriesExceeded++
			q.fail(verbs.RetryExceeded)
			return never
		}
		q.path.window.onLoss(now, r.roundTrip())
		r.gapKnown = false
		q.rewind(r.una)
		r.schedule(q, now)
		q.kick()
	} else if now >= r.probeAt {
		q.probe(now)
		r.probes = min(r.probes+1, 16)
		r.probeAt = now + r.probeInterval(q.e)
	}
	return min(r.probeAt, r.timerAt)
}

// probe asks again for the fate of the oldest unacknowledged packet.
func (q *queuePair) probe(now verbs.Ticks) {
	s, r := &q.send, &q.request
	if r.nxt == r.una { // not in flight: it will be sent anyway
		q.kick()
		return
	}
	q.e.count.probes++
	r.unsample()
	for i := s.done; i != s.tail; i++ {
		w := s.at(i)
		if w.packets == 0 || wire.PSNDiff(r.una, w.psn+w.packets) >= 0 {
			continue
		}
		if w.isResponded() {
			r.gapKnown = false
			q.rewind(r.una)
			q.kick()
			return
		}
		next := s.next
		s.next = i // gather looks there
		alive := q.sendData(q.path, w, (r.una-w.psn)&wire.Mask24, true, now)
		if alive {
			s.next = next
		}
		r.unsample()
		r.probing, r.probed = true, r.una
		return
	}
}

// afterProbe looks at an ACK: where it covers the probe and nothing behind it, the rest was lost.
func (r *requester) afterProbe(q *queuePair, psn uint32, now verbs.Ticks) {
	if !r.probing || wire.PSNDiff(psn, r.probed) < 0 {
		return
	}
	r.probing = false
	if psn == r.probed && r.una != r.nxt && r.una == (psn+1)&wire.Mask24 {
		q.path.window.onLoss(now, r.roundTrip())
		q.rewind(r.una)
		q.kick()
	}
}

// timer makes sure that the engine looks at its clocks at a time.
func (e *engine) timer(at verbs.Ticks) {
	if at < e.nextTimer {
		e.nextTimer = at
	}
}

// runTimers gives every queue pair with something outstanding its tick.
func (e *engine) runTimers(now verbs.Ticks) {
	e.nextTimer = never
	for i := 0; i < len(e.timed); i++ {
		q := e.timed[i]
		next := q.onTick(now)
		if !q.request.timed {
			i-- // it failed and took itself off the list
			continue
		}
		if next == never && q.request.rnrAt == 0 {
			q.request.timed = false
			last := len(e.timed) - 1
			e.timed[i] = e.timed[last]
			e.timed = e.timed[:last]
			i--
			continue
		}
		e.timer(next)
	}
}

// untime takes a queue pair off the list of those with clocks.
func (e *engine) untime(q *queuePair) {
	if !q.request.timed {
		return
	}
	q.request.timed = false
	for i, other := range e.timed {
		if other == q {
			last := len(e.timed) - 1
			e.timed[i] = e.timed[last]
			e.timed = e.timed[:last]
			return
		}
	}
}
