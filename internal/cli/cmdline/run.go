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
		err := Interruptible(cmd.Context(), func() (err error) {
			if c, err = config(args); err != nil {
				err = exit.With(exit.Usage, err)
			}
			return err
		})
		if err != nil {
			return err
		}
		return run(cmd.Context(), c)
	}
}

// Interruptible returns when f does, or when the context ends while f still waits, as for a file that is a pipe.
func Interruptible(ctx context.Context, f func() error) error {
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
		err = f()
	}()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-done:
	}
	if fault != nil { // is told where all are
		panic(fault)
	}
	return err
}
