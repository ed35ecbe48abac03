package expect

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/compare"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

// change is the expectation that a result is worse than another by less than a limit.
type change struct {
	figure string // empty: those that a comparison takes
	limit  float64
	file   string // empty: the comparison has both sides
	docs   []*report.Document
}

// Margin is the change up to which figures count as the same under these expectations: the smallest of their limits, 5
// % at most.
func Margin(expectations []*Expectation) float64 {
	margin := stats.DefaultMargin
	for _, e := range expectations {
		if e.change != nil && e.change.limit > 0 {
			margin = min(margin, e.change.limit)
		}
	}
	return margin
}

// Figures are those that expectations of change name.
func Figures(expectations []*Expectation) []string {
	var out []string
	for _, e := range expectations {
		if e.change != nil && e.change.figure != "" {
			out = plain.AddNew(out, e.change.figure)
		}
	}
	return out
}

// load reads the documents of a file: of many, those of this test's name.
func (p *parser) load(file string) ([]*report.Document, error) {
	load := report.LoadAll
	if p.options.Beside {
		load = func(string) ([]*report.Document, error) { return report.LoadBeside(p.options.Dir, file) }
	}
	path := file
	if !filepath.IsAbs(path) {
		path = filepath.Join(p.options.Dir, path)
	}
	docs, err := load(path)
	if named := slices.DeleteFunc(slices.Clone(docs),
		func(d *report.Document) bool { return d.Description != p.options.Test }); p.options.Test != "" && len(named) > 0 {
		docs = named
	}
	return docs, err
}

// judgeFile judges a document against the file.
func (e *Expectation) judgeFile(d *report.Document, accept stats.Accepted) []report.Check {
	expectations := []*Expectation{e}
	c, err := compare.Documents(e.change.docs, []*report.Document{d},
		compare.Options{Margin: Margin(expectations), Figures: Figures(expectations), Accept: accept})
	if err != nil {
		return []report.Check{e.unseen("all", fmt.Sprintf("%s: %v", e.change.file, err))}
	}
	c.OnlyOld = nil // the file may hold other tests, too
	return JudgeComparison(c, expectations, accept)
}

// JudgeComparison judges expectations of change at every point of a comparison. A point or a document that a side lacks
// cannot be told.
func JudgeComparison(c *compare.Comparison, expectations []*Expectation, accept stats.Accepted) []report.Check {
	var out []report.Check
	for _, e := range expectations {
		out = append(out, e.compared(c, accept)...)
	}
	texts := plain.Each(expectations, func(e *Expectation) string { return e.text })
	unseen := func(point string, cause stats.Cause, side, settle string) {
		out = append(out, report.Check{
			Expression: strings.Join(texts, ", "), Point: point, Actual: "none",
			Verdict: stats.Unknown(cause, settle, "the %s result does not have it, or only a part of it", side),
		})
	}
	if len(expectations) == 0 {
		return nil
	}
	for _, s := range slices.Concat(c.OnlyOld, c.Unseen) {
		unseen(s, stats.Missing, "new", "measuring it")
	}
	for _, s := range c.OnlyNew {
		unseen(s, stats.Missing, "old", "measuring it and saving it there")
	}
	if !slices.ContainsFunc(c.Points, func(p compare.Point) bool { return p.Cause == stats.Incomplete }) {
		for _, s := range c.Incomplete {
			unseen(s, stats.Incomplete, "new", cmp.Or(c.Finish, "--resume"))
		}
	}
	return out
}

// compared judges one expectation at every point that has its figure.
func (e *Expectation) compared(c *compare.Comparison, accept stats.Accepted) []report.Check {
	var out []report.Check
	several := slices.ContainsFunc(c.Points, func(p compare.Point) bool { return p.Group != c.Points[0].Group })
	for i := range c.Points {
		p := &c.Points[i]
		point := p.Row + ": " + p.Figure
		if several {
			point = p.Group + ", " + point
		}
		if e.change.figure != "" && e.change.figure != p.Figure {
			continue
		}
		check := report.Check{
			Expression: e.text, Point: point, Limit: stats.Percent(e.change.limit) + " worse",
			Actual:  fmt.Sprintf("%s, was %s", median(p.New, p.Unit), median(p.Old, p.Unit)),
			Verdict: p.Verdict,
		}
		if p.Word != stats.CannotTell || p.Cause == stats.Unclear {
			check.Verdict = judge(p.Effect, p.Verdict, e.change.limit, accept)
		}
		out = append(out, check)
	}
	if len(out) == 0 { // what was not measured does not pass
		out = append(out, e.unseen("all", cmp.Or(strings.Join(c.LeftOut, "; "), "no point has the figure")))
	}
	return out
}

func median(s stats.Summary, unit string) string {
	if s.N == 0 {
		return "not measured"
	}
	return strings.TrimSpace(plain.Number(s.Median) + " " + unit)
}

// judge tells whether an effect is worse by less than the limit. It passes if that is shown, and fails if it is worse
// by more.
func judge(e stats.Effect, told stats.Verdict, limit float64, accept stats.Accepted) stats.Verdict {
	by, _, _ := e.Worse()
	out := stats.Verdict{Word: stats.Pass, Reason: told.Reason}
	switch {
	case e.NotWorse(limit):
	case told.Word == stats.Worse && by > limit, by > limit && accept.Has(stats.Unclear):
		out.Word = stats.Fail
	case accept.Has(stats.Unclear):
		out.Cause = stats.Unclear
	default:
		out = stats.Unknown(stats.Unclear, cmp.Or(told.Settle, "more runs"),
			"it may be worse by more than %s: the change is %s", stats.Percent(limit), told.Reason)
	}
	return out
}
