package roce

import (
	"time"

	"github.com/gobw/gobw/verbs/tick"
)

// spin is how the thread of a job waits for packets: it polls, because being woken takes longer than most answers. Silence
// of many usual waits means that the answer is not under way: the peer has lost its processor. Then the thread blocks in the
// kernel, so that it has not used up its own share when the peer is back. Where wait after wait ends there, the peer needs
// this very processor, and the thread blocks soon.
type spin struct {
	quiet   int       // rounds in a row in which nothing happened
	since   tick.Time // when they began
	usual   tick.Time // the median of waits that ended while it polled
	last    tick.Time // when it polled last
	slept   bool      // this wait went on in the kernel, or while others had the processor
	sleeps  int       // grows by two with each wait of this kind, and shrinks by one with each short wait
	retryAt int       // beyond it a wait polls for longestPatience

	stream bool      // nobody measures single answers: it blocks soon for a while after it has lost its processor
	until  tick.Time // when that while ends
}

const (
	// patience is how many usual waits it polls, and leastPatience at least: many of a short path.
	patience      = 4
	leastPatience = 100 * time.Microsecond
	// sharedAfter sleeps it blocks after quietRounds. Beyond firstRetry one wait polls for longestPatience, and then half as
	// often each time: the path may just be long.
	sharedAfter     = 8
	quietRounds     = 16
	firstRetry      = 256
	lastRetry       = 1 << 13
	longestPatience = 2 * time.Millisecond
	// awayFor is a gap between two rounds in which the thread had no processor: no round takes as long.
	awayFor = 300 * time.Microsecond
	// streamBlocks is how long a stream that has lost its processor blocks soon.
	streamBlocks = 200 * time.Millisecond
	// blockAtMost bounds a block, since another may have taken the packet that was waited for.
	blockAtMost = time.Millisecond
	// blockPaced does where the next message may be due before any packet.
	blockPaced = 50 * time.Microsecond
)

// enter begins a slice of a job: the time since the last one says nothing.
func (s *spin) enter(now tick.Time) { s.last = now }

// look notes a round, and whether the processor was lost since the one before.
func (s *spin) look(now tick.Time, c tick.Rate) {
	gap := now - s.last
	s.last = now
	if gap > c.Ticks(awayFor) && s.quiet > 0 {
		s.slept, s.since = true, s.since+gap
		s.until = now + c.Ticks(streamBlocks)
	}
}

// worked notes that something happened.
func (s *spin) worked(now tick.Time) {
	switch wait := now - s.since; {
	case s.quiet == 0:
		return
	case s.slept:
		if s.sleeps += 2; s.sleeps > s.retryAt {
			s.retryAt = min(max(2*s.retryAt, firstRetry), s.sleeps+lastRetry)
		}
	case s.quiet < quietRounds: // perhaps one that followed at once
		s.sleeps = max(s.sleeps-1, 0)
	case s.sleeps > 0 || s.usual == 0: // or a path that is longer than thought
		s.sleeps, s.retryAt, s.usual = 0, firstRetry, wait
	case wait > s.usual:
		s.usual += s.usual/16 + 1
	default:
		s.usual -= s.usual / 16
	}
	s.quiet, s.slept = 0, false
}

// blocks notes a round in which nothing happened, and tells whether to block.
func (s *spin) blocks(now tick.Time, c tick.Rate) bool {
	if s.quiet++; s.quiet == 1 {
		s.since = now
	}
	if s.quiet < quietRounds {
		return false
	}
	switch {
	case s.stream && now < s.until:
		return true
	case s.sleeps < sharedAfter:
		return now-s.since > max(patience*s.usual, c.Ticks(leastPatience))
	case s.sleeps < s.retryAt:
		return true
	}
	return now-s.since > c.Ticks(longestPatience)
}

// idle waits a little where nothing happened; limit is when it has to be back, 0 where that is not known.
func (s *spin) idle(e *engine, limit tick.Time) {
	now := tick.Now()
	if !s.blocks(now, e.clock) {
		return
	}
	s.slept = true
	most := now + e.clock.Ticks(blockAtMost)
	if limit == 0 {
		most = now + e.clock.Ticks(blockPaced)
	} else if limit < most {
		most = limit
	}
	e.await(most)
	s.last = tick.Now()
}
