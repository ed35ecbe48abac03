package report

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	histogramUnit      = "ps"
	histogramHighestPs = 1 << 53 // two and a half hours; still exact as a float64
	histogramDigits    = 3
)

// Distribution is how many samples have each value, or lie in each bucket of a histogram.
type Distribution struct {
	n       uint64
	scale   float64            // nanoseconds per unit
	buckets []hdrhistogram.Bar // those that have samples: the library walks tens of thousands each time that it is asked
}

// Distribution of samples: of their values where Raw holds every one, else in buckets that reach at most 1/1024 above a
// sample.
func (s Samples) Distribution() *Distribution {
	d := &Distribution{n: s.N, scale: s.Scale}
	if uint64(len(s.Raw)) < s.N {
		d.buckets = buckets(hdrhistogram.Import(&hdrhistogram.Snapshot{
			LowestTrackableValue: 1, HighestTrackableValue: histogramHighestPs, SignificantFigures: histogramDigits,
			Counts: s.Counts,
		}))
		for i, b := range d.buckets {
			d.buckets[i].From, d.buckets[i].To = min(max(b.From, s.Min), s.Max), max(min(b.To, s.Max), s.Min)
		}
		return d
	}
	for _, v := range slices.Sorted(slices.Values(s.Raw[:s.N])) {
		if last := len(d.buckets) - 1; last >= 0 && d.buckets[last].To == v {
			d.buckets[last].Count++
		} else {
			d.buckets = append(d.buckets, hdrhistogram.Bar{From: v, To: v, Count: 1})
		}
	}
	return d
}

func buckets(h *hdrhistogram.Histogram) []hdrhistogram.Bar {
	return slices.DeleteFunc(h.Distribution(), func(b hdrhistogram.Bar) bool { return b.Count == 0 })
}

// NewHistogram encodes samples as an HdrHistogram of picoseconds (V2 compressed, base64). Of a [Distribution] in
// buckets each counts as its middle, which moves a sample by at most 1/2048.
func NewHistogram(s Samples) (*Histogram, error) {
	h := newHDR()
	for _, b := range s.Distribution().buckets {
		ps := math.Round(float64(b.From+b.To) / 2 * s.Scale * 1000)
		if err := h.RecordValues(int64(min(max(ps, 0), histogramHighestPs)), b.Count); err != nil {
			return nil, fmt.Errorf("histogram: %w", err)
		}
	}
	b, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return nil, fmt.Errorf("encode histogram: %w", err)
	}
	return &Histogram{Unit: histogramUnit, Encoded: string(b)}, nil
}

func newHDR() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, histogramHighestPs, histogramDigits)
}

// Decode reads histograms and adds them up. A unit other than picoseconds is an error.
func Decode(hs ...*Histogram) (*Distribution, error) {
	sum := newHDR()
	for _, h := range hs {
		hdr, err := h.decode()
		if err != nil {
			return nil, err
		}
		if dropped := sum.Merge(hdr); dropped != 0 {
			return nil, fmt.Errorf("merge histograms: %d samples are above %d ps", dropped, int64(histogramHighestPs))
		}
	}
	return &Distribution{uint64(sum.TotalCount()), 1e-3, buckets(sum)}, nil
}

func (h *Histogram) decode() (hdr *hdrhistogram.Histogram, err error) {
	if h.Unit != histogramUnit {
		return nil, fmt.Errorf("histogram is in %q, this version reads %q", h.Unit, histogramUnit)
	}
	if len(h.Encoded) > 1<<20 {
		return nil, fmt.Errorf("histogram has %d bytes: one of picoseconds has at most a MiB", len(h.Encoded))
	}
	if len(h.Encoded) < 16 {
		return nil, errors.New("histogram is cut short")
	}
	defer func() { // the library indexes what it decodes
		if p := recover(); p != nil {
			hdr, err = nil, fmt.Errorf("histogram does not decode: %v", p)
		}
	}()
	if hdr, err = hdrhistogram.Decode([]byte(h.Encoded)); err != nil {
		return nil, fmt.Errorf("histogram does not decode: %w", err)
	}
	return hdr, nil
}

// N is the number of samples.
func (d *Distribution) N() uint64 { return d.n }

// rank is the number of samples, counted from the smallest, that make up the share p of n: at least 1.
func rank(p float64, n uint64) uint64 {
	return min(max(uint64(math.Ceil(p*float64(n)-1e-9)), 1), n)
}

// QuantileNs is the smallest value such that at least the share p of the samples is not above it, in nanoseconds; of a
// bucket its end.
func (d *Distribution) QuantileNs(p float64) float64 {
	// the library rounds the rank to the nearest, which is one too few for p99 of 1060
	left, reached := int64(rank(p, d.n)), int64(0)
	for _, b := range d.buckets {
		reached = b.To
		if left -= b.Count; left <= 0 {
			break
		}
	}
	return float64(reached) * d.scale
}

// barsPerOctave is how many bars a histogram has from a latency to its double: each is 4.4 % wide.
const barsPerOctave = 16

// Bars are the shares of the samples in ranges of equal ratio, the same for every histogram: the edges in nanoseconds,
// one more than there are shares. There must be a sample.
func (d *Distribution) Bars() (edgesNs, shares []float64) {
	place := func(v int64) int { return int(math.Floor(math.Log2(float64(max(v, 1))) * barsPerOctave)) }
	first := place(d.buckets[0].From)
	shares = make([]float64, place(d.buckets[len(d.buckets)-1].To)-first+1)
	for i := range len(shares) + 1 {
		edgesNs = append(edgesNs, math.Exp2(float64(first+i)/barsPerOctave)*d.scale)
	}
	for _, b := range d.buckets {
		shares[place((b.From+b.To)/2)-first] += float64(b.Count) / float64(d.n)
	}
	return edgesNs, shares
}
