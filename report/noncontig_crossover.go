package report

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// NoncontigCrossover is the block size from which the device's scatter/gather beats the copy, for one series.
type NoncontigCrossover struct {
	NoncontigKey
	BlockBytes float64 `json:"block_bytes"`    // 0: none in range
	Low        float64 `json:"low,omitempty"`  // 95 % bootstrap interval; 0: too few runs, or it leaves the range
	High       float64 `json:"high,omitempty"` // see Low
	// Clear tells that one side wins clearly below, and the other above.
	Clear bool `json:"clear"`
	// Share is the part of the bootstrap resamples that have a crossover in range.
	Share float64 `json:"share"`
	// Words says what was found: "none in range: pack wins from 64 B to 4 KiB".
	Words string `json:"words"`
}

// ratioPoint is the speed-up of the device over the copy at one block size, with the runs behind it.
type ratioPoint struct {
	block       float64
	device, cpu []float64
}

const bootstrapRounds = 1000

// crossover interpolates, in log2 of the block size and the logarithm of the ratio, where the ratio passes 1 upwards.
// The interval comes from resampling the runs of each point.
func (n *Noncontig) crossover(k NoncontigKey) (x NoncontigCrossover, ok bool) {
	series := n.ratios(k)
	if len(series) < 2 {
		return NoncontigCrossover{}, false
	}
	device, cpu := NoncontigSides(k.Shape)
	ratios := make([]float64, len(series))
	fewest := math.MaxInt
	for i, p := range series {
		ratios[i] = medianOfValues(p.device) / medianOfValues(p.cpu)
		fewest = min(fewest, len(p.device), len(p.cpu))
	}
	at := crossing(series, ratios)
	x = NoncontigCrossover{NoncontigKey: k}
	span := fmt.Sprintf("%s to %s", Bytes(series[0].block), Bytes(series[len(series)-1].block))
	if at == 0 {
		winner := device
		if ratios[0] < 1 {
			winner = cpu
		}
		x.Words = fmt.Sprintf("none in range: %s wins from %s", winner, span)
		if ratios[0] > 1 && ratios[len(ratios)-1] < 1 {
			x.Words = fmt.Sprintf("none: %s loses to %s as blocks grow from %s", device, cpu, span)
		}
	}
	x.BlockBytes = at
	below, above := n.clearAround(k, at)
	x.Clear = at > 0 && below && above
	defer func() {
		if at > 0 && !x.Clear {
			x.Words += "; not clear: the intervals overlap on one side of it"
		}
	}()
	if fewest < 3 {
		if at > 0 {
			x.Words = fmt.Sprintf("about %s; too few runs for an interval", Bytes(at))
		}
		return x, true
	}
	random := rand.New(rand.NewPCG(uint64(k.SizeBytes+k.Count), uint64(len(k.Stride))+uint64(len(series))))
	var found []float64
	for range bootstrapRounds {
		for i, p := range series {
			ratios[i] = resampledMedian(random, p.device) / resampledMedian(random, p.cpu)
		}
		if b := crossing(series, ratios); b > 0 {
			found = append(found, b)
		}
	}
	x.Share = float64(len(found)) / bootstrapRounds
	if at == 0 {
		return x, true
	}
	x.Words = fmt.Sprintf("about %s; %.0f %% of resamples have one in range", Bytes(at), 100*x.Share)
	if x.Share >= 0.95 {
		slices.Sort(found)
		x.Low, x.High = found[int(0.025*float64(len(found)))], found[int(0.975*float64(len(found)-1)+0.5)]
		x.Words = fmt.Sprintf("%s (95 %% interval %s to %s)", Bytes(at), Bytes(x.Low), Bytes(x.High))
	}
	return x, true
}

// clearAround tells whether the copy wins clearly at some block size below at, and the device at one above.
func (n *Noncontig) clearAround(k NoncontigKey, at float64) (below, above bool) {
	for i := range n.Cells {
		c := &n.Cells[i]
		if c.NoncontigKey != k || !c.Differs {
			continue
		}
		below = below || c.Speedup < 1 && float64(c.BlockBytes) <= at
		above = above || c.Speedup > 1 && float64(c.BlockBytes) >= at
	}
	return below, above
}

func (n *Noncontig) ratios(k NoncontigKey) []ratioPoint {
	device, cpu := NoncontigSides(k.Shape)
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
			out[at].device = p.goodputs()
		} else {
			out[at].cpu = p.goodputs()
		}
	}
	out = slices.DeleteFunc(out, func(r ratioPoint) bool { return r.device == nil || r.cpu == nil })
	slices.SortFunc(out, func(a, b ratioPoint) int { return cmp.Compare(a.block, b.block) })
	return out
}

// crossing is the block size of the last passage of the ratio from below 1 to above, or 0.
func crossing(series []ratioPoint, ratios []float64) float64 {
	for i := len(series) - 1; i > 0; i-- {
		a, b := math.Log(ratios[i-1]), math.Log(ratios[i])
		if a < 0 && b >= 0 {
			x0, x1 := math.Log2(series[i-1].block), math.Log2(series[i].block)
			return math.Exp2(x0 + (x1-x0)*a/(a-b))
		}
	}
	return 0
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
