package cmdline

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/internal/cli/exit"
)

// Run makes a command's RunE: config checks flags and words, run runs the config. An error of config is a wrong command
// line.
func Run[C any](config func(args []string) (C, error), run func(context.Context, C) error) func(*cobra.Command,
	[]string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := config(args)
		if err != nil {
			return exit.With(exit.Usage, err)
		}
		return run(cmd.Context(), c)
	}
}
