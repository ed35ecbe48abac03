// Package version is the command 'version'.
package version

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/internal/bench/machine"
	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/report/plain"
)

//go:embed help.txt
var help string

// NewCommand makes 'version'.
func NewCommand(tool string, out output.Streams) *cobra.Command {
	var format, links string
	cmd := cmdline.Command(tool, help)
	cmd.Args = cmdline.NoArguments
	cmd.RunE = func(*cobra.Command, []string) error {
		if links != "" {
			return installLinks(out, links)
		}
		info, _ := debug.ReadBuildInfo()
		d := describe(tool, info)
		switch format {
		case "json":
			return json.NewEncoder(out.Out).Encode(d)
		case "text":
		default:
			return exit.With(exit.Usage, fmt.Errorf("--format %q: want text or json", format))
		}
		_, err := fmt.Fprintf(out.Out, "%s %s (%s, %s/%s)\n%s\n", tool, d.Version, d.Go, d.OS, d.Arch, d.revision())
		return err
	}
	cmd.Flags().StringVar(&format, "format", "text", "print as `FORMAT`: text or json")
	cmd.Flags().StringVar(&links, "install-links", "", "make links under perftest's names in `DIR`")
	return cmd
}

// description is the version as programs read it.
type description struct {
	Program  string `json:"program"`
	Version  string `json:"version"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
	Revision string `json:"revision,omitempty"` // the commit; absent where the Go tool recorded none
	Time     string `json:"time,omitempty"`     // the commit's, RFC 3339
	Modified bool   `json:"modified"`           // with changes that were not committed
	CGO      bool   `json:"cgo"`                // devices of libibverbs are inside
}

func describe(tool string, info *debug.BuildInfo) description {
	facts := map[string]string{} // what the Go tool recorded of the build
	if info != nil {
		for _, s := range info.Settings {
			facts[s.Key] = s.Value
		}
	}
	return description{
		Program: tool, Version: machine.Version(), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		Revision: facts["vcs.revision"], Time: facts["vcs.time"], Modified: facts["vcs.modified"] == "true",
		CGO: facts["CGO_ENABLED"] == "1",
	}
}

// revision says which commit a program was built from.
func (d description) revision() string {
	if d.Revision == "" {
		return "revision unknown (Go did not record it: see -buildvcs in 'go help build')"
	}
	return "revision " + d.Revision + plain.When(d.Time != "", " of %s", d.Time) +
		plain.When(d.Modified, ", with changes that are not committed")
}
