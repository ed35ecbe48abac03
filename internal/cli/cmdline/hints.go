package cmdline

import (
	"cmp"
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/internal/perftest/flags"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report/plain"
)

//go:embed hints.txt
var hints string

// hint is what the table of hints says of a word. words puts the answer of a row into words; it says nothing where the
// row does not suit.
func hint(word string, words func(answer string) string, commands ...string) string {
	for _, row := range plain.Rows(hints) {
		of := slices.ContainsFunc(strings.Fields(row[0]), func(c string) bool { return slices.Contains(commands, c) })
		if of && slices.Contains(strings.Fields(row[1]), word) {
			if said := words(row[2]); said != "" {
				return said
			}
		}
	}
	return ""
}

// synonym says what the command has for a flag of another tool.
func synonym(c *cobra.Command, name string) string {
	if len(name) > 1 {
		name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	}
	return hint(name, func(answer string) string {
		if word, more, _ := strings.Cut(answer, ";"); word == strings.ToUpper(word) {
			return plain.When(strings.Contains(c.Use, word), "; write it without a flag: %s %s", c.CommandPath(),
				word+plain.When(more != "", ";%s", more))
		}
		if !strings.HasPrefix(answer, "--") {
			return "; " + answer
		}
		flag, value, _ := strings.Cut(answer[2:], " ")
		f := c.Flags().Lookup(flag)
		if f == nil || f.Hidden || f.Name == name {
			return ""
		}
		return "; type " + answer + plain.When(value == "" && f.Shorthand != "", " (-%s)", f.Shorthand)
	}, c.Name(), "*")
}

// perftestFlag says what to do about an option that perftest has and this command has not: our own, or perftest's
// names. name is the long one, or a letter.
func perftestFlag(c *cobra.Command, name string) string {
	program, command, _ := strings.Cut(c.CommandPath(), " ")
	kind := map[string]plan.Kind{"gobw": plan.Bandwidth, "golat": plan.Latency}[program]
	op := plan.Operation(command)
	long, tool, acts := flags.Known(name, op, kind)
	if long == "version" {
		return fmt.Sprintf("; type '%s version'", program)
	}
	if tool == "" || command != "" && !slices.Contains(plan.Operations(), op) { // it measures nothing that perftest does
		return ""
	}
	bandwidth := func(f plan.Field) bool { return f.Name == strings.ReplaceAll(long, "_", "-") && f.Of == plan.Bandwidth }
	if i := slices.IndexFunc(plan.Fields(), bandwidth); i >= 0 && program == "golat" {
		return "; only bandwidth tests have it: gobw write HOST -" + plan.Fields()[i].Letter
	}
	if program == "golat" && len(name) == 1 && strings.HasSuffix(tool, "_bw") {
		return "; for bandwidth tests only: leave it out"
	}
	if t, _ := flags.ToolNamed(tool); t.Operation != op {
		if other := testWith(c, name, t.Operation); other != nil {
			return fmt.Sprintf("; '%s' has it, not '%s'", other.CommandPath(), c.CommandPath())
		}
	}
	if !acts && long != "size" {
		return fmt.Sprintf("; leave it out: %s ignores it", tool)
	}
	ours := hint(long, func(answer string) string {
		flag := regexp.MustCompile(`--([a-z-]+)`).FindStringSubmatch(answer)
		return plain.When(flag == nil || c.Flags().Lookup(flag[1]) != nil, "%s", answer)
	}, "perftest")
	return fmt.Sprintf("; %s", cmp.Or(ours, fmt.Sprintf("'%s' has no such flag", c.CommandPath()))) +
		plain.When(long != "size", "; 'gobw version --install-links DIR' makes %s, which takes perftest's flags", tool)
}

// testWith is the first command of these operations that has a flag, or nil. name is a long one, or a letter.
func testWith(c *cobra.Command, name string, operations ...plan.Operation) *cobra.Command {
	for _, op := range operations {
		test, _, err := c.Root().Find([]string{string(op)})
		if err == nil && (test.Flags().Lookup(name) != nil || len(name) == 1 && test.Flags().ShorthandLookup(name) != nil) {
			return test
		}
	}
	return nil
}

// unknownCommand words what was typed in place of a command: perftest's names, and those of the other program, lead to
// ours.
func unknownCommand(root *cobra.Command, word string) error {
	program := root.Name()
	err := fmt.Errorf("unknown command %q", word)
	if first, _, several := strings.Cut(word, " "); several {
		test := plain.When(!slices.Contains(plan.Operations(), plan.Operation(first)), "write ") // it may be a host
		return fmt.Errorf("%w: type it without quotes: %s %s%s", err, program, test, word)
	}
	if tool, is := flags.ToolNamed("ib_" + strings.TrimPrefix(word, "ib_")); is {
		right := map[plan.Kind]string{plan.Bandwidth: "gobw", plan.Latency: "golat"}[tool.Kind]
		return fmt.Errorf("%w: type '%s %s'; 'gobw version --install-links DIR' makes %s", err, right,
			tool.Operation, tool.Name)
	}
	line := hint(strings.ToLower(word), func(answer string) string {
		first, _, _ := strings.Cut(answer, " ")
		return plain.When(first != "gobw" && first != "golat", "%s ", program) + answer
	}, "word")
	if line != "" {
		return fmt.Errorf("%w: type '%s'", err, line)
	}
	if names := root.SuggestionsFor(word); len(names) > 0 {
		return fmt.Errorf("%w; did you mean '%s %s'?", err, program, cmp.Or(plain.Nearest(word, names), names[0]))
	}
	return fmt.Errorf("%w; '%s -h' lists all; if it is a host: '%s write %s'", err, program, program, word)
}

// withoutCommand says what to type for a line that begins with a flag of a test; empty: it does not.
func withoutCommand(root *cobra.Command, args []string) string {
	quoted := func(word string) bool { return strings.Contains(word, " ") }
	if len(args) == 0 || !strings.HasPrefix(args[0], "-") || slices.ContainsFunc(args, quoted) {
		return ""
	}
	first, _, _ := strings.Cut(strings.TrimLeft(args[0], "-"), "=")
	return plain.When(testWith(root, first, plan.Write) != nil,
		"the command comes first; type '%s write %s'", root.Name(), plain.JoinWords(args))
}
