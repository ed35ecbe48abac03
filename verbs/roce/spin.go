package roce

import (
	"time"

	"github.com/gobw/gobw/verbs/job"
	"github.com/gobw/gobw/verbs/tick"
)

// spin is how the thread of a job waits for packets. It polls, because being woken takes longer than most
// answers. At every 16th empty round it yields its processor, which the peer may need. A yield that returns
// late shows that others compute on this processor. Then the thread blocks in the kernel for a while: a thread
// that wakes runs before one that computes.
type spin struct {
	quiet int       // rounds in a row in which nothing happened
	since tick.Time // when they began
	until tick.Time // it blocks until then
}

const (
	// yieldEvery rounds take some 5 us.
	yieldEvery = 16
	// lateAfter is longer than a peer keeps the processor that it was yielded. A later yield is followed by blocksFor
	// times as long in which the thread blocks.
	lateAfter = 300 * time.Microsecond
	blocksFor = 16
	// longestWait is how long it yields for one answer. Beside a longer path the time
	// to be woken is little, and it blocks.
	longestWait = 2 * time.Millisecond
	// blockAtMost bounds a block, since another may have taken the packet that was waited for.
	blockAtMost = time.Millisecond
	// blockPaced does where the next message may be due before any packet.
	blockPaced = 50 * time.Microsecond
)

// next notes a round without work, and tells whether to yield or to block before the next.
func (s *spin) next(now tick.Time, c tick.Rate) (yields, blocks bool) {
	if s.quiet++; s.quiet == 1 {
		s.since = now
	}
	pauses := s.quiet%yieldEvery == 0
	blocks = pauses && (now < s.until || now-s.since > c.Ticks(longestWait))
	return pauses && !blocks, blocks
}

// returned notes how long a yield took.
func (s *spin) returned(from, to tick.Time, c tick.Rate) {
	if took := to - from; took > c.Ticks(lateAfter) {
		s.until = to + blocksFor*took
	}
}

// idle waits a little where nothing happened; limit is when it has to be back, 0 where that is not known.
func (s *spin) idle(e *engine, limit tick.Time) {
	now := tick.Now()
	switch yields, blocks := s.next(now, e.clock); {
	case yields:
		job.YieldProcessor()
		s.returned(now, tick.Now(), e.clock)
	case blocks:
		most := now + e.clock.Ticks(blockAtMost)
		if limit == 0 {
			most = now + e.clock.Ticks(blockPaced)
		} else if limit < most {
			most = limit
		}
		e.await(most)
	}
}
