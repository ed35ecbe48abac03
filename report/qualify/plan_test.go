package qualify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/gobw/gobw/internal/testrun"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/expect"
	"github.com/gobw/gobw/report/noncontig"
	"github.com/gobw/gobw/report/stats"
)

// saved is a result of report/testdata.
func saved(name string) *report.Document {
	d, err := report.Load("../testdata/" + name + ".json")
	if err != nil {
		panic(err)
	}
	return d
}

// repeated is six runs of two tests at a share of their rate.
func repeated(share float64) *report.Document {
	d := saved("repeated")
	for i := range d.Records {
		d.Records[i].Bandwidth.AverageBitsPerS *= share
		d.Records[i].Seconds /= share
		d.Records[i].MessagesPerS *= share
	}
	return d
}

func TestParsePlan(t *testing.T) {
	p, err := parsePlan("dir/mine.yaml", []byte(`
description: two tests
defaults:
  flags: --runs 3
  timeout: 30s
tests:
  - name: first
    run: gobw write -s 64K --expect-like "two words"
    expect:
      - bw >= 0.9*line
      - "retransmits == 0"
  - name: second
    about: half of the first
    run: golat send
    expect: p99 <= 3us for size <= 4 KiB
    timeout: 2m
  - {name: third, run: gobw read, expect: [bw >= 0.5*first.bw]}
`), Options{})
	if err != nil {
		t.Fatal(err)
	}
	type short struct {
		Name, Run, Expect, Timeout string
	}
	var got []short
	for _, test := range p.Tests {
		var expect []string
		for _, e := range test.Expect {
			expect = append(expect, e.String())
		}
		got = append(got, short{test.Name, strings.Join(test.Words, "|"), strings.Join(expect, "|"), test.Timeout.String()})
	}
	want := []short{
		{"first", "gobw|write|--runs|3|-s|64K|--expect-like|two words", "bw >= 0.9*line|retransmits == 0", "30s"},
		{"second", "golat|send|--runs|3", "p99 <= 3us for size <= 4 KiB", "2m0s"},
		{"third", "gobw|read|--runs|3", "bw >= 0.5*first.bw", "30s"},
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Error(diff)
	}
	if p.Name != "mine" || p.Description != "two tests" {
		t.Errorf("name %q, description %q", p.Name, p.Description)
	}
}

// fake is a command line of this kind.
type fake struct{ kind string }

func (f fake) Kind() (kind, transport string) { return f.kind, "RC" }

func (f fake) Strategies() []string { return nil }

