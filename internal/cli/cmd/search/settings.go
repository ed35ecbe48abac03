package search

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/cli/cmd/operation"
	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/plan"
	engine "github.com/gobw/gobw/internal/search"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/verbs"
)

// setting is a field of a plan as a dimension of a search.
type setting struct {
	engine.Dimension        // by the flag's name; of one with words the values follow
	perftest         string // its name there; a letter is ours, too; empty: perftest has it not
	best             bool   // 'best' tries it
	get              func(p *plan.Spec) int
	set              func(p *plan.Spec, v int)
}

// oneOf is a setting whose value v is values[v], of which none needs to be the fastest.
func oneOf[T comparable](name, perftest string, values []T, at func(p *plan.Spec) *T) setting {
	s := setting{
		Dimension: engine.Dimension{Name: name, AnyCost: true}, perftest: perftest,
		get: func(p *plan.Spec) int { return max(slices.Index(values, *at(p)), 0) }, // what is none of them is the first
		set: func(p *plan.Spec, v int) { *at(p) = values[v] },
	}
	for v, value := range values {
		s.Values, s.Words = append(s.Values, v), append(s.Words, fmt.Sprint(value))
	}
	return s
}

// cycle makes a mix: a message of one size in so many pieces, and one of 64 bytes after each.
func cycle(p *plan.Spec, pieces int, small bool) {
	p.Mix = nil
	if first := (plan.MixEntry{Bytes: p.Sizes[0], SGEs: pieces}); small {
		p.Mix = plan.Mix{first, {Bytes: 64, SGEs: 1}}
	} else if pieces > 1 {
		p.Mix = plan.Mix{first}
	}
}

// settings are all dimensions. 'best' takes the smallest setting that is good: what comes first is made small first. A
// point that breaks a rule is repaired from the last to the first.
func settings() []setting {
	type dimension = engine.Dimension
	pieces, small := func(p *plan.Spec) int { return p.Cycle(0)[0].SGEs }, func(p *plan.Spec) int {
		return min(len(p.Mix), 2) / 2
	}
	all := []setting{
		oneOf("operation", "", operations(), func(p *plan.Spec) *plan.Operation { return &p.Operation }),
		oneOf("connection", "-c", transports(), func(p *plan.Spec) *verbs.Transport { return &p.Transport }),
		{
			Dimension: dimension{Name: "size", Values: []int{8, 64, 256, 1024, 4096, 16384, 65536, 262144}, Fine: true},
			perftest:  "-s",
			get:       func(p *plan.Spec) int { return p.Sizes[0] },
			set:       func(p *plan.Spec, v int) { p.Sizes = []int{v} },
		},
		{
			Dimension: dimension{Name: "sge", Values: []int{1, 2, 3, 4, 8, 16, 32}, AnyCost: true},
			get:       pieces,
			set:       func(p *plan.Spec, v int) { cycle(p, v, small(p) == 1) },
		},
		{
			Dimension: dimension{Name: "mix", Words: []string{"no", "64"}, Values: []int{0, 1}, AnyCost: true},
			get:       small,
			set:       func(p *plan.Spec, v int) { cycle(p, pieces(p), v == 1) },
		},
		{
			Dimension: dimension{Name: "mtu", Values: []int{256, 512, 1024, 2048, 4096}},
			perftest:  "-m",
			get:       func(p *plan.Spec) int { return p.MTU.Bytes() },
			set:       func(p *plan.Spec, v int) { p.MTU, _ = verbs.ParseMTU(v) },
		},
	}
	for _, f := range plan.Fields() {
		letter := plain.When(f.Letter != "", "-%s", f.Letter)
		switch f.At(&plan.Spec{}).(type) {
		case *int:
			if f.Tries == nil {
				continue
			}
			all = append(all, setting{
				dimension{Name: f.Name, Values: f.Tries, AnyCost: slices.Contains([]string{"threads", "inline"}, f.Name)},
				letter, f.Name != "rx-depth",
				func(p *plan.Spec) int { return *f.At(p).(*int) }, func(p *plan.Spec, v int) { *f.At(p).(*int) = v },
			})
		case *bool:
			if slices.Contains([]string{"bidirectional", "events", "srq"}, f.Name) {
				s := oneOf(f.Name, cmp.Or(letter, "--use-srq"), []bool{false, true},
					func(p *plan.Spec) *bool { return f.At(p).(*bool) })
				s.Words = []string{"no", "yes"}
				all = append(all, s)
			}
		}
	}
	apis := []verbs.PostAPI{verbs.PostAuto, verbs.PostSend, verbs.PostWR}
	return append(all, oneOf("post-api", "", apis, func(p *plan.Spec) *verbs.PostAPI { return &p.PostAPI }))
}

