package report

import (
	"math"
	"math/bits"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/google/go-cmp/cmp"
)

// counted records values as a recorder does.
func counted(values []int64, raw int) Samples {
	h := hdrhistogram.New(1, 1<<44-1, 3)
	s := Samples{Scale: 1}
	for i, v := range values {
		if err := h.RecordValue(v); err != nil {
			panic(err)
		}
		if i == 0 {
			s.Min, s.Max, s.Shift = v, v, v
		}
		if i < raw {
			s.Raw = append(s.Raw, v)
		}
		s.N++
		s.Min, s.Max = min(s.Min, v), max(s.Max, v)
		s.Sum += float64(v)
		s.SumSq += float64(v-s.Shift) * float64(v-s.Shift)
	}
	s.Counts = h.Export().Counts
	return s
}

func TestNewLatency(t *testing.T) {
	// 1…10: median the 5th, mean 5.5, deviation √(99/12); no percentile is supported by 10 samples.
	ten := []int64{10, 9, 8, 7, 6, 5, 4, 3, 2, 1}
	s := counted(ten, 10)
	s.Scale = 0.5
	got := NewLatency(s)
	want := Latency{Samples: 10, MinNs: 0.5, P50Ns: 2.5, MaxNs: 5, MeanNs: 2.75, StdevNs: math.Sqrt(99.0/12) / 2}
	if diff := cmp.Diff(got, want, cmp.Comparer(near)); diff != "" {
		t.Error(diff)
	}

	// 1…1000 by thousands: from raw exactly, from counts within 1/1024.
	var thousand []int64
	for i := range 1000 {
		thousand = append(thousand, int64(i+1)*1000)
	}
	p90, p99 := 900e3, 990e3
	want = Latency{Samples: 1000, MinNs: 1000, P50Ns: 500e3, P90Ns: &p90, P99Ns: &p99, MaxNs: 1e6, MeanNs: 500500, StdevNs: math.Sqrt((1e6-1)/12) * 1000}
	if diff := cmp.Diff(NewLatency(counted(thousand, 1000)), want, cmp.Comparer(near)); diff != "" {
		t.Error(diff)
	}
	within := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) <= max(a, b)/1024 })
	if diff := cmp.Diff(NewLatency(counted(thousand, 999)), want, within); diff != "" {
		t.Error(diff)
	}
	if got := NewLatency(Samples{}); got != (Latency{}) {
		t.Errorf("no samples give %+v", got)
	}
}

func TestSupported(t *testing.T) {
	for _, tt := range []struct {
		p    float64
		n    uint64
		want bool
	}{{0.9, 99, false}, {0.9, 100, true}, {0.99, 1000, true}, {0.99, 999, false}, {0.9999, 100000, true}, {0.9999, 99999, false}} {
		if got := Supported(tt.p, tt.n); got != tt.want {
			t.Errorf("Supported(%v, %d) = %v, want %v", tt.p, tt.n, got, tt.want)
		}
	}
}

// bucketIndex is the place of v in a counts array.
func bucketIndex(v int64) int {
	shift := bits.Len64(uint64(v)|(subBuckets-1)) - 11
	return shift*halfSubBuckets + int(v>>shift)
}

func TestBucket(t *testing.T) {
	h := hdrhistogram.New(1, 1<<44-1, 3)
	for _, v := range []int64{0, 1, 2047, 2048, 2049, 4095, 4096, 4099, 1 << 20, 123456789, 1<<44 - 1} {
		h.Reset()
		_ = h.RecordValue(v)
		i := bucketIndex(v)
		if h.Export().Counts[i] != 1 {
			t.Errorf("%d is not at %d in an HdrHistogram", v, i)
		}
		if low, high := bucket(i); v < low || v > high || (high-low)*1024 > low {
			t.Errorf("%d is in the bucket %d…%d", v, low, high)
		}
	}
}

func near(got, want float64) bool { return math.Abs(got-want) <= 1e-9*max(1, math.Abs(want)) }
