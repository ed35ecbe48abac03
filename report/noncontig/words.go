package noncontig

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

// summary says the outcome in plain words: a sentence for each series of block sizes
// that has a verdict, then what is open.
func (n *Grid) summary() []string {
	var out, settle []string
	rows := 0
	for _, series := range n.Series() {
		k, cells := series[0].Key, judged(series)
		by := map[stats.Word][]Cell{}
		for _, c := range cells {
			by[c.Question.Word] = append(by[c.Question.Word], c)
		}
		for _, c := range by[stats.CannotTell] {
			remedy := c.Question.Settle
			switch {
			case c.Question.Goodput.N < n.Setup.Runs, c.Impossible != "": // interrupted, or has its own line
				remedy = ""
			case c.Question.Cause == stats.TooFew:
				remedy = "--runs 20"
			}
			settle = append(settle, remedy)
		}
		if rows += len(cells); series[0].Listed() {
			out = append(out, n.listInWords(series, by)...)
			continue
		}
		if len(by[stats.CannotTell]) < len(cells) {
			out = append(out, ShapeName(k.Shape)+", "+k.What()+plain.When(k.Stride != AsGiven, ", stride %s", k.Stride)+": "+
				n.inWords(series, len(cells), by))
		}
	}
	if len(settle) > 0 { // "--runs 420" behind "--runs 8"
		slices.SortFunc(settle, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) })
		middle := settle[len(settle)/2]
		half := plain.When(len(settle) > 1 && strings.HasPrefix(middle, "--"),
			" (about half of these rows then have a verdict)")
		out = append(out, fmt.Sprintf("cannot tell: %d of %s", len(settle), plain.Plural(rows, "row"))+
			plain.When(middle != "", "; try %s", middle)+half)
	}
	if rows == 0 && len(n.Cells) > 0 {
		var needed []string
		for _, c := range n.Cells {
			device, cpu := c.Sides()
			needed = plain.AddNew(needed, device+" and "+cpu)
		}
		out = append(out, "no verdict: add both strategies to --only: "+strings.Join(needed, ", or "))
	}
	if bad := slices.DeleteFunc(slices.Clone(n.Cells), func(c Cell) bool { return c.Impossible == "" }); len(bad) > 0 {
		out = append(out,
			fmt.Sprintf("impossible: %d of %s: %s at %s, but it moves the same bytes and does more. Something slowed the test, "+
				"not the device: try %s", len(bad), plain.Plural(len(n.Cells), "row"), bad[0].Impossible, bad[0].name(),
				plain.Realtime))
	}
	return append(out, n.warnings()...)
}

// warnings says of each warning how many measurements have it, and what to do.
func (n *Grid) warnings() (out []string) {
	for _, word := range []string{"disturbed", "short"} {
		runs, with := 0, 0
		for i := range n.Points {
			for k := range n.Points[i].Runs {
				if runs++; slices.Contains(n.Points[i].Runs[k].Warnings, word) {
					with++
				}
			}
		}
		remedy := plain.When(word == "short", "; try a longer -D")
		if word == "disturbed" {
			remedy = plain.When(n.Setup.Priority == "" && 5*with > runs, "; try %s", plain.Realtime)
		}
		if with > 0 {
			out = append(out, fmt.Sprintf("%s: %d of %d measurements%s", word, with, runs, remedy))
		}
	}
	return out
}

// inWords says who wins where in a series, by the verdicts.
func (n *Grid) inWords(series []Cell, cells int, by map[stats.Word][]Cell) string {
	k := series[0].Key
	device, cpu := series[0].Sides()
	ours, theirs := by[stats.Better], by[stats.Worse]
	if x := n.CrossoverOf(k); x != nil {
		return fmt.Sprintf("%s wins from about %s blocks (between %s and %s), %s; below, %s wins %s", device,
			plain.Bytes(x.BlockBytes),
			plain.Bytes(x.Low), plain.Bytes(x.High), mostInWords(ours), cpu, mostInWords(theirs))
	}
	var parts []string
	if cells > 1 && k.Stride != AsGiven {
		parts = append(parts, "no crossover seen")
	}
	if len(ours) > 0 {
		parts = append(parts, fmt.Sprintf("%s wins %s, %s", device, at(ours), mostInWords(ours)))
	}
	if len(theirs) > 0 {
		parts = append(parts, fmt.Sprintf("%s wins %s, %s", cpu, at(theirs), mostInWords(theirs)))
	}
	if same := by[stats.Same]; len(same) > 0 {
		parts = append(parts, fmt.Sprintf("%s and %s are the same %s", device, cpu, at(same)))
	}
	if open := by[stats.CannotTell]; len(open) > 0 {
		parts = append(parts, "cannot tell "+at(open))
	}
	return strings.Join(parts, "; ")
}

