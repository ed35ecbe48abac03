package search

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/plan"
	engine "github.com/gobw/gobw/internal/search"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/verbs"
)

// setting is a field of a plan as a dimension of a search.
type setting struct {
	name     string // the flag's
	short    string // perftest has it, by this letter, too; empty: --name
	perftest string // its name there, where that is another; empty and no letter: perftest has it not
	values   []int
	words    []string
	cost     engine.Cost
	best     bool // 'best' tries it
	field    func(p *plan.Spec) any
}

// settings are all dimensions. 'best' takes the smallest setting that is good: what comes first is made small first. A point that
// breaks a rule is repaired from the last to the first.
func settings() []setting {
	onOff := []string{"no", "yes"}
	return []setting{
		{name: "operation", words: plain.Each(operations(), func(o plan.Operation) string { return string(o) }), cost: engine.AnyCost, field: func(p *plan.Spec) any { return &p.Operation }},
		{name: "connection", short: "-c", words: plain.Each(transports(), verbs.Transport.String), cost: engine.AnyCost, field: func(p *plan.Spec) any { return &p.Transport }},
		{name: "size", short: "-s", values: []int{8, 64, 256, 1024, 4096, 16384, 65536, 262144}, cost: engine.LowCost, field: func(p *plan.Spec) any { return &p.Sizes }},
		{name: "mtu", short: "-m", values: []int{256, 512, 1024, 2048, 4096}, cost: engine.LowCost, field: func(p *plan.Spec) any { return &p.MTU }},
		{name: "threads", values: []int{1, 2, 4, 8, 16}, cost: engine.AnyCost, best: true, field: func(p *plan.Spec) any { return &p.Threads }},
		{name: "qp", short: "-q", values: []int{1, 2, 4, 8, 16, 64}, best: true, field: func(p *plan.Spec) any { return &p.QPs }},
		{name: "tx-depth", short: "-t", values: []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}, cost: engine.LowCost, best: true, field: func(p *plan.Spec) any { return &p.TxDepth }},
		{name: "outs", short: "-o", values: []int{1, 2, 4, 8, 16, 32, 64, 128}, cost: engine.LowCost, best: true, field: func(p *plan.Spec) any { return &p.Outstanding }},
		{name: "rx-depth", short: "-r", values: []int{16, 64, 128, 256, 512, 1024}, cost: engine.LowCost, best: true, field: func(p *plan.Spec) any { return &p.RxDepth }},
		{name: "post-list", short: "-l", values: []int{1, 2, 4, 8, 16, 32, 64}, cost: engine.LowCost, best: true, field: func(p *plan.Spec) any { return &p.PostList }},
		{name: "cq-mod", short: "-Q", values: []int{1, 4, 16, 64, 100}, cost: engine.LowCost, best: true, field: func(p *plan.Spec) any { return &p.CQMod }},
		{name: "inline", short: "-I", values: []int{0, 64, 128, 220}, cost: engine.AnyCost, best: true, field: func(p *plan.Spec) any { return &p.InlineBytes }},
		{name: "bidirectional", short: "-b", words: onOff, cost: engine.AnyCost, field: func(p *plan.Spec) any { return &p.Bidirectional }},
		{name: "events", short: "-e", words: onOff, cost: engine.AnyCost, field: func(p *plan.Spec) any { return &p.Events }},
		{name: "srq", perftest: "--use-srq", words: onOff, cost: engine.AnyCost, field: func(p *plan.Spec) any { return &p.SRQ }},
		{name: "post-api", words: []string{"auto", "post_send", "wr"}, cost: engine.AnyCost, field: func(p *plan.Spec) any { return &p.PostAPI }},
	}
}

func operations() []plan.Operation {
	return []plan.Operation{plan.Write, plan.Read, plan.Send, plan.Atomic}
}

func transports() []verbs.Transport { return []verbs.Transport{verbs.RC, verbs.UC, verbs.UD} }

// get is the setting's value in a plan.
func (s *setting) get(p *plan.Spec) int {
	switch f := s.field(p).(type) {
	case *int:
		return *f
	case *[]int:
		return (*f)[0]
	case *bool:
		if *f {
			return 1
		}
	case *plan.Operation:
		return slices.Index(operations(), *f)
	case *verbs.Transport:
		return max(slices.Index(transports(), *f), 0)
	case *verbs.MTU:
		if *f > 0 {
			return f.Bytes()
		}
	case *verbs.PostAPI:
		return int(*f)
	}
	return 0
}

func (s *setting) set(p *plan.Spec, v int) {
	switch f := s.field(p).(type) {
	case *int:
		*f = v
	case *[]int:
		*f = []int{v}
	case *bool:
		*f = v == 1
	case *plan.Operation:
		*f = operations()[v]
	case *verbs.Transport:
		*f = transports()[v]
	case *verbs.MTU:
		*f, _ = verbs.ParseMTU(v)
	case *verbs.PostAPI:
		*f = verbs.PostAPI(v)
	}
}

// dimension is the setting with a base value.
func (s *setting) dimension(base int) engine.Dimension {
	d := engine.Dimension{Name: s.name, Values: slices.Clone(s.values), Words: s.words, Base: base, Cost: s.cost, Fine: s.name == "size"}
	for v := range s.words {
		d.Values = append(d.Values, v)
	}
	if i, found := slices.BinarySearch(d.Values, base); !found {
		d.Values = slices.Insert(d.Values, i, base)
	}
	return d
}

// parse reads a value.
func (s *setting) parse(text string) (int, error) {
	if s.words == nil {
		if text == "0" { // which is no size
			return 0, nil
		}
		return plan.ParseSize(text)
	}
	i := slices.Index(s.words, text)
	if i < 0 {
		return 0, fmt.Errorf("%q: want %s", text, strings.Join(s.words, ", "))
	}
	return i, nil
}

