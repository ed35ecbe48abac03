package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/internal/bench"
)

func newVersionCommand(tool string, out Streams) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(out.Out, "%s %s (%s, %s/%s)\n", tool, bench.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