// What is expected of every test stands among the defaults.
func TestPlanExpectsOfEveryTest(t *testing.T) {
	p, err := parsePlan("p.yaml",
		[]byte("defaults: {expect: msgrate >= 1}\ntests: [{name: a, run: gobw write, expect: bw >= 1 b/s}, {name: b, run: "+
			"gobw read}]\n"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := p.Tests[0].Expect, p.Tests[1].Expect; len(a) != 2 || len(b) != 1 || b[0].String() != "msgrate >= 1" {
		t.Errorf("%v and %v", a, b)
	}
}

// All mistakes come at once, each with its place.
func TestPlanMistakes(t *testing.T) {
	source := `name: wrong
descriptino: a letter is missing
defaults:
  timeout: soon
tests:
  - name: first
    run: gobw write -s 64K
    expects: bw >= 1 Gb/s
  - name: first
    run: gbow write
    expect:
      - bww >= 1 Gb/s
      - "bw >= 1 Gbs"
      - bw worse<5% of nowhere.json
  - run: gobw write --szie 4
    expect: p99 <= 3us
  - name: has space
    run: [gobw, write]
  - just text
  - name: latency
    run: golat send
    expect: bw >= 1 Gb/s
  - name: last
    run: gobw write
    expect: bw >= has-space.bw
`
	check := func(words []string, _ ReadFile) (Run, error) {
		if slices.Contains(words, "--szie") {
			return nil, errors.New("unknown flag: --szie; did you mean --size?")
		}
		return fake{map[string]string{"gobw": "bandwidth", "golat": "latency"}[words[0]]}, nil
	}
	_, err := parsePlan("plan.yaml", []byte(source), Options{Parse: check})
	if err == nil {
		t.Fatal("no error")
	}
	want := []string{
		`plan.yaml:2:1: no key "descriptino" (did you mean "description"?)`,
		`plan.yaml:4:12: timeout "soon" is not a time`,
		`plan.yaml:8:5: no key "expects" (did you mean "expect"?)`,
		`plan.yaml:9:11: a test called "first" is there already`,
		`plan.yaml:10:10: run starts with "gbow" (did you mean "gobw"?)`,
		`plan.yaml:12:9: expect: no figure "bww" (did you mean "bw"?)`,
		`plan.yaml:13:18: expect: no unit "Gbs" (did you mean "Gb/s"?)`,
		`plan.yaml:14:24: expect: nowhere.json: no such file or directory`,
		`plan.yaml:15:5: the test has no name`,
		`plan.yaml:15:10: run: unknown flag: --szie; did you mean --size?`,
		`plan.yaml:17:11: "has space" cannot name a test`,
		`plan.yaml:18:10: a list or a mapping, want text`,
		`plan.yaml:19:5: not a plan in YAML: string was used where mapping is expected`,
		`plan.yaml:25:19: expect: no earlier test "has-space"; there are first, latency`,
		`plan.yaml:22:13: expect: bw >= 1 Gb/s: this RC latency test has no "bw"`,
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("lacks %s", w)
		}
	}
	for line := range strings.Lines(err.Error()) {
		if !slices.ContainsFunc(want, func(w string) bool { return strings.HasPrefix(line, w) }) {
			t.Errorf("unexpected: %s", line)
		}
	}
	if t.Failed() {
		t.Logf("all:\n%v", err)
	}
}

func TestPlanNotYAML(t *testing.T) {
	for _, tt := range []struct{ name, source, want string }{
		{"empty", "", "plan.yaml:1:1: the plan is empty"},
		{"indent", "name: x\n  tests:\n- y: [\n", "plan.yaml:"},
		{
			"twice", "name: x\nname: y\ntests: [{name: a, run: gobw write}]\n",
			"plan.yaml:2:1: not a plan in YAML: mapping key \"name\" already defined",
		},
		{"list", "- a\n- b\n", "not a plan in YAML: sequence was used where mapping is expected"},
		{
			"flags in a test", "tests:\n- {name: a, run: gobw write, flags: -s 2}\n",
			"plan.yaml:2:30: the key \"flags\" has another place: in defaults, as in 'defaults: {flags: --runs 5}'. " +
				"A test has its flags in run",
		},
		{
			"a test's key at the top", "run: gobw write\ntests:\n- {name: a, run: gobw write}\n",
			"plan.yaml:1:1: the key \"run\" has another place: in a test, beside its run",
		},
		{"no tests", "name: x\n", "the plan has no tests"},
		{"empty tests", "tests:\n", "the plan has no tests"},
		{"two documents", "tests: [{name: a, run: gobw write}]\n---\nname: b\n", "this is the second"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parsePlan("plan.yaml", []byte(tt.source), Options{})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

func TestShippedPlans(t *testing.T) {
	text, err := os.ReadFile("plan.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("plan.schema.json", raw); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("plan.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(ShippedPlans(), []string{"course", "nic", "quick"}); diff != "" {
		t.Error(diff)
	}
	for _, name := range ShippedPlans() {
		p, err := LoadPlan(name, Options{})
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if p.Name != name || len(p.Tests) < 10 {
			t.Errorf("%s: name %q, %d tests", name, p.Name, len(p.Tests))
		}
		counted := false
		for _, test := range p.Tests {
			counted = counted || slices.ContainsFunc(test.Expect, (*expect.Expectation).OfCounter)
		}
		if !counted && name != "course" {
			t.Errorf("%s: no test expects anything of a counter", name)
		}
		for _, test := range p.Tests {
			if len(test.Expect) == 0 {
				t.Errorf("%s: %s expects nothing", name, test.Name)
			}
		}
		source, err := ShippedPlan(name)
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := yaml.Unmarshal(source, &v); err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(v); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if schema.Validate(map[string]any{"tests": []any{map[string]any{"name": "a", "run": "rm -rf"}}}) == nil {
		t.Error("the schema lets any command pass")
	}
	for _, name := range []string{"quik", filepath.Join(t.TempDir(), "none.yaml")} {
		_, err := LoadPlan(name, Options{})
		var fe *report.FileError
		if !errors.As(err, &fe) || !errors.Is(err, os.ErrNotExist) ||
			!strings.Contains(err.Error(), "shipped plans are course, nic, quick") || strings.Count(err.Error(), name+":") != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestExamplePlans(t *testing.T) {
	files, err := filepath.Glob("../../examples/plans/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no example plans: %v", err)
	}
	for _, f := range files {
		if _, err := LoadPlan(f, Options{}); err != nil {
			t.Errorf("%v", err)
		}
	}
}

// TestBaselineOfPlan: a baseline of many tests is asked for the one of the same name, and for the same layout of
// a grid, whichever strategy won there.
func TestBaselineOfPlan(t *testing.T) {
	same, other := saved("repeated"), repeated(2)
	same.Description, other.Description = "write", "steady"
	grid := func(strategy string, bits float64) *report.Document {
		d := saved("repeated")
		d.Records, d.Description = nil, "grid"
		for _, s := range []string{"pack", "gather-write"} {
			p := noncontig.Point{Shape: "gather", Strategy: s, Layout: "vector:block=64,num=8,stride=128", SizeBytes: 512}
			v := bits / 2
			if s == strategy {
				v = bits
			}
			for range 6 {
				p.Runs = append(p.Runs, noncontig.Run{Messages: 100, GoodputBitsPerS: v})
			}
			if d.Noncontig == nil {
				d.Noncontig = &noncontig.Grid{Setup: noncontig.Setup{Transport: "RC"}}
			}
			d.Noncontig.Points = append(d.Noncontig.Points, p)
		}
		return d
	}
	file := filepath.Join(t.TempDir(), "base.json")
	base, err := json.Marshal(Qualification{Schema: report.QualificationSchema, Plan: "p", Tests: []Result{
		{Name: "steady", Document: other}, {Name: "write", Document: same}, {Name: "grid", Document: grid("pack", 8e9)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, base, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		test string
		d    *report.Document
		want bool
	}{
		{"write", saved("repeated"), true},
		{"steady", saved("repeated"), false}, // half of what it was
		{"", saved("repeated"), false},       // the median of both
		{"grid", grid("pack", 7.8e9), true},
		{"grid", grid("pack", 7e9), false},
		{"grid", grid("gather-write", 8e9), false}, // pack is not what it was
	} {
		e, err := expect.Parse("worse<5% of '"+file+"'", expect.Options{Test: tt.test})
		if err != nil {
			t.Fatal(err)
		}
		var words []stats.Word
		for _, c := range expect.Judge(tt.d, []*expect.Expectation{e}, expect.Judgement{}) {
			words = append(words, c.Word)
		}
		if passed := stats.Gravest(words...) == stats.Pass; passed != tt.want {
			t.Errorf("%q: passed %t, want %t: %v", tt.test, passed, tt.want, words)
		}
	}
}

// What a stranger's file may hold ends in a mistake with its place, in little memory.
func TestHostilePlans(t *testing.T) {
	for name, text := range map[string]string{
		"an empty document at the end": "x\n---\n",
		"two documents":                "name: a\ntests: []\n---\nname: b\n",
		"brackets":                     strings.Repeat("[", 100_000),
		"braces":                       strings.Repeat("{a: ", 100_000),
		"dashes":                       strings.Repeat("- ", 100_000),
		"large":                        strings.Repeat("# comment\n", 200_000),
		"aliases":                      "a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\n",
		"an alias of itself":           "tests: &a [*a]\n",
		"a long list, often":           "name: &a [" + strings.Repeat("x,", 1000) + "x]\ntests: [*a,*a,*a,*a,*a]\n",
		"many aliases":                 "name: &a x\ntests: [" + strings.Repeat("*a,", 20_000) + "*a]\n",
		"an anchor of nothing":         "name: &a\ntests: [*a]\n",
		"an alias as a key":            "name: &a b\ntests: [{*a : c}]\n",
		"an alias of nothing":          "name: *\ntests: [*a]\n",
		"merged twice, 40 deep":        mergedTwice(40),
		"a name of 80 KB":              "tests: [{name: " + strings.Repeat("x", 80_000) + ", run: gobw write}]",
		"a key of 80 KB":               strings.Repeat("x", 80_000) + ": 1",
		"30,000 keys":                  numbered("k%d: 1\n", 30_000),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if _, err := parsePlan("hostile.yaml", []byte(text), Options{}); err == nil {
				t.Error("it is a plan")
			} else if said := len(err.Error()); said > 16<<10 {
				t.Errorf("%d bytes of mistakes", said)
			}
			runtime.ReadMemStats(&after)
			if grew := after.TotalAlloc - before.TotalAlloc; grew > 64<<20 {
				t.Errorf("it took %d MiB", grew>>20)
			}
		})
	}
}

// TestAliases: what aliases stand for is read as if it stood there.
func TestAliases(t *testing.T) {
	p, err := parsePlan("a.yaml", []byte(`name: aliases
defaults: &d {flags: &f --tclass 3}
tests:
  - {name: a, run: &r gobw write, expect: &e [bw >= 1 Gb/s, quiet], timeout: &t 3s}
  - {name: b, run: *r, expect: *e, timeout: *t}
  - <<: &m {timeout: 5s}
    name: c
    run: &read
      gobw read
  - <<: *m
    name: d
    run: *read
`), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		words   string
		expect  int
		timeout time.Duration
	}{
		{"gobw write --tclass 3", 2, 3 * time.Second},
		{"gobw write --tclass 3", 2, 3 * time.Second},
		{"gobw read --tclass 3", 0, 5 * time.Second},
		{"gobw read --tclass 3", 0, 5 * time.Second},
	} {
		test := p.Tests[i]
		if got := strings.Join(test.Words, " "); got != want.words || len(test.Expect) != want.expect ||
			test.Timeout != want.timeout {
			t.Errorf("test %s: %q, %d expectations, timeout %v, want %v", test.Name, got, len(test.Expect), test.Timeout, want)
		}
	}
}

// mergedTwice is a mapping that merges another twice, which does the same, and so on.
func mergedTwice(depth int) string {
	text := "k0: &k0 {x: 1}\n"
	for i := range depth {
		text += fmt.Sprintf("k%d: &k%[1]d {<<: [*k%[2]d, *k%[2]d]}\n", i+1, i)
	}
	return text + fmt.Sprintf("tests: [{<<: *k%d}]\n", depth)
}

func numbered(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

func FuzzParsePlan(f *testing.F) {
	for _, name := range ShippedPlans() {
		text, err := ShippedPlan(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("x\n---\n"))
	f.Add([]byte("defaults: {flags: &f -q 2}\ntests: [{name: a, run: &r gobw write}, {name: b, run: *r}, {<<: *r}]\n"))
	f.Add([]byte("tests: [{name: a, run: [gobw, write], expect: bw >= 1}]"))
	testrun.Fuzz(f, func(t *testing.T, b []byte) {
		testrun.Within(t, 2*time.Second, 64<<20, func() { _, _ = parsePlan("fuzzed.yaml", b, Options{}) })
		p, err := parsePlan("fuzzed.yaml", b, Options{})
		if (p == nil) == (err == nil) {
			t.Errorf("a plan %v and an error %v", p, err)
		}
	})
}
