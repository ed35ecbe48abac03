package cli

import "github.com/spf13/cobra"

// addResults adds the commands that work on saved results.
func addResults(*cobra.Command, string, Streams) {}
