package report

import (
	"fmt"
	"strconv"
	"strings"
)

// Gate decides whether a comparison passes: rules separated by commas, as in "worse>5%,too-few".
type Gate struct{ rules []gateRule }

type gateRule struct {
	word  string
	above float64 // share
}

// gateWords are what a rule may start with, and what each means.
func gateWords() []string { return []string{"worse", "better", "too-few", "missing", "geomean"} }

// ParseGate reads the rules of --fail-on:
//
//	worse       any figure is worse
//	worse>5%    any figure is worse, and its median by more than 5 %
//	geomean>2%  a geometric mean is worse by more than 2 %
//	too-few     a figure had too few runs to judge
//	missing     a point of the old side is not in the new
//	better      any figure is better (for tests of the test)
func ParseGate(text string) (*Gate, error) {
	g := &Gate{}
	column := 1
	for part := range strings.SplitSeq(text, ",") {
		trimmed := strings.TrimSpace(part)
		at := column + strings.Index(part, trimmed)
		word, limit, bounded := strings.Cut(trimmed, ">")
		word = strings.TrimSpace(word)
		known := false
		for _, w := range gateWords() {
			known = known || w == word
		}
		if !known {
			return nil, &ExpressionError{Text: text, Column: at, Problem: fmt.Sprintf("no rule %q%s; there are %s", word, suggest(word, gateWords()), strings.Join(gateWords(), ", "))}
		}
		rule := gateRule{word: word}
		if bounded {
			if word == "too-few" || word == "missing" {
				return nil, &ExpressionError{Text: text, Column: at + len(word), Problem: fmt.Sprintf("%q takes no limit", word)}
			}
			number, percent := strings.CutSuffix(strings.TrimSpace(limit), "%")
			v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
			if err != nil || !percent || v < 0 {
				return nil, &ExpressionError{Text: text, Column: at + strings.Index(trimmed, ">") + 1, Problem: fmt.Sprintf("%q is not a percentage, as in worse>5%%", strings.TrimSpace(limit))}
			}
			rule.above = v / 100
		} else if word == "geomean" {
			return nil, &ExpressionError{Text: text, Column: at + len(word), Problem: "geomean needs a limit, as in geomean>2%"}
		}
		g.rules = append(g.rules, rule)
		column += len(part) + 1
	}
	return g, nil
}

// Judge gives the reasons why a comparison does not pass; none: it passes.
func (g *Gate) Judge(c *Comparison) []string {
	var out []string
	for _, rule := range g.rules {
		switch rule.word {
		case "worse", "better":
			for _, p := range c.Points {
				by := p.WorseBy
				if rule.word == "better" {
					by = -by
				}
				if string(p.Verdict) == rule.word && by > rule.above {
					out = append(out, fmt.Sprintf("%s, %s: %s is %s by %.1f %%", p.Group, p.Row, p.Figure, rule.word, 100*by))
				}
			}
		case "too-few":
			for _, p := range c.Points {
				if p.Verdict == TooFewRuns {
					out = append(out, fmt.Sprintf("%s, %s: %s has too few runs (%d and %d)", p.Group, p.Row, p.Figure, p.Old.N, p.New.N))
				}
			}
		case "missing":
			for _, s := range c.OnlyOld {
				out = append(out, "missing: "+s)
			}
		case "geomean":
			for _, m := range c.Geomeans {
				if m.WorseBy > rule.above {
					out = append(out, fmt.Sprintf("the geometric mean of %s is worse by %.1f %%", m.Figure, 100*m.WorseBy))
				}
			}
		}
	}
	return out
}
