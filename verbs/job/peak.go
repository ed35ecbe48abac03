package job

import "math"

// hullPoints bounds the memory of a [PeakSearch]: a hull with more corners loses its oldest posts as possible starts.
const hullPoints = 256

// PeakSearch finds the best rate from the post of any batch to any later completion, which perftest prints as "BW
// peak". perftest compares every pair after the run; this looks at each post and completion once, in constant memory.
//
// A span is a line from a post (bytes posted before it, its time) to a completion (bytes completed, its time), and its
// slope is time per byte. A span flatter than the best so far can start only where a line of the best slope touches the
// upper convex hull of the posts, and as the best slope falls that point only moves forward.
type PeakSearch struct {
	record *Recorder
	origin Ticks       // when the first post was
	slope  float64     // of the best span, in ticks per byte
	flying []peakPoint // a ring: posts of which something is in flight, the oldest at head
	head   int
	count  int
	hull   []peakPoint
	touch  int // of the hull: where the line of the best slope touches it
}

// peakPoint is a post: the bytes posted before it, and when it was, in ticks since the first.
type peakPoint struct{ bytes, at float64 }

// NewPeakSearch makes a search that keeps its best in the recorder; posts is how many can be in flight at once.
func NewPeakSearch(r *Recorder, posts int) *PeakSearch {
	s := &PeakSearch{
		record: r, slope: math.Inf(1), flying: make([]peakPoint, max(posts, 1)), hull: make([]peakPoint, 0, hullPoints),
	}
	if r.PeakBytes > 0 {
		s.slope = float64(r.PeakTicks) / float64(r.PeakBytes)
	}
	return s
}

// Post takes the post of one batch at a time; bytes is what the job had posted before it.
func (s *PeakSearch) Post(bytes uint64, at Ticks) {
	if s.origin == 0 {
		s.origin = at
	}
	if s.count == len(s.flying) { // more than was promised: the oldest cannot be a start
		s.next()
	}
	s.flying[wrap(s.head, s.count, len(s.flying))] = peakPoint{float64(int64(bytes)), float64(at - s.origin)}
	s.count++
}

// Complete takes a completion; bytes is what the job has completed with it.
func (s *PeakSearch) Complete(bytes uint64, at Ticks) {
	end := peakPoint{float64(int64(bytes)), float64(at - s.origin)}
	for s.count > 0 && s.flying[s.head].bytes < end.bytes {
		s.start(s.next())
	}
	for last := -1; s.touch != last && len(s.hull) > 0; {
		last = s.touch
		p := s.hull[s.touch]
		bytes, ticks := end.bytes-p.bytes, end.at-p.at
		if ticks <= 0 || ticks >= bytes*s.slope {
			return
		}
		s.slope = ticks / bytes
		s.record.PeakBytes, s.record.PeakTicks = uint64(bytes), Ticks(ticks)
		s.forward()
	}
}

func (s *PeakSearch) next() peakPoint {
	p := s.flying[s.head]
	s.head = wrap(s.head, 1, len(s.flying))
	s.count--
	return p
}

// start adds a possible start of spans, which comes after all others.
func (s *PeakSearch) start(p peakPoint) {
	for n := len(s.hull); n >= 2 && !above(s.hull[n-2], s.hull[n-1], p); n-- {
		s.hull = s.hull[:n-1]
	}
	if len(s.hull) == hullPoints { // what lies before the touching point is never touched again
		drop := max(s.touch, 1)
		s.hull = s.hull[:copy(s.hull, s.hull[drop:])]
		s.touch = max(s.touch-drop, 0)
	}
	s.hull = append(s.hull, p)
	s.touch = min(s.touch, len(s.hull)-1)
	s.forward()
}

// above tells whether b lies above the line from a to c.
func above(a, b, c peakPoint) bool {
	return (b.at-a.at)*(c.bytes-a.bytes) > (c.at-a.at)*(b.bytes-a.bytes)
}

// forward moves to where a line of the best slope touches the hull.
func (s *PeakSearch) forward() {
	for s.touch+1 < len(s.hull) {
		a, b := s.hull[s.touch], s.hull[s.touch+1]
		if b.at-a.at < (b.bytes-a.bytes)*s.slope {
			return
		}
		s.touch++
	}
}
