package expect

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/compare"
	"github.com/gobw/gobw/report/figure"
	"github.com/gobw/gobw/report/noncontig"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

// Expectation is a condition on the figures of a record, as in "bw >= 0.9*line" or "p99 <= 3us for size <= 4KiB". It is
// judged at every point, on the median over the runs; counters and the share delivered are judged on the worst run.
//
//	expectation = sum ( ">=" | "<=" | ">" | "<" | "==" | "!=" ) sum [ filter ]
//	            | figure "within" number "%" "of" ( sum | file ) [ filter ]
//	              [ "where" "counted" ]
//	filter      = "for" comparison, without a filter of its own
//	sum         = product { ( "+" | "-" ) product }
//	product     = value { ( "*" | "/" ) value }
//	value       = number [ unit ] | figure | test "." figure | "line" | "(" sum ")" | "-" value
//
// "within 5% of" asks that the figure be no more than 5 % worse; better always passes.
type Expectation struct {
	text     string
	left     node
	operator string
	right    node
	within   float64 // share; of right or of baseline
	baseline *baseline
	counted  bool // judged only where an end counts it
	filter   *Expectation
}

// Options tell where an expectation stands. The zero value is the current directory and no plan.
type Options struct {
	Dir   string   // baselines are relative to it
	Tests []string // names of earlier tests, whose figures may be used as "name.bw"
	Test  string   // this test's name: in a baseline of many tests the one of that name is meant
}

type baseline struct {
	file string
	docs []*report.Document
}

// String is the expectation as it was written.
func (e *Expectation) String() string { return e.text }

// node is a value that may depend on the record.
type node struct {
	dimension figure.Dimension
	figure    *figure.Figure // where it is one figure alone
	column    int
	line      bool     // uses the line rate
	figures   []string // names used, of this test
	tests     []string // names of other tests used
	eval      func(*scope) (float64, error)
}

// scope is what an expectation is evaluated in: the runs of one point.
type scope struct {
	point  string
	row    figure.Row
	setup  report.Setup
	line   float64
	lineOK string // why there is no line rate, or ""
	tests  map[string]*report.Document
	accept stats.Accepted
	grid   noncontig.Plan // of a non-contiguous experiment, without the strategy
}

// Parse reads an expectation and loads its baseline. Mistakes are [ExpressionError] or [FileError].
func Parse(text string, o Options) (*Expectation, error) {
	p := &expectationParser{text: text, options: o}
	if err := p.scan(); err != nil {
		return nil, err
	}
	e, err := p.expectation()
	if err != nil {
		return nil, err
	}
	if t := p.peek(); t.kind != tokenEnd {
		return nil, p.fail(t.column, "unexpected %q after the end of the expectation", t.text)
	}
	e.text = strings.TrimSpace(text)
	return e, nil
}

// UsesLine tells whether the expectation needs the link's rate.
func (e *Expectation) UsesLine() bool {
	return e.left.line || e.right.line || e.filter != nil && e.filter.UsesLine()
}

// OfCounter tells whether the expectation is of a counter alone, judged where an end counts it.
func (e *Expectation) OfCounter() bool { return e.counted }

// CheckDevice refuses an expectation that the device cannot meet in principle: the line rate of a software device.
func (e *Expectation) CheckDevice(env report.Environment) error {
	if !e.UsesLine() {
		return nil
	}
	if err := CheckLine(env); err != nil {
		return fmt.Errorf("%s: %w; expect an absolute figure (bw >= 10 Gb/s), another test's or a baseline's", e.text, err)
	}
	return nil
}

// CheckLine says why a device has no line rate.
func CheckLine(env report.Environment) error {
	if reason := noLine(env); reason != "" {
		return fmt.Errorf("%s: there is no line rate", reason)
	}
	return nil
}

func noLine(env report.Environment) string {
	switch {
	case env.Software:
		return fmt.Sprintf("%s is a software device", env.Device)
	case env.LinkBitsPerS <= 0:
		return fmt.Sprintf("%s reports no link rate", env.Device)
	}
	return ""
}

