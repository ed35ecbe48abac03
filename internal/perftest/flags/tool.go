package flags

import (
	"strings"

	"github.com/gobw/gobw/internal/plan"
)

// Tool is one of perftest's programs.
type Tool struct {
	Name      string
	Operation plan.Operation
	Kind      plan.Kind
}

// Tools lists the programs whose names we answer to.
func Tools() []Tool {
	var tools []Tool
	for _, kind := range []plan.Kind{plan.Bandwidth, plan.Latency} {
		for _, op := range plan.Operations() {
			if !plan.RowOf(op).PerftestHas() {
				continue
			}
			suffix := "_bw"
			if kind == plan.Latency {
				suffix = "_lat"
			}
			tools = append(tools, Tool{Name: "ib_" + plan.RowOf(op).Perftest.Tool + suffix, Operation: op, Kind: kind})
		}
	}
	return tools
}

// ToolNamed finds the tool that a program name stands for: one that begins with the tool's, such as
// ib_write_bw_nongdr. A directory in front is ignored.
func ToolNamed(name string) (Tool, bool) {
	name = name[strings.LastIndexByte(name, '/')+1:]
	for _, t := range Tools() {
		if strings.HasPrefix(name, t.Name) {
			return t, true
		}
	}
	return Tool{}, false
}

// Known finds an option by its long name, with dashes or underscores, or by its letter: the long name as perftest has
// it, and a tool that takes it: the one of that operation and kind, or the nearest in which it does something (of that
// kind before of that operation). acts tells whether it does in that tool.
func Known(name string, op plan.Operation, kind plan.Kind) (long, tool string, acts bool) {
	const exact = 3
	best := -1
	for _, f := range flags(&Invocation{}) {
		plain := strings.ReplaceAll(f.long, "_", "-")
		if strings.ReplaceAll(name, "_", "-") != plain && (len(name) != 1 || f.short != name[0]) ||
			f.exact && !f.value && f.set == nil {
			continue
		}
		for _, t := range Tools() {
			near := 0
			if t.Kind == kind {
				near += 2
			}
			if t.Operation == op {
				near++
			}
			in := f.in(t)
			if near > best && (in == Acts || in == Ignored && near == exact && f.set != nil) {
				best, long, tool, acts = near, f.long, t.Name, in == Acts
			}
		}
	}
	return long, tool, acts
}
