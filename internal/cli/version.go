package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/internal/bench"
)

func newVersionCommand(tool string, out Streams) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version and what it was built from", Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			info, _ := debug.ReadBuildInfo()
			_, err := fmt.Fprintf(out.Out, "%s %s (%s, %s/%s)\n%s\n", tool, bench.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH, revisionText(info))
			return err
		},
	}
}

// revisionText says which commit a program was built from, as the Go tool recorded it.
func revisionText(info *debug.BuildInfo) string {
	facts := map[string]string{}
	if info != nil {
		for _, s := range info.Settings {
			facts[s.Key] = s.Value
		}
	}
	if facts["vcs.revision"] == "" {
		return "revision unknown: go run, and go build with -buildvcs=false, record none"
	}
	text := "revision " + facts["vcs.revision"]
	if t := facts["vcs.time"]; t != "" {
		text += " of " + t
	}
	if facts["vcs.modified"] == "true" {
		text += ", with changes that are not committed"
	}
	return text
}
