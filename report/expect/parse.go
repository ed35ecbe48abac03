package expect

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/figure"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

type tokenKind uint8

const (
	tokenEnd tokenKind = iota
	tokenNumber
	tokenWord // a figure, a key word, a unit after a number, a file after "of"
	tokenSign
)

type lexeme struct {
	kind   tokenKind
	text   string
	value  float64
	column int // from 1, in runes
}

// expectationParser reads one expectation.
type expectationParser struct {
	filtering bool // within a filter
	text      string
	options   Options
	tokens    []lexeme
	at        int
}

// longestExpectation bounds what the parser recurses into.
const longestExpectation = 1000

// unit is a factor to bits and seconds.
type unit struct {
	name      string
	factor    float64
	dimension figure.Dimension
}

func units() []unit {
	bandwidth, size, duration, rate := figure.Dimension{Bits: 1, Seconds: -1}, figure.Dimension{Bits: 1, Seconds: 0}, figure.Dimension{Bits: 0, Seconds: 1}, figure.Dimension{Bits: 0, Seconds: -1}
	return []unit{
		{"Tb/s", 1e12, bandwidth},
		{"Gb/s", 1e9, bandwidth},
		{"Mb/s", 1e6, bandwidth},
		{"kb/s", 1e3, bandwidth},
		{"b/s", 1, bandwidth},
		{"Gbit/s", 1e9, bandwidth},
		{"Mbit/s", 1e6, bandwidth},
		{"Gbps", 1e9, bandwidth},
		{"Mbps", 1e6, bandwidth},
		{"GB/s", 8e9, bandwidth},
		{"MB/s", 8e6, bandwidth},
		{"kB/s", 8e3, bandwidth},
		{"B/s", 8, bandwidth},
		{"GiB/s", 8 << 30, bandwidth},
		{"MiB/s", 8 << 20, bandwidth},
		{"KiB/s", 8 << 10, bandwidth},
		{"GiB", 8 << 30, size},
		{"MiB", 8 << 20, size},
		{"KiB", 8 << 10, size},
		{"GB", 8e9, size},
		{"MB", 8e6, size},
		{"kB", 8e3, size},
		{"B", 8, size},
		{"ps", 1e-12, duration},
		{"ns", 1e-9, duration},
		{"us", 1e-6, duration},
		{"µs", 1e-6, duration},
		{"ms", 1e-3, duration},
		{"s", 1, duration},
		{"Gmsg/s", 1e9, rate},
		{"Mmsg/s", 1e6, rate},
		{"kmsg/s", 1e3, rate},
		{"msg/s", 1, rate},
		{"Mpps", 1e6, rate},
		{"%", 0.01, figure.Dimension{}},
		{"k", 1e3, figure.Dimension{}},
		{"K", 1e3, figure.Dimension{}},
		{"M", 1e6, figure.Dimension{}},
		{"G", 1e9, figure.Dimension{}},
	}
}

func (p *expectationParser) fail(column int, format string, args ...any) error {
	return &report.ExpressionError{Text: p.text, Column: column, Problem: fmt.Sprintf(format, args...)}
}

