package cli

import "github.com/spf13/cobra"

// addExperiments adds the commands that run many tests: each is a file of its own that calls [measure].
func addExperiments(*cobra.Command, string, Streams) {}