// flag is the setting on a command line.
func (s *setting) flag(name string, v int) string {
	if s.words == nil {
		return name + " " + strconv.Itoa(v)
	}
	if s.words[v] == "yes" {
		return name
	}
	return name + " " + s.words[v]
}

// tests are the points of a space as tests.
type tests struct {
	settings []setting // of the dimensions
	dims     []engine.Dimension
	base     plan.Spec
	limits   plan.Limits
}

// spec is the plan of a point. Moderation would follow from other settings where it is not named.
func (t *tests) spec(p engine.Point) plan.Spec {
	spec := t.base
	for i, s := range t.settings {
		if p[i] != t.dims[i].Base || s.name == "cq-mod" {
			s.set(&spec, p[i])
		}
	}
	return spec
}

// flags are what a point's command line has beside the test's own.
func (t *tests) flags(p engine.Point) string {
	var words []string
	for i, s := range t.settings {
		if s.name != "operation" && (p[i] != t.dims[i].Base || s.name == "cq-mod") {
			words = append(words, s.flag(cmp.Or(s.short, "--"+s.name), p[i]))
		}
	}
	return strings.Join(words, " ")
}

// problems is how much stands against a point's test.
func (t *tests) problems(p engine.Point) int {
	spec := t.spec(p)
	n := 0
	overUC := spec.Transport != verbs.RC && spec.Transport != 0 && spec.Operation != plan.Send // nobody counts the WRITEs that arrive
	if overUC || spec.PostAPI == verbs.PostWR && t.limits.Device.Software {
		n = 1
	}
	_, err := plan.Settle(spec, t.limits, plan.Peer{}, plan.Policy{})
	if wrong, is := errors.AsType[*plan.Error](err); is {
		n += len(wrong.Problems)
	}
	return n
}

// repair makes a test of a point that breaks a rule: from the last dimension to the first, each takes its base or another value
// where that leaves less to say against the point. What cannot be repaired is the base.
func (t *tests) repair(p engine.Point, keep int) engine.Point {
	left := t.problems(p)
	for d := len(p) - 1; d >= 0 && left > 0; d-- {
		best := p[d]
		for _, v := range slices.Concat([]int{t.dims[d].Base}, t.dims[d].Values) {
			if p[d] = v; d == keep || left == 0 {
				break
			}
			if n := t.problems(p); n < left {
				best, left = v, n
			}
		}
		p[d] = best
	}
	if left == 0 {
		return p
	}
	for d := range p {
		p[d] = t.dims[d].Base
	}
	return p
}

// space is what the search may try: the settings that the test does not name, as far as the device of this end has them.
func (c *config) space(l plan.Limits) (engine.Space, *tests, error) {
	t := &tests{base: c.Test.Plan, limits: l}
	var wrong cmdline.Faults
	all := settings()
	if c.Question == anomalies && !c.typed.Changed("size") {
		t.base.Sizes = []int{4096}
	}
	all = slices.DeleteFunc(all, func(s setting) bool {
		text, fixed := c.Fix[s.name]
		only := slices.Contains(c.Only, s.name)
		flag := c.typed.Lookup(s.name)
		if flag == nil && c.Question != anomalies { // the operation does not have it
			wrong.If(fixed || only, "%s: %s %s has no such setting", s.name, c.Tool, t.base.Operation)
			return true
		}
		if fixed {
			v, err := s.parse(text)
			if wrong.Note(cmdline.Prefixed("--fix "+s.name, err)); err == nil {
				s.set(&t.base, v)
			}
			return true
		}
		switch {
		case len(c.Only) > 0:
			return !only
		case c.Question == dips:
			return s.name != "size"
		}
		return flag != nil && flag.Changed || c.Question == best && !s.best
	})
	settled, err := plan.Settle(t.base, l, plan.Peer{}, plan.Policy{})
	if wrong.Note(err); len(wrong) > 0 {
		return engine.Space{}, nil, exit.UsageError{Err: errors.Join(wrong...)}
	}
	from := settled.Spec()
	if len(t.base.Sizes) == 0 {
		t.base.Sizes = slices.Clone(from.Sizes)
	}
	from.MTU, from.Outstanding, from.InlineBytes, from.CQMod = settled.MTU(), settled.Outstanding(), t.base.InlineBytes, max(settled.Depths().CQMod, 1)
	for _, s := range all {
		t.settings, t.dims = append(t.settings, s), append(t.dims, s.dimension(s.get(&from)))
	}
	whole := engine.Space{Dimensions: slices.Clone(t.dims), Repair: t.repair}
	left := &tests{base: t.base, limits: l}
	for i, d := range whole.Dimensions { // what the device does not have, or no other setting goes with, is left out
		d.Values = slices.DeleteFunc(slices.Clone(d.Values), func(v int) bool { return whole.Moved(whole.Base(), i, v)[i] != v })
		if c.Question == dips {
			d.Values, d.Base = []int{c.Low, c.High}, c.Low
		}
		if len(d.Values) > 1 {
			left.settings, left.dims = append(left.settings, t.settings[i]), append(left.dims, d)
		}
	}
	if len(left.dims) == 0 {
		return engine.Space{}, nil, exit.UsageError{Err: fmt.Errorf("nothing is left to try: the test names all settings that %s has more than one value for", l.Device.Name)}
	}
	size := slices.IndexFunc(left.dims, func(d engine.Dimension) bool { return d.Name == "size" })
	return engine.Space{Dimensions: left.dims, Size: size, Repair: left.repair}, left, nil
}
