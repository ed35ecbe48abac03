package cmdline

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/perftest/flags"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report/plain"
)

// ours says what we have in place of an option of perftest's.
var ours = map[string]string{ //nolint:gochecknoglobals // a constant table
	"report-histogrm": "--save FILE.html draws all samples", "report-unsorted": "no format lists the samples in order",
	"out_json": "give --format json, or --save FILE.json", "cpu_util": "give --cpu-time",
	"rate_limit": "give --rate 10G", "rate_units": "--rate names its unit", "output": "give --save FILE.json, or --format json",
	"report-both": "--format json has both directions", "perform_warm_up": "give --warmup N", "data_validation": "give --verify=all",
	"pin_cores": "give --cpu N", "margin": "not needed: --warmup steady (the default) does not count the start", "report-counters": "--format json has the counters of both ends",
	"limit_bw": "give --expect 'bw >= 10 Gb/s'", "limit_msgrate": "give --expect 'msgrate >= 2M'", "report_gbits": "leave it out: the table is in Gb/s",
	"size": "an atomic always has 8 bytes", "mcg": "gobw has no multicast", "MGID": "gobw has no multicast",
	"run_infinitely": "give --duration (-D)", "noPeak": "leave it out: only perftest's text needs it", "dualport": "give --device (-d) A,B", "comm_rdma_cm": "leave it out: gobw and golat connect by TCP first",
	"com_rdma_cm": "leave it out: gobw and golat connect by TCP first", "tos": "give --tclass N: -T 3 is --tclass 3", "mr_per_qp": "leave it out: the buffers are one region",
	"use_old_post_send": "give --post-api post_send", "CPU-freq": "nothing is to do: leave it out",
}

// perftestFlag says what to do about an option that perftest has and this command has not: our own, or perftest's names. name is
// the long one, or a letter.
func perftestFlag(c *cobra.Command, name string) string {
	program, command, _ := strings.Cut(c.CommandPath(), " ")
	kind := map[string]plan.Kind{"gobw": plan.Bandwidth, "golat": plan.Latency}[program]
	long, tool, acts := flags.Known(name, plan.Operation(command), kind)
	if long == "version" {
		return fmt.Sprintf("; type '%s version'", program)
	}
	if tool == "" || command != "" && !slices.Contains(plan.Operations(), plan.Operation(command)) { // it measures nothing that perftest does
		return ""
	}
	own := func(f plan.Field) bool { return f.Name == strings.ReplaceAll(long, "_", "-") && f.Of == plan.Bandwidth }
	if i := slices.IndexFunc(plan.Fields(), own); i >= 0 && program == "golat" {
		return "; only bandwidth tests have it: gobw write HOST -" + plan.Fields()[i].Letter
	}
	if program == "golat" && (long == "dualport" || len(name) == 1 && strings.HasSuffix(tool, "_bw")) {
		return "; it is of bandwidth tests: leave it out"
	}
	if t, _ := flags.ToolNamed(tool); t.Operation != plan.Operation(command) {
		if other := testWith(c, name, t.Operation); other != nil {
			return fmt.Sprintf("; '%s' has it, not '%s'", other.CommandPath(), c.CommandPath())
		}
	}
	links := fmt.Sprintf("; 'gobw version --install-links DIR' makes %s, which takes perftest's flags", tool)
	text := fmt.Sprintf("; '%s' has no such flag", c.CommandPath()) + links
	switch {
	case long == "size": // the links have no more of it
		links = ""
	case !acts:
		return fmt.Sprintf("; leave it out: %s ignores it", tool)
	}
	hint := ours[long]
	if flag := regexp.MustCompile(`--([a-z-]+)`).FindStringSubmatch(hint); flag != nil && c.Flags().Lookup(flag[1]) == nil {
		return text
	}
	if hint != "" {
		text = "; " + hint + links
	}
	return text
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

// CommandError words an unknown command: perftest's names, and those of the other program, lead to ours.
func CommandError(err error) error {
	if err == nil || !strings.HasPrefix(err.Error(), "unknown command ") {
		return err
	}
	return exit.With(exit.Usage, unknownCommand(strings.TrimPrefix(err.Error(), "unknown command ")))
}

func unknownCommand(word string) error {
	word, rest, _ := strings.Cut(word, " for ")
	rest, near, _ := strings.Cut(rest, "Did you mean this?")
	program, _, _ := strings.Cut(strings.Trim(rest, `"`), `"`)
	word = strings.Trim(word, `"`)
	if first, _, several := strings.Cut(word, " "); several {
		test := plain.When(!slices.Contains(plan.Operations(), plan.Operation(first)), "write ") // it may be a host
		return fmt.Errorf("unknown command %q: type it without quotes: %s %s%[1]s", word, program, test)
	}
	if tool, is := flags.ToolNamed("ib_" + strings.TrimPrefix(word, "ib_")); is {
		right := map[plan.Kind]string{plan.Bandwidth: "gobw", plan.Latency: "golat"}[tool.Kind]
		return fmt.Errorf("unknown command %q: type '%s %s'; 'gobw version --install-links DIR' makes %s", word, right, tool.Operation, tool.Name)
	}
	if line := otherWord(program, word); line != "" {
		return fmt.Errorf("unknown command %q: type '%s'", word, line)
	}
	if names := strings.Fields(near); len(names) > 0 {
		return fmt.Errorf("unknown command %q; did you mean '%s %s'?", word, program, cmp.Or(plain.Nearest(word, names), names[0]))
	}
	return fmt.Errorf("unknown command %q; '%s -h' lists all; if it is a host: '%s write %s'", word, program, program, word)
}
