package noncontig

import (
	"fmt"
	"maps"
	"math"

	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

// Crossover is the block size from which the device's scatter/gather beats the copy, for one series.
type Crossover struct {
	Key
	BlockBytes float64 `json:"block_bytes"`    // 0: none in range; interpolated between Low and High
	Low        float64 `json:"low,omitempty"`  // the largest block size at which the copy is better, by the verdict
	High       float64 `json:"high,omitempty"` // the smallest at which the device is
	// Clear tells that there is one: the copy is better below, and the device above.
	Clear bool `json:"clear"`
	// Words says what was found: "none in range: pack is ahead from 64 B to 4 KiB".
	Words string `json:"words"`
}

// crossover reads the verdicts of a series along its block sizes: the copy's cells below, the device's above, and between the
// two, in log2 of the block size and the logarithm of the ratio, where the ratio passes 1 upwards.
func (n *Grid) crossover(k Key) (x Crossover, ok bool) {
	var series []*Cell
	for i := range n.Cells {
		if c := &n.Cells[i]; c.Key == k && c.Question != nil {
			if len(series) > 0 && series[len(series)-1].BlockBytes == c.BlockBytes {
				return x, false // layouts that differ in more than their blocks
			}
			series = append(series, c)
		}
	}
	if len(series) < 2 || k.Stride == AsGiven {
		return x, false
	}
	x = Crossover{Key: k}
	first := map[stats.Word]int{stats.Better: -1, stats.Worse: -1} // where the device's way is so first, and last
	last := maps.Clone(first)
	told := 0
	for i, c := range series {
		word := c.Question.Word
		if first[word] < 0 {
			first[word] = i
		}
		last[word] = i
		if word != stats.CannotTell {
			told++
		}
	}
	worse, better := last[stats.Worse], first[stats.Better]
	device, cpu := Sides(k.Shape)
	size := func(i int) string { return plain.Bytes(float64(series[i].BlockBytes)) }
	span := fmt.Sprintf("from %s to %s", size(0), size(len(series)-1))
	open := ""
	if told < len(series) {
		open = fmt.Sprintf(" (%d of %d block sizes cannot be told)", len(series)-told, len(series))
	}
	switch {
	case worse >= 0 && better >= 0 && worse < better:
		x.Clear = true
		x.Low, x.High = float64(series[worse].BlockBytes), float64(series[better].BlockBytes)
		x.BlockBytes = crossing(series[worse : better+1])
		x.Words = fmt.Sprintf("about %s: %s is better at %s, %s at %s", plain.Bytes(x.BlockBytes), cpu, size(worse), device, size(better))
	case told == 0:
		x.Words = "cannot tell: no block size has a verdict " + span
	case better < 0 && worse < 0:
		x.Words = fmt.Sprintf("none in range: %s and %s are the same %s%s", device, cpu, span, open)
	case worse < 0:
		x.Words = fmt.Sprintf("none in range: %s is ahead %s%s", device, span, open)
	case better < 0:
		x.Words = fmt.Sprintf("none in range: %s is ahead %s%s", cpu, span, open)
	case last[stats.Better] < first[stats.Worse]:
		x.Words = fmt.Sprintf("none: %s loses to %s as blocks grow %s%s", device, cpu, span, open)
	default:
		x.Words = fmt.Sprintf("none that holds: now one is ahead, now the other, %s%s", span, open)
	}
	return x, true
}

// crossing is the block size at which the speed-up passes 1, of a series that begins below it and ends above. A ratio that
// falls where it ought to rise is noise more often than not: such neighbours are pooled, so that there is one passage.
func crossing(series []*Cell) float64 {
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
func rising(series []*Cell) []float64 {
	type pool struct {
		sum float64
		n   int
	}
	var pools []pool
	for _, c := range series {
		pools = append(pools, pool{math.Log(c.Speedup), 1})
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