func operations() []plan.Operation {
	return []plan.Operation{plan.Write, plan.Read, plan.Send, plan.Atomic}
}

func transports() []verbs.Transport { return plan.RowOf(plan.Send).Transports }

// parse reads a value.
func (s *setting) parse(text string) (int, error) {
	switch {
	case s.Name == "size" || s.Name == "mtu":
		return plan.ParseSize(text)
	case s.Words == nil:
		v, err := strconv.Atoi(text)
		if least := min(s.Values[0], 1); err != nil || v < least {
			return 0, fmt.Errorf("%q: want a whole number, %d or more", text, least)
		}
		return v, nil
	}
	i := slices.Index(s.Words, text)
	if i < 0 {
		return 0, fmt.Errorf("%q: want %s", text, strings.Join(s.Words, ", "))
	}
	return i, nil
}

// name is the flag.
func (s *setting) name() string {
	if len(s.perftest) == len("-x") {
		return s.perftest
	}
	return "--" + s.Name
}

// flagName is the name of the test's flag.
func (s *setting) flagName() string {
	if s.Name == "sge" {
		return "mix"
	}
	return s.Name
}

// flag is the setting on a command line.
func (s *setting) flag(name string, v int) string {
	if s.Words == nil {
		return name + " " + strconv.Itoa(v)
	}
	if s.Words[v] == "yes" {
		return name
	}
	return name + " " + s.Words[v]
}

// has tells whether a test has the flag.
func has(tool string, o plan.Operation, flag string) (is bool) {
	_, _ = operation.Parse([]string{tool, string(o)}, func(typed *pflag.FlagSet) error {
		is = typed.Lookup(flag) != nil
		return nil
	})
	return is
}

// besideName is the dimension of tests that run at the same time.
const besideName = "beside"

// beside is which of the tests to run beside has a point, counted from 1; 0: none.
func (t *tests) beside(p engine.Point) int {
	if i := slices.IndexFunc(t.dims, func(s setting) bool { return s.Name == besideName }); i >= 0 && p != nil {
		return p[i]
	}
	return 0
}

// tests makes a test of each point of a space.
type tests struct {
	dims   []setting
	fixed  []setting // at their Base
	base   plan.Spec
	limits plan.Limits
	rate   float64 // bytes a second of the point where the search starts; 0: it is not known
	first  float64 // bytes that are in flight there
	depth  int     // messages
}

// typed calls each with the settings that the command line of a point must name beside those of the test. For no point
// these are the settings of --fix. The command names -Q, whose default depends on other settings, and the size, which
// may differ from the test's.
func (t *tests) typed(p engine.Point, each func(s *setting, v int)) {
	for i := range p {
		if s := &t.dims[i]; p[i] != s.Base || s.Name == "cq-mod" || s.Name == "size" {
			each(s, p[i])
		}
	}
	for i := range t.fixed { // after the size, which a mix takes over
		each(&t.fixed[i], t.fixed[i].Base)
	}
}

// spec is the plan of a point.
func (t *tests) spec(p engine.Point) plan.Spec {
	spec := t.base
	t.typed(p, func(s *setting, v int) { s.set(&spec, v) })
	return spec
}

// problems counts what is wrong with a point: the rules that it breaks, and how often its bytes in flight must be
// halved to be allowed.
func (t *tests) problems(p engine.Point) float64 {
	spec := t.spec(p)
	n := 0.0
	if uncounted(&spec) || spec.PostAPI == verbs.PostWR && t.limits.Device.Software {
		n = 1
	}
	window := cmp.Or(spec.TxDepth, t.depth)
	settled, err := t.settle(spec)
	if wrong, is := errors.AsType[*plan.Error](err); is {
		n += float64(len(wrong.Problems))
	} else {
		window = settled.Lane(spec.Sizes[0], 0).Window
	}
	return n + max(math.Log2(inFlight(&spec, window)/t.mostInFlight()), 0)
}

