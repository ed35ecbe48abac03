package noncontig

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gobw/gobw/report/plain"
)

// Crossover is the block size from which the device's scatter/gather beats the copy, for one series.
type Crossover struct {
	Key
	BlockBytes float64 `json:"block_bytes"`    // 0: none in range; with three runs or more the median of the resamples
	Low        float64 `json:"low,omitempty"`  // 95 % bootstrap interval; 0: too few runs, or it leaves the range
	High       float64 `json:"high,omitempty"` // see Low
	// Clear tells that one side wins clearly below, and the other above.
	Clear bool `json:"clear"`
	// Share is the part of the bootstrap resamples that have a crossover in range.
	Share float64 `json:"share"`
	// Words says what was found: "none in range: pack is ahead from 64 B to 4 KiB".
	Words string `json:"words"`
}

// ratioPoint is the speed-up of the device over the copy at one block size, with the runs behind it.
type ratioPoint struct {
	block       float64
	device, cpu []float64
}

const bootstrapRounds = 1000

// crossover interpolates, in log2 of the block size and the logarithm of the ratio, where the ratio passes 1 upwards.
// With three runs or more the runs of each point are resampled: the estimate is the median of what the resamples give,
// and its interval their middle 95 %, so that one lies within the other whatever the noise.
func (n *Grid) crossover(k Key) (x Crossover, ok bool) {
	series := n.ratios(k)
	if len(series) < 2 {
		return Crossover{}, false
	}
	ratios := make([]float64, len(series))
	fewest := math.MaxInt
	for i, p := range series {
		ratios[i] = medianOfValues(p.device) / medianOfValues(p.cpu)
		fewest = min(fewest, len(p.device), len(p.cpu))
	}
	x = Crossover{Key: k, BlockBytes: crossing(series, ratios)}
	enough := fewest >= 3
	if enough {
		found := resampledCrossings(series, rand.New(rand.NewPCG(uint64(k.SizeBytes+k.Count), uint64(len(k.Stride))+uint64(len(series)))))
		x.Share = float64(len(found)) / bootstrapRounds
		x.BlockBytes = 0
		if x.Share >= 0.5 {
			x.BlockBytes = medianOfValues(found)
		}
		if x.Share >= 0.95 {
			x.Low, x.High = found[int(0.025*float64(len(found)))], found[int(0.975*float64(len(found)-1)+0.5)]
		}
	}
	below, above := n.clearAround(k, x.BlockBytes)
	x.Clear = x.BlockBytes > 0 && below && above
	x.Words = x.inWords(series, ratios, enough)
	return x, true
}

// inWords says what was found, and how sure it is.
func (x *Crossover) inWords(series []ratioPoint, ratios []float64, enough bool) string { //nolint:revive // whether there were runs enough
	last := len(series) - 1
	if x.BlockBytes == 0 {
		device, cpu := Sides(x.Shape)
		span := fmt.Sprintf("from %s to %s", plain.Bytes(series[0].block), plain.Bytes(series[last].block))
		low, high := slices.Min(ratios), slices.Max(ratios)
		switch {
		case low >= 1:
			return fmt.Sprintf("none in range: %s is ahead %s", device, span)
		case high <= 1:
			return fmt.Sprintf("none in range: %s is ahead %s", cpu, span)
		case ratios[0] > 1 && ratios[last] < 1:
			return fmt.Sprintf("none: %s loses to %s as blocks grow %s", device, cpu, span)
		default:
			return fmt.Sprintf("none that holds: now one is ahead, now the other, %s", span)
		}
	}
	words := "about " + plain.Bytes(x.BlockBytes)
	switch {
	case !enough:
		words += "; too few runs for an interval"
	case x.Low > 0:
		words = fmt.Sprintf("%s (95 %% interval %s to %s)", plain.Bytes(x.BlockBytes), plain.Bytes(x.Low), plain.Bytes(x.High))
	default:
		words += fmt.Sprintf("; %.0f %% of resamples have one in range", 100*x.Share)
	}
	if !x.Clear {
		words += "; not clear: the intervals overlap on one side of it"
	}
	return words
}

// resampledCrossings are the crossings of resampled runs that have one in range, in rising order.
func resampledCrossings(series []ratioPoint, random *rand.Rand) []float64 {
	ratios := make([]float64, len(series))
	var found []float64
	for range bootstrapRounds {
		for i, p := range series {
			ratios[i] = resampledMedian(random, p.device) / resampledMedian(random, p.cpu)
		}
		if b := crossing(series, ratios); b > 0 {
			found = append(found, b)
		}
	}
	slices.Sort(found)
	return found
}

// clearAround tells whether the copy wins clearly at some block size below at, and the device at one above.
func (n *Grid) clearAround(k Key, at float64) (below, above bool) {
	for i := range n.Cells {
		c := &n.Cells[i]
		if c.Key != k || !c.Differs {
			continue
		}
		below = below || c.Speedup < 1 && float64(c.BlockBytes) <= at
		above = above || c.Speedup > 1 && float64(c.BlockBytes) >= at
	}
	return below, above
}

func (n *Grid) ratios(k Key) []ratioPoint {
	device, cpu := Sides(k.Shape)
	var out []ratioPoint
	for i := range n.Points {
		p := &n.Points[i]
		if p.key() != k || len(p.Runs) == 0 || p.Strategy != device && p.Strategy != cpu {
			continue
		}
		at := slices.IndexFunc(out, func(r ratioPoint) bool { return r.block == float64(p.BlockBytes) })
		if at < 0 {
			at = len(out)
			out = append(out, ratioPoint{block: float64(p.BlockBytes)})
		}
		if p.Strategy == device {
			out[at].device = p.Goodputs()
		} else {
			out[at].cpu = p.Goodputs()
		}
	}
	out = slices.DeleteFunc(out, func(r ratioPoint) bool { return r.device == nil || r.cpu == nil })
	slices.SortFunc(out, func(a, b ratioPoint) int { return cmp.Compare(a.block, b.block) })
	return out
}

// crossing is the block size at which the ratio passes 1 upwards, or 0. A ratio that falls where it ought to rise is
// noise more often than not: such neighbours are pooled, so that there is at most one passage.
func crossing(series []ratioPoint, ratios []float64) float64 {
	logs := rising(ratios)
	for i := 1; i < len(series); i++ {
		if a, b := logs[i-1], logs[i]; a < 0 && b >= 0 {
			x0, x1 := math.Log2(series[i-1].block), math.Log2(series[i].block)
			return math.Exp2(x0 + (x1-x0)*a/(a-b))
		}
	}
	return 0
}

// rising are the logarithms of the ratios, made to rise: the closest in least squares (pool adjacent violators).
func rising(ratios []float64) []float64 {
	type pool struct {
		sum float64
		n   int
	}
	var pools []pool
	for _, r := range ratios {
		pools = append(pools, pool{math.Log(r), 1})
		for len(pools) > 1 {
			a, b := &pools[len(pools)-2], &pools[len(pools)-1]
			if a.sum*float64(b.n) < b.sum*float64(a.n) {
				break
			}
			a.sum, a.n = a.sum+b.sum, a.n+b.n
			pools = pools[:len(pools)-1]
		}
	}
	out := make([]float64, 0, len(ratios))
	for _, p := range pools {
		for range p.n {
			out = append(out, p.sum/float64(p.n))
		}
	}
	return out
}

func medianOfValues(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

func resampledMedian(r *rand.Rand, v []float64) float64 {
	var b [64]float64
	s := b[:0]
	for range v {
		s = append(s, v[r.IntN(len(v))])
	}
	slices.Sort(s)
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