// scan cuts the text into tokens.
func (p *expectationParser) scan() error {
	runes := []rune(p.text)
	if len(runes) > longestExpectation {
		return p.fail(longestExpectation, "an expectation of more than %d characters", longestExpectation)
	}
	for i := 0; i < len(runes); {
		r := runes[i]
		column := i + 1
		switch {
		case unicode.IsSpace(r):
			i++
		case r == '"' || r == '\'':
			end := slices.Index(runes[i+1:], r)
			if end < 0 {
				return p.fail(column, "the quotation does not end")
			}
			p.tokens = append(p.tokens, lexeme{kind: tokenWord, text: string(runes[i+1 : i+1+end]), column: column})
			i += end + 2
		case unicode.IsDigit(r) || r == '.' && i+1 < len(runes) && unicode.IsDigit(runes[i+1]):
			j := i
			for j < len(runes) && (unicode.IsDigit(runes[j]) || runes[j] == '.') {
				j++
			}
			if j+1 < len(runes) && (runes[j] == 'e' || runes[j] == 'E') && (unicode.IsDigit(runes[j+1]) || j+2 < len(runes) && strings.ContainsRune("+-", runes[j+1]) && unicode.IsDigit(runes[j+2])) {
				for j += 2; j < len(runes) && unicode.IsDigit(runes[j]); j++ {
					continue
				}
			}
			v, err := strconv.ParseFloat(string(runes[i:j]), 64)
			if err != nil {
				return p.fail(column, "%q is not a number", string(runes[i:j]))
			}
			p.tokens = append(p.tokens, lexeme{kind: tokenNumber, text: string(runes[i:j]), value: v, column: column})
			i = j
		case wordRune(r) || (r == '.' || r == '/') && len(p.tokens) > 0 && p.tokens[len(p.tokens)-1].text == "of":
			j := i
			for j < len(runes) && (j == i || wordRune(runes[j]) || unicode.IsDigit(runes[j]) || p.inWord(runes, j)) {
				j++
			}
			p.tokens = append(p.tokens, lexeme{kind: tokenWord, text: string(runes[i:j]), column: column})
			i = j
		default:
			two := string(runes[i:min(i+2, len(runes))])
			switch {
			case slices.Contains([]string{">=", "<=", "==", "!="}, two):
				p.tokens = append(p.tokens, lexeme{kind: tokenSign, text: two, column: column})
				i += 2
			case strings.ContainsRune("<>*/+-()%", r):
				p.tokens = append(p.tokens, lexeme{kind: tokenSign, text: string(r), column: column})
				i++
			case r == '≥' || r == '≤':
				p.tokens = append(p.tokens, lexeme{kind: tokenSign, text: map[rune]string{'≥': ">=", '≤': "<="}[r], column: column})
				i++
			case r == '=':
				return p.fail(column, `"=" is no comparison; equality is "=="`)
			default:
				return p.fail(column, "%q means nothing here", r)
			}
		}
	}
	p.tokens = append(p.tokens, lexeme{kind: tokenEnd, column: utf8.RuneCountInString(p.text) + 1})
	return nil
}

func wordRune(r rune) bool { return unicode.IsLetter(r) || r == '_' }

// inWord tells whether a sign belongs to the word around it: dots always, hyphens between letters or digits (test names),
// slashes of units (Gb/s) and of files.
func (p *expectationParser) inWord(runes []rune, j int) bool {
	next := j+1 < len(runes) && (wordRune(runes[j+1]) || unicode.IsDigit(runes[j+1]) || runes[j+1] == '.')
	afterOf := len(p.tokens) > 0 && p.tokens[len(p.tokens)-1].text == "of"
	afterNumber := len(p.tokens) > 0 && p.tokens[len(p.tokens)-1].kind == tokenNumber
	switch runes[j] {
	case '.', '-':
		return next
	case '/':
		return next && (afterOf || afterNumber && runes[j+1] == 's' && (j+2 == len(runes) || !wordRune(runes[j+2])))
	}
	return false
}

func (p *expectationParser) peek() lexeme { return p.tokens[p.at] }

func (p *expectationParser) next() lexeme {
	t := p.tokens[p.at]
	if t.kind != tokenEnd {
		p.at++
	}
	return t
}

func comparisons() []string { return []string{">=", "<=", ">", "<", "==", "!="} }

func (p *expectationParser) expectation() (*Expectation, error) {
	left, err := p.sum()
	if err != nil {
		return nil, err
	}
	e := &Expectation{left: left}
	t := p.next()
	switch {
	case t.kind == tokenSign && slices.Contains(comparisons(), t.text):
		e.operator = t.text
		if e.right, err = p.sum(); err != nil {
			return nil, err
		}
		if err := p.agree(e, t); err != nil {
			return nil, err
		}
	case t.kind == tokenWord && t.text == "within":
		if err := p.within(e); err != nil {
			return nil, err
		}
	case t.kind == tokenEnd:
		return nil, p.fail(t.column, "a comparison is missing, as in %s >= 10 Gb/s", strings.TrimSpace(p.text))
	default:
		return nil, p.fail(t.column, "%q%s is no comparison; there are %s and within", t.text, plain.Suggest(t.text, []string{"within"}), strings.Join(comparisons(), " "))
	}
	if len(e.left.figures) == 0 && len(e.right.figures) == 0 && len(e.left.tests) == 0 && len(e.right.tests) == 0 {
		return nil, p.fail(1, "no figure of the test is compared; there are %s", strings.Join(mainFigures(), ", "))
	}
	return e, p.conditions(e)
}

