package cli

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/output"
)

// TestHelpFits has the help of every command keep to its width, and no two flags or defaults run into each other.
func TestHelpFits(t *testing.T) {
	for _, tool := range []string{"gobw", "golat"} {
		var walk func(words []string, c *cobra.Command)
		walk = func(words []string, c *cobra.Command) {
			if c.Name() == "completion" { // cobra's own
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
			for _, sub := range c.Commands() {
				if sub.IsAvailableCommand() {
					walk(append(slices.Clip(words), sub.Name()), sub)
				}
			}
		}
		walk(nil, newRoot(tool, output.Streams{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}))
	}
}