// CheckTest refuses an expectation on a figure that a test of this kind can never have; kind is "bandwidth" or
// "latency".
func (e *Expectation) CheckTest(kind, transport string) error {
	probe := report.Record{Kind: kind, Transport: transport}
	for _, name := range slices.Concat(e.left.figures, e.right.figures) {
		f, known := figure.Named(name)
		if !known || f.Absent == nil {
			continue
		}
		never := kind == "latency" && f.Dimension == figure.Dimension{Bits: 1, Seconds: -1} || name == "delivered" && (transport == "RC" || kind == "latency")
		if never {
			return fmt.Errorf("%s: this %s %s test has no %q: %s", e.text, transport, kind, name, f.Absent(&probe))
		}
	}
	return nil
}

// lineRate is the rate of the slower of the two links, in bits/s; 0 where one has none.
func lineRate(d *report.Document) float64 {
	if noLine(d.Client) != "" {
		return 0
	}
	if d.Server != nil {
		if d.Server.Software || d.Server.LinkBitsPerS <= 0 {
			return 0
		}
		return min(d.Client.LinkBitsPerS, d.Server.LinkBitsPerS)
	}
	return d.Client.LinkBitsPerS
}

// Judgement is how to evaluate expectations. The zero value takes the line rate from the document.
type Judgement struct {
	LineBitsPerS float64                     // overrides the links' own rate
	Tests        map[string]*report.Document // earlier tests by name, for "name.bw"
	Accept       stats.Accepted              // causes for which a check passes although nothing can be told
}

// evaluate judges the expectation at every point of the document. A document without a point to judge fails it: an
// expectation that checks nothing must not pass.
func (e *Expectation) evaluate(d *report.Document, j Judgement) []report.Check {
	var out []report.Check
	filtered := 0
	for _, sc := range scopes(d, j) {
		if e.filter != nil {
			ok, _, err := e.filter.holds(sc, d)
			if err != nil {
				out = append(out, report.Check{Expression: e.text, Point: sc.point, Actual: "none", Reason: err.Error()})
				continue
			}
			if !ok {
				filtered++
				continue
			}
		}
		out = append(out, e.check(sc, d, sc.point))
	}
	if len(out) == 0 {
		reason := "the test left no result to judge"
		if filtered > 0 {
			reason = "the filter leaves no point to judge"
		}
		out = append(out, report.Check{Expression: e.text, Point: "all", Actual: "none", Reason: reason})
	}
	return out
}

// scopes are the points at which a document is judged: those of its records, and the layouts of a non-contiguous
// experiment, where each strategy is a test of its own name and the bare figures are the fastest strategy's.
func scopes(d *report.Document, j Judgement) []*scope {
	line, why := j.LineBitsPerS, ""
	if line == 0 {
		if line = lineRate(d); line == 0 {
			if why = noLine(d.Client); why == "" && d.Server != nil {
				why = noLine(*d.Server)
			}
		}
	}
	var out []*scope
	for _, g := range figure.Groups(d.Records) {
		for _, r := range g.Rows {
			out = append(out, &scope{
				point: report.Point{Setup: g.Setup, SizeBytes: r.Size}.String(), row: r, setup: g.Setup, line: line, lineOK: why, tests: j.Tests, accept: j.Accept,
			})
		}
	}
	if d.Noncontig == nil {
		return out
	}
	at := map[string]*scope{}
	best := map[string]float64{}
	for i := range d.Noncontig.Points {
		p := &d.Noncontig.Points[i]
		records := noncontigRecords(p, d.Noncontig.Setup.Transport)
		if len(records) == 0 {
			continue
		}
		key := p.Shape + " " + p.Layout
		sc := at[key]
		if sc == nil {
			sc = &scope{point: key, line: line, lineOK: why, tests: maps.Clone(j.Tests), accept: j.Accept}
			sc.grid, _, _ = d.Noncontig.Plan(p).Without("strategy")
			if sc.tests == nil {
				sc.tests = map[string]*report.Document{}
			}
			at[key] = sc
			out = append(out, sc)
		}
		sc.tests[p.Strategy] = &report.Document{Records: records}
		r := figure.Groups(records)[0].Rows[0]
		if v := stats.Summarize(p.Goodputs(), stats.DefaultConfidence).Median; v > best[key] && p.Strategy != noncontig.Contiguous {
			best[key], sc.row, sc.setup = v, r, records[0].Setup()
		}
	}
	return slices.DeleteFunc(out, func(s *scope) bool { return len(s.row.Runs) == 0 })
}

