package qualify

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
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
	Server  []string // of a program: the command line of the other end on this host; nil: its words before {server}
	Memory  int64    // of a program: bytes of each of its processes; 0: none are said
}

// Program tells a test that starts a program of the user's: ./gather, or gobw run -- ./gather.
func (t *Test) Program() bool { return isProgram(t.Words) }

func isProgram(words []string) bool {
	return len(words) > 0 && strings.Contains(words[0], "/") || len(words) > 1 && words[0] == "gobw" && words[1] == "run"
}

// Run is the parsed command line of a test: what expectations must know of it.
type Run interface {
	Kind() (kind, transport string) // "bandwidth", "RC"
	Strategies() []string           // of a non-contiguous experiment: each is a test of that name
}

// Options tell how to read a plan.
type Options struct {
	// Parse reads a command line (words[0] is the tool), and files that it names by
	// read. Nil: command lines are only split.
	Parse func(words []string, read ReadFile) (Run, error)
	// Typed are the flags of a command line, in the order typed. Nil: a test's own flags do not replace the defaults.
	Typed func(words []string) ([]Flag, error)
	// Bytes reads a size. Nil: sizes are not read.
	Bytes func(text string) (int64, error)
	Flags []string // of all tests, in place of those that they have
	// Unread says that nothing will be judged: files that expectations name may not be there yet.
	Unread bool
}

// Flag is a flag as it was typed, by its long name.
type Flag struct{ Name, Value string }

// ReadFile reads a file of at most so many bytes by its name.
type ReadFile func(name string, most int64) ([]byte, error)

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
	b, err := report.ReadFile(file, planBytes)
	if shipped, unknown := ShippedPlan(file); err != nil && unknown == nil {
		return parsePlan(file+" (shipped)", shipped, o)
	}
	if err != nil {
		if unread, ok := errors.AsType[*report.FileError](err); ok { // it names the file
			nearest := plain.Nearest(file, ShippedPlans())
			unread.Remedy = plain.When(nearest != "", "did you mean %q? ", nearest) + "shipped plans are " +
				strings.Join(ShippedPlans(), ", ")
		}
		return nil, err
	}
	return parsePlan(file, b, o)
}

// text is a word or a line of a plan, and where it stands.
type text struct {
	string
	at *token.Token
}

// UnmarshalYAML implements [yaml.NodeUnmarshaler].
func (t *text) UnmarshalYAML(n ast.Node) error {
	t.at = n.GetToken()
	if block, is := n.(*ast.LiteralNode); is {
		t.at = block.Value.Token
	}
	return yaml.NodeToValue(n, &t.string)
}

// texts are a list, or one alone.
type texts []text

// UnmarshalYAML implements [yaml.NodeUnmarshaler].
func (t *texts) UnmarshalYAML(n ast.Node) error {
	if list, is := n.(*ast.SequenceNode); is {
		return yaml.NodeToValue(list, (*[]text)(t))
	}
	*t = make(texts, 1)
	return (*t)[0].UnmarshalYAML(n)
}

// planFile is a plan as it is written.
type planFile struct {
	Name, Description string
	Defaults          struct {
		Flags, Timeout text
		Expect         texts
	}
	Tests []testEntry
}

// testEntry is a test as it is written.
type testEntry struct {
	Name, Run, Timeout text
	Server, Memory     text   // of a program
	About              string // what the test shows: for who reads the plan
	Expect             texts

	at    *token.Token
	wrong error // with what cannot be read: the mistakes of the other tests are told, too
}

// UnmarshalYAML implements [yaml.NodeUnmarshaler].
func (e *testEntry) UnmarshalYAML(n ast.Node) error {
	type entry testEntry
	e.wrong = yaml.NodeToValue(n, (*entry)(e), yaml.Strict())
	e.at = n.GetToken()
	if m, is := n.(*ast.MappingNode); is && !m.IsFlowStyle && len(m.Values) > 0 { // whose own token is the first colon
		e.at = m.Values[0].Key.GetToken()
	}
	return nil
}

