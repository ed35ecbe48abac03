package verbs

import (
	"math/rand/v2"
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
