package report

import (
	"math"
	"math/bits"
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/google/go-cmp/cmp"
)

func near(got, want float64) bool { return math.Abs(got-want) <= 1e-9*max(1, math.Abs(want)) }

func TestSummarize(t *testing.T) {
	for _, tt := range []struct {
		name   string
		values []float64
		want   Summary
	}{
		{"one run claims nothing", []float64{7}, Summary{N: 1, Median: 7}},
		{"two", []float64{9, 7}, Summary{N: 2, Median: 8}},
		// 5 values: min…max covers 1 - 2/32 = 0.9375 < 0.95.
		{"five are too few", []float64{5, 1, 4, 2, 3}, Summary{N: 5, Median: 3}},
		// 6 values: min…max covers 1 - 2/64 = 0.96875.
		{"six", []float64{6, 5, 1, 4, 2, 3}, Summary{N: 6, Median: 3.5, Interval: &Interval{1, 6, 0.96875}}},
		// 10 values: k=2 covers 1 - 2 (1+10)/1024 = 0.978515625; k=3 adds 45: 0.890625.
		{"ten", []float64{10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, Summary{N: 10, Median: 5.5, Interval: &Interval{2, 9, 0.978515625}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Summarize(tt.values, 0.95)
			if diff := cmp.Diff(got, tt.want, cmp.Comparer(near)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMannWhitney(t *testing.T) {
	for _, tt := range []struct {
		name string
		x, y []float64
		u, p float64
	}{
		// All of x below y: 1 of C(6,3)=20 orders on each side.
		{"apart 3", []float64{1, 2, 3}, []float64{4, 5, 6}, 0, 0.1},
		{"apart 4", []float64{5, 6, 7, 8}, []float64{1, 2, 3, 4}, 16, 2.0 / 70},
		// x = ranks 1, 2, 4: U = 7-6 = 1; sums as far from 10.5 as 7: 6, 7 and 14, 15: 4 of 20.
		{"one swapped", []float64{1, 2, 4}, []float64{3, 5, 6}, 1, 0.2},
		{"equal", []float64{3, 3, 3}, []float64{3, 3}, 3, 1},
		// Ties 1,2,2 | 2,3: ranks 1, 3, 3 | 3, 5. Pairs of y: sums 8 (3+5: three ways), 6 (3+3: three), 4 (1+3: three), 6 (1+5).
		// The mean is 6; sums 8 and 4 are as far as 8: 6 of 10.
		{"ties", []float64{2, 3}, []float64{1, 2, 2}, 5, 0.6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u, p, err := MannWhitney(tt.x, tt.y)
			if err != nil || !near(u, tt.u) || !near(p, tt.p) {
				t.Errorf("u %v p %v %v, want u %v p %v", u, p, err, tt.u, tt.p)
			}
		})
	}
	if _, _, err := MannWhitney(nil, []float64{1}); err == nil {
		t.Error("an empty side passes")
	}
}

// The approximation used for many values agrees with the exact p where both can be had.
func TestMannWhitneyApproximation(t *testing.T) {
	x, y := make([]float64, 28), make([]float64, 28)
	for i := range x {
		x[i], y[i] = float64(i*7%31), float64(i*11%37)+1.5
	}
	_, exact, _ := MannWhitney(x, y)
	x2, y2 := append(x, 15, 16, 17), append(y, 18, 19, 20)
	_, approximate, _ := MannWhitney(x2, y2)
	doubled, _ := doubledRanks(append(append([]float64{}, x2...), y2...))
	sum := 0
	for _, r := range doubled[:len(x2)] {
		sum += r
	}
	want := exactRankP(doubled, len(x2), sum)
	if math.Abs(approximate-want) > 0.005 {
		t.Errorf("approximate p %v, exact %v (a sample before: %v)", approximate, want, exact)
	}
}

// Many tied values: the normal approximation with the correction for ties and for continuity (Hollander, Wolfe, Chicken:
// Nonparametric Statistical Methods, section 4.1), worked out by its formula elsewhere.
func TestMannWhitneyManyTies(t *testing.T) {
	x, y := make([]float64, 31), make([]float64, 31)
	for i := range x {
		x[i], y[i] = float64(i/8), float64((i+6)/8)
	}
	u, p, err := MannWhitney(x, y)
	if err != nil || u != 322 || math.Abs(p-0.0222646205) > 1e-9 {
		t.Errorf("u %v, p %.10f, %v; want 322, 0.0222646205", u, p, err)
	}
}

func TestGeometricMean(t *testing.T) {
	if got := GeometricMean([]float64{1, 4, 16}); !near(got, 4) {
		t.Errorf("%v, want 4", got)
	}
	if got := GeometricMean([]float64{1, 0}); !math.IsNaN(got) {
		t.Errorf("%v, want NaN", got)
	}
}

func TestSmallestP(t *testing.T) {
	if got := SmallestP(3, 3); !near(got, 0.1) {
		t.Errorf("%v, want 0.1", got)
	}
	if got := SmallestP(1, 1); !near(got, 1) {
		t.Errorf("%v, want 1", got)
	}
}

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
	var ns []float64
	for i := range 1000 {
		thousand = append(thousand, int64(i+1)*1000)
		ns = append(ns, float64(i+1)*1000)
	}
	p90, p99 := 900e3, 990e3
	want = Latency{Samples: 1000, MinNs: 1000, P50Ns: 500e3, P90Ns: &p90, P99Ns: &p99, MaxNs: 1e6, MeanNs: 500500, StdevNs: math.Sqrt((1e6-1)/12) * 1000}
	if diff := cmp.Diff(NewLatency(counted(thousand, 1000)), want, cmp.Comparer(near)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(LatencyFromNs(ns), want, cmp.Comparer(near)); diff != "" {
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

func TestHistogram(t *testing.T) {
	var values []int64
	for i := range 20000 {
		values = append(values, int64(2000+i*i%70001))
	}
	exact := NewLatency(counted(values, len(values)))
	for _, raw := range []int{0, len(values)} {
		h, err := NewHistogram(counted(values, raw))
		if err != nil {
			t.Fatal(err)
		}
		d, err := h.Decode()
		if err != nil {
			t.Fatal(err)
		}
		within := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) <= max(a, b)/500 })
		if diff := cmp.Diff(d.Latency(), exact, within); diff != "" {
			t.Errorf("raw %d: %s", raw, diff)
		}
		var n int64
		for _, b := range d.Bars(40) {
			n += b.Count
		}
		if n != 20000 {
			t.Errorf("bars hold %d samples, want 20000", n)
		}
		both, err := MergeHistograms(h, h)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := both.Decode(); err != nil || d.N() != 40000 {
			t.Errorf("merged: %v, %v", d.N(), err)
		}
	}
	for _, bad := range []Histogram{{Unit: "us", Encoded: "HISTFAAAAA=="}, {Unit: "ps"}, {Unit: "ps", Encoded: "HISTFAAAAAAAAAAAAAAAAA=="}} {
		if _, err := bad.Decode(); err == nil {
			t.Errorf("%+v decodes", bad)
		}
	}
}

func TestConditions(t *testing.T) {
	for _, tt := range []struct {
		name string
		c    Conditions
		want string // the words before the colons
	}{
		{"quiet", Conditions{Seconds: 1, Messages: 1e6, InFlight: 128, RunValues: []float64{10, 10.1, 9.9, 10, 10.2, 9.8}}, ""},
		{"short", Conditions{Seconds: 0.004}, "too short"},
		{"few windows", Conditions{Seconds: 1, Messages: 1000, InFlight: 128}, "too short"},
		{"noisy", Conditions{Seconds: 1, RunValues: []float64{10, 15, 9, 12, 20, 8}}, "too noisy"},
		{"noisy, few", Conditions{RunValues: []float64{10, 15}}, "too noisy"},
		{"dip", Conditions{SeriesValues: []float64{10, 2, 10, 2, 10, 2, 10, 2, 10}}, "unsteady"},
		{"steal", Conditions{WatchedSeconds: 1, StealSeconds: 0.05}, "disturbed"},
		{"waiting", Conditions{WatchedSeconds: 1, WaitedSeconds: 0.05, Waits: 20}, "disturbed"},
		{"housekeeping", Conditions{WatchedSeconds: 1, WaitedSeconds: 0.005, Waits: 400}, ""},
		{"hot", Conditions{ThrottledCount: 1}, "throttled"},
		{"quota", Conditions{QuotaStops: 3, QuotaSeconds: 0.2}, "throttled"},
		{"clock", Conditions{ClockCostNs: 20, MedianNs: 100}, "clock"},
		{"counters", Conditions{Counters: map[string]int64{"retransmits": 4, "np_cnp_sent": 0, "sent_pkts": 9}}, "counters moved"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var words []string
			for _, w := range tt.c.Warnings() {
				word, _, _ := strings.Cut(w, ":")
				words = append(words, word)
			}
			if got := strings.Join(words, " "); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
