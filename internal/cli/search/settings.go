package search

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gobw/gobw/internal/plan"
	engine "github.com/gobw/gobw/internal/search"
	"github.com/gobw/gobw/verbs"
)

// setting is a field of a plan as a dimension of a search.
type setting struct {
	name     string // the flag's
	flag     string // as one types it; empty: --name
	perftest string // as perftest's command lines have it; empty: they have it not
	values   []int
	words    []string
	cost     engine.Cost
	best     bool // 'best' tries it
	get      func(p *plan.Spec) int
	set      func(p *plan.Spec, v int)
}

// number is a setting of a whole number.
func number(s setting, field func(p *plan.Spec) *int) setting {
	s.get = func(p *plan.Spec) int { return *field(p) }
	s.set = func(p *plan.Spec, v int) { *field(p) = v }
	return s
}

// yes is a setting that is given or not.
func yes(s setting, field func(p *plan.Spec) *bool) setting {
	s.values, s.words = []int{0, 1}, []string{"no", "yes"}
	s.get = func(p *plan.Spec) int {
		if *field(p) {
			return 1
		}
		return 0
	}
	s.set = func(p *plan.Spec, v int) { *field(p) = v == 1 }
	return s
}

func transports() []verbs.Transport { return []verbs.Transport{verbs.RC, verbs.UC, verbs.UD} }

// settings are all dimensions. 'best' takes the smallest setting that is good: what comes first is made small first.
func settings() []setting {
	return []setting{
		{
			name: "operation", values: []int{0, 1, 2, 3}, words: []string{"write", "read", "send", "atomic"}, cost: engine.AnyCost,
			get: func(p *plan.Spec) int { return slices.Index(operations(), p.Operation) },
			set: func(p *plan.Spec, v int) { p.Operation = operations()[v] },
		},
		{
			name: "connection", flag: "-c", perftest: "-c", values: []int{0, 1, 2}, words: []string{"RC", "UC", "UD"}, cost: engine.AnyCost,
			get: func(p *plan.Spec) int { return max(slices.Index(transports(), p.Transport), 0) },
			set: func(p *plan.Spec, v int) { p.Transport = transports()[v] },
		},
		{
			name: "size", flag: "-s", perftest: "-s", values: []int{8, 64, 256, 1024, 4096, 16384, 65536, 262144}, cost: engine.LowCost,
			get: func(p *plan.Spec) int { return p.Sizes[0] },
			set: func(p *plan.Spec, v int) { p.Sizes = []int{v} },
		},
		{
			name: "mtu", flag: "-m", perftest: "-m", values: []int{256, 512, 1024, 2048, 4096}, cost: engine.LowCost,
			get: func(p *plan.Spec) int { return p.MTU.Bytes() },
			set: func(p *plan.Spec, v int) { p.MTU, _ = verbs.ParseMTU(v) },
		},
		number(setting{name: "threads", values: []int{1, 2, 4, 8, 16}, cost: engine.AnyCost, best: true}, func(p *plan.Spec) *int { return &p.Threads }),
		number(setting{name: "qp", flag: "-q", perftest: "-q", values: []int{1, 2, 4, 8, 16, 64}, best: true}, func(p *plan.Spec) *int { return &p.QPs }),
		number(setting{name: "tx-depth", flag: "-t", perftest: "-t", values: []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}, cost: engine.LowCost, best: true}, func(p *plan.Spec) *int { return &p.TxDepth }),
		number(setting{name: "outs", flag: "-o", perftest: "-o", values: []int{1, 2, 4, 8, 16, 32, 64, 128}, cost: engine.LowCost, best: true}, func(p *plan.Spec) *int { return &p.Outstanding }),
		number(setting{name: "rx-depth", flag: "-r", perftest: "-r", values: []int{16, 64, 128, 256, 512, 1024}, cost: engine.LowCost, best: true}, func(p *plan.Spec) *int { return &p.RxDepth }),
		number(setting{name: "post-list", flag: "-l", perftest: "-l", values: []int{1, 2, 4, 8, 16, 32, 64}, cost: engine.LowCost, best: true}, func(p *plan.Spec) *int { return &p.PostList }),
		number(setting{name: "cq-mod", flag: "-Q", perftest: "-Q", values: []int{1, 4, 16, 64, 100}, cost: engine.LowCost, best: true}, func(p *plan.Spec) *int { return &p.CQMod }),
		number(setting{name: "inline", flag: "-I", perftest: "-I", values: []int{-1, 0, 64, 128, 220, 512}, cost: engine.AnyCost, best: true}, func(p *plan.Spec) *int { return &p.InlineBytes }),
		yes(setting{name: "bidirectional", flag: "-b", perftest: "-b", cost: engine.AnyCost}, func(p *plan.Spec) *bool { return &p.Bidirectional }),
		yes(setting{name: "events", flag: "-e", perftest: "-e", cost: engine.AnyCost}, func(p *plan.Spec) *bool { return &p.Events }),
		yes(setting{name: "srq", perftest: "--use-srq", cost: engine.AnyCost}, func(p *plan.Spec) *bool { return &p.SRQ }),
		yes(setting{name: "mr-per-qp", perftest: "--mr_per_qp"}, func(p *plan.Spec) *bool { return &p.MRPerQP }),
		{
			name: "post-api", values: []int{0, 1, 2}, words: []string{"auto", "post_send", "wr"}, cost: engine.AnyCost,
			get: func(p *plan.Spec) int { return int(p.PostAPI) },
			set: func(p *plan.Spec, v int) { p.PostAPI = verbs.PostAPI(v) },
		},
	}
}

