package expect

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/figure"
	"github.com/gobw/gobw/report/noncontig"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

// Expectation is what must hold: a limit to a figure, no change for the worse, or a condition of the whole result.
// docs/expect.md shows all of it.
//
//	expectation = FIGURE ( ">=" | "<=" | ">" | "<" | "==" | "!=" ) bound [ "where" "counted" ] [ "for" FIGURE OP bound ]
//	            | [ FIGURE ] "worse" "<" NUMBER "%" [ "of" FILE ]
//	            | CONDITION
//	bound       = NUMBER [ UNIT ] | [ NUMBER "*" ] ( FIGURE | "line" )
//
// A figure of an earlier test is TEST.FIGURE. A limit is judged at every point, on the median over the runs; counters
// and the share delivered on the worst run.
type Expectation struct {
	text string
	comparison
	counted bool        // judged only where an end counts it
	filter  *comparison // the points that are judged; nil: all
	change  *change     // of a result against another; nil: a limit
	quiet   bool        // of the whole result: other programs disturbed at most half of the runs
	field   *field      // of what a program has said
}

// comparison is of a figure with a bound.
type comparison struct {
	left     operand
	operator string
	right    operand
}

// Options tell where an expectation stands. The zero value is the current directory and no plan.
type Options struct {
	Dir        string   // files are relative to it
	Beside     bool     // and lie in it, or below
	Tests      []string // names of earlier tests, whose figures may be used as "name.bw"
	Test       string   // this test's name: in a file of many tests the one of that name is meant
	Unread     bool     // nothing will be judged: the file may not be there yet
	Comparison bool     // both results are given: changes are judged, "of FILE" is not needed
	Program    bool     // of a program: fields of its line of JSON are judged, and its exit code
}

// String is the expectation as it was written.
func (e *Expectation) String() string { return e.text }

// operand is a side of a comparison: a number, the line rate or a figure, times a factor.
type operand struct {
	figure    *figure.Figure
	test      string // whose figure; empty: this test's
	line      bool
	factor    float64
	dimension figure.Dimension
	column    int
	bytes     float64 // what a number with K, M or G is as a size
}

// scope is what an expectation is evaluated in: the runs of one point.
type scope struct {
	point  string
	row    figure.Row
	line   float64
	lineOK string // why there is no line rate, or ""
	tests  map[string]*report.Document
	others map[string]figure.Row // the strategies of a non-contiguous experiment on the same layout
}

// value of the operand over the runs.
func (o operand) value(sc *scope) (float64, error) {
	switch {
	case o.line && sc.line == 0:
		return 0, &figure.MissingError{Figure: "line", Reason: sc.lineOK}
	case o.line:
		return o.factor * sc.line, nil
	case o.figure == nil:
		return o.factor, nil
	}
	row, err := o.row(sc)
	if err != nil {
		return 0, err
	}
	v, err := o.figure.Over(row)
	if err != nil && o.test != "" {
		err = fmt.Errorf("%s: %w", o.test, err)
	}
	return o.factor * v, err
}

// row has the runs whose figure it is: of another test at the same size, or at its only one.
func (o operand) row(sc *scope) (figure.Row, error) {
	if o.test == "" {
		return sc.row, nil
	}
	if other, is := sc.others[o.test]; is {
		return other, nil
	}
	name := o.test + "." + o.figure.Name
	d := sc.tests[o.test]
	if d == nil {
		return figure.Row{}, &figure.MissingError{Figure: name, Reason: "that test left no result"}
	}
	var rows []figure.Row
	for _, g := range figure.Groups(d.Records) {
		rows = append(rows, g.Rows...)
	}
	for _, r := range rows {
		if r.Size == sc.row.Size || len(rows) == 1 {
			return r, nil
		}
	}
	return figure.Row{}, &figure.MissingError{
		Figure: name, Reason: fmt.Sprintf("that test did not measure %d B", sc.row.Size),
	}
}

// UsesLine tells whether the expectation needs the link's rate.
func (e *Expectation) UsesLine() bool { return e.right.line || e.filter != nil && e.filter.right.line }