// conditions are what may follow a comparison: "where counted", and a filter, which has none of its own.
func (p *expectationParser) conditions(e *Expectation) error {
	if t := p.peek(); t.kind == tokenWord && t.text == "where" {
		p.next()
		if n := p.next(); n.text != "counted" {
			return p.fail(n.column, `"where" wants "counted": judge only where an end counts it`)
		}
		if e.left.figure == nil {
			return p.fail(e.left.column, `"where counted" is for a counter alone on the left`)
		}
		e.counted = true
		if name := e.left.figure.Name; !strings.HasPrefix(name, "local.") && !strings.HasPrefix(name, "peer.") {
			if _, own := figure.Named(name); own {
				return p.fail(e.left.column, `"where counted" is for a counter alone on the left`)
			}
			e.left = figureNode(figure.CounterOf(figure.Any, name), e.left.column)
		}
	}
	t := p.peek()
	if t.kind != tokenWord {
		return nil
	}
	if t.text != "for" {
		return p.fail(t.column, "unexpected %q%s after the end of the expectation", t.text, plain.Suggest(t.text, []string{"for", "where"}))
	}
	p.next()
	if p.filtering {
		return p.fail(t.column, `a filter has no filter of its own: write one "for" (or two expectations)`)
	}
	p.filtering = true
	var err error
	e.filter, err = p.expectation()
	return err
}

// mainFigures are the words to offer first.
func mainFigures() []string {
	return append(plain.Each(figure.All(), func(f figure.Figure) string { return f.Name }), "retransmits")
}

// agree sees that both sides are measured in the same thing; a bare number stands for a rate, and 0 for anything.
func (p *expectationParser) agree(e *Expectation, operator lexeme) error {
	l, r := e.left, e.right
	rate := figure.Dimension{Bits: 0, Seconds: -1}
	switch {
	case l.dimension == r.dimension:
	case l.dimension == rate && r.dimension == figure.Dimension{}, r.dimension == rate && l.dimension == figure.Dimension{}:
	default:
		return p.fail(r.column, "the left of %s is %s, the right is %s", operator.text, l.dimension, r.dimension)
	}
	return nil
}

func (p *expectationParser) within(e *Expectation) error {
	if e.left.figure == nil {
		return p.fail(e.left.column, `"within" compares one figure, not a calculation`)
	}
	e.operator = "within"
	n := p.next()
	if n.kind != tokenNumber {
		return p.fail(n.column, "a percentage is missing, as in within 5%% of baseline.json")
	}
	if t := p.next(); t.text != "%" {
		return p.fail(t.column, `"%%" is missing after %s`, n.text)
	}
	e.within = n.value / 100
	if !(e.within >= 0) || e.within >= 1 && e.left.figure.Direction != stats.LowerIsBetter {
		return p.fail(n.column, "within %s%% cannot fail: nothing is worse by more than 100 %%", n.text)
	}
	if t := p.next(); t.text != "of" {
		return p.fail(t.column, `"of" is missing, as in within %s%% of baseline.json`, n.text)
	}
	t := p.peek()
	if file := p.file(); file != "" {
		b, err := loadBaseline(file, p.options)
		if err != nil {
			return &report.ExpressionError{Text: p.text, Column: t.column, Problem: err.Error(), Err: err}
		}
		e.baseline = b
		return nil
	}
	var err error
	if e.right, err = p.sum(); err != nil {
		return err
	}
	return p.agree(e, lexeme{text: "within", column: t.column})
}

