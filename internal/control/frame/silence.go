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
	spoke atomic.Bool   // it ever has
	gap   atomic.Int64  // the longest time between two of its words, or of this end's ticks, fading
}

const (
	gapsBorne    = 4       // a peer may be silent for so many of its longest gaps
	longestBorne = 10. / 3 // in peer timeouts: 10 s of the default's 3 s
)

// listen notes a sign of life.
func (s *silence) listen(now time.Duration) {
	s.noteGap(now - time.Duration(s.heard.Load()))
	s.heard.Store(int64(now))
	s.spoke.Store(true)
}

// noteGap notes how far apart two words of the peer's were, or two ticks of this
// end's: what is slow here may be so there.
func (s *silence) noteGap(gap time.Duration) {
	faded := s.gap.Load()
	s.gap.Store(max(int64(gap), faded-faded/16))
}

// excuse takes back what is more than half a timeout of silence: this process was stalled and could not hear.
func (s *silence) excuse(now time.Duration) {
	s.heard.Store(max(s.heard.Load(), int64(now-s.bears/2)))
}

// verdict is nil while the peer may live. One that kept its beat is lost after the peer timeout. One that did not, or
// has said nothing yet, has longer, as long as its host answers: it, or this end, has too little CPU.
func (s *silence) verdict(now time.Duration, h hostLife) error {
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