// OfCounter tells whether the expectation is of a counter alone, judged where an end counts it.
func (e *Expectation) OfCounter() bool { return e.counted }

// Tests are the names of the other tests whose figures the expectation uses.
func (e *Expectation) Tests() []string {
	out := []string{e.left.test, e.right.test}
	if e.filter != nil {
		out = append(out, e.filter.left.test, e.filter.right.test)
	}
	return slices.DeleteFunc(out, func(name string) bool { return name == "" })
}

// CheckLine says why a device has no line rate.
func CheckLine(env report.Environment) error {
	switch {
	case env.Software:
		return fmt.Errorf("%s is a software device: there is no line rate", env.Device)
	case env.LinkBitsPerS <= 0:
		return fmt.Errorf("%s reports no link rate: there is no line rate", env.Device)
	}
	return nil
}

// CheckDevice refuses an expectation that the device cannot meet in principle: the line rate of a software device.
func (e *Expectation) CheckDevice(env report.Environment) error {
	if err := CheckLine(env); err != nil && e.UsesLine() {
		return fmt.Errorf("%s: %w; expect a number (bw >= 10 Gb/s), or compare with a file (worse<5%% of FILE)", e.text, err)
	}
	return nil
}

// CheckTest refuses an expectation on a figure that a test of this kind can never have; kind is "bandwidth" or
// "latency".
func (e *Expectation) CheckTest(kind, transport string) error {
	probe := report.Record{Plan: report.Plan{Kind: kind, Transport: transport}}
	for _, o := range []operand{e.left, e.right} {
		if o.figure == nil || o.test != "" {
			continue
		}
		never := kind == "latency" && o.dimension == figure.Bandwidth || o.figure.Name == "delivered" &&
			(transport == "RC" || kind == "latency")
		if never {
			_, missing := o.figure.Get(&probe)
			return fmt.Errorf("%s: this %s %s test has no %q: %s", e.text, transport, kind, o.figure.Name, missing)
		}
	}
	return nil
}

// CheckFigures refuses an expectation on a figure that a record like this one does not have. named is the figure that
// it has.
func (e *Expectation) CheckFigures(like *report.Record, named string) error {
	for _, o := range []operand{e.left, e.right} {
		if o.figure == nil || e.counted {
			continue
		}
		if _, missing := o.figure.Get(like); missing != "" {
			return fmt.Errorf("%s: this test has no %q, only %q", e.text, o.figure.Name, named)
		}
	}
	return nil
}

// lineRate is the rate of the slower of the two links, in bits/s, or why there is none.
func lineRate(d *report.Document) (rate float64, why string) {
	ends := []report.Environment{d.Client}
	if d.Server != nil {
		ends = append(ends, *d.Server)
	}
	rate = math.Inf(1)
	for _, end := range ends {
		if err := CheckLine(end); err != nil {
			return 0, err.Error()
		}
		rate = min(rate, end.LinkBitsPerS)
	}
	return rate, ""
}

// Judgement is how to evaluate expectations. The zero value takes the line rate from the document.
type Judgement struct {
	LineBitsPerS float64                     // overrides the links' own rate
	Tests        map[string]*report.Document // earlier tests by name, for "name.bw"
	Accept       stats.Accepted              // causes for which the figures decide although nothing can be told
}

// Judge evaluates expectations at every point of a document. One that judges nothing cannot pass.
func Judge(d *report.Document, expectations []*Expectation, j Judgement) []report.Check {
	var out []report.Check
	for _, e := range expectations {
		switch {
		case e.change != nil:
			out = append(out, e.judgeFile(d, j.Accept)...)
		case e.field != nil:
			out = append(out, e.judgeField(d))
		case e.quiet:
			out = append(out, e.judgeQuiet(d, j.Accept))
		default:
			out = append(out, e.judgeLimit(d, j)...)
		}
	}
	return out
}

