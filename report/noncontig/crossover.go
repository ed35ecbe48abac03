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

// crossover reads the verdicts of a series along its block sizes: the copy's cells below, the device's
// above, and between the two, in log2 of the block size and the logarithm of the ratio, where the ratio
// passes 1 upwards. Nil: there is none.
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
	return &Crossover{
		k, crossing(series[worse : better+1]), float64(series[worse].BlockBytes), float64(series[better].BlockBytes),
	}
}

// crossing is the block size at which the speed-up first passes 1, of a series that begins below it and ends above.
func crossing(series []Cell) float64 {
	for i := 1; ; i++ {
		a, b := math.Log(series[i-1].Question.Speedup), math.Log(series[i].Question.Speedup)
		if i == len(series)-1 || a < 0 && b >= 0 {
			x0, x1 := math.Log2(float64(series[i-1].BlockBytes)), math.Log2(float64(series[i].BlockBytes))
			return math.Exp2(x0 + (x1-x0)*a/(a-b))
		}
	}
}
