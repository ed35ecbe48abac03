package roce

import (
	"time"

	"github.com/gobw/gobw/verbs/job"
)

// spin is how the thread of a job waits for packets: it polls, because being woken takes longer than most answers. Where
// other threads want its processor, polling wins nothing: the kernel takes the processor away for milliseconds, with the
// device's lock held, and gives it back late to whoever used up his share. There the thread blocks in the kernel, which lets
// go of the lock and gets the processor back when a packet comes. (sched_yield is no way out: since Linux 6.18 it forfeits the
// rest of the share, and a thread that calls it beside others who compute hardly runs at all.)
type spin struct {
	quiet   int // rounds in a row in which nothing happened
	last    job.Ticks
	lost    uint64    // preemptions seen
	blocks  bool      // until then
	until   job.Ticks // when it polls again, to see whether the others have gone
	patient time.Duration
}

const (
	// suspectGap between two rounds is looked into: no round takes as long.
	suspectGap = 300 * time.Microsecond
	// quietRounds without anything come before blocking: an answer that is under way arrives within them.
	quietRounds = 16
	// blockAtMost bounds a block, since another may have taken the packet that was waited for.
	blockAtMost = time.Millisecond
	// blockPaced does where the next message may be due before any packet.
	blockPaced      = 50 * time.Microsecond
	firstPatience   = 50 * time.Millisecond
	longestPatience = time.Second
)

// enter begins a slice of a job: the time since the last one says nothing.
func (s *spin) enter(now job.Ticks) { s.last, s.lost = now, preemptions() }

// look notes a round. A gap in which the thread was preempted means that its processor is shared.
func (s *spin) look(now job.Ticks, c clock) {
	gap := now - s.last
	s.last = now
	if gap > c.ticks(suspectGap) {
		s.suspect(now, c)
	}
}

func (s *spin) suspect(now job.Ticks, c clock) {
	lost := preemptions()
	if lost == s.lost {
		return
	}
	s.lost = lost
	if s.blocks {
		return // of blocking itself, or of long work
	}
	if now-s.until > c.ticks(longestPatience) {
		s.patient = 0 // others of long ago
	}
	s.patient = min(max(2*s.patient, firstPatience), longestPatience)
	s.blocks, s.until = true, now+c.ticks(s.patient)
}

// worked notes that something happened.
func (s *spin) worked() { s.quiet = 0 }

// idle waits a little where nothing happened; limit is when it has to be back, 0 where that is not known.
func (s *spin) idle(e *engine, limit job.Ticks) {
	s.quiet++
	if !s.blocks || s.quiet < quietRounds {
		return
	}
	now := job.Now()
	if now >= s.until {
		s.blocks = false
		return
	}
	most := now + e.clock.ticks(blockAtMost)
	if limit == 0 {
		most = now + e.clock.ticks(blockPaced)
	} else if limit < most {
		most = limit
	}
	e.await(most)
	s.last = job.Now()
}
