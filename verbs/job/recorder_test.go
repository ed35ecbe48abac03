package job

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
)

func TestHistogramIndexIsHdrHistograms(t *testing.T) {
	h := hdrhistogram.New(1, HistogramHighest, 3)
	if got, want := HistogramCounts, len(h.Export().Counts); got != want {
		t.Fatalf("%d counts, hdrhistogram has %d", got, want)
	}
	values := []uint64{0, 1, 2047, 2048, 2049, 4095, 4096, 1 << 20, 1<<43 + 12345, HistogramHighest}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		values = append(values, rng.Uint64()>>(20+rng.IntN(40)))
	}
	for _, v := range values {
		h.Reset()
		if err := h.RecordValue(int64(v)); err != nil {
			t.Fatal(err)
		}
		if h.Export().Counts[HistogramIndex(v)] != 1 {
			t.Errorf("value %d: index %d is not hdrhistogram's", v, HistogramIndex(v))
		}
	}
}

func TestRecorderAdd(t *testing.T) {
	r := NewRecorder(2)
	for _, v := range []Ticks{100, 50, 150, 1 << 50} {
		r.Add(v)
	}
	if r.N != 4 || r.Min != 50 || r.Max != 1<<50 || r.RawLen != 2 || r.Clipped != 1 {
		t.Errorf("got n %d min %d max %d raw %d clipped %d, want 4 50 2^50 2 1", r.N, r.Min, r.Max, r.RawLen, r.Clipped)
	}
	if n := testing.AllocsPerRun(100, func() { r.Add(77) }); n != 0 {
		t.Errorf("Add allocates %v times, want 0", n)
	}
}

func BenchmarkRecorderAdd(b *testing.B) {
	r := NewRecorder(RawSamples)
	for b.Loop() {
		r.Add(3000)
	}
}

// TestRecorderMerge compares two recorders that were merged with one that took all samples.
func TestRecorderMerge(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, sizes := range [][2]int{{0, 0}, {0, 9}, {9, 0}, {500, 300}} {
		whole, parts := NewRecorder(100), [2]*Recorder{NewRecorder(100), NewRecorder(50)}
		for i, n := range sizes {
			for range n {
				v := Ticks(rng.IntN(1 << (4 + 20*i)))
				whole.Add(v)
				parts[i].Add(v)
			}
		}
		parts[0].Merge(parts[1])
		got := parts[0]
		if got.N != whole.N || got.Min != whole.Min || got.Max != whole.Max || got.Sum != whole.Sum {
			t.Errorf("%v: n %d min %d max %d sum %v, want %d %d %d %v", sizes, got.N, got.Min, got.Max, got.Sum, whole.N,
				whole.Min, whole.Max, whole.Sum)
		}
		// About the same shift the squares agree but for rounding.
		if d := got.SumSq - whole.SumSq; got.Shift == whole.Shift && math.Abs(d) > 1e-9*whole.SumSq {
			t.Errorf("%v: sum of squares %v, want %v", sizes, got.SumSq, whole.SumSq)
		}
		if !slices.Equal(got.Counts, whole.Counts) {
			t.Errorf("%v: counts differ", sizes)
		}
		if want := min(uint64(100), min(uint64(sizes[0]), 100)+min(uint64(sizes[1]), 50)); got.RawLen != want {
			t.Errorf("%v: %d samples as they came, want %d", sizes, got.RawLen, want)
		}
	}
}

// TestMedian holds the median so far against one by hand, for samples that are exact and for those that share a bucket.
func TestMedian(t *testing.T) {
	for _, c := range []struct {
		samples []Ticks
		want    Ticks
	}{
		{nil, 0},
		{[]Ticks{7}, 7},
		{[]Ticks{5, 1, 3}, 3},
		{[]Ticks{4, 1, 3, 2}, 2},
		{[]Ticks{2047, 2048, 4096}, 2048},
		{[]Ticks{1 << 20, 1<<20 + 5, 1 << 30}, 1 << 20},
	} {
		r := NewRecorder(0)
		for _, s := range c.samples {
			r.Add(s)
		}
		if got := r.Quantile(0.5); got != c.want {
			t.Errorf("%v: median %d, want %d", c.samples, got, c.want)
		}
	}
}

// TestHoldFirst: the first sample counts where it is the only one, or after a Reset.
func TestHoldFirst(t *testing.T) {
	for _, samples := range [][]Ticks{{5_000_000_000}, {5_000_000_000, 700, 900, 650}} {
		r := NewRecorder(2)
		r.HoldFirst = true
		for _, s := range samples {
			r.Add(s)
		}
		r.Release()
		if want := samples[min(1, len(samples)-1):]; r.N != uint64(len(want)) || r.Raw[0] != want[0] || r.Shift != want[0] ||
			r.Max != slices.Max(want) {
			t.Errorf("%v: %d samples from %d on, at most %d; want %v", samples, r.N, r.Raw[0], r.Max, want)
		}
		r.Reset()
		if r.Add(3); r.N != 1 {
			t.Error("a sample after a Reset is held back")
		}
	}
}