// judgeQuiet tells whether other programs disturbed at most half of the runs.
func (e *Expectation) judgeQuiet(d *report.Document, accept stats.Accepted) report.Check {
	disturbed, runs := figure.DisturbedRuns(d)
	c := report.Check{
		Expression: e.text, Point: "all", Actual: fmt.Sprintf("%d of %d runs disturbed", disturbed, runs),
		Limit: "half of them",
	}
	switch c.Word = stats.Pass; {
	case runs == 0:
		c.Verdict = stats.Unknown(stats.Missing, "", "the test has no result")
	case 2*disturbed > runs && accept.Has(stats.Disturbed):
		c.Cause = stats.Disturbed
	case 2*disturbed > runs:
		c.Verdict = stats.Unknown(stats.Disturbed, figure.Calmer(d), "other programs disturbed %d of %d runs",
			disturbed, runs)
	}
	return c
}

// unseen is the check of something that was not measured: it cannot be told.
func (e *Expectation) unseen(point, reason string) report.Check {
	return report.Check{
		Expression: e.text, Point: point, Actual: "none", Verdict: stats.Unknown(stats.Missing, "", "%s", reason),
	}
}

// judgeLimit judges the expectation at every point of the document.
func (e *Expectation) judgeLimit(d *report.Document, j Judgement) []report.Check {
	var out []report.Check
	reason := "the test has no result"
	for _, sc := range scopes(d, j) {
		if e.filter != nil {
			in, _, _, err := e.filter.holds(sc)
			if err != nil {
				out = append(out, e.unseen(sc.point, err.Error()))
				continue
			}
			if !in {
				reason = "the filter leaves no point to judge"
				continue
			}
		}
		out = append(out, e.check(sc, j.Accept))
	}
	if len(out) == 0 {
		out = append(out, e.unseen("all", reason))
	}
	return out
}

// scopes are the points at which a document is judged: those of its records, and the layouts of a non-contiguous
// experiment, where each strategy is a test of its own name and the bare figures are the fastest strategy's. Of a list
// of descriptors it is the list itself, not what it was scaled to.
func scopes(d *report.Document, j Judgement) []*scope {
	line, why := j.LineBitsPerS, ""
	if line == 0 {
		line, why = lineRate(d)
	}
	var out []*scope
	layouts := map[string]*scope{}
	best := map[string]float64{}
	for _, g := range figure.Groups(d.Measured()) {
		for _, row := range g.Rows {
			p := row.Runs[0].Plan
			if p.Strategy == "" {
				out = append(out, &scope{point: p.String(), row: row, line: line, lineOK: why, tests: j.Tests})
				continue
			}
			if list := d.Noncontig.List; list != nil && p.Layout != list.Name {
				continue
			}
			key := p.Shape + " " + p.Layout
			sc := layouts[key]
			if sc == nil {
				sc = &scope{point: key, line: line, lineOK: why, tests: j.Tests, others: map[string]figure.Row{}}
				layouts[key] = sc
				out = append(out, sc)
			}
			sc.others[p.Strategy] = row
			if v := stats.Median(row.Values(figure.Of("bw"))); p.Strategy != noncontig.Contiguous &&
				(v > best[key] || len(sc.row.Runs) == 0) {
				best[key], sc.row = v, row
			}
		}
	}
	return slices.DeleteFunc(out, func(s *scope) bool { return len(s.row.Runs) == 0 })
}