// noncontigRecords are the runs of one strategy on one layout as records: bw is the goodput.
func noncontigRecords(p *noncontig.Point, transport string) []report.Record {
	var out []report.Record
	for i, run := range p.Runs {
		r := report.Record{
			Operation: p.Strategy, Kind: "bandwidth", Transport: transport, SizeBytes: uint64(p.SizeBytes), QPs: 1, Run: i + 1,
			Messages: run.Messages, Seconds: run.Seconds, Bandwidth: report.Bandwidth{AverageBitsPerS: run.GoodputBitsPerS},
		}
		if run.Seconds > 0 {
			r.MessagesPerS = float64(run.Messages) / run.Seconds
		}
		if run.P50Ns > 0 {
			r.Latency = &report.Latency{Samples: run.Messages, P50Ns: run.P50Ns, P99Ns: run.P99Ns}
		}
		out = append(out, r)
	}
	return out
}

// Judge evaluates several expectations.
func Judge(d *report.Document, expectations []*Expectation, j Judgement) []report.Check {
	var out []report.Check
	for _, e := range expectations {
		out = append(out, e.evaluate(d, j)...)
	}
	return out
}

// check judges one point. What cannot be told fails, unless its cause is accepted.
func (e *Expectation) check(sc *scope, d *report.Document, point string) report.Check {
	c := report.Check{Expression: e.text, Point: point}
	ok, v, err := e.holds(sc, d)
	if missing, is := errors.AsType[*figure.MissingError](err); is && e.counted && e.left.figure != nil && missing.Figure == e.left.figure.Name {
		c.Actual, c.Passed, c.Reason = "not counted", true, "no end counts it"
		return c
	}
	if err != nil {
		c.Actual, c.Reason, c.Cause = "none", err.Error(), stats.Missing
		if notFinite, is := errors.AsType[*notFiniteError](err); is {
			c.Actual, c.Cause = notFinite.value, stats.NotFinite
		}
		if uncomparable, is := errors.AsType[*uncomparableError](err); is {
			c.Cause = uncomparable.cause
		}
		c.Passed = sc.accept.Has(c.Cause)
		return c
	}
	c.Passed, c.Actual, c.Limit = ok, e.show(e.left, v.left), e.show(e.left, v.limit(e))
	if limit := v.limit(e); limit != 0 && e.operator != "==" && e.operator != "!=" {
		margin := e.spare(v.left, limit)
		c.Margin = &margin
	}
	if u := e.uncertain(sc, v, ok); u.Word == stats.CannotTell {
		c.Passed, c.Cause, c.Reason = ok && sc.accept.Has(u.Cause), u.Cause, u.InWords()
		return c
	}
	if !ok {
		c.Reason = e.missed(v)
	}
	return c
}

// limit is where passing ends: the right side, or what is within the share of it.
func (v sides) limit(e *Expectation) float64 {
	if e.operator != "within" || e.left.figure == nil {
		return v.right
	}
	return v.right - float64(e.left.figure.Direction)*e.within*math.Abs(v.right)
}

// spare is by which share of the limit the figure is on the good side of it; negative where it missed.
func (e *Expectation) spare(actual, limit float64) float64 {
	share := (actual - limit) / math.Abs(limit)
	switch e.operator {
	case "<=", "<":
		return -share
	case "within":
		if e.left.figure.Direction == stats.LowerIsBetter {
			return -share
		}
	}
	return share
}