func operations() []plan.Operation {
	return []plan.Operation{plan.Write, plan.Read, plan.Send, plan.Atomic}
}

// within cuts the values to what the device of this end has, and adds the base's.
func (s *setting) within(l plan.Limits, base int) engine.Dimension {
	most := map[string]int{
		"threads": l.CPUs, "qp": l.Device.Limits.MaxQP, "tx-depth": l.Device.Limits.MaxQPWR / 2, "rx-depth": l.Device.Limits.MaxQPWR,
		"outs": max(min(l.Device.Limits.MaxRDAtomic, l.Device.Limits.MaxInitRDAtomic), 1), "mtu": l.Port.ActiveMTU.Bytes(),
		"inline": max(l.Device.Limits.MaxInline, 0), "post-list": l.Device.Limits.MaxQPWR / 2,
	}[s.name]
	if s.name == "threads" && l.Device.Limits.Threads > 0 {
		most = min(most, l.Device.Limits.Threads)
	}
	if s.name == "inline" && l.Device.Limits.MaxInline < 0 { // only a queue pair tells
		most = 220
	}
	d := engine.Dimension{Name: s.name, Words: s.words, Base: base, Cost: s.cost, Fine: s.name == "size"}
	for _, v := range s.values {
		if s.words != nil || most == 0 && s.name != "inline" || v <= most {
			d.Values = append(d.Values, v)
		}
	}
	if s.name == "post-api" && l.Device.Software {
		d.Values = []int{base}
	}
	if i, found := slices.BinarySearch(d.Values, base); !found {
		d.Values = slices.Insert(d.Values, i, base)
	}
	return d
}

// apply makes the plan of a point.
func apply(dims []engine.Dimension, p engine.Point, base plan.Spec) plan.Spec {
	for i, d := range dims {
		if given(dims, p, i) {
			named(d.Name).set(&base, p[i])
		}
	}
	return base
}

// given tells whether a point's command line names a setting: where it is not the base's. Moderation follows from others by default.
func given(dims []engine.Dimension, p engine.Point, i int) bool {
	if p[i] != dims[i].Base {
		return true
	}
	return dims[i].Name == "cq-mod" && slices.ContainsFunc(dims, func(d engine.Dimension) bool {
		k := slices.IndexFunc(dims, func(e engine.Dimension) bool { return e.Name == d.Name })
		return (d.Name == "post-list" || d.Name == "size") && p[k] != d.Base
	})
}

// flags are what a point's command line has beside the test's own.
func flags(dims []engine.Dimension, p engine.Point) string {
	var words []string
	for i, d := range dims {
		if d.Name == "operation" || !given(dims, p, i) {
			continue
		}
		s := named(d.Name)
		if flag := cmp.Or(s.flag, "--"+s.name); slices.Equal(s.words, []string{"no", "yes"}) {
			words = append(words, flag)
		} else {
			words = append(words, flag+" "+d.Word(p[i]))
		}
	}
	return strings.Join(words, " ")
}