// file takes the name of a baseline: whatever ends in .json or was put in quotation marks, up to a space.
func (p *expectationParser) file() string {
	t := p.peek()
	if t.kind == tokenEnd {
		return ""
	}
	runes := []rune(p.text)
	if q := runes[t.column-1]; q == '"' || q == '\'' {
		p.next()
		return t.text
	}
	end := t.column - 1
	for end < len(runes) && !unicode.IsSpace(runes[end]) {
		end++
	}
	name := string(runes[t.column-1 : end])
	if !strings.HasSuffix(name, ".json") {
		return ""
	}
	for p.peek().kind != tokenEnd && p.peek().column <= end {
		p.next()
	}
	return name
}

func (p *expectationParser) sum() (node, error) {
	left, err := p.product()
	for err == nil && p.peek().kind == tokenSign && (p.peek().text == "+" || p.peek().text == "-") {
		sign := p.next()
		var right node
		if right, err = p.product(); err != nil {
			break
		}
		if left.dimension != right.dimension {
			return node{}, p.fail(sign.column, "%s %s %s does not add up", left.dimension, sign.text, right.dimension)
		}
		factor := 1.0
		if sign.text == "-" {
			factor = -1
		}
		left = combine(left, right, left.dimension, func(a, b float64) float64 { return a + factor*b })
	}
	return left, err
}

func (p *expectationParser) product() (node, error) {
	left, err := p.value()
	for err == nil && p.peek().kind == tokenSign && (p.peek().text == "*" || p.peek().text == "/") {
		sign := p.next()
		var right node
		if right, err = p.value(); err != nil {
			break
		}
		a, b := left.dimension, right.dimension
		if sign.text == "*" {
			left = combine(left, right, figure.Dimension{Bits: a.Bits + b.Bits, Seconds: a.Seconds + b.Seconds}, func(a, b float64) float64 { return a * b })
		} else {
			left = combine(left, right, figure.Dimension{Bits: a.Bits - b.Bits, Seconds: a.Seconds - b.Seconds}, func(a, b float64) float64 { return a / b })
		}
	}
	return left, err
}

func combine(a, b node, d figure.Dimension, f func(a, b float64) float64) node {
	return node{
		dimension: d, column: a.column, line: a.line || b.line,
		figures: slices.Concat(a.figures, b.figures), tests: slices.Concat(a.tests, b.tests),
		eval: func(s *scope) (float64, error) {
			x, err := a.eval(s)
			if err != nil {
				return 0, err
			}
			y, err := b.eval(s)
			return f(x, y), err
		},
	}
}

func (p *expectationParser) value() (node, error) {
	t := p.next()
	switch t.kind {
	case tokenNumber:
		return p.quantity(t)
	case tokenWord:
		return p.word(t)
	case tokenSign:
		switch t.text {
		case "(":
			n, err := p.sum()
			if err != nil {
				return node{}, err
			}
			if c := p.next(); c.text != ")" {
				return node{}, p.fail(c.column, `")" is missing`)
			}
			n.column = t.column
			return n, nil
		case "-":
			n, err := p.value()
			if err != nil {
				return node{}, err
			}
			inner := n.eval
			n.eval = func(s *scope) (float64, error) {
				v, err := inner(s)
				return -v, err
			}
			n.column, n.figure = t.column, nil
			return n, nil
		}
	case tokenEnd:
		return node{}, p.fail(t.column, "a value is missing")
	}
	return node{}, p.fail(t.column, "a value is missing before %q", t.text)
}

// quantity reads a number's unit, if it has one.
func (p *expectationParser) quantity(number lexeme) (node, error) {
	v, d := number.value, figure.Dimension{}
	t := p.peek()
	if t.kind == tokenSign && t.text == "%" || t.kind == tokenWord && !slices.Contains([]string{"for", "of", "within", "where"}, t.text) {
		p.next()
		known := false
		for _, u := range units() {
			if u.name == t.text {
				v, d, known = v*u.factor, u.dimension, true
			}
		}
		if !known {
			return node{}, p.fail(t.column, "no unit %q%s; there are Gb/s MB/s MiB/s us ns %% k M G and others", t.text, plain.Suggest(t.text, plain.Each(units(), func(u unit) string { return u.name })))
		}
	}
	return node{dimension: d, column: number.column, eval: func(*scope) (float64, error) { return v, nil }}, nil
}

