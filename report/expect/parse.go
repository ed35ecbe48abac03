package expect

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gobw/gobw/report/compare"
	"github.com/gobw/gobw/report/figure"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

type tokenKind uint8

const (
	tokenEnd tokenKind = iota
	tokenNumber
	tokenWord // a figure, a key word, a unit after a number
	tokenSign
	tokenFile // what follows "of", to the end
)

type lexeme struct {
	kind   tokenKind
	text   string
	column int // from 1, in runes
}

// patterns of tokens, in the order of [tokenNumber], [tokenWord], [tokenSign].
var patterns = []*regexp.Regexp{ //nolint:gochecknoglobals // constants
	regexp.MustCompile(`^(\d+(\.\d+)?|\.\d+)([eE][+-]?\d+)?`),
	regexp.MustCompile(`^[\pL_]([\pL\pN_]|[.-][\pL\pN])*(/s\b)?`),
	regexp.MustCompile(`^(>=|<=|==|!=|[<>*%])`),
}

// parser reads one expectation.
type parser struct {
	text    string
	options Options
	tokens  []lexeme
}

// longest bounds an expectation, in characters.
const longest = 1000

// unit is a factor to bits and seconds.
type unit struct {
	name      string
	factor    float64
	dimension figure.Dimension
}

func units() []unit {
	var out []unit
	for _, of := range []struct {
		prefixes string // each may stand before the unit
		unit
	}{
		{"T G M k ", unit{"b/s", 1, figure.Bandwidth}},
		{"G M k  Gi Mi Ki", unit{"B/s", 8, figure.Bandwidth}},
		{"Gi Mi Ki G M k ", unit{"B", 8, figure.Size}},
		{"n u µ m ", unit{"s", 1, figure.Time}},
		{"G M k ", unit{"msg/s", 1, figure.Rate}},
		{"", unit{"%", 0.01, figure.Plain}},
		{"k K M G", unit{"", 1, figure.Plain}},
	} {
		for prefix := range strings.SplitSeq(of.prefixes, " ") {
			power := map[string]float64{
				"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "m": 1e-3,
				"u": 1e-6, "µ": 1e-6, "n": 1e-9,
			}[prefix]
			out = append(out, unit{prefix + of.name, cmp.Or(power, 1) * of.factor, of.dimension})
		}
	}
	return out
}

// Error is a mistake in an expectation or a gate, with its place.
type Error struct {
	Text    string
	Column  int // from 1
	Problem string
	Err     error // the cause, where there is one: a baseline that cannot be read
}

