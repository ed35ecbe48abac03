package plan

import (
	"iter"
	"math"
	"time"

	"github.com/gobw/gobw/verbs"
)

// A test goes through its sizes in order. Each size is a run of rounds that both ends know beforehand:
// a proof, a warm-up, and the measured runs. A round is one job, or several parts where every message
// of it has a place of its own in memory.

// RoundKind is what a round is for.
type RoundKind uint8

// Kinds of round.
const (
	Measured RoundKind = iota
	Warmup
	Steady // a warm-up that ends when the rate is steady
	Proof  // the first message, verified
)

// Round is one step of a test from ready to done.
type Round struct {
	Size  int // index in Sizes
	Run   int // from 1
	Kind  RoundKind
	Count uint64 // messages per queue pair; 0: the test's
	Last  bool
	Local bool // this end runs it without synchronising with the peer
}

// unmeasured are the rounds of a size before the measured ones, in order.
func (s *Settled) unmeasured() []Round {
	var out []Round
	if s.peer.Perftest {
		if s.Spec.Warmup > 0 && s.warmsAlone() {
			out = append(out, Round{Kind: Warmup, Count: s.Spec.Warmup, Local: true})
		}
		return out
	}
	if s.Spec.Verify != VerifyNothing {
		out = append(out, Round{Kind: Proof, Count: 1})
	}
	switch {
	case s.Spec.WarmupSteady:
		out = append(out, Round{Kind: Steady})
	case s.Spec.Warmup > 0:
		out = append(out, Round{Kind: Warmup, Count: s.Spec.Warmup})
	}
	return out
}

// warmsAlone tells whether this end can warm up without the peer's help, as perftest does. Its requests then need no
// receive at the peer.
func (s *Settled) warmsAlone() bool {
	return s.Spec.Kind == Bandwidth && s.Sends() && !s.Row.NeedsReceive()
}

// Counted overrides the number of messages of a measured round; 0 keeps Spec.Iterations. Between two ends of ours the
// first exchange is not counted: it includes the time until the peer is ready.
func (s *Settled) Counted() uint64 {
	if !s.peer.Perftest && s.Answers() && s.Spec.Iterations > 0 {
		return s.Spec.Iterations + 1
	}
	return 0
}

// Rounds are the rounds of the test in order; those of an endless test never end.
func (s *Settled) Rounds() iter.Seq[Round] {
	return func(yield func(Round) bool) {
		for n := 1; s.Spec.Infinite; n++ {
			if !yield(Round{Run: n, Last: true}) {
				return
			}
		}
		unmeasured, counted := s.unmeasured(), s.Counted()
		for size := range s.Spec.Sizes {
			for _, r := range unmeasured {
				r.Size = size
				if !yield(r) {
					return
				}
			}
			for run := range s.Spec.Runs {
				last := size == len(s.Spec.Sizes)-1 && run == s.Spec.Runs-1
				if !yield(Round{Size: size, Run: run + 1, Count: counted, Last: last}) {
					return
				}
			}
		}
	}
}

// RoundCount is the number of rounds, parts included, and RecordCount that of records; the
// largest number where the test is endless.
func (s *Settled) RoundCount() uint64 {
	if s.Spec.Infinite {
		return math.MaxUint64
	}
	perRun := uint64(1)
	if n := s.partMessages(); n > 0 {
		perRun = max((s.Spec.Iterations+n-1)/n, 1)
	}
	perSize := sum(uint64(len(s.unmeasured())), product(uint64(s.Spec.Runs), perRun))
	return product(uint64(len(s.Spec.Sizes)), perSize)
}

// RecordCount is the number of records that the test makes.
func (s *Settled) RecordCount() uint64 {
	if s.Spec.Infinite {
		return math.MaxUint64
	}
	return product(uint64(len(s.Spec.Sizes)), uint64(s.Spec.Runs))
}

// partMessages is how many messages of a queue pair have a place of their own in memory. A round in which every message
// is compared is cut into parts of that many. 0: the round is one part.
func (s *Settled) partMessages() uint64 {
	if s.Spec.Verify != VerifyAll || s.Spec.Iterations == 0 {
		return 0
	}
	return uint64(s.places)
}

// Parts are the message counts of a round's parts; 0 is the test's own.
func (s *Settled) Parts(r Round) iter.Seq2[uint64, uint64] {
	return func(yield func(uint64, uint64) bool) {
		each := s.partMessages()
		if each == 0 || r.Kind != Measured {
			yield(0, r.Count)
			return
		}
		left := s.Spec.Iterations
		for i := uint64(0); left > 0; i++ {
			n := min(left, each)
			left -= n
			if !yield(i, n) {
				return
			}
		}
	}
}

// PauseNs is the least time between two messages of a queue pair, in nanoseconds: by the pace, or the pause asked for.
func (s *Settled) PauseNs(size int) float64 {
	if s.Spec.RateBits > 0 {
		return s.Spec.MeanBytes(size) * 8 * float64(s.Spec.QPs) / s.Spec.RateBits * 1e9
	}
	return float64(s.Spec.Gap)
}

// Length is how long the test takes at least: what is measured by time, and the
// pauses between messages that are counted.
func (s *Settled) Length() time.Duration {
	p := &s.Spec
	total := 0.
	for _, size := range p.Sizes {
		pause := s.PauseNs(size)
		pauses := float64(p.Warmup) + float64(p.Runs)*float64(p.Iterations) - float64(max(p.Burst, 1))
		total += max(float64(p.Duration)*float64(p.Runs), pause*max(pauses, 1))
	}
	return time.Duration(min(total, math.MaxInt64/2))
}

// giveUp is how long a reliable queue pair waits for a peer that does not answer (InfiniBand specification, 9.9.2.1.1).
func (s *Settled) giveUp() time.Duration {
	if s.Spec.Transport != verbs.RC {
		return 0
	}
	return 4096 << s.Spec.Timeout * time.Duration(s.Spec.Retries+1)
}
