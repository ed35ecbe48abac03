package job

import (
	"math/rand/v2"
	"testing"
)

// TestPeakSearch compares the search with perftest's way: every pair of a post and a completion that is not before it.
func TestPeakSearch(t *testing.T) {
	type event struct {
		bytes uint64
		at    Ticks
	}
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 7))
		window, batch, signal := 1+rng.IntN(40), 1+rng.IntN(4), 1+rng.IntN(5)
		window = max(window, batch+signal)
		size := uint64(1 + rng.IntN(9000))
		mean := int64(1 + rng.IntN(2000))
		var posts, completions []event
		var posted, retired int
		now, count := Ticks(1), 400+rng.IntN(400)
		rec := NewRecorder(0)
		s := NewPeakSearch(rec, window)
		for retired < count {
			now += Ticks(1 + rng.Int64N(mean))
			if rng.IntN(50) == 0 { // another pace from here on
				mean = int64(1 + rng.IntN(2000))
			}
			switch {
			case posted < count && posted-retired+batch <= window && rng.IntN(3) > 0:
				posts = append(posts, event{uint64(posted) * size, now})
				s.Post(uint64(posted)*size, now)
				posted = min(posted+batch, count)
			case posted-retired >= signal || posted == count:
				retired = min(retired+signal, posted)
				completions = append(completions, event{uint64(retired) * size, now})
				s.Complete(uint64(retired)*size, now)
			}
		}
		var bytes uint64
		ticks := Ticks(1)
		for _, c := range completions {
			for _, p := range posts {
				if p.bytes < c.bytes && c.at > p.at && (c.bytes-p.bytes)*uint64(ticks) > bytes*uint64(c.at-p.at) {
					bytes, ticks = c.bytes-p.bytes, c.at-p.at
				}
			}
		}
		got, want := float64(rec.PeakBytes)/float64(rec.PeakTicks), float64(bytes)/float64(ticks)
		if got < want*(1-1e-12) || got > want*(1+1e-12) {
			t.Errorf("seed %d: %d bytes in %d ticks, every pair gives %d in %d", seed, rec.PeakBytes, rec.PeakTicks,
				bytes, ticks)
		}
	}
}

// TestPeakSearchBounded posts ever faster, which puts every post on the hull: the memory stays what it was.
func TestPeakSearchBounded(t *testing.T) {
	rec := NewRecorder(0)
	s := NewPeakSearch(rec, 1)
	now := Ticks(0)
	const count = 10 * hullPoints
	allocations := testing.AllocsPerRun(1, func() {
		for k := range uint64(count) {
			s.Post(k*8, now)
			now += Ticks(2*count - k)
			s.Complete((k+1)*8, now)
		}
	})
	if allocations != 0 || len(s.hull) > hullPoints {
		t.Errorf("%v allocations, %d points", allocations, len(s.hull))
	}
	if rec.PeakBytes == 0 || float64(rec.PeakTicks)/float64(rec.PeakBytes) > float64(2*count-count+1)/8 {
		t.Errorf("peak of %d bytes in %d ticks, the last message alone takes 8 in %d", rec.PeakBytes, rec.PeakTicks, count+1)
	}
}