// settle settles the test at both ends, and returns this end's. It assumes that the server's device is the same.
func (t *tests) settle(spec plan.Spec) (*plan.Settled, error) {
	server := t.limits
	server.Dialled = false
	if _, err := plan.Settle(spec, server, plan.Peer{}, plan.Policy{}); err != nil {
		return nil, err
	}
	return plan.Settle(spec, t.limits, plan.Peer{}, plan.Policy{})
}

// uncounted tells whether nobody counts the messages of a test that arrive.
func uncounted(spec *plan.Spec) bool {
	return spec.Transport != verbs.RC && spec.Transport != 0 && spec.Operation != plan.Send
}

// inFlight is how many bytes a test has in flight. Window is the number of messages of a queue pair.
func inFlight(spec *plan.Spec, window int) float64 {
	return float64(max(spec.QPs, 1)*window) * spec.MeanBytes(spec.Sizes[0])
}

// mostInFlight is how many bytes may be in flight: what the point where the search starts, or the link, carries in the
// time of ten tests. More would hold a test up for long after its time.
func (t *tests) mostInFlight() float64 {
	const most, softwareBytesPerS = 10, 1e9
	return max(cmp.Or(t.rate, t.limits.Port.RateBitsPerS/8, softwareBytesPerS)*most*t.base.Duration.Seconds(), t.first)
}

// repair makes a test of a point that breaks a rule: from the last dimension to the first, and once more,
// each takes its base or another value, the largest first, where that leaves less to say against the
// point. What cannot be repaired is the base.
func (t *tests) repair(p engine.Point, keep int) engine.Point {
	left := t.problems(p)
	for i := 2*len(p) - 1; i >= 0 && left > 0; i-- {
		d := i % len(p)
		if d == keep {
			continue
		}
		best := p[d]
		values := append(slices.Clone(t.dims[d].Values), t.dims[d].Base)
		for _, v := range slices.Backward(values) {
			if p[d] = v; left > 0 {
				if n := t.problems(p); n < left {
					best, left = v, n
				}
			}
		}
		p[d] = best
	}
	for d := range p {
		if left > 0 {
			p[d] = t.dims[d].Base
		}
	}
	return p
}

// space is the tests as a search sees them.
func (t *tests) space() engine.Space {
	dims := plain.Each(t.dims, func(s setting) engine.Dimension { return s.Dimension })
	return engine.Space{
		Dimensions: dims, Size: slices.IndexFunc(dims, func(d engine.Dimension) bool { return d.Name == "size" }),
		Repair: t.repair,
	}
}

// takenBy tells whether an operation has all flags of the test.
func (c *config) takenBy(o plan.Operation) bool {
	all := true
	c.typed.Visit(func(f *pflag.Flag) {
		// another field of the plan for each
		all = all && has(c.Tool, o, f.Name) && (f.Name != "imm" || o == c.Test.Plan.Operation)
	})
	return all
}

