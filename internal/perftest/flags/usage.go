package flags

import (
	"fmt"
	"strings"

	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report/plain"
)

const (
	helpWidth  = 80
	helpIndent = 27 // where explanations begin
)

// Usage is the tool's help: every option that it takes, what it does, and what holds without it.
func Usage(tool Tool) string {
	var b strings.Builder
	fmt.Fprintf(&b,
		"Usage:\n  %s [options]          wait for a client\n  %s [options] <host>   go to the server at <host>\n\n"+
			"Measures the %s of %s. Give both ends the same options.\nLong options may be shortened; numbers may be decimal, "+
			"0x... or octal.\n",
		tool.Name, tool.Name, tool.Kind, plan.RowOf(tool.Operation).Text)
	var ignored []string
	group := ""
	for _, f := range flags(&Invocation{Tool: tool}) {
		switch disposition := f.in(tool); {
		case disposition == Acts && f.help != "":
			if f.group != group {
				group = f.group
				fmt.Fprintf(&b, "\n%s:\n", group)
			}
			b.WriteString(f.explained())
		case disposition == Ignored:
			ignored = append(ignored, "--"+f.long)
		}
	}
	b.WriteString("\nTaken and ignored, as in perftest, with a line on stderr (but for -F):\n")
	for _, line := range plain.WrapWith(strings.Join(ignored, ", "), helpWidth-2, "") {
		b.WriteString("  " + line + "\n")
	}
	b.WriteString("\nOptions of perftest that are missing here are refused by name.\n" +
		"gobw and golat have more: gobw --help. About perftest: docs/perftest.md.\n")
	return b.String()
}

// explained is the option and, in a column of its own, its explanation.
func (f perftestFlag) explained() string {
	head := "  " + f.head
	if f.short == 0 {
		head = "      " + f.head
	}
	var b strings.Builder
	if len(head) > helpIndent-2 {
		b.WriteString(head + "\n")
		head = ""
	}
	for _, line := range plain.WrapWith(f.help, helpWidth-helpIndent, "") {
		fmt.Fprintf(&b, "%-*s%s\n", helpIndent, head, line)
		head = ""
	}
	return b.String()
}