// at names cells of a series: "at 64 B, 256 B".
func at(cells []Cell) string {
	return "at " + strings.Join(plain.Each(cells, func(c Cell) string { return c.name() }), ", ")
}

// mostInWords is the largest ratio and, of several cells, where it is: "by up to 2.1× (at 64 B)".
func mostInWords(cells []Cell) string {
	best := slices.MaxFunc(cells, func(a, b Cell) int {
		return cmp.Compare(math.Abs(math.Log(a.Question.Speedup)), math.Abs(math.Log(b.Question.Speedup)))
	})
	by := times(max(best.Question.Speedup, 1/best.Question.Speedup))
	switch {
	case by == barely:
		return "by less than 0.5 %"
	case len(cells) == 1:
		return "by " + by
	}
	return fmt.Sprintf("by up to %s (at %s)", by, best.name())
}

// barely is a factor that is nearly 1.
const barely = "at most 1.005×"

// times is how many times as fast something is: neither "1×" nor "2.5e+02×".
func times(speedup float64) string {
	switch {
	case speedup < 1.005:
		return barely
	case speedup < 1.095:
		return fmt.Sprintf("%.2f×", speedup)
	case speedup >= 99.5:
		return fmt.Sprintf("%.0f×", speedup)
	}
	return fmt.Sprintf("%.2g×", speedup)
}

// listInWords says which road of a list is the fastest, or from which length on the device's way is.
func (n *Grid) listInWords(series []Cell, by map[stats.Word][]Cell) (out []string) {
	k := series[0].Key
	device, cpu := series[0].Sides()
	if k.Stride == Scaled {
		pieces := fmt.Sprintf("%s of %s on %s", k.Shape, plain.Plural(int(k.Count), "piece"), n.Setup.Device)
		if x := n.CrossoverOf(k); x != nil {
			return []string{fmt.Sprintf("threshold, %s: %s pays from %s a piece (%s to %s); below, %s is faster. "+
				"As a setting: %.0f bytes",
				pieces, device, plain.Bytes(x.BlockBytes), plain.Bytes(x.Low), plain.Bytes(x.High), cpu, x.BlockBytes)}
		}
		return []string{"threshold, " + pieces + ": " + n.inWords(series, len(series), by)}
	}
	for i := range series {
		c := &series[i]
		text := fmt.Sprintf("%s of %s: ", k.Shape, c.Layout)
		var than, open []string
		for _, j := range c.judged {
			faster, slower, speedup := j.Strategy, j.Against, j.Speedup
			if j.Word == stats.Worse {
				faster, slower, speedup = slower, faster, 1/speedup
			}
			switch {
			case faster == c.Winner:
				than = append(than, times(speedup)+" "+slower)
			case j.Word == stats.Better || j.Word == stats.Worse:
				open = append(open, faster+" beats "+slower)
			default:
				open = append(open, fmt.Sprintf("%s and %s: %s", faster, slower, j.Word))
			}
		}
		if c.Winner != "" {
			out = append(out, text+c.Winner+" is the fastest road: "+strings.Join(than, ", "))
		} else if len(open) > 0 {
			out = append(out, text+"no road is the fastest of all; "+strings.Join(open, "; "))
		}
	}
	for _, a := range n.Absent {
		if a.Shape == k.Shape {
			out = append(out, a.Strategy+" was not measured: "+a.Reason)
		}
	}
	return out
}
