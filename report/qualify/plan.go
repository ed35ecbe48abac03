package qualify

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/expect"
	"github.com/gobw/gobw/report/plain"
)

// Plan is a list of tests and what is expected of each, read from YAML.
type Plan struct {
	File        string
	Name        string
	Description string
	Tests       []Test
}

// Test is one test of a plan.
type Test struct {
	Name    string
	Words   []string // the command line: "gobw", "write", "-s", "64K"
	Run     Run      // what it says; nil where it was only split
	Expect  []*expect.Expectation
	Timeout time.Duration
	Line    int // of the test in the file
}

// Run is the parsed command line of a test: what expectations must know of it.
type Run interface {
	Kind() (kind, transport string) // "bandwidth", "RC"
	Strategies() []string           // of a non-contiguous experiment: each is a test of that name
}

// Options tell how to read a plan.
type Options struct {
	// Parse reads a command line (words[0] is the tool). Nil: command lines are only split.
	Parse func(words []string) (Run, error)
	// Unread says that nothing will be judged: files that expectations name may not be there yet.
	Unread bool
}

// mistake is one thing wrong with a plan, and where.
type mistake struct {
	file         string
	line, column int
	problem      string
}

func (m mistake) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", m.file, m.line, m.column, m.problem)
}

//go:embed plans/*.yaml
var shippedPlans embed.FS

// ShippedPlans are the names of the plans that come with the program.
func ShippedPlans() []string {
	files, err := fs.Glob(shippedPlans, "plans/*.yaml")
	if err != nil {
		return nil
	}
	return plain.Each(files, func(f string) string { return strings.TrimSuffix(path.Base(f), ".yaml") })
}

// ShippedPlan is the text of a plan that comes with the program.
func ShippedPlan(name string) ([]byte, error) {
	b, err := shippedPlans.ReadFile("plans/" + name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("no shipped plan %q%s", name, plain.Choices(name, ShippedPlans()))
	}
	return b, nil
}

// LoadPlan reads a plan from a file or, by its name alone, one that comes with the program.
func LoadPlan(file string, o Options) (*Plan, error) {
	if slices.Contains(ShippedPlans(), file) {
		if _, err := os.Stat(file); err != nil {
			b, err := ShippedPlan(file)
			if err != nil {
				return nil, err
			}
			return parsePlan(file+" (shipped)", b, o)
		}
	}
	b, err := report.ReadFile(file, planBytes)
	if err != nil {
		remedy := "shipped plans are " + strings.Join(ShippedPlans(), ", ")
		if near := plain.Nearest(file, ShippedPlans()); near != "" {
			remedy = fmt.Sprintf("did you mean the shipped plan %q? %s", near, remedy)
		}
		if unread, ok := errors.AsType[*report.FileError](err); ok { // it names the file
			unread.Remedy = remedy
		}
		return nil, err
	}
	return parsePlan(file, b, o)
}

// parsePlan reads a plan and reports every mistake in it at once.
func parsePlan(file string, b []byte, o Options) (*Plan, error) {
	p := &planParser{file: file, options: o, plan: &Plan{File: file}}
	if err := checkPlanText(b); err != nil {
		return nil, mistake{file, 1, 1, err.Error()}
	}
	root, err := parser.ParseBytes(b, 0)
	if err != nil {
		if syntax, ok := errors.AsType[yaml.Error](err); ok {
			p.mistake(syntax.GetToken(), "not YAML: %s", syntax.GetMessage())
		} else {
			p.mistake(nil, "not YAML: %v", err)
		}
		return nil, p.mistakes[0]
	}
	switch {
	case len(root.Docs) == 0 || root.Docs[0].Body == nil:
		p.mistake(nil, "the plan is empty; it wants name and tests")
	case len(root.Docs) > 1:
		var second *token.Token
		if body := root.Docs[1].Body; body != nil {
			second = body.GetToken()
		}
		p.mistake(second, "a plan is one YAML document, this is the second")
	default:
		p.top(root.Docs[0].Body)
	}
	if len(p.mistakes) > 0 {
		slices.SortStableFunc(p.mistakes, func(a, b mistake) int { return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.column, b.column)) })
		errs := make([]error, len(p.mistakes))
		for i, m := range p.mistakes {
			errs[i] = m
		}
		return nil, errors.Join(errs...)
	}
	return p.plan, nil
}

// Bounds of a plan, which is written by hand: the parser of YAML takes gigabytes for a few kilobytes of brackets.
const (
	planBytes = 1 << 20
	planDepth = 32 // of brackets within brackets, of dashes on a line, of spaces before a key over two
)