// tests are what the search may try: the settings that the test does not name, as
// far as the device of this end has them.
func (c *config) tests(l plan.Limits) (*tests, error) {
	t := &tests{base: c.Test.Plan, limits: l}
	var wrong cmdline.Faults
	switch {
	case c.Question == dips: // what goes with the largest goes with all
		t.base.Sizes = c.Sizes[1:]
	case c.Question == anomalies && !c.typed.Changed("size") && !c.typed.Changed("mix"):
		t.base.Sizes = []int{4096}
	}
	for _, s := range settings() {
		switch _, fixed := c.Fix[s.Name]; {
		case c.Question != anomalies && c.typed.Lookup(s.flagName()) == nil: // the operation does not have it
			wrong.If(fixed || slices.Contains(c.Only, s.Name), "%s: %s %s has no such setting", s.Name, c.Tool, t.base.Operation)
		case fixed:
			wrong.Note(cmdline.Prefixed("--fix "+s.Name, t.fix(s, c.Fix[s.Name])))
		case c.tries(s):
			if s.Name == "operation" {
				s.Values = slices.DeleteFunc(s.Values, func(v int) bool { return !c.takenBy(operations()[v]) })
			}
			t.dims = append(t.dims, s)
		}
	}
	if len(c.Beside) > 0 { // the plan does not know of it
		words := append([]string{"nothing"}, c.Beside...)
		t.dims = append(t.dims, setting{
			Dimension: engine.Dimension{Name: besideName, Words: words, Values: plain.UpTo(0, len(words)), AnyCost: true},
			get:       func(*plan.Spec) int { return 0 },
			set:       func(*plan.Spec, int) {},
		})
	}
	others := slices.ContainsFunc(t.dims, func(s setting) bool { return s.Name == "operation" })
	wrong.If(c.Question != dips && !others && uncounted(&t.base),
		"%s over %v: nobody counts the messages that arrive, so no setting can be called faster: take RC",
		t.base.Operation, t.base.Transport)
	wrong.Note(t.begin(others))
	if len(wrong) > 0 {
		return nil, exit.With(exit.Usage, errors.Join(wrong...))
	}
	t.trim()
	if c.Question == dips {
		for i := range t.dims {
			t.dims[i].Values, t.dims[i].Base = c.Sizes[:], c.Sizes[0]
		}
	}
	if t.dims = slices.DeleteFunc(t.dims, func(s setting) bool { return len(s.Values) < 2 }); len(t.dims) > 0 {
		return t, nil
	}
	why := fmt.Errorf("nothing to try: test and --fix already name all settings that %s can change", l.Device.Name)
	if len(c.Only) > 0 {
		why = fmt.Errorf("nothing to try: on %s there is only one value of %s for this test", l.Device.Name,
			strings.Join(c.Only, ", "))
	}
	return nil, exit.With(exit.Usage, why)
}

// tries tells whether the search changes a setting.
func (c *config) tries(s setting) bool {
	flag := c.typed.Lookup(s.flagName())
	tried := c.Question == anomalies || s.best
	switch {
	case len(c.Only) > 0:
		tried = slices.Contains(c.Only, s.Name)
	case c.Question == dips:
		tried = s.Name == "size"
	case flag != nil && flag.Changed:
		tried = false
	}
	return tried && (s.Name != "operation" || slices.Contains(operations(), c.Test.Plan.Operation))
}

// fix keeps a setting at a value.
func (t *tests) fix(s setting, text string) error {
	v, err := s.parse(text)
	switch {
	case err != nil:
		return err
	case s.flagName() == "mix" && len(t.base.Sizes) == 0:
		return errors.New("give the test a --size (-s), too")
	}
	s.Base = v
	s.set(&t.base, v)
	t.fixed = append(t.fixed, s)
	return nil
}

// begin makes the test's settings, and else the defaults, the point where the search starts.
func (t *tests) begin(operations bool) error { //nolint:revive // whether other operations are tried
	settled, err := t.settle(t.base)
	if err != nil {
		return err
	}
	from, depths := settled.Spec, settled.Depths()
	if len(t.base.Sizes) == 0 {
		t.base.Sizes = slices.Clone(from.Sizes)
	}
	t.depth = from.TxDepth
	t.first = inFlight(&from, settled.Lane(t.base.Sizes[0], 0).Window)
	from.MTU, from.Outstanding, from.InlineBytes = settled.MTU, settled.Outstanding, t.base.InlineBytes
	from.RxDepth, from.CQMod = depths.Rx, max(depths.CQMod, 1)
	read := t.base
	read.Operation = plan.Read
	if reads, err := t.settle(read); err == nil && operations {
		from.Outstanding = reads.Outstanding
	}
	for i := range t.dims {
		s := &t.dims[i]
		s.Base = s.get(&from)
		if at, found := slices.BinarySearch(s.Values, s.Base); !found {
			s.Values = slices.Insert(s.Values, at, s.Base)
		}
	}
	return nil
}

// trim removes values that the device does not have or that fit no other setting.
func (t *tests) trim() {
	whole := t.space()
	for i := range t.dims {
		s := &t.dims[i]
		s.Values = slices.DeleteFunc(slices.Clone(s.Values),
			func(v int) bool { return whole.Moved(whole.Base(), i, v)[i] != v })
	}
}
