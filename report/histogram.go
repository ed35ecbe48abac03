package report

import (
	"errors"
	"fmt"
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	histogramUnit      = "ps"
	histogramHighestPs = 1 << 53 // two and a half hours; still exact as a float64
	histogramDigits    = 3
)

// Distribution is a decoded histogram of latencies.
type Distribution struct {
	n       uint64
	max     int64              // picoseconds
	buckets []hdrhistogram.Bar // those that have samples: the library walks tens of thousands each time that it is asked
}

// NewHistogram encodes samples as an HdrHistogram of picoseconds (V2 compressed, base64). It takes the samples as they
// came where all were kept; otherwise each bucket counts as its middle, which moves a sample by at most 1/2048.
func NewHistogram(s Samples) (*Histogram, error) {
	h := newHDR()
	if uint64(len(s.Raw)) >= s.N {
		for _, v := range s.Raw[:s.N] {
			if err := h.RecordValue(picoseconds(float64(v), s.Scale)); err != nil {
				return nil, fmt.Errorf("histogram: %w", err)
			}
		}
		return encode(h)
	}
	for i, c := range s.Counts {
		if c == 0 {
			continue
		}
		low, high := bucket(i)
		middle := float64(min(max(low, s.Min), s.Max)+max(min(high, s.Max), s.Min)) / 2
		if err := h.RecordValues(picoseconds(middle, s.Scale), c); err != nil {
			return nil, fmt.Errorf("histogram: %w", err)
		}
	}
	return encode(h)
}

func newHDR() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, histogramHighestPs, histogramDigits)
}

func picoseconds(v, scale float64) int64 {
	return int64(min(max(math.Round(v*scale*1000), 0), histogramHighestPs))
}

func encode(h *hdrhistogram.Histogram) (*Histogram, error) {
	b, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return nil, fmt.Errorf("encode histogram: %w", err)
	}
	return &Histogram{Unit: histogramUnit, Encoded: string(b)}, nil
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
	d := &Distribution{n: uint64(sum.TotalCount()), max: sum.Max()}
	for _, b := range sum.Distribution() {
		if b.Count != 0 {
			d.buckets = append(d.buckets, b)
		}
	}
	return d, nil
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

// QuantileNs is the smallest recorded value such that at least the share p of the samples is not above it, in
// nanoseconds, within 1/1024.
func (d *Distribution) QuantileNs(p float64) float64 {
	left := int64(rank(p, max(d.N(), 1))) // the library rounds the rank to the nearest, which is one too few for p99 of 1060
	for _, b := range d.buckets {
		if left -= b.Count; left <= 0 {
			return float64(min(b.To, d.max)) / 1000
		}
	}
	return float64(d.max) / 1000
}

// barsPerOctave is how many bars a histogram has from a latency to its double: each is 4.4 % wide.
const barsPerOctave = 16

// Bars are the shares of the samples in ranges of equal ratio, the same for every histogram: the edges in nanoseconds, one more than
// there are shares. There must be a sample.
func (d *Distribution) Bars() (edgesNs, shares []float64) {
	place := func(ps int64) int { return int(math.Floor(math.Log2(float64(max(ps, 1))) * barsPerOctave)) }
	first := place(d.buckets[0].From)
	shares = make([]float64, place(d.max)-first+1)
	for i := range len(shares) + 1 {
		edgesNs = append(edgesNs, math.Exp2(float64(first+i)/barsPerOctave)/1000)
	}
	for _, b := range d.buckets {
		shares[place(min((b.From+b.To)/2, d.max))-first] += float64(b.Count) / float64(d.n)
	}
	return edgesNs, shares
}