// checkPlanText refuses what no hand writes before it is parsed. Brackets in text count, too: there they come in pairs.
func checkPlanText(b []byte) error {
	if len(b) > planBytes {
		return fmt.Errorf("the plan has %d bytes; a plan has at most %d", len(b), planBytes)
	}
	depth := 0
	for number, line := range bytes.Split(b, []byte("\n")) {
		indent := len(line) - len(bytes.TrimLeft(line, " -?:&*!"))
		for _, c := range line {
			switch c {
			case '[', '{':
				depth++
			case ']', '}':
				depth = max(0, depth-1)
			}
		}
		if depth > planDepth || indent > 8*planDepth {
			return fmt.Errorf("line %d: nested deeper than %d levels", number+1, planDepth)
		}
	}
	return nil
}

type planParser struct {
	file     string
	options  Options
	plan     *Plan
	mistakes []mistake
	timeout  time.Duration
	flags    []string
	expected field // of every test
}

func (p *planParser) mistake(t *token.Token, format string, args ...any) {
	m := mistake{file: p.file, line: 1, column: 1, problem: fmt.Sprintf(format, args...)}
	if t != nil && t.Position != nil {
		m.line, m.column = t.Position.Line, t.Position.Column
	}
	p.mistakes = append(p.mistakes, m)
}

// field is one key of a mapping; without a token it is not there.
type field struct {
	key   string
	token *token.Token
	value ast.Node
}

// fields of a mapping, of which the keys must be known.
func (p *planParser) fields(n ast.Node, what string, known ...string) map[string]field {
	var values []*ast.MappingValueNode
	switch m := n.(type) {
	case *ast.MappingNode:
		values = m.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{m}
	default:
		p.mistake(n.GetToken(), "%s is %s, want keys and values: %s", what, nodeKind(n), strings.Join(known, ", "))
		return nil
	}
	out := map[string]field{}
	for _, v := range values {
		f := field{key: v.Key.String(), token: v.Key.GetToken(), value: v.Value}
		if out[f.key] = f; !slices.Contains(known, f.key) {
			p.mistake(f.token, "%s has no key %q%s", what, f.key, plain.Choices(f.key, known))
		}
	}
	return out
}

// begin is the token that a mapping starts with: its first key, where its own is the first colon.
func begin(n ast.Node) *token.Token {
	switch m := n.(type) {
	case *ast.MappingNode:
		if !m.IsFlowStyle && len(m.Values) > 0 {
			return m.Values[0].Key.GetToken()
		}
	case *ast.MappingValueNode:
		return m.Key.GetToken()
	}
	return n.GetToken()
}

func nodeKind(n ast.Node) string {
	switch n := n.(type) {
	case *ast.SequenceNode:
		if len(n.Values) == 0 {
			return "empty"
		}
		return "a list"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.NullNode, nil:
		return "empty"
	}
	return fmt.Sprintf("%q", n.String())
}

// text of a scalar, and the token that starts it; false where there is none.
func (p *planParser) text(f field) (string, *token.Token, bool) {
	switch v := f.value.(type) {
	case *ast.StringNode:
		return v.Value, v.Token, true
	case *ast.LiteralNode:
		return strings.TrimSpace(v.Value.Value), v.Value.Token, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return v.String(), v.GetToken(), true
	case *ast.NullNode:
		p.mistake(f.token, "%s is empty", f.key)
	case nil:
	default:
		p.mistake(f.value.GetToken(), "%s is %s, want text", f.key, nodeKind(v))
	}
	return "", nil, false
}

func (p *planParser) top(n ast.Node) {
	f := p.fields(n, "the plan", "name", "description", "defaults", "tests")
	p.plan.Name, _, _ = p.text(f["name"])
	p.plan.Name = cmp.Or(p.plan.Name, strings.TrimSuffix(filepath.Base(strings.TrimSuffix(p.file, " (shipped)")), ".yaml"))
	p.plan.Description, _, _ = p.text(f["description"])
	if d := f["defaults"]; d.token != nil {
		of := p.fields(d.value, "defaults", "flags", "timeout", "expect")
		p.flags, _ = p.words(of["flags"])
		p.timeout, p.expected = p.duration(of["timeout"]), of["expect"]
	}
	tests := f["tests"]
	list, ok := tests.value.(*ast.SequenceNode)
	switch {
	case tests.token == nil && f != nil:
		p.mistake(n.GetToken(), "the plan has no tests")
	case f != nil && (!ok || len(list.Values) == 0):
		p.mistake(tests.token, "tests is %s, want a list of tests", nodeKind(tests.value))
	case ok:
		for _, item := range list.Values {
			p.test(item)
		}
	}
}

// words of a command line.
func (p *planParser) words(f field) ([]string, *token.Token) {
	s, at, ok := p.text(f)
	if !ok {
		return nil, nil
	}
	words, err := plain.SplitWords(s)
	if err != nil {
		p.mistake(at, "%s: %v", f.key, err)
		return nil, nil
	}
	return words, at
}

