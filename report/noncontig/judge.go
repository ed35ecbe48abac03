package noncontig

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

// Judgement is one strategy against another on the same layout. The strategies of a round were measured back to back,
// so each round gives a ratio of their goodputs.
type Judgement struct {
	Strategy string       `json:"strategy"`
	Against  string       `json:"against"`
	Goodput  stats.Effect `json:"goodput"`
	Speedup  float64      `json:"speedup,omitempty"` // how many times as fast the strategy is; 0: a goodput is missing
	stats.Verdict
	// Ratios are those of the rounds that both have, by their numbers.
	Ratios map[int]float64 `json:"-"`
}

// Bounds of what a file may make this work on; what we measure is far within.
const (
	mostRounds     = 1000 // pairs are weighed each with each
	mostStrategies = 32   // of a cell
)

// judge weighs one point against another. The verdict is open until all of a grid are concluded together.
func judge(a, b *Point) *Judgement {
	other := map[int]float64{}
	for k := range b.Runs {
		other[b.Runs[k].RoundAt(k)] = b.Runs[k].GoodputBitsPerS
	}
	var ours, theirs []float64
	ratios := map[int]float64{}
	for k := range a.Runs[:min(len(a.Runs), mostRounds)] {
		if v, has := other[a.Runs[k].RoundAt(k)]; has {
			ours, theirs = append(ours, a.Runs[k].GoodputBitsPerS), append(theirs, v)
			ratios[a.Runs[k].RoundAt(k)] = a.Runs[k].GoodputBitsPerS / v
		}
	}
	return &Judgement{
		Strategy: a.Strategy, Against: b.Strategy, Ratios: ratios,
		Goodput: stats.Paired(theirs, ours, stats.DefaultConfidence, stats.HigherIsBetter),
	}
}

// RoundAt is the number of a run's round, of a document without rounds its place among the runs.
func (r *Run) RoundAt(place int) int { return cmp.Or(r.Round, place+1) }

// verdicts judges each two strategies of every cell. All of them are judged together.
func (n *Grid) verdicts() {
	var all, bounds []*Judgement
	var bounded []*Cell
	for i := range n.Cells {
		c := &n.Cells[i]
		c.weigh()
		all = append(all, c.judged...)
		if bound := c.Find(Contiguous); bound != nil {
			for _, f := range c.rivals() {
				bounds, bounded = append(bounds, judge(f.point, bound.point)), append(bounded, c)
			}
		}
	}
	conclude(all)
	conclude(bounds)
	for i, j := range bounds {
		bounded[i].doubt(j)
	}
	for i := range n.Cells {
		n.Cells[i].decide()
	}
}

func conclude(all []*Judgement) {
	effects := plain.Each(all, func(j *Judgement) stats.Effect { return j.Goodput })
	for i, v := range stats.Conclude(effects, stats.DefaultMargin, stats.DefaultConfidence) {
		v.Settle = strings.Replace(v.Settle, "pairs", "runs", 1) // a run is a pair of each two strategies
		all[i].Verdict = v
		if all[i].Goodput.Finite(); v.Cause != stats.NotFinite {
			all[i].Speedup = 1 + all[i].Goodput.Change
		}
	}
}

// doubt finds that a strategy is faster than contiguous, by more than counts as the same and beyond noise. That cannot
// be: each strategy moves the bytes of contiguous, and does more. Then something else than the device was measured, and
// nothing in the cell can be told.
func (c *Cell) doubt(bound *Judgement) {
	if bound.Word != stats.Better || bound.Goodput.Interval.Low <= stats.DefaultMargin {
		return
	}
	c.Impossible = fmt.Sprintf("%s is faster than contiguous (%s)", bound.Strategy, bound.Reason)
	for _, j := range c.judged {
		j.Verdict = stats.Unknown(stats.Impossible, "", "%s", c.Impossible)
	}
}

// weigh lists what there is to judge in a cell: each two of the strategies that compete, the
// device's own way against the copy among them.
func (c *Cell) weigh() {
	device, cpu := c.Sides()
	rivals := c.rivals()
	for i, a := range rivals {
		for _, b := range rivals[i+1:] {
			j := judge(a.point, b.point)
			if c.judged = append(c.judged, j); a.Strategy == device && b.Strategy == cpu {
				c.Question = j
			}
		}
	}
}

// rivals are the strategies of the cell that can win.
func (c *Cell) rivals() []Figure {
	all := slices.DeleteFunc(slices.Clone(c.Strategies), func(f Figure) bool { return f.Strategy == Contiguous })
	return all[:min(len(all), mostStrategies)]
}

// decide names the winner: the strategy that is better than each other by the verdicts.
func (c *Cell) decide() {
	for _, f := range c.rivals() {
		beaten := func(j *Judgement) bool {
			return j.Strategy == f.Strategy && j.Word != stats.Better || j.Against == f.Strategy && j.Word != stats.Worse
		}
		if len(c.judged) > 0 && !slices.ContainsFunc(c.judged, beaten) {
			c.Winner = f.Strategy
		}
	}
}
