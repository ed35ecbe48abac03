package report

import (
	"math"
	"testing"
)

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
		d, err := Decode(h)
		if err != nil {
			t.Fatal(err)
		}
		for p, want := range map[float64]float64{
			0: exact.MinNs, 0.5: exact.P50Ns, 0.9: *exact.P90Ns, 0.99: *exact.P99Ns, 0.999: *exact.P999Ns, 1: exact.MaxNs,
		} {
			if got := d.QuantileNs(p); math.Abs(got-want) > max(got, want)/500 {
				t.Errorf("raw %d: p%g is %v, want %v", raw, 100*p, got, want)
			}
		}
		if both, err := Decode(h, h); err != nil || both.N() != 40000 {
			t.Errorf("merged: %v, %v", both.N(), err)
		}
		edges, shares := d.Bars()
		sum := 0.0
		for _, s := range shares {
			sum += s
		}
		if len(edges) != len(shares)+1 || math.Abs(sum-1) > 1e-9 || edges[0] > exact.MinNs || edges[1] < exact.MinNs ||
			edges[len(shares)] < exact.MaxNs {
			t.Errorf("%d bars from %v to %v have %v of all samples", len(shares), edges[0], edges[len(edges)-1], sum)
		}
	}
	for _, bad := range []Histogram{
		{Unit: "us", Encoded: "HISTFAAAAA=="}, {Unit: "ps"}, {Unit: "ps", Encoded: "HISTFAAAAAAAAAAAAAAAAA=="},
	} {
		if _, err := Decode(&bad); err == nil {
			t.Errorf("%+v decodes", bad)
		}
	}
}

// A percentile is the smallest sample such that at least that share is not above it: of 1060 samples p99 is the 1050th.
func TestHistogramRank(t *testing.T) {
	var ns []int64
	for i := range 1060 {
		ns = append(ns, int64(i+1))
	}
	samples := counted(ns, len(ns))
	h, err := NewHistogram(samples)
	if err != nil {
		t.Fatal(err)
	}
	d, err := Decode(h)
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range map[float64]float64{0.5: 530, 0.99: 1050, 0.9: 954, 1: 1060, 0: 1} {
		if got := d.QuantileNs(p); math.Abs(got/want-1) > 1.0/1024+1e-9 || got < want {
			t.Errorf("p%g: got %v, want %v", 100*p, got, want)
		}
		if l := NewLatency(samples); p == 0.99 && *l.P99Ns != want {
			t.Errorf("exactly: got %v, want %v", *l.P99Ns, want)
		}
	}
}
