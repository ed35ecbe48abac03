package frame

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gobw/gobw/internal/control"
)

// silence judges a peer that says nothing. Times are since the session began. Reader and heartbeat share it.
type silence struct {
	bears time.Duration // the peer timeout
	heard atomic.Int64  // when the peer last said something
	spoke atomic.Bool   // whether it ever did
	gap   atomic.Int64  // the longest time between two of its words, or of this end's ticks, fading
}

const (
	gapsBorne    = 4       // a peer may be silent for so many of its longest gaps
	longestBorne = 10. / 3 // in peer timeouts: 10 s where the peer timeout is 3 s, as by default
)

// listen notes a sign of life.
func (s *silence) listen(now time.Duration) {
	s.noteGap(now - time.Duration(s.heard.Load()))
	s.heard.Store(int64(now))
	s.spoke.Store(true)
}

// noteGap notes how far apart two words of the peer were, or two ticks of this end: the peer may be as slow.
func (s *silence) noteGap(gap time.Duration) {
	longest := s.gap.Load()
	s.gap.Store(max(int64(gap), longest-longest/16))
}

// excuse shortens the silence to half a peer timeout at most: this process was stalled and could not hear.
func (s *silence) excuse(now time.Duration) {
	s.heard.Store(max(s.heard.Load(), int64(now-s.bears/2)))
}

// lost is the error of a peer that is silent for too long; nil while it may live. The limit is the peer timeout. While
// its host answers, the limit is longer for a peer that was slow before, and longest for one that has said nothing yet:
// that peer, or this end, has too little CPU.
func (s *silence) lost(now time.Duration, h hostLife) error {
	silent := now - time.Duration(s.heard.Load())
	limit := s.bears
	if h == hostAnswers {
		limit = time.Duration(longestBorne * float64(s.bears))
		if s.spoke.Load() {
			limit = min(max(s.bears, gapsBorne*time.Duration(s.gap.Load())), limit)
		}
	}
	if silent <= limit {
		return nil
	}
	return fmt.Errorf("%w for %v%v", control.ErrSilent, silent.Round(100*time.Millisecond), h)
}

// hostLife is what the kernel knows of the peer's host.
type hostLife uint8

const (
	hostUnknown hostLife = iota
	hostAnswers          // it acknowledges what is sent to the peer
	hostSilent
)

// String continues a sentence about the peer's silence.
func (h hostLife) String() string {
	return [...]string{
		hostUnknown: "",
		hostAnswers: ", but its host answers: the process was stopped or got no CPU time, " +
			"or its large packets do not arrive here",
		hostSilent: ", and its host acknowledges nothing: the host or the network is down, " +
			"or large packets do not pass (ping -M do -s 1472 HOST)",
	}[h]
}