// Bounds of a plan, which is written by hand: the parser of YAML takes gigabytes for a few kilobytes of brackets, and
// time by the square of a list's length.
const (
	planBytes = 1 << 18
	planDepth = 32 // of brackets within brackets, of dashes on a line, of spaces before a key over two
)

// aliasNodes is how many nodes of YAML all aliases of a plan may stand for.
const aliasNodes = 4096

// nodeCounter counts the nodes that it visits.
type nodeCounter int

// Visit implements [ast.Visitor].
func (c *nodeCounter) Visit(ast.Node) ast.Visitor { *c++; return c }

// expand puts what anchors name in their place, and in that of their aliases. An alias within what an anchor names
// stays, as those behind too many: a few stand for more than memory holds.
func (p *planParser) expand(n ast.Node, named bool) ast.Node { //nolint:revive // a fact, not a mode
	switch n := n.(type) {
	case *ast.AnchorNode:
		value := p.expand(n.Value, true)
		p.anchors[n.Name.GetToken().Value] = value
		return value
	case *ast.AliasNode:
		value := p.anchors[n.Value.GetToken().Value]
		if value == nil || named || p.aliased > aliasNodes {
			break
		}
		if ast.Walk(&p.aliased, value); p.aliased <= aliasNodes {
			return value
		}
	case *ast.MappingNode:
		for _, v := range n.Values {
			p.expand(v, named)
		}
	case *ast.MappingValueNode:
		n.Value = p.expand(n.Value, named)
	case *ast.SequenceNode:
		for i, v := range n.Values {
			n.Values[i] = p.expand(v, named)
		}
	}
	return n
}

// mostMistakes is how many mistakes of a plan are told.
const mostMistakes = 50

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
			if depth > planDepth || indent > 8*planDepth {
				return fmt.Errorf("line %d: nested deeper than %d levels", number+1, planDepth)
			}
		}
	}
	return nil
}

// planParser makes a plan of what is written, and gathers the mistakes.
type planParser struct {
	planFile
	options  Options
	plan     *Plan
	names    []string        // of the tests so far that can be referred to
	known    map[string]bool // the same
	mistakes []mistake
	anchors  map[string]ast.Node
	aliased  nodeCounter // nodes that aliases stand for
}

// parsePlan reads a plan and reports its mistakes at once.
func parsePlan(file string, b []byte, o Options) (*Plan, error) {
	p := &planParser{options: o, plan: &Plan{File: file}, known: map[string]bool{}, anchors: map[string]ast.Node{}}
	root, err := &ast.File{}, checkPlanText(b)
	if err == nil {
		root, err = parser.ParseBytes(b, 0)
	}
	switch {
	case err != nil:
		p.unread(err)
	case len(root.Docs) == 0 || root.Docs[0].Body == nil:
		p.mistake(nil, "the plan is empty; it wants name and tests")
	case len(root.Docs) > 1:
		p.mistake(root.Docs[1].Start, "a plan is one YAML document, this is the second")
	default:
		body := p.expand(root.Docs[0].Body, false)
		if left := ast.Filter(ast.AliasType, body); len(left) > 0 {
			p.mistake(left[0].GetToken(), "an alias (*) is for a value that an anchor (&) above names, not within another, and "+
				"for %d values at most: what many tests share belongs into defaults", aliasNodes)
			break
		}
		p.unread(yaml.NodeToValue(body, &p.planFile, yaml.Strict()))
		p.tests()
	}
	if len(p.mistakes) > 0 {
		more := len(p.mistakes) - mostMistakes
		if more > 0 {
			p.mistakes = p.mistakes[:mostMistakes]
		}
		slices.SortStableFunc(p.mistakes,
			func(a, b mistake) int { return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.column, b.column)) })
		all := plain.Each(p.mistakes, func(m mistake) error { return m })
		if more > 0 {
			all = append(all, fmt.Errorf("%s: and %d more mistakes", file, more))
		}
		return nil, errors.Join(all...)
	}
	return p.plan, nil
}

func (p *planParser) mistake(t *token.Token, format string, args ...any) {
	m := mistake{file: p.plan.File, line: 1, column: 1, problem: fmt.Sprintf(format, args...)}
	if t != nil && t.Position != nil {
		m.line, m.column = t.Position.Line, t.Position.Column
	}
	p.mistakes = append(p.mistakes, m)
}

