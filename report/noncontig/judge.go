package noncontig

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gobw/gobw/report/stats"
)

// Judgement is one strategy against another on the same layout: by the ratios of their goodput and, where a completion says
// that the data is in place, of the median time of a message. Runs of one round were measured back to back, so that each
// round gives a ratio; without rounds (documents of earlier versions) the two sets are compared.
type Judgement struct {
	Strategy string        `json:"strategy"`
	Against  string        `json:"against"`
	Goodput  *stats.Effect `json:"goodput,omitempty"`  // nil: not every run has one
	Time     *stats.Effect `json:"p50_time,omitempty"` // nil: as above, or a completion tells no time
	// Best decides where neither of the others tells: on a busy machine they are those of waiting for a processor.
	Best *stats.Effect `json:"best_span,omitempty"`
	// Speedup is how many times as fast the strategy is, by the figure By, which decided.
	Speedup float64 `json:"speedup,omitempty"`
	By      string  `json:"by,omitempty"` // ByGoodput, ByTime or ByBest
	stats.Verdict
}

// The figures that a judgement can be by.
const (
	ByGoodput = "goodput"
	ByTime    = "p50 time"
	ByBest    = "best span"
)

// judge weighs one point against another. The verdict is open until all of a grid are concluded together.
func judge(a, b *Point) *Judgement {
	j := &Judgement{Strategy: a.Strategy, Against: b.Strategy}
	j.Goodput = effect(a, b, stats.HigherIsBetter, func(r *Run) float64 { return r.GoodputBitsPerS })
	j.Best = best(a, b)
	if a.Shape != "both" { // a SEND completes before the peer has unpacked it
		j.Time = effect(a, b, stats.LowerIsBetter, func(r *Run) float64 { return r.P50Ns })
	}
	return j
}

// effect of a against b on one figure; nil where there is none.
func effect(a, b *Point, better stats.Direction, figure func(*Run) float64) *stats.Effect {
	none := func(r Run) bool { return !(figure(&r) > 0) }
	if slices.ContainsFunc(a.Runs, none) || slices.ContainsFunc(b.Runs, none) {
		return nil
	}
	if old, new, ok := rounds(b, a, figure); ok {
		return usable(stats.Paired(old, new, stats.DefaultConfidence, better))
	}
	return usable(stats.Unpaired(pick(b.Runs, figure), pick(a.Runs, figure), stats.DefaultConfidence, better))
}

// best is the effect on the best span, of the rounds in which both had one; nil where there are too few of them.
func best(a, b *Point) *stats.Effect {
	seen := func(p *Point) *Point {
		return &Point{Runs: slices.DeleteFunc(slices.Clone(p.Runs), func(r Run) bool { return !(r.BestBitsPerS > 0) })}
	}
	old, new, ok := rounds(seen(b), seen(a), func(r *Run) float64 { return r.BestBitsPerS })
	if !ok || len(old) < stats.LeastPairs(stats.DefaultConfidence) {
		return nil
	}
	return usable(stats.Paired(old, new, stats.DefaultConfidence, stats.HigherIsBetter))
}

func usable(e stats.Effect) *stats.Effect {
	if math.IsNaN(e.Change) || math.IsInf(e.Change, 0) || e.Change <= -1 {
		return nil
	}
	return &e
}

// Bounds of what a file may make this work on; what we measure is far within.
const (
	mostRounds     = 1000 // pairs are weighed each with each
	mostStrategies = 32   // of a cell
)

// rounds are the figures of the rounds that both points have; false where runs are in no rounds.
func rounds(a, b *Point, figure func(*Run) float64) (x, y []float64, ok bool) {
	if len(a.Runs) > mostRounds {
		return nil, nil, false
	}
	other := map[int]float64{}
	for k := range b.Runs {
		other[b.Runs[k].Round] = figure(&b.Runs[k])
	}
	for i := range a.Runs {
		if a.Runs[i].Round == 0 {
			return nil, nil, false
		}
		if v, has := other[a.Runs[i].Round]; has {
			x, y = append(x, figure(&a.Runs[i])), append(y, v)
		}
	}
	return x, y, len(x) > 0
}

// conclude judges all of them together: each figure of each is one of many. The best span counts where the others do not tell.
func conclude(all []*Judgement) {
	of := func(j *Judgement) []told {
		figures := []told{{figure: ByGoodput, effect: j.Goodput}, {figure: ByTime, effect: j.Time}, {figure: ByBest, effect: j.Best}}
		return slices.DeleteFunc(figures, func(t told) bool { return t.effect == nil })
	}
	var effects []stats.Effect
	for _, j := range all {
		for _, t := range of(j) {
			effects = append(effects, *t.effect)
		}
	}
	verdicts := stats.Conclude(effects, stats.Margins{})
	for _, j := range all {
		says := of(j)
		for i := range says {
			says[i].Verdict, verdicts = verdicts[0], verdicts[1:]
		}
		if slices.ContainsFunc(says, func(t told) bool { return t.figure != ByBest && t.Word != stats.CannotTell }) {
			says = slices.DeleteFunc(says, func(t told) bool { return t.figure == ByBest })
		}
		j.unite(says)
	}
}

