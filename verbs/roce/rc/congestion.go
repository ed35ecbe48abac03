package rc

import (
	"time"

	"github.com/gobw/gobw/verbs/tick"
)

// Flow is what the queue pairs of a path share: how long it is, and how much may be under way.
type Flow struct {
	trip   roundTrip
	window window // of what we send
	reads  window // of what we ask for
}

// NewFlow makes that of a path to a peer of which nothing is known; buffer is what our socket's receive buffer holds.
func NewFlow(c tick.Rate, buffer int) Flow {
	return Flow{
		trip: newRoundTrip(c), window: window{size: 192 << 10, maximum: defaultWindow, backlog: defaultWindow},
		reads: newReadWindow(buffer),
	}
}

// Widen opens the window's limits to what a peer of ours says that it takes.
func (f *Flow) Widen(peer int) {
	w := &f.window
	w.maximum = max(min(peer, maxWindow), minWindow)
	w.backlog = max(min(peer/2, defaultWindow), minWindow)
	w.size = minWindow // doubles from here: the first round trips are measured without a queue of ours
}

// add counts bytes that are on the way, and asked for.
func (f *Flow) add(sent, asked int) {
	f.window.inFlight += sent
	f.reads.inFlight += asked
}

// onLoss notes that the network has lost something of what was sent or asked for.
func (f *Flow) onLoss(now tick.Time) { f.window.onLoss(now, f.trip.smoothed) }

// roundTrip is what a path's queue pairs have measured together.
type roundTrip struct {
	smoothed tick.Time // 0: not known
	base     tick.Time // the shortest: without queues
	latest   [4]tick.Time
	n        uint8 // of latest
	settling uint8 // samples until the base of a path that has changed is believed

	clock                                                   tick.Rate
	firstProbe, firstReadProbe, shortestProbe, longestProbe tick.Time
	slack                                                   tick.Time
}

// A round trip is clamped to outlier times the previous sample: a much longer one was measured while an end had no
// processor, unless the next is as long.
const outlier = 16

// pathSlack is by how much a queue of our own making may lengthen a round trip.
const pathSlack = time.Millisecond

func newRoundTrip(c tick.Rate) roundTrip {
	return roundTrip{
		clock: c, firstProbe: c.Ticks(FirstProbe), firstReadProbe: c.Ticks(firstReadProbe),
		shortestProbe: c.Ticks(ShortestProbe),
		longestProbe:  c.Ticks(longestProbe), slack: c.Ticks(pathSlack),
	}
}

// observe takes a measured round trip. Where several in a row are much longer than
// the shortest ever, the path has changed.
func (t *roundTrip) observe(d tick.Time) {
	d = max(d, 1)
	if t.smoothed == 0 {
		t.smoothed = d
	} else {
		t.smoothed += (min(d, outlier*t.latest[(t.n-1)%4]) - t.smoothed) / 8
	}
	t.latest[t.n%4] = d
	t.n++
	if t.n == 8 {
		t.n = 4
	}
	if t.base == 0 || d < t.base {
		t.base = d
	}
	low := t.standing()
	if t.n >= 4 && low > 4*t.base+t.slack {
		t.settling = 6 // one of them may have been measured while it changed
	}
	if t.settling > 0 {
		t.settling--
		t.base = low
		t.smoothed = max(t.smoothed, low)
	}
}

// standing is the shortest of the latest round trips: what the queues add at least.
func (t *roundTrip) standing() tick.Time {
	low := tick.Never
	for _, d := range t.latest[:min(t.n, 4)] {
		low = min(low, d)
	}
	return low
}

const (
	// defaultWindow is the most that is in flight to a peer of which nothing is known.
	defaultWindow = 256 << 10
	minWindow     = 64 << 10 // safe for any receive buffer
	maxWindow     = 16 << 20
	// packetOverhead is what a packet counts in the window besides its payload: a peer that does not coalesce pays for
	// each with the kernel's bookkeeping.
	packetOverhead = 256
)

// nearby is a round trip that is not distinguished from none: below it all paths share a bottleneck alike.
const nearby = 200 * time.Microsecond

// window bounds what is in flight to a peer's address, or asked of it. Towards a peer that says what it can take it
// follows the delay, as FAST TCP does (Wei, Jin, Low and Hegde 2006): it grows while the round trip stays what it was
// without queues, and settles where backlog bytes of ours wait in the path, so that senders that share a bottleneck
// share it alike and lose nothing. A loss closes it by an eighth, once per round trip.
type window struct {
	size, maximum int
	backlog       int // bytes of ours that may wait in the path
	inFlight      int
	acked         int       // since the last adjustment
	limited       bool      // it held something back since
	lossy         bool      // something was lost since
	lastLoss      tick.Time // at most one closing per round trip
}

// newReadWindow makes the window of what is asked for: a receive buffer of ours is what it must not overrun.
func newReadWindow(buffer int) window {
	if buffer == 0 {
		buffer = 2 << 20
	}
	w := window{backlog: max(min(buffer/4, 1<<20), minWindow), maximum: max(min(buffer/2, maxWindow), minWindow)}
	w.size = w.backlog
	return w
}

// admits tells whether a packet may leave: always when nothing is in flight. Up to allowance
// bytes of what is in flight do not count.
func (w *window) admits(cost, allowance int) bool {
	if w.inFlight <= 0 || w.inFlight-allowance+cost <= w.size {
		return true
	}
	w.limited = true
	return false
}

// onAcked takes bytes that arrived, and adjusts the window once it was used in full: after about a round trip.
func (w *window) onAcked(bytes int, t *roundTrip) {
	w.acked += bytes
	if w.acked < w.size {
		return
	}
	w.acked = 0
	if w.limited {
		w.adjust(t)
	}
	w.limited, w.lossy = false, false
}

func (w *window) adjust(t *roundTrip) {
	waiting := w.size // of ours, in queues
	if base := t.base - t.clock.Ticks(nearby); base > 0 && t.n > 0 {
		waiting = int(float64(w.size) * (1 - min(float64(base)/float64(t.standing()), 1)))
	}
	step := (w.backlog + w.size/16 - waiting) / 2
	switch {
	case w.lossy:
		step = min(step, w.size/16)
	case waiting < w.backlog/2:
		step = max(step, w.size) // far from full: double
	}
	w.size = min(max(w.size+min(step, w.size), minWindow), w.maximum)
}

func (w *window) onLoss(now, roundTrip tick.Time) {
	w.lossy = true
	if since := now - w.lastLoss; since > -roundTrip && since < roundTrip { // far below 0 the cycle counter has begun anew
		return
	}
	w.lastLoss = now
	w.acked = 0
	w.size = max(w.size-w.size/8, minWindow)
}