// places are where the keys of a plan stand.
func places() map[string]string {
	const top, each = "at the top of the plan, before tests", "in a test, beside its run"
	const both = "in a test, beside its run, or in defaults for all tests"
	return map[string]string{
		"name": top + ", and in each test", "description": top, "defaults": top, "tests": "at the top of the plan",
		"about": each, "run": each, "server": each, "memory": each, "expect": both, "timeout": both,
		"flags": "in defaults, as in 'defaults: {flags: --runs 5}'. A test has its flags in run",
	}
}

// unread notes what the parser of YAML says.
func (p *planParser) unread(err error) {
	place, is := errors.AsType[yaml.Error](err)
	switch wrong := place.(type) {
	case *yaml.UnknownFieldError:
		key, places := wrong.Token.Value, places()
		if place := places[key]; place != "" {
			p.mistake(wrong.Token, "the key %q has another place: %s", key, place)
		} else {
			p.mistake(wrong.Token, "no key %.60q%s", key, plain.Choices(key, slices.Sorted(maps.Keys(places))))
		}
	case *yaml.TypeError:
		p.mistake(wrong.Token, "a list or a mapping, want text")
	default:
		if is {
			p.mistake(place.GetToken(), "not a plan in YAML: %s", place.GetMessage())
		} else if err != nil {
			p.mistake(nil, "not a plan in YAML: %v", err)
		}
	}
}

