package cmdline

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/internal/cli/exit"
)

// Run makes a command's RunE: config checks flags and words, run runs the config. An error of config is a wrong command
// line. config may read files, one of which may be a pipe or large: a signal ends the command meanwhile.
func Run[C any](config func(args []string) (C, error), run func(context.Context, C) error) func(*cobra.Command,
	[]string) error {
	return func(cmd *cobra.Command, args []string) error {
		var c C
		var err error
		var fault any
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() {
				if fault = recover(); fault != nil {
					fault = fmt.Sprintf("%v\n%s", fault, debug.Stack())
				}
			}()
			c, err = config(args)
		}()
		select {
		case <-cmd.Context().Done():
			return context.Cause(cmd.Context())
		case <-done:
		}
		if fault != nil { // is told where all are
			panic(fault)
		}
		if err != nil {
			return exit.With(exit.Usage, err)
		}
		return run(cmd.Context(), c)
	}
}