// duration is that of a test, or as the defaults say.
func (p *planParser) duration(f field) time.Duration {
	s, t, ok := p.text(f)
	if !ok {
		return p.timeout
	}
	d, err := time.ParseDuration(strings.ReplaceAll(s, " ", ""))
	if err != nil || d <= 0 {
		p.mistake(t, "timeout %q is not a time, as in 30s or 2m", s)
	}
	return d
}

// testName is what a test may be called, so that expectations can refer to it.
var testName = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_-]*$`)

func (p *planParser) test(n ast.Node) {
	f := p.fields(n, "a test", "name", "about", "run", "expect", "timeout")
	if f == nil {
		return
	}
	start := begin(n)
	t := Test{Timeout: p.duration(f["timeout"]), Line: start.Position.Line}
	_, _, _ = p.text(f["about"]) // what the test shows: for who reads the plan
	var at *token.Token
	switch t.Name, at, _ = p.text(f["name"]); {
	case f["name"].token == nil:
		p.mistake(start, "the test has no name")
	case at != nil && !testName.MatchString(t.Name):
		p.mistake(at, "%q cannot name a test: letters, digits, - and _, a letter first", t.Name)
	case at != nil && slices.Contains(p.earlier(), t.Name):
		p.mistake(at, "a test called %q is there already", t.Name)
	}
	if f["run"].token == nil {
		p.mistake(start, "test %q has no run: the command line, as in run: gobw write -s 64K", t.Name)
	}
	p.run(&t, f["run"])
	p.expect(&t, f["expect"])
	p.expect(&t, p.expected)
	p.plan.Tests = append(p.plan.Tests, t)
}

func (p *planParser) earlier() []string {
	names := plain.Each(p.plan.Tests, func(t Test) string { return t.Name })
	return slices.DeleteFunc(names, func(name string) bool { return !testName.MatchString(name) })
}

func (p *planParser) run(t *Test, f field) {
	words, at := p.words(f)
	if at == nil {
		return
	}
	if tools := []string{"gobw", "golat"}; len(words) == 0 || !slices.Contains(tools, words[0]) {
		first := ""
		if len(words) > 0 {
			first = words[0]
		}
		p.mistake(at, "run starts with %q%s, want gobw or golat", first, plain.Suggest(first, tools))
		return
	}
	test := min(2, len(words)) // behind "gobw write", so that the test's own flags come later and win
	t.Words = slices.Concat(words[:test], p.flags, words[test:])
	if p.options.Parse == nil {
		return
	}
	var err error
	if t.Run, err = p.options.Parse(t.Words); err != nil {
		place := at
		for _, w := range words { // point at the word that the problem names
			if offset := strings.Index(at.Value, w); len(w) > 1 && offset > 0 && strings.Contains(err.Error(), strings.TrimLeft(w, "-")) && strings.HasPrefix(w, "-") {
				place = shifted(at, offset)
				break
			}
		}
		p.mistake(place, "run: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
}

// shifted is a token some characters further on the same line.
func shifted(t *token.Token, by int) *token.Token {
	c := *t
	position := *t.Position
	position.Column += by
	if quoted := t.Type == token.DoubleQuoteType || t.Type == token.SingleQuoteType; quoted {
		position.Column++
	}
	c.Position = &position
	return &c
}

func (p *planParser) expect(t *Test, f field) {
	if f.token == nil {
		return
	}
	items := []ast.Node{f.value}
	if list, ok := f.value.(*ast.SequenceNode); ok {
		items = list.Values
	}
	dir := filepath.Dir(p.file)
	for _, item := range items {
		s, at, ok := p.text(field{key: "expect", token: f.token, value: item})
		if !ok {
			continue
		}
		e, err := t.Parse(s, expect.Options{Dir: dir, Tests: p.earlier(), Unread: p.options.Unread})
		var ee *report.ExpressionError
		switch {
		case errors.As(err, &ee):
			p.mistake(shifted(at, ee.Column-1), "expect: %s%s", ee.Short(), plain.When(errors.Is(err, fs.ErrNotExist), "; make it first: the same command with --leave-out all --save FILE"))
		case err != nil:
			p.mistake(at, "expect: %v", err)
		default:
			t.Expect = append(t.Expect, e)
		}
	}
}

// Parse reads what is expected of the test: figures of the earlier tests of o may be used.
func (t *Test) Parse(text string, o expect.Options) (*expect.Expectation, error) {
	o.Test = t.Name
	if t.Run == nil {
		return expect.Parse(text, o)
	}
	o.Tests = slices.Concat(o.Tests, t.Run.Strategies())
	e, err := expect.Parse(text, o)
	if err == nil {
		err = e.CheckTest(t.Run.Kind())
	}
	return e, err
}