// testName is what a test may be called, so that expectations can refer to it.
var testName = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_-]{0,99}$`)

// tests makes the tests of the plan.
func (p *planParser) tests() {
	p.plan.Description = p.Description
	p.plan.Name = cmp.Or(p.Name, strings.TrimSuffix(filepath.Base(strings.TrimSuffix(p.plan.File, " (shipped)")), ".yaml"))
	if len(p.Tests) == 0 && len(p.mistakes) == 0 {
		p.mistake(nil, "the plan has no tests")
	}
	timeout, flags := p.duration(p.Defaults.Timeout), p.words("flags", p.Defaults.Flags)
	for _, e := range p.Tests {
		if e.wrong != nil {
			p.unread(e.wrong)
		}
		if _, notKeys := errors.AsType[*yaml.UnexpectedNodeTypeError](e.wrong); notKeys {
			continue
		}
		t := Test{Name: e.Name.string, Timeout: cmp.Or(p.duration(e.Timeout), timeout)}
		switch {
		case e.Name.at == nil:
			p.mistake(e.at, "the test has no name")
		case !testName.MatchString(t.Name):
			p.mistake(e.Name.at, "%.60q cannot name a test: up to 100 letters, digits, - and _, a letter first", t.Name)
		case p.known[t.Name]:
			p.mistake(e.Name.at, "a test called %q is there already", t.Name)
		}
		if e.Run.at == nil && e.wrong == nil {
			p.mistake(e.at, "test %q has no run: the command line, as in run: gobw write -s 64K", t.Name)
		}
		p.run(&t, e.Run, flags)
		p.program(&t, e)
		for _, expected := range slices.Concat(e.Expect, p.Defaults.Expect) {
			p.expect(&t, expected)
		}
		p.plan.Tests = append(p.plan.Tests, t)
		if testName.MatchString(t.Name) && !p.known[t.Name] {
			p.names, p.known[t.Name] = append(p.names, t.Name), true
		}
	}
}

// words of a command line.
func (p *planParser) words(key string, t text) []string {
	words, err := plain.SplitWords(t.string)
	if err != nil {
		p.mistake(t.at, "%s: %v", key, err)
	}
	return words
}

// duration is a timeout, 0 where there is none.
func (p *planParser) duration(t text) time.Duration {
	if t.at == nil {
		return 0
	}
	d, err := time.ParseDuration(strings.ReplaceAll(t.string, " ", ""))
	if err != nil || d <= 0 {
		p.mistake(t.at, "timeout %q is not a time, as in 30s or 2m", t.string)
	}
	return d
}

func (p *planParser) run(t *Test, line text, flags []string) {
	words := p.words("run", line)
	if len(words) == 0 {
		return
	}
	if t.Words = words; isProgram(words) {
		return
	}
	if tools := []string{"gobw", "golat"}; !slices.Contains(tools, words[0]) {
		p.mistake(line.at, "run starts with %q%s, want gobw or golat, or a program of yours: ./%s", words[0],
			plain.Suggest(words[0], tools), words[0])
		return
	}
	test := min(2, len(words)) // behind "gobw write", so that the test's own flags come later and win
	t.Words = slices.Concat(words[:test], p.without(flags, words[:test], words[test:]), words[test:], p.options.Flags)
	if p.options.Parse == nil {
		return
	}
	var err error
	read := func(name string, most int64) ([]byte, error) {
		return report.ReadBeside(filepath.Dir(p.plan.File), name, most)
	}
	if t.Run, err = p.options.Parse(t.Words, read); err != nil {
		p.mistake(line.at, "run: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
}

// without leaves out the flags that own has, too: a list would have the values of both.
func (p *planParser) without(flags, tool, own []string) []string {
	if p.options.Typed == nil {
		return flags
	}
	defaults, wrong := p.options.Typed(slices.Concat(tool, flags))
	again, bad := p.options.Typed(slices.Concat(tool, own))
	if wrong != nil || bad != nil { // Parse says what is wrong
		return flags
	}
	kept := slices.DeleteFunc(slices.Clone(defaults), func(d Flag) bool {
		return slices.ContainsFunc(again, func(f Flag) bool { return f.Name == d.Name })
	})
	if len(kept) == len(defaults) {
		return flags
	}
	return plain.Each(kept, func(f Flag) string { return "--" + f.Name + "=" + f.Value })
}

// ServerWord is the word of a program's command line that stands for the host of the other end.
const ServerWord = "{server}"

// program reads the keys that only a program has.
func (p *planParser) program(t *Test, e testEntry) {
	for _, key := range []text{e.Server, e.Memory} {
		if key.at != nil && !t.Program() {
			p.mistake(key.at, "server and memory are keys of a program of yours, as in run: ./gather {server}")
			return
		}
	}
	t.Server = p.words("server", e.Server)
	if e.Server.at != nil && !slices.Contains(t.Words, ServerWord) {
		p.mistake(e.Server.at, "server: run must have the word %s, in place of the host, or nothing starts the server",
			ServerWord)
	}
	if e.Memory.at != nil && p.options.Bytes != nil {
		var err error
		if t.Memory, err = p.options.Bytes(e.Memory.string); err != nil {
			p.mistake(e.Memory.at, "memory: %v", err)
		}
	}
}

func (p *planParser) expect(t *Test, line text) {
	e, err := t.Parse(line.string, expect.Options{
		Dir: filepath.Dir(p.plan.File), Beside: true, Tests: p.names, Unread: p.options.Unread,
	})
	at := line.at
	if misspelt, is := errors.AsType[*expect.Error](err); is {
		err = errors.New(misspelt.Problem)
		if missing, is := errors.AsType[*report.FileError](misspelt.Err); is && errors.Is(missing, fs.ErrNotExist) {
			err = fmt.Errorf("%w; make it first, in the folder of the plan: the same command with --leave-out all --save %s",
				err, missing.File)
		}
		at = shifted(at, misspelt.Column-1)
	}
	if err != nil {
		p.mistake(at, "expect: %v", err)
		return
	}
	t.Expect = append(t.Expect, e)
}

// shifted is a token some characters further on the same line.
func shifted(t *token.Token, by int) *token.Token {
	c, position := *t, *t.Position
	position.Column += by
	if t.Type == token.DoubleQuoteType || t.Type == token.SingleQuoteType {
		position.Column++
	}
	c.Position = &position
	return &c
}

// Parse reads what is expected of the test: figures of the earlier tests of o may be used.
func (t *Test) Parse(text string, o expect.Options) (*expect.Expectation, error) {
	o.Test, o.Program = t.Name, t.Program()
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
