package noncontig

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Costs are the terms of the cost model: the time of a message is the sum of each times its count.
type Costs struct {
	MessageNs float64 `json:"message_ns"`
	WRNs      float64 `json:"wr_ns"`
	SGENs     float64 `json:"sge_ns"`
	BlockNs   float64 `json:"block_ns"`
	ByteNs    float64 `json:"byte_ns"`
}

// Model is the cost model of one strategy, fitted to the grid.
type Model struct {
	Shape    string `json:"shape"`
	Strategy string `json:"strategy"`
	Costs    Costs  `json:"costs"`
	Points   int    `json:"points"`
	// FitError is the median of |predicted/measured - 1| on the points fitted.
	FitError float64 `json:"fit_error"`
	// HeldOutError and HeldOutWorst are the median and the 90th percentile of the same for points left out, one at a time;
	// nil where there are too few points.
	HeldOutError *float64 `json:"held_out_error,omitempty"`
	HeldOutWorst *float64 `json:"held_out_p90,omitempty"`
	// Merged says which terms cannot be told apart on this grid: their cost is all in the first.
	Merged []string `json:"merged,omitempty"`
}

// CostNames are what the terms of the model count.
var CostNames = [...]string{"message", "WR", "SGE", "block", "byte"} //nolint:gochecknoglobals // a constant table

// sample of the model: counts, and the time of a message.
type costSample struct {
	counts [5]float64
	ns     float64
}

func (p *Point) sample() costSample {
	goodput := medianOf(p.Goodputs())
	return costSample{
		counts: [5]float64{1, float64(p.WRs), float64(p.SGEs), float64(p.Blocks), float64(p.SizeBytes)},
		ns:     float64(p.SizeBytes) * 8 / goodput * 1e9,
	}
}

// models fits each strategy of each shape that has enough points.
func (n *Grid) models() []Model {
	type id struct{ shape, strategy string }
	samples := map[id][]costSample{}
	var order []id
	for i := range n.Points {
		p := &n.Points[i]
		if len(p.Runs) == 0 {
			continue
		}
		k := id{p.Shape, p.Strategy}
		if samples[k] == nil {
			order = append(order, k)
		}
		samples[k] = append(samples[k], p.sample())
	}
	slices.SortStableFunc(order, func(a, b id) int {
		return cmp.Or(cmp.Compare(shapeRank(a.shape), shapeRank(b.shape)), cmp.Compare(StrategyRank(a.strategy), StrategyRank(b.strategy)))
	})
	var out []Model
	for _, k := range order {
		if m, ok := fitModel(samples[k]); ok {
			m.Shape, m.Strategy = k.shape, k.strategy
			out = append(out, m)
		}
	}
	return out
}

// fitModel fits one strategy; it needs at least two points more than it has terms that differ.
func fitModel(s []costSample) (Model, bool) {
	use, merged := independentTerms(s)
	if len(s) < len(use)+1 {
		return Model{}, false
	}
	c := fitCosts(s, use)
	m := Model{
		Costs: Costs{c[0], c[1], c[2], c[3], c[4]}, Points: len(s), Merged: merged,
		FitError: medianOf(relativeErrors(s, c)),
	}
	if len(s) >= len(use)+2 {
		var held []float64
		for i := range s {
			rest := slices.Delete(slices.Clone(s), i, i+1)
			held = append(held, relativeErrors(s[i:i+1], fitCosts(rest, use))...)
		}
		slices.Sort(held)
		median, worst := medianOf(held), held[int(math.Ceil(0.9*float64(len(held))))-1]
		m.HeldOutError, m.HeldOutWorst = &median, &worst
	}
	return m, true
}

// independentTerms drops a term whose counts are a multiple of an earlier one's in all samples.
func independentTerms(s []costSample) (use []int, merged []string) {
	for t := range CostNames {
		same := -1
		for _, u := range use {
			k := s[0].counts[t] / s[0].counts[u]
			if !slices.ContainsFunc(s, func(x costSample) bool { return math.Abs(x.counts[t]-k*x.counts[u]) > 1e-9*x.counts[t] }) {
				same = u
				break
			}
		}
		if same < 0 {
			use = append(use, t)
			continue
		}
		merged = append(merged, fmt.Sprintf("per %s is in per %s", CostNames[t], CostNames[same]))
	}
	return use, merged
}

// fitCosts minimises the sum of squared relative errors over costs that are not negative, by coordinate descent on the
// normal equations: five unknowns, so thousands of rounds cost nothing.
func fitCosts(s []costSample, use []int) [5]float64 {
	var gram [5][5]float64
	var right, scale [5]float64
	for _, t := range use {
		for i := range s {
			scale[t] = max(scale[t], s[i].counts[t]/s[i].ns)
		}
	}
	for i := range s {
		for _, a := range use {
			x := s[i].counts[a] / s[i].ns / scale[a]
			right[a] += x
			for _, b := range use {
				gram[a][b] += x * s[i].counts[b] / s[i].ns / scale[b]
			}
		}
	}
	var c [5]float64
	for range 20000 {
		moved := 0.0
		for _, a := range use {
			g := right[a]
			for _, b := range use {
				if b != a {
					g -= gram[a][b] * c[b]
				}
			}
			next := max(0, g/gram[a][a])
			moved = max(moved, math.Abs(next-c[a]))
			c[a] = next
		}
		if moved < 1e-10 {
			break
		}
	}
	for _, t := range use {
		c[t] /= scale[t]
	}
	return c
}

func relativeErrors(s []costSample, c [5]float64) []float64 {
	out := make([]float64, len(s))
	for i := range s {
		ns := 0.0
		for t := range c {
			ns += c[t] * s[i].counts[t]
		}
		out[i] = math.Abs(ns/s[i].ns - 1)
	}
	return out
}
