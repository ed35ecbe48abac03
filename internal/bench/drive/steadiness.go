package drive

import (
	"slices"
	"time"

	"github.com/gobw/gobw/verbs/job"
)

const (
	steadyWindow  = 20 * time.Millisecond // the length of a window
	steadyShare   = 0.10                  // by how much three windows in a row may differ
	steadyWindows = 10                    // how many are kept: the later half is compared with the earlier
	steadyRise    = 0.015                 // less is no rise
	steadyCalm    = 5                     // windows without a rise: noise may hide a rise for a window
	unsteadyMost  = 25                    // after so many windows a rate may go up and down, but not rise
	// SteadyMost bounds a warm-up whose rate does not stop rising.
	SteadyMost = 3 * time.Second
)

// steadiness tells when the rate of a warm-up has settled: it does not rise any more, and three windows in a
// row are within a tenth of each other.
type steadiness struct {
	window job.Ticks
	start  job.Ticks
	sum    float64
	rates  [steadyWindows]float64 // the last ones, in a ring
	n      int
	calm   int // windows since the rate has last risen
}

func (s *steadiness) add(now job.Ticks, messages float64) {
	if s.start == 0 {
		s.start = now
		return
	}
	s.sum += messages
	if e := now - s.start; e >= s.window {
		s.rates[s.n%steadyWindows] = s.sum / float64(e)
		s.n++
		s.start, s.sum = now, 0
		if s.calm++; s.n < steadyWindows || s.rises() {
			s.calm = 0
		}
	}
}

// at is the rate of a window: 1 is the last.
func (s *steadiness) at(back int) float64 { return s.rates[(s.n-back)%steadyWindows] }

func (s *steadiness) steady() bool {
	if s.calm < steadyCalm {
		return false
	}
	low, high := min(s.at(1), s.at(2), s.at(3)), max(s.at(1), s.at(2), s.at(3))
	return low > 0 && high-low <= steadyShare*high || s.n >= unsteadyMost
}

// rises tells whether the later windows have a higher median rate than the earlier ones: one window in which the
// process had no CPU does not change a median. A rise that is only noise costs the warm-up a few windows.
func (s *steadiness) rises() bool {
	const half = steadyWindows / 2
	var earlier, later []float64
	for i := 1; i <= half; i++ {
		earlier, later = append(earlier, s.at(i+half)), append(later, s.at(i))
	}
	slices.Sort(earlier)
	slices.Sort(later)
	return later[half/2] > (1+steadyRise)*earlier[half/2]
}