// named is the setting of a dimension.
func named(name string) setting {
	all := settings()
	i := slices.IndexFunc(all, func(s setting) bool { return s.name == name })
	if i < 0 {
		return setting{}
	}
	return all[i]
}

// perftestLine is the command of stock perftest that runs a test; empty where it cannot.
func perftestLine(p *plan.Spec, device, host string) string {
	tool := map[plan.Kind]string{plan.Bandwidth: "bw", plan.Latency: "lat"}[p.Kind]
	if p.Threads > 1 || p.Rails > 1 || p.PostAPI != 0 || !plan.RowOf(p.Operation).PerftestHas() {
		return ""
	}
	words := []string{fmt.Sprintf("ib_%s_%s", p.Operation, tool), "-F"}
	if device != "" {
		words = append(words, "-d", device)
	}
	for _, s := range settings() {
		switch {
		case s.perftest == "", s.name == "mtu" && p.MTU == 0, s.name == "size" && p.Operation == plan.Atomic:
			continue
		}
		v := s.get(p)
		switch {
		case slices.Equal(s.words, []string{"no", "yes"}):
			if v == 1 {
				words = append(words, s.perftest)
			}
		case s.words != nil:
			if v > 0 {
				words = append(words, s.perftest, s.words[v])
			}
		case v > 0 && (v > 1 || s.name == "tx-depth" || s.name == "cq-mod" || s.name == "outs" || s.name == "size"):
			words = append(words, s.perftest, strconv.Itoa(v))
		}
	}
	return strings.Join(append(words, "-D 3", cmp.Or(host, "HOST")), " ")
}

// repair makes a point that breaks a rule of the operations one that does not.
func repair(dims []engine.Dimension) func(p engine.Point, keep int) engine.Point {
	at := map[string]int{}
	for i, d := range dims {
		at[d.Name] = i
	}
	return func(p engine.Point, keep int) engine.Point {
		get := func(name string, otherwise int) int {
			if i, has := at[name]; has {
				return p[i]
			}
			return otherwise
		}
		set := func(name string, v int) {
			if i, has := at[name]; has {
				p[i] = v
			}
		}
		kept := func(name string) bool { i, has := at[name]; return has && i == keep }
		base := func(name string) {
			if i, has := at[name]; has {
				p[i] = dims[i].Base
			}
		}
		const (
			write, read, send, atomic = 0, 1, 2, 3
			rc, ud                    = 0, 2
		)
		if op, hasOp := at["operation"]; hasOp {
			if get("connection", rc) != rc && p[op] != send { // READ and atomics need RC; of a WRITE over UC nobody counts what arrives
				if kept("connection") {
					p[op] = send
				} else {
					set("connection", rc)
				}
			}
			if p[op] == atomic {
				set("size", 8)
			}
			if p[op] == read || p[op] == atomic {
				base("inline")
			} else {
				base("outs")
			}
			if p[op] != send {
				base("rx-depth")
				base("srq")
			}
		}
		if _, has := at["connection"]; has && get("connection", rc) == ud {
			if mtu := get("mtu", 4096); get("size", 0) > mtu {
				if kept("size") {
					set("connection", rc)
				} else {
					set("size", mtu)
				}
			}
		}
		atLeast(p, at, keep, "tx-depth", "post-list")
		atLeast(p, at, keep, "qp", "threads")
		if get("srq", 0) == 1 {
			if kept("threads") {
				set("srq", 0)
			} else if get("threads", 1) > 1 {
				set("threads", 1)
			}
			if get("rx-depth", 1<<20) < get("qp", 1) { // each queue pair needs one
				base("rx-depth")
			}
		}
		return p
	}
}

// atLeast holds one number at or above another: the one that is to be kept moves the other.
func atLeast(p engine.Point, at map[string]int, keep int, high, low string) {
	h, has := at[high]
	l, also := at[low]
	if !has || !also {
		return
	}
	if keep == l {
		p[h] = max(p[h], p[l])
	}
	p[l] = min(p[l], p[h])
}
