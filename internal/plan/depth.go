package plan

import (
	"math"
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// Values in force where a spec says nothing; they are perftest's.
const (
	defaultTxDepth   = 128
	defaultRxDepth   = 512
	maxDatagramDepth = 16000 // receives that UC and UD post by default, at most
	defaultCQMod     = 100

	softwareLatencyDepth = 64
	smallForModeration   = 8192 // above this size every request is signaled
)

// fillDepths chooses what the spec left open of its send queues.
func (s *Settled) fillDepths() {
	p := &s.Spec
	p.PostList = p.batch()
	if s.Point != nil { // its rings hold one message after the other
		p.PostList = 1
	}
	if p.TxDepth != 0 {
		return
	}
	p.TxDepth = max(min(defaultTxDepth, s.mostCompletions()/len(s.Row.Requests())), 1)
	if p.Kind == Latency {
		p.TxDepth = s.latencyDepth()
	}
	p.TxDepth = max(p.TxDepth, p.batch())
}

// batch is how many messages are posted at once.
func (s *Spec) batch() int { return max(s.PostList, 1) }

// WholeBatches is the least number of messages from n on that is posted in whole batches.
func (s *Spec) WholeBatches(n uint64) uint64 { return align(n, uint64(s.batch())) }

// Depths are what a row of perftest's header shows: the rules' values for a test, before they are fitted to a window.
type Depths struct{ Tx, Rx, CQMod int }

// Depths applies perftest's rules: 128 and 512 by default, never more than the iterations; moderation 100, but 1 for
// messages above 8 KiB.
func (s *Settled) Depths() Depths {
	d := Depths{Tx: s.window(0), Rx: s.printedReceives(), CQMod: s.moderation(s.LargestSize())}
	d.CQMod = min(d.CQMod, d.Tx)
	return d
}

// Shown tells which depths perftest shows at this end.
func (s *Settled) Shown() (tx, rx bool) {
	both := s.Spec.Bidirectional
	return s.Role == Initiator || both, s.Row.NeedsReceive() && (s.Role == Target || both)
}

// latencyDepth is 1, and an answer of the peer shows that a message has arrived. A software device sends each ACK by a
// system call, of its own or beside the next message: with room for more messages it asks for few of them.
func (s *Settled) latencyDepth() int {
	if s.limits.Device.Software && s.Spec.Transport == verbs.RC && s.Answers() {
		return softwareLatencyDepth
	}
	return 1
}

// Lane is a settled test's numbers for a round of one size, named as in a [Spec].
type Lane struct {
	Window   int           `json:"tx_depth"`
	Signal   int           `json:"cq_mod"`
	Batch    int           `json:"post_list"`
	Count    uint64        `json:"-"` // messages per queue pair; 0: by duration
	Duration time.Duration `json:"-"` // of the posting, margins included
}

// Lane is what a round of a size does on each queue pair. count is the round's own, as of a warm-up; 0: the test's.
func (s *Settled) Lane(size int, count uint64) Lane {
	l := Lane{Window: s.window(count), Batch: s.Spec.batch(), Count: count}
	if count == 0 {
		l.Count, l.Duration = s.Spec.Iterations, s.Spec.Duration
	}
	if s.Point != nil { // a count is of layouts or lists
		l.Count *= uint64(s.Point.Messages)
		l.Window = s.window(l.Count)
	}
	if s.Spec.Kind == Latency {
		l.Signal, l.Batch = max(l.Window/4, 1), 1
		return l
	}
	l.Signal, l.Batch = min(s.moderation(size), l.Window), min(l.Batch, l.Window)
	// A batch is posted when all of it fits: moderation leaves room for one beyond the last signaled message.
	for l.Signal > 1 && l.Signal+l.Batch-job.GCD(l.Signal, l.Batch) > l.Window {
		l.Signal--
	}
	return l
}

// window is the messages in flight of a round of count messages; 0: the test's.
func (s *Settled) window(count uint64) int {
	if count == 0 {
		count = s.Spec.Iterations
	}
	if count > 0 && uint64(s.Spec.TxDepth) > count {
		return int(count)
	}
	return s.Spec.TxDepth
}

// moderation is every how many messages of a size one is signaled.
func (s *Settled) moderation(size int) int {
	p := &s.Spec
	switch {
	case p.CQMod != 0:
		return p.CQMod
	case p.batch() > 1:
		return p.batch()
	case size > smallForModeration && p.Transport != verbs.UD && !p.AllSizes && !p.Events:
		return 1
	default:
		return defaultCQMod
	}
}

// receiveDepth is the number of receives kept posted per queue pair; it does not depend on the size. What queue pairs
// share, each fills its part of.
func (s *Settled) receiveDepth() int {
	switch d := s.printedReceives(); {
	case !s.Row.NeedsReceive():
		return 1
	case s.Spec.SRQ:
		return max(d/s.Spec.QPs, 1)
	default:
		return d
	}
}

// printedReceives is the number asked for or perftest's default, no more than messages come and a completion queue
// holds. perftest prints it also where nothing is received.
func (s *Settled) printedReceives() int {
	p, d := &s.Spec, s.Spec.RxDepth
	switch {
	case d != 0:
	case p.Transport != verbs.RC && p.Iterations > 0:
		d = min(int(min(max(p.Iterations, defaultRxDepth), maxDatagramDepth)), s.mostCompletions())
	default:
		d = min(defaultRxDepth, s.mostCompletions())
	}
	if n := p.Iterations; n > 0 && uint64(d) > n {
		d = int(n)
		if !p.AllSizes {
			d += d % 2
		}
	}
	return d
}

// mostCompletions is how many entries each queue pair may have in a completion queue of
// this end: those of a thread share one.
func (s *Settled) mostCompletions() int {
	limit := s.limits.Device.Limits.MaxCQE
	if limit <= 0 {
		return math.MaxInt
	}
	share := (s.Spec.QPs + s.Spec.Threads - 1) / s.Spec.Threads
	return max(limit/share, 1)
}
