package cli

import "github.com/spf13/cobra"

// addExperiments adds the commands that run many tests: each is a file of its own that calls [measure].
func addExperiments(root *cobra.Command, tool string, out Streams) {
	if tool == "gobw" {
		root.AddCommand(grouped(groupTests, newNoncontigCommand(tool, out)))
	}
}
