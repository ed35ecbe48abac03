package report

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
)

// Expectation is a condition on the figures of a record, as in "bw >= 0.9*line" or "p99 <= 3us for size <= 4KiB". It is
// judged at every point, on the median over the runs; counters and the share delivered are judged on the worst run.
//
//	expectation = sum ( ">=" | "<=" | ">" | "<" | "==" | "!=" ) sum [ filter ]
//	            | figure "within" number "%" "of" ( sum | file ) [ filter ]
//	filter      = "for" expectation
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
	filter   *Expectation
}

// ExpectationOptions tell where an expectation stands. The zero value is the current directory and no plan.
type ExpectationOptions struct {
	Dir   string   // baselines are relative to it
	Tests []string // names of earlier tests, whose figures may be used as "name.bw"
	Test  string   // this test's name: in a baseline of many tests the one of that name is meant
}

type baseline struct {
	file string
	docs []*Document
}

// String is the expectation as it was written.
func (e *Expectation) String() string { return e.text }

// node is a value that may depend on the record.
type node struct {
	dimension dimension
	figure    *figureDefinition // where it is one figure alone
	column    int
	line      bool     // uses the line rate
	figures   []string // names used, of this test
	tests     []string // names of other tests used
	eval      func(*scope) (float64, error)
}

// scope is what an expectation is evaluated in: the runs of one point.
type scope struct {
	point  string
	row    row
	setup  Setup
	line   float64
	lineOK string // why there is no line rate, or ""
	tests  map[string]*Document
}

// figureMissing is a figure that a record does not have.
type figureMissing struct{ name, reason string }

func (e *figureMissing) Error() string { return fmt.Sprintf("no %s here: %s", e.name, e.reason) }