// word is a figure of this test or, after a test's name and a dot, of another; or the line rate.
func (p *expectationParser) word(t lexeme) (node, error) {
	if t.text == "line" {
		return node{dimension: figure.Dimension{Bits: 1, Seconds: -1}, column: t.column, line: true, eval: func(s *scope) (float64, error) {
			if s.line == 0 {
				return 0, &figure.MissingError{Figure: "line", Reason: s.lineOK}
			}
			return s.line, nil
		}}, nil
	}
	if f, ok := figure.Named(t.text); ok {
		return figureNode(f, t.column), nil
	}
	if slices.Contains(figure.CounterNames(), t.text) {
		return figureNode(figure.Counter(t.text), t.column), nil
	}
	if counter, ok := strings.CutPrefix(t.text, "counter."); ok && counter != "" {
		return figureNode(figure.Counter(counter), t.column), nil
	}
	if end, counter, ok := strings.Cut(t.text, "."); ok && (end == "local" || end == "peer") && !slices.Contains(p.options.Tests, end) {
		name := strings.TrimPrefix(counter, "counter.")
		if name == counter && !slices.Contains(figure.CounterNames(), name) || name == "" {
			return node{}, p.fail(t.column+len(end)+1, "no counter %q%s; there are %s, and counter.NAME", name, plain.Suggest(name, figure.CounterNames()), strings.Join(figure.CounterNames(), ", "))
		}
		return figureNode(figure.CounterOf(end, name), t.column), nil
	}
	if test, name, ok := p.otherTest(t.text); ok {
		f, known := figure.Named(name)
		if !known {
			return node{}, p.fail(t.column+len([]rune(test))+1, "no figure %q%s; there are %s", name, plain.Suggest(name, figure.Words()), strings.Join(mainFigures(), ", "))
		}
		return otherNode(test, f, t.column), nil
	}
	if name, own := strings.CutPrefix(t.text, p.options.Test+"."); own && p.options.Test != "" {
		return node{}, p.fail(t.column, "%s is this test: write %s alone", p.options.Test, name)
	}
	words := append(figure.Words(), "line")
	for _, name := range p.options.Tests {
		words = append(words, name+".bw", name+".p50")
	}
	hint := plain.Suggest(t.text, words)
	if test, _, ok := strings.Cut(t.text, "."); ok && hint == "" {
		if len(p.options.Tests) == 0 {
			return node{}, p.fail(t.column, "no test %q: there is no earlier test to refer to", test)
		}
		return node{}, p.fail(t.column, "no earlier test %q%s; there are %s", test, plain.Suggest(test, p.options.Tests), strings.Join(p.options.Tests, ", "))
	}
	return node{}, p.fail(t.column, "no figure %q%s; there are %s, and counter.NAME for any device counter", t.text, hint, strings.Join(mainFigures(), ", "))
}

func (p *expectationParser) otherTest(text string) (test, figure string, ok bool) {
	for _, name := range p.options.Tests {
		if figure, found := strings.CutPrefix(text, name+"."); found {
			return name, figure, true
		}
	}
	return "", "", false
}

func figureNode(f figure.Figure, column int) node {
	return node{
		dimension: f.Dimension, figure: &f, column: column, figures: []string{f.Name},
		eval: func(s *scope) (float64, error) { return f.Over(s.row) },
	}
}

// otherNode is a figure of an earlier test: at the same size, or at its only one.
func otherNode(test string, f figure.Figure, column int) node {
	return node{
		dimension: f.Dimension, figure: nil, column: column, tests: []string{test},
		eval: func(s *scope) (float64, error) {
			d := s.tests[test]
			if d == nil {
				return 0, &figure.MissingError{Figure: test + "." + f.Name, Reason: "that test left no result"}
			}
			var rows []figure.Row
			for _, g := range figure.Groups(d.Records) {
				rows = append(rows, g.Rows...)
			}
			for _, r := range rows {
				if r.Size == s.row.Size || len(rows) == 1 {
					v, err := f.Over(r)
					if err != nil {
						return 0, fmt.Errorf("%s: %w", test, err)
					}
					return v, nil
				}
			}
			return 0, &figure.MissingError{Figure: test + "." + f.Name, Reason: fmt.Sprintf("that test did not measure %d B", s.row.Size)}
		},
	}
}
