package drive

import (
	"time"

	"github.com/gobw/gobw/verbs/job"
)

const (
	steadyWindow = 20 * time.Millisecond
	steadyShare  = 0.10
	// SteadyMost is the longest that a warm-up may take.
	SteadyMost = 500 * time.Millisecond
)

// steadiness tells when the rate of a warm-up has settled: three windows in a row within a tenth of each other.
type steadiness struct {
	window job.Ticks
	start  job.Ticks
	sum    float64
	rates  [3]float64
	n      int
}

func (s *steadiness) add(now job.Ticks, messages float64) {
	if s.start == 0 {
		s.start = now
		return
	}
	s.sum += messages
	if e := now - s.start; e >= s.window {
		s.rates[s.n%3] = s.sum / float64(e)
		s.n++
		s.start, s.sum = now, 0
	}
}

func (s *steadiness) steady() bool {
	if s.n < 3 {
		return false
	}
	low, high := min(s.rates[0], s.rates[1], s.rates[2]), max(s.rates[0], s.rates[1], s.rates[2])
	return low > 0 && high-low <= steadyShare*high
}
