package cli

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/internal/cli/output"
)

// Command is the tree of commands of gobw or golat, for whoever documents it: man pages, completions.
func Command(tool string) *cobra.Command {
	return newRoot(tool, output.Streams{Out: io.Discard, Err: io.Discard})
}