func (e *Error) Error() string {
	return fmt.Sprintf("column %d: %s\n  %s\n  %s^", e.Column, e.Problem, e.Text, strings.Repeat(" ", max(0, e.Column-1)))
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Short is the mistake without the picture of its place.
func (e *Error) Short() string { return e.Problem }

func (p *parser) fail(column int, format string, args ...any) error {
	return &Error{Text: p.text, Column: column, Problem: fmt.Sprintf(format, args...)}
}

// scan cuts the text into tokens.
func (p *parser) scan() error {
	if n := utf8.RuneCountInString(p.text); n > longest {
		return p.fail(longest, "an expectation of more than %d characters", longest)
	}
	rest := strings.TrimLeft(p.text, " \t\r\n")
	for rest != "" {
		t := lexeme{column: utf8.RuneCountInString(p.text) - utf8.RuneCountInString(rest) + 1}
		if n := len(p.tokens); n > 0 && p.tokens[n-1].text == "of" { // a file, up to the end
			t.kind, t.text, rest = tokenFile, strings.Trim(strings.TrimSpace(rest), `"'`), ""
		}
		for i, pattern := range patterns {
			if text := pattern.FindString(rest); text != "" {
				t.kind, t.text, rest = tokenNumber+tokenKind(i), text, rest[len(text):]
				break
			}
		}
		if t.kind == tokenEnd {
			r, _ := utf8.DecodeRuneInString(rest)
			return p.fail(t.column, "%q means nothing here%s", r, plain.When(r == '=', `; equality is "=="`))
		}
		p.tokens = append(p.tokens, t)
		rest = strings.TrimLeft(rest, " \t\r\n")
	}
	p.tokens = append(p.tokens, lexeme{kind: tokenEnd, column: utf8.RuneCountInString(p.text) + 1})
	return nil
}

func (p *parser) peek() lexeme { return p.tokens[0] }

func (p *parser) next() lexeme {
	t := p.tokens[0]
	if t.kind != tokenEnd {
		p.tokens = p.tokens[1:]
	}
	return t
}

// take skips the next token where it is the word or sign.
func (p *parser) take(text string) bool {
	found := p.peek().text == text && p.peek().kind != tokenFile
	if found {
		p.next()
	}
	return found
}

func operators() []string { return []string{">=", "<=", ">", "<", "==", "!="} }

// Parse reads an expectation and loads the file that it names. Mistakes are [Error].
func Parse(text string, o Options) (*Expectation, error) {
	if o.Program {
		return parseField(text)
	}
	p := &parser{text: text, options: o}
	if err := p.scan(); err != nil {
		return nil, err
	}
	e := &Expectation{}
	var err error
	switch {
	case p.peek().text == "worse" || len(p.tokens) > 1 && p.tokens[1].text == "worse":
		e.change, err = p.change()
	case o.Comparison:
		err = p.fail(1, "two results are judged by their change, as in worse<5%%")
	case p.take("quiet"):
		e.quiet = true
	default:
		err = p.limit(e)
	}
	if err != nil {
		return nil, err
	}
	if t := p.peek(); t.kind != tokenEnd {
		return nil, p.fail(t.column, "unexpected %q%s after the end of the expectation", t.text,
			plain.Suggest(t.text, []string{"for", "where"}))
	}
	e.text = strings.TrimSpace(text)
	return e, nil
}

// change reads "worse<5%", with the figure before it and "of FILE" behind.
func (p *parser) change() (*change, error) {
	c := &change{}
	latency := false
	if first := p.next(); first.text != "worse" {
		figures, err := compare.Figures([]string{first.text})
		if err != nil {
			return nil, p.fail(first.column, "%v", err)
		}
		c.figure, latency = figures[0].Name, figures[0].Direction == stats.LowerIsBetter
		p.next()
	}
	if t := p.next(); t.text != "<" {
		return nil, p.fail(t.column, `"worse" wants < and a percentage, as in worse<5%%`)
	}
	number := p.next()
	v, err := strconv.ParseFloat(number.text, 64)
	if number.kind != tokenNumber || err != nil || math.IsInf(v, 0) || !p.take("%") {
		return nil, p.fail(number.column, "%q is not a percentage, as in worse<5%%", number.text)
	}
	if c.limit = v / 100; c.limit >= 1 && !latency {
		return nil, p.fail(number.column, "worse<%s%% cannot fail: nothing is worse by more than 100 %%", number.text)
	}
	of := p.peek()
	switch named := p.take("of"); {
	case named && p.options.Comparison:
		return nil, p.fail(of.column, "the other result is given already: write %s",
			strings.TrimSpace(string([]rune(p.text)[:of.column-1])))
	case !named && !p.options.Comparison:
		return nil, p.fail(of.column, "worse than what? write worse<%s%% of FILE", number.text)
	case named:
		t := p.next()
		if c.docs, err = p.load(t.text); err != nil && (!p.options.Unread || !errors.Is(err, fs.ErrNotExist)) {
			return nil, &Error{Text: p.text, Column: t.column, Problem: err.Error(), Err: err}
		}
		c.file = t.text
	}
	return c, nil
}

// limit reads a figure, a comparison and a bound, and what may follow them.
func (p *parser) limit(e *Expectation) error {
	var err error
	if e.comparison, err = p.comparison(); err != nil {
		return err
	}
	if p.take("where") {
		if t := p.next(); t.text != "counted" {
			return p.fail(t.column, `"where" wants "counted": judge only where an end counts it`)
		}
		name := e.left.figure.Name
		_, own := figure.Named(name)
		if e.counted = true; own || e.left.test != "" {
			return p.fail(e.left.column, `"where counted" is for a counter on the left`)
		}
		if !strings.HasPrefix(name, "local.") && !strings.HasPrefix(name, "peer.") {
			f := figure.CounterOf(figure.Any, name)
			e.left.figure = &f
		}
	}
	if !p.take("for") {
		return nil
	}
	filter, err := p.comparison()
	e.filter = &filter
	return err
}

// comparison reads FIGURE OP BOUND.
func (p *parser) comparison() (c comparison, err error) {
	if c.left, err = p.operand(); err != nil {
		return c, err
	}
	if c.left.figure == nil || c.left.factor != 1 {
		return c, p.fail(c.left.column, "an expectation begins with a figure%s", plain.Choices("", figure.Words()))
	}
	t := p.next()
	if t.kind == tokenEnd {
		return c, p.fail(t.column, "a comparison is missing: >= or <=, and %s", c.left.dimension)
	}
	if c.operator = t.text; !slices.Contains(operators(), t.text) {
		return c, p.fail(t.column, "%q%s is no comparison; there are %s and worse<", t.text,
			plain.Suggest(t.text, []string{"worse"}), strings.Join(operators(), " "))
	}
	if c.right, err = p.operand(); err != nil {
		return c, err
	}
	switch l, r := c.left.dimension, c.right.dimension; {
	case l == r, l == figure.Rate && r == figure.Plain: // a bare number may stand for a count a second
	case l == figure.Size && c.right.bytes > 0:
		c.right.factor = c.right.bytes * 8
	case r == figure.Plain && c.right.figure == nil:
		return c, p.fail(c.right.column, "the number needs a unit: the left of %s is %s", t.text, l)
	default:
		return c, p.fail(c.right.column, "the left of %s is %s, the right is %s", t.text, l, r)
	}
	return c, nil
}

// operand reads a number with its unit, or a figure or the line rate, with a factor before it.
func (p *parser) operand() (operand, error) {
	t := p.next()
	switch t.kind {
	case tokenWord:
		o, err := p.word(t)
		o.factor, o.column = 1, t.column
		return o, err
	case tokenNumber:
	case tokenEnd:
		return operand{}, p.fail(t.column, "a value is missing")
	case tokenSign, tokenFile:
		return operand{}, p.fail(t.column, "a value is missing before %q", t.text)
	}
	v, err := strconv.ParseFloat(t.text, 64)
	if err != nil {
		return operand{}, p.fail(t.column, "%q is not a number", t.text)
	}
	o := operand{factor: v, dimension: figure.Plain, column: t.column}
	if u := p.peek(); u.text == "%" || u.kind == tokenWord && !slices.Contains([]string{"for", "where"}, u.text) {
		p.next()
		at := slices.IndexFunc(units(), func(known unit) bool { return known.name == u.text })
		if at < 0 {
			return o, p.fail(u.column, "no unit %q%s; there are Gb/s MB/s MiB/s us ns %% k M G and others", u.text,
				plain.Suggest(u.text, plain.Each(units(), func(u unit) string { return u.name })))
		}
		o.factor, o.dimension = v*units()[at].factor, units()[at].dimension
		if power := strings.Index("KMG", strings.ToUpper(u.text)); o.dimension == figure.Plain && power >= 0 {
			o.bytes = v * math.Pow(1024, float64(power+1)) // as everywhere on the command line
		}
	}
	if o.dimension != figure.Plain || !p.take("*") {
		return o, nil
	}
	t = p.next()
	if t.kind != tokenWord {
		return o, p.fail(t.column, "a figure or line is missing behind %q", "*")
	}
	scaled, err := p.word(t)
	scaled.factor, scaled.column = o.factor, o.column
	return scaled, err
}

// word is a figure of this test or, after a test's name and a dot, of another; or the line rate.
func (p *parser) word(t lexeme) (operand, error) {
	of := func(test string, f figure.Figure) (operand, error) {
		return operand{figure: &f, test: test, dimension: f.Dimension}, nil
	}
	if t.text == "line" {
		return operand{line: true, dimension: figure.Bandwidth}, nil
	}
	if f, ok := figure.Named(t.text); ok {
		return of("", f)
	}
	before, after, dotted := strings.Cut(t.text, ".")
	another := slices.Contains(p.options.Tests, before)
	f, known := figure.Named(after)
	switch {
	case another && known:
		return of(before, f)
	case another:
		return operand{}, p.fail(t.column+min(utf8.RuneCountInString(before)+1, utf8.RuneCountInString(t.text)),
			"%s is a test, and %q no figure%s", before, after, plain.Choices(after, figure.Words()))
	case before == p.options.Test && dotted:
		return operand{}, p.fail(t.column, "%s is this test: write %s alone", before, after)
	}
	end, name := "", t.text
	if dotted && (before == "local" || before == "peer") {
		end, name = before, after
	}
	name, any := strings.CutPrefix(name, "counter.")
	if any || slices.Contains(figure.CounterNames(), name) {
		return of("", figure.CounterOf(end, name))
	}
	if end != "" {
		return operand{}, p.fail(t.column+len(end)+1, "no counter %q%s; the device's own: %s.counter.%s", name,
			plain.Choices(name, figure.CounterNames()), end, name)
	}
	words := append(figure.Words(), "line", "quiet")
	for _, test := range p.options.Tests {
		words = append(words, test+".bw", test+".p50")
	}
	hint := plain.Suggest(t.text, words)
	if dotted && hint == "" {
		return operand{}, p.fail(t.column, "no earlier test %q%s", before,
			cmp.Or(plain.When(len(p.options.Tests) > 0, "%s", plain.Choices(before, p.options.Tests)),
				plain.When(p.options.Test != "", "; this is the first test of the plan"),
				"; a test of a plan can name the tests before it"))
	}
	return operand{}, p.fail(t.column, "no figure %q%s", t.text,
		cmp.Or(hint, plain.Choices("", figure.Words())+", and counter.NAME for any device counter: docs/expect.md"))
}