// ParseExpectation reads an expectation and loads its baseline. Mistakes are [ExpressionError] or [FileError].
func ParseExpectation(text string, o ExpectationOptions) (*Expectation, error) {
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

// ErrNoLine refuses an expectation on the line rate of a device that has none.
var ErrNoLine = errors.New("there is no line rate") //nolint:gochecknoglobals // a sentinel

// CheckDevice refuses an expectation that the device cannot meet in principle: the line rate of a software device.
func (e *Expectation) CheckDevice(env Environment) error {
	if !e.UsesLine() {
		return nil
	}
	if err := CheckLine(env); err != nil {
		return fmt.Errorf("%s: %w; expect an absolute figure (bw >= 10 Gb/s), another test's or a baseline's", e.text, err)
	}
	return nil
}

// CheckLine says why a device has no line rate.
func CheckLine(env Environment) error {
	if reason := noLine(env); reason != "" {
		return fmt.Errorf("%s: %w", reason, ErrNoLine)
	}
	return nil
}

func noLine(env Environment) string {
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
	probe := Record{Kind: kind, Transport: transport}
	for _, name := range slices.Concat(e.left.figures, e.right.figures) {
		f, known := figureNamed(name)
		if !known || f.absent == nil {
			continue
		}
		never := kind == "latency" && f.dimension == dimension{1, -1} || name == "delivered" && (transport == "RC" || kind == "latency")
		if never {
			return fmt.Errorf("%s: this %s %s test has no %q: %s", e.text, transport, kind, name, f.absent(&probe))
		}
	}
	return nil
}

// LineRate is the rate of the slower of the two links, in bits/s; 0 where one has none.
func LineRate(d *Document) float64 {
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
	LineBitsPerS float64              // overrides the links' own rate
	Tests        map[string]*Document // earlier tests by name, for "name.bw"
}

// Evaluate judges the expectation at every point of the document. A document without a point to judge fails it: an
// expectation that checks nothing must not pass.
func (e *Expectation) Evaluate(d *Document, j Judgement) []Check {
	var out []Check
	filtered := 0
	for _, sc := range scopes(d, j) {
		if e.filter != nil {
			ok, _, err := e.filter.holds(sc, d)
			if err != nil {
				out = append(out, Check{Expression: e.text, Point: sc.point, Actual: "none", Reason: err.Error()})
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
		out = append(out, Check{Expression: e.text, Point: "all", Actual: "none", Reason: reason})
	}
	return out
}

// scopes are the points at which a document is judged: those of its records, and the layouts of a non-contiguous
// experiment, where each strategy is a test of its own name and the bare figures are the fastest strategy's.
func scopes(d *Document, j Judgement) []*scope {
	line, why := j.LineBitsPerS, ""
	if line == 0 {
		if line = LineRate(d); line == 0 {
			if why = noLine(d.Client); why == "" && d.Server != nil {
				why = noLine(*d.Server)
			}
		}
	}
	var out []*scope
	for _, g := range groups(d.Records) {
		for _, r := range g.rows {
			out = append(out, &scope{
				point: Point{Setup: g.setup, SizeBytes: r.size}.String(), row: r, setup: g.setup, line: line, lineOK: why, tests: j.Tests,
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
			sc = &scope{point: key, line: line, lineOK: why, tests: maps.Clone(j.Tests)}
			if sc.tests == nil {
				sc.tests = map[string]*Document{}
			}
			at[key] = sc
			out = append(out, sc)
		}
		sc.tests[p.Strategy] = &Document{Records: records}
		r := groups(records)[0].rows[0]
		if v := Summarize(p.goodputs(), DefaultConfidence).Median; v > best[key] && p.Strategy != ContiguousStrategy {
			best[key], sc.row, sc.setup = v, r, records[0].Setup()
		}
	}
	return slices.DeleteFunc(out, func(s *scope) bool { return len(s.row.runs) == 0 })
}

// noncontigRecords are the runs of one strategy on one layout as records: bw is the goodput.
func noncontigRecords(p *NoncontigPoint, transport string) []Record {
	var out []Record
	for i, run := range p.Runs {
		r := Record{
			Operation: p.Strategy, Kind: "bandwidth", Transport: transport, SizeBytes: uint64(p.SizeBytes), QPs: 1, Run: i + 1,
			Messages: run.Messages, Seconds: run.Seconds, Bandwidth: Bandwidth{AverageBitsPerS: run.GoodputBitsPerS},
		}
		if run.Seconds > 0 {
			r.MessagesPerS = float64(run.Messages) / run.Seconds
		}
		if run.P50Ns > 0 {
			r.Latency = &Latency{Samples: run.Messages, P50Ns: run.P50Ns, P99Ns: run.P99Ns}
		}
		out = append(out, r)
	}
	return out
}

// Judge evaluates several expectations.
func Judge(d *Document, expectations []*Expectation, j Judgement) []Check {
	var out []Check
	for _, e := range expectations {
		out = append(out, e.Evaluate(d, j)...)
	}
	return out
}

func (e *Expectation) check(sc *scope, d *Document, point string) Check {
	c := Check{Expression: e.text, Point: point}
	ok, v, err := e.holds(sc, d)
	if err != nil {
		c.Actual, c.Reason = "none", err.Error()
		return c
	}
	c.Passed = ok
	c.Actual = e.show(e.left, v.left)
	if ok {
		return c
	}
	switch {
	case e.baseline != nil:
		c.Reason = fmt.Sprintf("%s has %s: %.1f %% worse", e.baseline.file, e.show(e.left, v.right), 100*v.worse)
	case e.operator == "within":
		c.Reason = fmt.Sprintf("%.1f %% worse than %s", 100*v.worse, e.show(e.left, v.right))
	case v.right != 0 && e.right.figure == nil && !e.right.line && len(e.right.tests) == 0:
		c.Reason = ratioInWords(v.left, v.right)
	default:
		c.Reason = "the limit is " + e.show(e.left, v.right)
	}
	return c
}

func ratioInWords(actual, limit float64) string {
	r := actual / limit
	if r >= 2 {
		return fmt.Sprintf("%.1f times the limit", r)
	}
	return fmt.Sprintf("%.1f %% of the limit", 100*r)
}

// values of the two sides, and how much worse the left is.
type sides struct{ left, right, worse float64 }

func (e *Expectation) holds(sc *scope, d *Document) (bool, sides, error) {
	var v sides
	var err error
	if v.left, err = e.left.eval(sc); err != nil {
		return false, v, err
	}
	if e.baseline != nil {
		v.right, err = e.baseline.value(sc, d, e.left)
	} else {
		v.right, err = e.right.eval(sc)
	}
	if err != nil {
		return false, v, err
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
	v.worse = worseBy(e.left.figure, v.left, v.right)
	return v.worse <= e.within+slack, v, nil
}

// worseBy is the share by which actual is worse than wanted; a figure without a better side may differ either way.
func worseBy(f *figureDefinition, actual, wanted float64) float64 {
	change := 0.0
	switch {
	case wanted != 0:
		change = (actual - wanted) / math.Abs(wanted)
	case actual != 0:
		change = math.Inf(1)
		if actual < 0 {
			change = math.Inf(-1)
		}
	}
	if f == nil || f.direction == neither {
		return math.Abs(change)
	}
	return -float64(f.direction) * change
}

func (e *Expectation) show(n node, v float64) string {
	if n.figure != nil {
		return n.figure.inUnit(v)
	}
	switch n.dimension {
	case dimension{1, -1}:
		return number(v/1e9) + " Gb/s"
	case dimension{0, 1}:
		return number(v*1e6) + " us"
	case dimension{0, -1}:
		return number(v/1e6) + " Mmsg/s"
	}
	return number(v)
}

// value of one figure over the runs of a row: the median, and for counters and shares the worst.
func (f figureDefinition) over(r row) (float64, error) {
	vs := r.values(f.get)
	if len(vs) == 0 {
		reason := "it was not measured"
		if f.absent != nil && len(r.runs) > 0 {
			reason = f.absent(r.runs[0])
		}
		return 0, &figureMissing{f.name, reason}
	}
	if f.dimension == (dimension{}) && f.direction != neither && f.name != "cpu" {
		if f.direction == higherIsGood {
			return slices.Min(vs), nil
		}
		return slices.Max(vs), nil
	}
	return Summarize(vs, DefaultConfidence).Median, nil
}

// value of a figure in the baseline at the same point.
func (b *baseline) value(sc *scope, d *Document, n node) (float64, error) {
	if d != nil {
		if unlike, _ := differences(b.docs, []*Document{d}); len(unlike) > 0 {
			return 0, fmt.Errorf("%s was measured elsewhere: %s (measure a baseline on this set-up)", b.file, unlike[0])
		}
	}
	var found row
	var nearest string
	for _, doc := range b.docs {
		for _, s := range scopes(doc, Judgement{}) { // a layout's bare figures are the fastest strategy's, whichever that is
			if doc.Noncontig != nil && s.point == sc.point {
				found.runs = append(found.runs, s.row.runs...)
			}
		}
		for _, g := range groups(doc.Records) {
			for _, r := range g.rows {
				switch {
				case g.setup == sc.setup && r.size == sc.row.size && r.cqMod == sc.row.cqMod:
					found.runs = append(found.runs, r.runs...)
				case nearest == "" && g.setup.Operation == sc.setup.Operation && g.setup.Kind == sc.setup.Kind:
					nearest = g.setup.Title() + ", " + fmt.Sprint(r.size) + " B"
				}
			}
		}
	}
	if len(found.runs) == 0 {
		if nearest == "" {
			nearest = "no such test"
		}
		return 0, fmt.Errorf("%s has no point %s, %d B; it has %s (measure that point and save it there)", b.file, sc.setup.Title(), sc.row.size, nearest)
	}
	v, err := n.eval(&scope{row: found, setup: sc.setup, line: sc.line, lineOK: sc.lineOK})
	if err != nil {
		return 0, fmt.Errorf("%s: %w", b.file, err)
	}
	return v, nil
}

// loadBaseline reads a file of results.
func loadBaseline(file string, o ExpectationOptions) (*baseline, error) {
	path := file
	if !filepath.IsAbs(path) {
		path = filepath.Join(o.Dir, path)
	}
	docs, err := LoadAll(path)
	if err != nil {
		return nil, err
	}
	if o.Test != "" {
		named := slices.DeleteFunc(slices.Clone(docs), func(d *Document) bool { return d.Description != o.Test })
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
