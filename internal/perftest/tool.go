package perftest

import (
	"strings"

	"github.com/gobw/gobw/internal/control"
)

// Tool is one of perftest's programs.
type Tool struct {
	Name      string
	Operation control.Operation
	Kind      control.Kind
}

// Tools lists the programs whose names we answer to.
func Tools() []Tool {
	var tools []Tool
	for _, kind := range []control.Kind{control.Bandwidth, control.Latency} {
		for _, op := range []control.Operation{control.Write, control.Read, control.Send, control.Atomic} {
			suffix := "_bw"
			if kind == control.Latency {
				suffix = "_lat"
			}
			tools = append(tools, Tool{Name: "ib_" + string(op) + suffix, Operation: op, Kind: kind})
		}
	}
	return tools
}

// ToolNamed finds the tool that a program name stands for; a directory in front is ignored.
func ToolNamed(name string) (Tool, bool) {
	name = name[strings.LastIndexByte(name, '/')+1:]
	for _, t := range Tools() {
		if t.Name == name {
			return t, true
		}
	}
	return Tool{}, false
}
