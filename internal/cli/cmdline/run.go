package cmdline

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/internal/cli/exit"
)

// Run is what a command does: its flags and words make a config, or are a mistake of the command line; the config is run.
func Run[C any](config func(args []string) (C, error), run func(context.Context, C) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := config(args)
		if err != nil {
			return exit.With(exit.Usage, err)
		}
		return run(cmd.Context(), c)
	}
}
