package perftestcli

import (
	"math"
	"slices"
	"strconv"

	"github.com/gobw/gobw/report"
)

// samples writes the lists of -U (as they came) and -H (sorted).
func (t *Text) samples(s report.Samples) {
	scale := s.Scale / 1e3
	unit := "usec"
	if t.v.Cycles && t.perUs > 0 {
		scale, unit = s.Scale/1e3*t.perUs, "cycles"
	}
	list := func(ticks []int64) {
		t.printf("#, %s\n", unit)
		for i, v := range ticks {
			t.printf("%d, %s\n", i+1, strconv.FormatFloat(float64(v)*scale, 'g', 6, 64))
		}
	}
	raw := s.Raw // perftest's samples are from post to post, one less than messages, and -H leaves out the two largest
	if n := t.plan.Iterations; n > 1 && uint64(len(raw)) >= n {
		raw = raw[uint64(len(raw))-n+1:]
	}
	if t.v.Unsorted {
		list(raw)
	}
	if t.v.Histogram {
		sorted := slices.Sorted(slices.Values(raw))
		list(sorted[:max(len(sorted)-2, 0)])
	}
	if n := s.N - uint64(len(s.Raw)); n > 0 {
		t.printf("# %d more samples were counted but not kept one by one\n", n)
	}
}

// tails are the 99th and 99.9th percentile in nanoseconds: of the samples if all were kept, else of the histogram.
// perftest prints them however few samples there are.
func tails(r report.Record, s report.Samples) (p99, p999 float64) {
	if s.N > 0 && uint64(len(s.Raw)) == s.N {
		sorted := slices.Clone(s.Raw)
		slices.Sort(sorted)
		at := func(p float64) float64 {
			k := int(math.Ceil(p*float64(len(sorted)) - 1e-9))
			return float64(sorted[min(max(k, 1), len(sorted))-1]) * s.Scale
		}
		return at(0.99), at(0.999)
	}
	if r.Histogram != nil {
		if d, err := r.Histogram.Decode(); err == nil && d.N() > 0 {
			return d.QuantileNs(0.99), d.QuantileNs(0.999)
		}
	}
	value := func(p *float64) float64 {
		if p == nil {
			return r.Latency.MaxNs
		}
		return *p
	}
	return value(r.Latency.P99Ns), value(r.Latency.P999Ns)
}