// uncertain is the verdict where the runs do not tell: a baseline wants runs on both sides, and of a limit that lies within
// the interval of the runs nothing is told. Below six runs there is no interval, and the measured figure decides.
func (e *Expectation) uncertain(sc *scope, v sides, passed bool) stats.Verdict {
	if e.left.figure != nil && e.left.figure.WorstOf() {
		return stats.Verdict{}
	}
	now := e.perRun(sc, sc.row)
	switch {
	case e.baseline != nil:
		effect := stats.Unpaired(v.baseline, now, stats.DefaultConfidence, e.left.figure.Direction)
		if effect.Interval == nil {
			return stats.Conclude([]stats.Effect{effect}, stats.Margins{Same: e.within})[0]
		}
		if passed && !effect.NotWorse(e.within) {
			u := stats.Conclude([]stats.Effect{effect}, stats.Margins{Same: e.within})[0]
			u.Word, u.Cause, u.Reason = stats.CannotTell, stats.Unclear, fmt.Sprintf("whether it is worse by more than %s: %s", stats.Percent(e.within), u.Reason)
			return u
		}
	case passed && slices.Contains([]string{">=", ">", "<=", "<"}, e.operator):
		if in := stats.Summarize(now, stats.DefaultConfidence).Interval; in != nil && v.right > in.Low && v.right < in.High {
			return stats.Unknown(stats.Unclear, "more runs, or a quieter machine", "the limit %s lies within the %s interval of the runs, %s to %s",
				e.show(e.left, v.right), stats.Percent(in.Confidence), e.show(e.left, in.Low), e.show(e.left, in.High))
		}
	}
	return stats.Verdict{}
}

// perRun is the left side for each run of a row.
func (e *Expectation) perRun(sc *scope, row figure.Row) []float64 {
	var out []float64
	for i := range row.Runs {
		one := *sc
		one.row = figure.Row{Size: row.Size, CQMod: row.CQMod, Runs: row.Runs[i : i+1]}
		if v, err := e.left.eval(&one); err == nil {
			out = append(out, v)
		}
	}
	return out
}

// missed says by how much.
func (e *Expectation) missed(v sides) string {
	switch {
	case e.baseline != nil:
		return fmt.Sprintf("%s has %s: %.1f %% worse", e.baseline.file, e.show(e.left, v.right), 100*v.worse)
	case e.operator == "within":
		return fmt.Sprintf("%.1f %% worse than %s", 100*v.worse, e.show(e.left, v.right))
	case v.right != 0 && e.right.figure == nil && !e.right.line && len(e.right.tests) == 0:
		return ratioInWords(v.left, v.right)
	}
	return "the limit is " + e.show(e.left, v.right)
}

// notFiniteError is a side of a comparison that is no number: it never passes.
type notFiniteError struct{ value string }

func (e *notFiniteError) Error() string {
	return fmt.Sprintf("a side of the comparison is %s, which is no figure (a division by zero?)", e.value)
}

// uncomparableError is a baseline that cannot be used for another cause than that it lacks something; without one nothing waives it.
type uncomparableError struct {
	cause stats.Cause
	text  string
}

func (e *uncomparableError) Error() string { return e.text }

func ratioInWords(actual, limit float64) string {
	r := actual / limit
	if r >= 2 {
		return fmt.Sprintf("%.1f times the limit", r)
	}
	return fmt.Sprintf("%.1f %% of the limit", 100*r)
}

// values of the two sides, and how much worse the left is.
type sides struct {
	left, right, worse float64
	baseline           []float64 // its runs
}

func (e *Expectation) holds(sc *scope, d *report.Document) (bool, sides, error) {
	var v sides
	var err error
	if v.left, err = e.left.eval(sc); err != nil {
		return false, v, err
	}
	if e.baseline != nil {
		v.right, v.baseline, err = e.baseline.value(sc, d, e)
	} else {
		v.right, err = e.right.eval(sc)
	}
	if err != nil {
		return false, v, err
	}
	for _, side := range []float64{v.left, v.right} {
		if math.IsNaN(side) || math.IsInf(side, 0) {
			return false, v, &notFiniteError{fmt.Sprint(side)}
		}
	}
	const slack = 1e-12 // of rounding, as in 0.1*3 and 0.3
	eps := slack * math.Max(math.Abs(v.left), math.Abs(v.right))
	switch e.operator {
	case ">=":
		return v.left >= v.right-eps, v, nil
	case "<=":
		return v.left <= v.right+eps, v, nil
	case ">":
		return v.left > v.right+eps, v, nil
	case "<":
		return v.left < v.right-eps, v, nil
	case "==":
		return math.Abs(v.left-v.right) <= eps, v, nil
	case "!=":
		return math.Abs(v.left-v.right) > eps, v, nil
	}
	if v.right == 0 && v.left != 0 {
		return false, v, &notFiniteError{"a share of 0"}
	}
	v.worse = worseBy(e.left.figure, v.left, v.right)
	return v.worse <= e.within+slack, v, nil
}