// check judges one point. If the runs are unclear and --accept takes that, the measured figure decides.
func (e *Expectation) check(sc *scope, accept stats.Accepted) report.Check {
	c := report.Check{Expression: e.text, Point: sc.point, Actual: "none"}
	ok, left, right, err := e.holds(sc)
	if err != nil {
		missing, is := errors.AsType[*figure.MissingError](err)
		switch {
		case is && missing.Impossible:
			c.Verdict = stats.Unknown(stats.Impossible, "", "%v", err)
		case is && e.counted && missing.Figure == e.left.figure.Name && len(sc.row.Values(*e.left.figure)) == 0:
			c.Actual, c.Verdict = "not counted", stats.Verdict{Word: stats.Pass, Reason: "no end counts it"}
		case errors.Is(err, errNotFinite):
			c.Actual, c.Verdict = fmt.Sprint(left), stats.Unknown(stats.NotFinite, "", "%v", err)
		default:
			settle := ""
			// of a device's own counter, which may be mistyped, it would pass for ever
			if name := e.left.figure.Name; is && e.left.test == "" &&
				slices.Contains(figure.CounterNames(), name[strings.LastIndexByte(name, '.')+1:]) {
				rule, points, some := strings.Cut(e.text, " for ")
				settle = "'" + rule + " where counted" + plain.When(some, " for %s", points) + "'"
			}
			c.Verdict = stats.Unknown(stats.Missing, settle, "%v", err)
		}
		return c
	}
	c.Actual, c.Limit = e.left.figure.InUnit(left), e.left.figure.InUnit(right)
	if right != 0 && e.operator != "==" && e.operator != "!=" {
		margin := (left - right) / math.Abs(right)
		if e.operator[0] == '<' {
			margin = -margin
		}
		c.Margin = &margin
	}
	u := e.uncertain(sc, left, right)
	if u.Word == stats.CannotTell && !accept.Has(u.Cause) {
		c.Verdict = u
		return c
	}
	if c.Word, c.Cause = stats.Pass, u.Cause; !ok {
		c.Verdict = stats.Failure("", "", "%s", ratioInWords(left, right))
	}
	return c
}

// uncertain is the verdict if the limit lies within the interval of the runs. Fewer than six runs have no interval, and
// the measured figure decides. If the limit is a figure of the same runs, each run is compared with its own.
func (e *Expectation) uncertain(sc *scope, left, right float64) stats.Verdict {
	row, err := e.left.row(sc)
	if err != nil || e.left.figure.WorstOf() || e.operator == "==" || e.operator == "!=" {
		return stats.Verdict{}
	}
	values := row.Values(*e.left.figure)
	if f := e.right.figure; f != nil && e.right.test == e.left.test {
		limits := row.Values(*f)
		for i := range values {
			if len(limits) != len(values) || limits[i] == 0 {
				return stats.Verdict{}
			}
			values[i] *= right / (e.right.factor * limits[i])
		}
	}
	in := stats.Summarize(values, stats.DefaultConfidence).Interval
	if in == nil || right <= in.Low || right >= in.High {
		return stats.Verdict{}
	}
	show := e.left.figure.InUnit
	need := stats.Needed("runs", len(values), 0, (in.High-in.Low)/2, math.Abs(left-right))
	return stats.Unknown(stats.Unclear, need, "the limit %s lies within the %s interval of the runs, %s to %s",
		show(right), stats.Percent(in.Confidence), show(in.Low), show(in.High))
}

// errNotFinite is a side of a comparison that is infinite or not a number.
var errNotFinite = errors.New("one side is infinite or not a number")

func ratioInWords(actual, limit float64) string {
	r := actual / limit
	switch {
	case limit == 0:
		return ""
	case r >= 2:
		return fmt.Sprintf("%.1f times the limit", r)
	}
	return fmt.Sprintf("%.1f %% of the limit", 100*r)
}

// holds compares the two sides.
func (c *comparison) holds(sc *scope) (ok bool, left, right float64, err error) {
	if left, err = c.left.value(sc); err != nil {
		return false, 0, 0, err
	}
	if right, err = c.right.value(sc); err != nil {
		return false, left, 0, err
	}
	if sum := left + right; math.IsNaN(sum) || math.IsInf(sum, 0) {
		return false, left, right, errNotFinite
	}
	order := cmp.Compare(left, right)
	if math.Abs(left-right) <= 1e-12*max(math.Abs(left), math.Abs(right)) { // of rounding, as in 0.1*3 and 0.3
		order = 0
	}
	return holds(c.operator, order), left, right, nil
}

// holds tells whether two values whose order is given stand in a relation.
func holds(operator string, order int) bool {
	return map[string]bool{
		">=": order >= 0, "<=": order <= 0, ">": order > 0, "<": order < 0, "==": order == 0, "!=": order != 0,
	}[operator]
}