// told is what one figure tells.
type told struct {
	stats.Verdict
	figure string
	effect *stats.Effect
}

func (t told) speedup() float64 {
	if t.effect.Better == stats.LowerIsBetter {
		return 1 / (1 + t.effect.Change)
	}
	return 1 + t.effect.Change
}

// width of the interval; infinite: none.
func (t told) width() float64 {
	if t.effect.Interval == nil {
		return math.Inf(1)
	}
	return t.effect.Interval.High - t.effect.Interval.Low
}

// unite makes one verdict of two: a difference that one figure shows counts unless the other shows the contrary; after it,
// that both are the same. What decides is, among those that say so, the figure with the narrower interval.
func (j *Judgement) unite(all []told) {
	if len(all) == 0 {
		j.Verdict = stats.Unknown(stats.Missing, "", "a figure is missing, infinite or not a number")
		return
	}
	rank := func(w stats.Word) int {
		return slices.Index([]stats.Word{stats.Better, stats.Worse, stats.Same, stats.CannotTell}, w)
	}
	slices.SortStableFunc(all, func(a, b told) int {
		return cmp.Or(cmp.Compare(min(rank(a.Word), 1+rank(stats.Better)), min(rank(b.Word), 1+rank(stats.Better))), cmp.Compare(rank(a.Word), rank(b.Word)))
	})
	first, last := all[0], all[len(all)-1]
	if first.Word == stats.Better && last.Word == stats.Worse {
		j.Speedup, j.By = first.speedup(), first.figure
		j.Verdict = stats.Unknown(stats.Unclear, "longer runs", "%s says faster (%s), %s slower (%s)", first.figure, first.Reason, last.figure, last.Reason)
		return
	}
	var figures []string
	best := first
	for _, t := range all {
		if t.Word != first.Word {
			continue
		}
		figures = append(figures, t.figure)
		if t.width() < best.width() {
			best = t
		}
	}
	j.Verdict, j.Speedup, j.By = best.Verdict, best.speedup(), best.figure
	j.Reason = fmt.Sprintf("by %s: %s", strings.Join(figures, " and "), best.Reason)
}

// verdicts judges every cell: each two of its strategies, and the control.
func (n *Grid) verdicts() {
	points := map[place][]*Point{}
	for i := range n.Points {
		if p := &n.Points[i]; len(p.Runs) > 0 {
			points[p.place()] = append(points[p.place()], p)
		}
	}
	var all []*Judgement
	byCell := make([][]*Judgement, len(n.Cells))
	for i := range n.Cells {
		c := &n.Cells[i]
		byCell[i] = c.weigh(points[place{c.Key, c.Layout}])
		all = append(all, byCell[i]...)
	}
	conclude(all)
	for i := range n.Cells {
		n.Cells[i].decide(byCell[i])
	}
}

// place is what the points of a cell share.
type place struct {
	Key
	layout string
}

func (p *Point) place() place { return place{p.key(), p.Layout} }

// weigh lists what there is to judge in a cell: each two of the strategies that compete, the device's own way against the copy
// among them, and the control against what it repeats.
func (c *Cell) weigh(points []*Point) []*Judgement {
	device, cpu := Sides(c.Shape)
	var out []*Judgement
	var ours *Point
	slices.SortStableFunc(points, func(a, b *Point) int { return cmp.Compare(StrategyRank(a.Strategy), StrategyRank(b.Strategy)) })
	points = points[:min(len(points), mostStrategies)]
	for i, a := range points {
		if a.Strategy == device {
			ours = a
		}
		for _, b := range points[i+1:] {
			if !competes(a.Strategy) || !competes(b.Strategy) {
				continue
			}
			j := judge(a, b)
			if a.Strategy == device && b.Strategy == cpu {
				c.Question = j
			}
			out = append(out, j)
		}
	}
	if again := points[len(points)-1]; again.Strategy == Control && ours != nil {
		c.Control = judge(again, ours)
		out = append(out, c.Control)
	}
	return out
}

// competes tells whether a strategy can win.
func competes(strategy string) bool { return strategy != Contiguous && strategy != Control }

// decide names the winner: the strategy that is better than each other by the verdicts.
func (c *Cell) decide(judged []*Judgement) {
	better := map[string]int{} // than how many others
	for _, j := range judged {
		switch {
		case j == c.Control:
		case j.Word == stats.Better:
			better[j.Strategy]++
		case j.Word == stats.Worse:
			better[j.Against]++
		}
	}
	others := -1
	for i := range c.Strategies {
		if competes(c.Strategies[i].Strategy) {
			others++
		}
	}
	for name, n := range better {
		if n == others {
			c.Winner = name
		}
	}
}
