package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpWidth is what help texts keep to.
const helpWidth = 80

// helpTemplate is cobra's, without repeating the short text.
const helpTemplate = `{{with (or .Long .Short)}}{{. | trimTrailingWhitespaces}}

{{end}}{{if or .Runnable .HasSubCommands}}{{.UsageString}}{{end}}`

// usageTemplate is cobra's with flags wrapped to the width of the help.
func usageTemplate(cobras string) string {
	return strings.ReplaceAll(cobras, ".FlagUsages ", fmt.Sprintf(".FlagUsagesWrapped %d ", helpWidth))
}

// flagGroup is a heading of the help and the flags below it.
type flagGroup struct {
	title string
	names []string
}

// testGroups orders the flags of a test for a person.
func testGroups() []flagGroup {
	return []flagGroup{
		{"Messages", []string{"size", "sizes", "all", "connection", "atomic-type", "write-imm", "send-imm", "bidirectional", "reversed", "verify"}},
		{"Length", []string{"iters", "duration", "margin", "warmup", "runs", "rate", "gap"}},
		{"Queues", []string{
			"qp", "tx-depth", "rx-depth", "cq-mod", "post-list", "outs", "inline", "srq", "mr-per-qp", "events", "no-peak", "cpu-time", "huge-pages",
		}},
		deviceGroup(),
		peerGroup(),
		{"Output and verdict", []string{"format", "save", "quiet", "expect", "limit-bw", "limit-msgrate"}},
	}
}

func deviceGroup() flagGroup {
	return flagGroup{"Device and path", []string{
		"device", "ib-port", "gid-index", "mtu", "cpu", "sl", "tclass", "pkey", "qp-timeout", "retries", "rdma-cm", "tos",
		"fabric", "pcap",
	}}
}

func peerGroup() flagGroup {
	return flagGroup{"Other end", []string{"peer", "loopback", "port", "source", "peer-timeout", "wait", "comm-rdma-cm", "perftest-version"}}
}

// noncontigGroups orders the flags of the non-contiguous experiment.
func noncontigGroups() []flagGroup {
	return []flagGroup{
		{"Grid", []string{"shape", "blocks", "total", "nums", "strides", "layout", "strategies"}},
		{"Measuring", []string{"connection", "window", "cache", "footprint", "events", "segment", "list-bytes", "verify", "runs", "min-time", "max-time", "seed"}},
		{"Result", []string{"model", "predict", "format", "save", "resume", "quiet"}},
		deviceGroup(),
		peerGroup(),
	}
}

// qualifyGroups orders the flags of a qualification.
func qualifyGroups() []flagGroup {
	return []flagGroup{
		{"Plan", []string{"only", "scale", "runs", "list", "dry-run", "print"}},
		{"Verdict", []string{"line", "leave-out", "baseline", "within"}},
		{"Result", []string{"junit", "html", "json", "quiet"}},
		deviceGroup(),
		peerGroup(),
	}
}

// doctorGroups orders the flags of the doctor.
func doctorGroups() []flagGroup {
	return []flagGroup{{"Output", []string{"format"}}, deviceGroup(), peerGroup()}
}

// serveGroups orders the flags of the server.
func serveGroups() []flagGroup {
	return []flagGroup{
		{"Clients", []string{"listen", "port", "allow", "max-memory", "once", "perftest", "peer-timeout"}},
		deviceGroup(),
		{"Output", []string{"quiet"}},
	}
}

// groupFlags makes a command print its flags under headings; flags of no group come last.
func groupFlags(cmd *cobra.Command, groups []flagGroup) {
	cmd.SetUsageFunc(func(c *cobra.Command) error {
		w := c.OutOrStderr()
		if _, err := fmt.Fprintf(w, "Usage:\n  %s\n", c.UseLine()); err != nil {
			return err
		}
		if c.Example != "" {
			if _, err := fmt.Fprintf(w, "\nExamples:\n%s\n", c.Example); err != nil {
				return err
			}
		}
		rest := map[string]*pflag.Flag{}
		c.Flags().VisitAll(func(f *pflag.Flag) { rest[f.Name] = f })
		for _, g := range groups {
			if err := writeFlags(w, g, rest); err != nil {
				return err
			}
		}
		other := flagGroup{title: "Other"}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if rest[f.Name] != nil && !f.Hidden {
				other.names = append(other.names, f.Name)
			}
		})
		return writeFlags(w, other, rest)
	})
}

// writeFlags prints one group and takes its flags out of rest.
func writeFlags(w io.Writer, g flagGroup, rest map[string]*pflag.Flag) error {
	fs := pflag.NewFlagSet(g.title, pflag.ContinueOnError)
	fs.SortFlags = false
	for _, name := range g.names {
		if f := rest[name]; f != nil {
			shown := *f
			if shown.DefValue == "-1" {
				shown.DefValue = "0" // not shown: the text says it in better words
			}
			fs.AddFlag(&shown)
			delete(rest, name)
		}
	}
	if !fs.HasAvailableFlags() {
		return nil
	}
	_, err := fmt.Fprintf(w, "\n%s:\n%s", g.title, fs.FlagUsagesWrapped(helpWidth))
	return err
}
