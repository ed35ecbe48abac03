package compare

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

// Gate decides whether a comparison passes: rules separated by commas, as in "worse>5%,too-few".
type Gate struct{ rules []gateRule }

type gateRule struct {
	word  string
	limit string  // of its own, as it was typed; empty: none
	above float64 // that limit, a share
}

// gateWords are what a rule may start with.
func gateWords() []string { return []string{"worse", "too-few", "missing", "geomean"} }

// ParseGate reads the rules of --fail-on:
//
//	worse       it is not shown of every figure that it is worse by no more than the margin
//	worse>5%    ... by no more than 5 %
//	geomean>2%  it is not shown of a geometric mean that it is worse by no more than 2 %
//	too-few     a figure had too few runs to judge
//	missing     a point of the old side is not in the new
//
// Where only some of these can be judged, they are named by their first words.
func ParseGate(text string, words ...string) (*Gate, error) {
	if len(words) == 0 {
		words = gateWords()
	}
	g := &Gate{}
	column := 1
	for part := range strings.SplitSeq(text, ",") {
		trimmed := strings.TrimSpace(part)
		at := column + strings.Index(part, trimmed)
		word, limit, bounded := strings.Cut(trimmed, ">")
		word = strings.TrimSpace(word)
		if !slices.Contains(words, word) {
			return nil, &report.ExpressionError{Text: text, Column: at, Problem: fmt.Sprintf("no rule %q%s; here are %s", word, plain.Suggest(word, words), strings.Join(words, ", "))}
		}
		rule := gateRule{word: word, limit: strings.TrimSpace(limit)}
		if bounded {
			if word == "too-few" || word == "missing" {
				return nil, &report.ExpressionError{Text: text, Column: at + len(word), Problem: fmt.Sprintf("%q takes no limit", word)}
			}
			number, percent := strings.CutSuffix(rule.limit, "%")
			v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
			if err != nil || !percent || !(v >= 0) || math.IsInf(v, 0) {
				return nil, &report.ExpressionError{Text: text, Column: at + strings.Index(trimmed, ">") + 1, Problem: fmt.Sprintf("%q is not a percentage, as in worse>5%%", rule.limit)}
			}
			rule.above = v / 100
		} else if word == "geomean" {
			return nil, &report.ExpressionError{Text: text, Column: at + len(word), Problem: "geomean needs a limit, as in geomean>2%"}
		}
		g.rules = append(g.rules, rule)
		column += len(part) + 1
	}
	return g, nil
}

// Judge gives the reasons why a comparison does not pass; none: it passes. It passes on what it has seen alone: a figure of
// which nothing can be told fails every rule about figures, unless its cause is accepted, and so do points that are missing
// and documents that are incomplete.
func (g *Gate) Judge(c *Comparison, accept stats.Accepted) []string {
	var out []string
	unseen := false
	for _, rule := range g.rules {
		switch rule.word {
		case "worse":
			unseen = true
			if rule.limit == "" {
				rule.limit, rule.above = stats.Percent(c.Margin), c.Margin
			}
			for i := range c.Points {
				if reason := c.Points[i].notWorse(rule, accept); reason != "" {
					out = append(out, reason)
				}
			}
		case "too-few":
			for _, p := range c.Points {
				if p.Cause == stats.TooFew {
					out = append(out, p.say())
				}
			}
		case "missing":
			unseen = true
		case "geomean":
			unseen = true
			for _, p := range c.Points {
				if p.unseen() && !accept.Has(p.Cause) { // a mean of the others is not the mean
					out = append(out, p.say())
				}
			}
			out = append(out, c.geomeanAbove(rule.above, accept)...)
		}
	}
	if unseen && !accept.Has(stats.Missing) {
		for _, s := range c.OnlyOld {
			out = append(out, "cannot tell: missing: "+s+" is not in the new results (measure it, or --accept missing)")
		}
	}
	if unseen && !accept.Has(stats.Incomplete) {
		for _, s := range c.Incomplete {
			out = append(out, "cannot tell: incomplete: "+s+" was interrupted (measure it to its end, or --accept incomplete)")
		}
	}
	return slices.Compact(out)
}

func (p *Point) say() string {
	return fmt.Sprintf("%s, %s: %s: %s", p.Group, p.Row, p.Figure, p.InWords())
}

// unseen tells a point of which nothing can be told, whatever is asked of it.
func (p *Point) unseen() bool { return p.Word == stats.CannotTell && p.Cause != stats.Unclear }

// notWorse says why the point does not show that it is worse by no more than the limit; "": it does, or the cause is accepted.
func (p *Point) notWorse(rule gateRule, accept stats.Accepted) string {
	switch {
	case rule.above >= 1 && p.Better == stats.HigherIsBetter:
		return fmt.Sprintf("%s, %s: %s: a limit of %s cannot fail: nothing is worse by more than 100 %%", p.Group, p.Row, p.Figure, rule.limit)
	case p.unseen():
		if accept.Has(p.Cause) && !(p.WorseBy > rule.above) { // what was seen is bad, however few the runs
			return ""
		}
		return p.say()
	case p.NotWorse(rule.above):
		return ""
	}
	if _, low, _ := p.Worse(); p.Word == stats.Worse && low > 0 && p.WorseBy > rule.above {
		return p.say()
	}
	if accept.Has(stats.Unclear) {
		return ""
	}
	v := p.Verdict
	v.Word, v.Cause = stats.CannotTell, stats.Unclear
	v.Reason = fmt.Sprintf("whether it is worse by more than %s: %s", rule.limit, v.Reason)
	return fmt.Sprintf("%s, %s: %s: %s", p.Group, p.Row, p.Figure, v.InWords())
}

// geomeanAbove are the geometric means of which it is not shown that they are worse by no more than the limit.
func (c *Comparison) geomeanAbove(limit float64, accept stats.Accepted) []string {
	var out []string
	switch {
	case c.Hosts > 0:
		out = append(out, "cannot tell: no geometric mean is made of hosts and links: the rule worse judges each")
	case len(c.Geomeans) == 0 && !accept.Has(stats.TooFew):
		out = append(out, "cannot tell: too-few: no point has an interval, so there is no geometric mean to judge")
	}
	for _, m := range c.Geomeans {
		_, low, high := m.Effect.Worse()
		switch {
		case high <= limit:
		case low > 0 && m.WorseBy > limit:
			out = append(out, fmt.Sprintf("the geometric mean of %s is worse by %.1f %%", m.Figure, 100*m.WorseBy))
		case !accept.Has(stats.Unclear):
			out = append(out, fmt.Sprintf("cannot tell: unclear: the geometric mean of %s is worse by %.1f %%, between %.1f %% and %.1f %%: more runs are needed", m.Figure, 100*m.WorseBy, 100*low, 100*high))
		}
	}
	return out
}
