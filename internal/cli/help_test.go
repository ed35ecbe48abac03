package cli

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report/plain"
)

// TestHelpFits has the help of every command keep to its width, -h to one screen, and no two flags or defaults run into
// each other.
func TestHelpFits(t *testing.T) {
	for _, tool := range []string{"gobw", "golat"} {
		var walk func(words []string, c *cobra.Command)
		walk = func(words []string, c *cobra.Command) {
			if c.HasParent() && c.Parent().Name() == "completion" { // cobra's own
				return
			}
			var out bytes.Buffer
			root := newRoot(tool, output.Streams{Out: &out, Err: &out})
			root.SetArgs(append(words, "--help"))
			if err := root.Execute(); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(out.String()) {
				line = strings.TrimRight(line, "\n")
				if n := len([]rune(line)); n > cmdline.HelpWidth {
					t.Errorf("%s %s: %d columns: %s", tool, strings.Join(words, " "), n, line)
				}
				if strings.Contains(line, "(default -1)") {
					t.Errorf("%s %s: what is -1 here? %s", tool, strings.Join(words, " "), line)
				}
			}
			out.Reset()
			root = newRoot(tool, output.Streams{Out: &out, Err: &out})
			root.SetArgs(append(slices.Clip(words), "-h"))
			if err := root.Execute(); err != nil {
				t.Fatal(err)
			}
			if lines := strings.Count(out.String(), "\n"); lines > 24 {
				t.Errorf("%s %s -h: %d lines, want one screen of 24:\n%s", tool, strings.Join(words, " "), lines, out.String())
			}
			if usage := "Usage: " + c.CommandPath() + " COMMAND\n"; c.HasAvailableSubCommands() &&
				!strings.Contains(out.String(), usage) {
				t.Errorf("%s %s -h: does not say %q:\n%s", tool, strings.Join(words, " "), usage, out.String())
			}
			for line := range strings.Lines(out.String()) {
				if n := len([]rune(strings.TrimRight(line, "\n"))); n > cmdline.HelpWidth {
					t.Errorf("%s %s -h: %d columns: %s", tool, strings.Join(words, " "), n, line)
				}
			}
			for _, sub := range c.Commands() {
				if sub.IsAvailableCommand() {
					walk(append(slices.Clip(words), sub.Name()), sub)
				}
			}
		}
		walk(nil, newRoot(tool, output.Streams{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}))
	}
}

// TestExamplesAreAccepted has the command line of every example in the help accepted: it fails at most for a file or a
// host that is not there.
func TestExamplesAreAccepted(t *testing.T) {
	t.Chdir(t.TempDir())
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	var walk func(tool string, c *cobra.Command)
	walk = func(tool string, c *cobra.Command) {
		for line := range strings.Lines(c.Example) {
			line, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "srun -K "), " #")
			line, _, _ = strings.Cut(line, " > ")
			words, err := plain.SplitWords(strings.ReplaceAll(line, "--loopback", "alpha")) // a loopback takes a second to end
			if err != nil || len(words) == 0 || words[0] != tool {
				t.Errorf("%s: example %q is no command line of %s (%v)", c.CommandPath(), line, tool, err)
				continue
			}
			var stdout, stderr bytes.Buffer
			code := run(ended, tool, words[1:], output.Streams{Out: &stdout, Err: &stderr})
			if missing := regexp.MustCompile("no such file|no launcher|is no file"); code == exit.Usage &&
				!missing.MatchString(stderr.String()) {
				t.Errorf("%s: refused:\n%s", line, stderr.String())
			}
		}
		for _, sub := range c.Commands() {
			if sub.Name() != "completion" {
				walk(tool, sub)
			}
		}
	}
	for _, tool := range []string{"gobw", "golat"} {
		walk(tool, newRoot(tool, output.Streams{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}))
	}
}

// TestEveryFlagIsTold holds docs/flags.md against the flags of the tests: each is there, and no other.
func TestEveryFlagIsTold(t *testing.T) {
	b, err := os.ReadFile("../../docs/flags.md")
	if err != nil {
		t.Fatal(err)
	}
	told, known := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(string(b)) {
		if column := strings.Split(line, "|"); len(column) > 1 {
			for _, flag := range regexp.MustCompile("`--([a-z-]+)`").FindAllStringSubmatch(column[1], -1) {
				told[flag[1]] = true
			}
		}
	}
	for _, tool := range []string{"gobw", "golat"} {
		root := newRoot(tool, output.Streams{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}})
		for _, c := range root.Commands() {
			if !slices.Contains(plan.Operations(), plan.Operation(c.Name())) && c.Name() != "noncontig" {
				continue
			}
			c.Flags().VisitAll(func(f *pflag.Flag) {
				known[f.Name] = true
				if !f.Hidden && !told[f.Name] && f.Name != "help" && c.Name() != "noncontig" {
					t.Errorf("%s: docs/flags.md does not say what --%s does", c.CommandPath(), f.Name)
				}
			})
		}
	}
	for name := range told {
		if !known[name] {
			t.Errorf("docs/flags.md tells of --%s, which no test has", name)
		}
	}
}
