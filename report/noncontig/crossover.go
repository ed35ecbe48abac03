package noncontig

import (
	"math"

	"github.com/gobw/gobw/report/stats"
)

// Crossover is the block size from which the device's scatter/gather beats the copy, for one series.
type Crossover struct {
	Key
	BlockBytes float64 `json:"block_bytes"`    // interpolated between Low and High
	Low        float64 `json:"low,omitempty"`  // the largest block size at which the copy is better, by the verdict
	High       float64 `json:"high,omitempty"` // the smallest at which the device is
}

// crossover reads the verdicts of a series along its block sizes: the copy's cells below, the device's above, and between the
// two, in log2 of the block size and the logarithm of the ratio, where the ratio passes 1 upwards. Nil: there is none.
func crossover(k Key, series []Cell) *Crossover {
	worse, better := -1, -1 // the last block size at which the device's way is worse, the first at which it is better
	for i, c := range series {
		if i > 0 && series[i-1].BlockBytes == c.BlockBytes {
			return nil // layouts that differ in more than their blocks
		}
		if c.Question.Word == stats.Worse {
			worse = i
		}
		if c.Question.Word == stats.Better && better < 0 {
			better = i
		}
	}
	if worse < 0 || better <= worse || k.Stride == AsGiven {
		return nil
	}
	return &Crossover{k, crossing(series[worse : better+1]), float64(series[worse].BlockBytes), float64(series[better].BlockBytes)}
}

// crossing is the block size at which the speed-up passes 1, of a series that begins below it and ends above. A ratio that
// falls where it ought to rise is noise more often than not: such neighbours are pooled, so that there is one passage.
func crossing(series []Cell) float64 {
	logs := rising(series)
	for i := 1; i < len(series); i++ {
		if a, b := logs[i-1], logs[i]; a < 0 && b >= 0 {
			x0, x1 := math.Log2(float64(series[i-1].BlockBytes)), math.Log2(float64(series[i].BlockBytes))
			return math.Exp2(x0 + (x1-x0)*a/(a-b))
		}
	}
	return float64(series[len(series)-1].BlockBytes)
}

// rising are the logarithms of the speed-ups, made to rise: the closest in least squares (pool adjacent violators).
func rising(series []Cell) []float64 {
	type pool struct {
		sum float64
		n   int
	}
	var pools []pool
	for _, c := range series {
		pools = append(pools, pool{math.Log(c.Question.Speedup), 1})
		for len(pools) > 1 {
			a, b := &pools[len(pools)-2], &pools[len(pools)-1]
			if a.sum*float64(b.n) < b.sum*float64(a.n) {
				break
			}
			a.sum, a.n = a.sum+b.sum, a.n+b.n
			pools = pools[:len(pools)-1]
		}
	}
	out := make([]float64, 0, len(series))
	for _, p := range pools {
		for range p.n {
			out = append(out, p.sum/float64(p.n))
		}
	}
	return out
}