// worseBy is the share by which actual is worse than wanted; a figure without a better side may differ either way.
func worseBy(f *figure.Figure, actual, wanted float64) float64 {
	change := 0.0
	if wanted != 0 {
		change = (actual - wanted) / math.Abs(wanted)
	}
	if f == nil || f.Direction == stats.Neither {
		return math.Abs(change)
	}
	return -float64(f.Direction) * change
}

func (e *Expectation) show(n node, v float64) string {
	if n.figure != nil {
		return n.figure.InUnit(v)
	}
	switch n.dimension {
	case figure.Dimension{Bits: 1, Seconds: -1}:
		return plain.Number(v/1e9) + " Gb/s"
	case figure.Dimension{Bits: 0, Seconds: 1}:
		return plain.Number(v*1e6) + " us"
	case figure.Dimension{Bits: 0, Seconds: -1}:
		return plain.Number(v/1e6) + " Mmsg/s"
	}
	return plain.Number(v)
}

// value of the left side in the baseline at the same point, over its runs and in each.
func (b *baseline) value(sc *scope, d *report.Document, e *Expectation) (float64, []float64, error) {
	if d != nil {
		if unlike, _ := compare.Differences(b.docs, []*report.Document{d}); len(unlike) > 0 {
			return 0, nil, &uncomparableError{text: fmt.Sprintf("%s was measured elsewhere: %s (measure a baseline on this set-up)", b.file, unlike[0])}
		}
	}
	if slices.ContainsFunc(b.docs, func(d *report.Document) bool { return !d.Complete }) && !sc.accept.Has(stats.Incomplete) {
		return 0, nil, &uncomparableError{stats.Incomplete, fmt.Sprintf("%s was interrupted: measure it to its end", b.file)}
	}
	var found figure.Row
	var nearest string
	for _, doc := range b.docs {
		for _, s := range scopes(doc, Judgement{}) { // a layout's bare figures are the fastest strategy's, whichever that is
			if doc.Noncontig != nil && s.grid == sc.grid {
				found.Runs = append(found.Runs, s.row.Runs...)
			}
		}
		for _, g := range figure.Groups(doc.Records) {
			for _, r := range g.Rows {
				switch {
				case g.Setup == sc.setup && r.Size == sc.row.Size && r.CQMod == sc.row.CQMod:
					found.Runs = append(found.Runs, r.Runs...)
				case nearest == "" && g.Setup.Operation == sc.setup.Operation && g.Setup.Kind == sc.setup.Kind:
					nearest = g.Setup.Title() + ", " + fmt.Sprint(r.Size) + " B"
				}
			}
		}
	}
	if len(found.Runs) == 0 {
		if nearest == "" {
			nearest = "no such test"
		}
		return 0, nil, fmt.Errorf("%s has no point %s, %d B; it has %s (measure that point and save it there)", b.file, sc.setup.Title(), sc.row.Size, nearest)
	}
	at := &scope{row: found, setup: sc.setup, line: sc.line, lineOK: sc.lineOK}
	v, err := e.left.eval(at)
	if err != nil {
		return 0, nil, fmt.Errorf("%s: %w", b.file, err)
	}
	return v, e.perRun(at, found), nil
}

// loadBaseline reads a file of results.
func loadBaseline(file string, o Options) (*baseline, error) {
	path := file
	if !filepath.IsAbs(path) {
		path = filepath.Join(o.Dir, path)
	}
	docs, err := report.LoadAll(path)
	if err != nil {
		return nil, err
	}
	if o.Test != "" {
		named := slices.DeleteFunc(slices.Clone(docs), func(d *report.Document) bool { return d.Description != o.Test })
		if len(named) > 0 {
			docs = named
		}
	}
	return &baseline{file: file, docs: docs}, nil
}

// Tests are the names of the other tests whose figures the expectation uses.
func (e *Expectation) Tests() []string {
	out := slices.Concat(e.left.tests, e.right.tests)
	if e.filter != nil {
		out = append(out, e.filter.Tests()...)
	}
	return out
}
