package report

import (
	"math"
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
	want = Latency{
		Samples: 1000, MinNs: 1000, P50Ns: 500e3, P90Ns: &p90, P99Ns: &p99, MaxNs: 1e6, MeanNs: 500500,
		StdevNs: math.Sqrt((1e6-1)/12) * 1000,
	}
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
	}{
		{0.9, 99, false},
		{0.9, 100, true},
		{0.99, 1000, true},
		{0.99, 999, false},
		{0.9999, 100000, true},
		{0.9999, 99999, false},
	} {
		if got := Supported(tt.p, tt.n); got != tt.want {
			t.Errorf("Supported(%v, %d) = %v, want %v", tt.p, tt.n, got, tt.want)
		}
	}
}

// Counts of any length are those of an HdrHistogram: each value is in the bucket that holds it.
func TestBuckets(t *testing.T) {
	for _, v := range []int64{0, 1, 2047, 2048, 2049, 4095, 4096, 4099, 1 << 20, 123456789, 1<<44 - 1} {
		s := counted([]int64{v, v}, 0)
		s.Min, s.Max = 0, math.MaxInt64
		b := s.Distribution().buckets
		if len(b) != 1 || b[0].Count != 2 || v < b[0].From || v > b[0].To || (b[0].To-b[0].From)*1024 > b[0].From {
			t.Errorf("%d is in %v", v, b)
		}
	}
}

func near(got, want float64) bool { return math.Abs(got-want) <= 1e-9*max(1, math.Abs(want)) }
