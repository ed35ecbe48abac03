// Package cmdline is what the command lines of all commands share: grouped help, checked arguments, values with units.
package cmdline

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gobw/gobw/report/plain"
)

// HelpWidth is what help texts keep to.
const HelpWidth = 80

// HelpTemplate is cobra's, without repeating the short text.
const HelpTemplate = `{{with (or .Long .Short)}}{{. | trimTrailingWhitespaces}}

{{end}}{{if or .Runnable .HasSubCommands}}{{.UsageString}}{{end}}`

// groupKey is the annotation of a flag that holds its heading in the help.
const groupKey = "heading"

// Group puts the flags that were bound since the last call under a heading of the help.
func Group(fs *pflag.FlagSet, heading string) {
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Annotations[groupKey] == nil {
			_ = fs.SetAnnotation(f.Name, groupKey, []string{heading}) // it fails for a flag that is not there
		}
	})
}

// setUsage makes commands print their flags under the headings, in the order in which they were bound.
func setUsage(root *cobra.Command) {
	cobras := root.UsageFunc()
	root.SetUsageFunc(func(c *cobra.Command) error {
		if c.HasAvailableSubCommands() {
			return cobras(c)
		}
		var b strings.Builder
		b.WriteString("Usage:\n  " + c.UseLine() + "\n" + plain.When(c.Example != "", "\nExamples:\n%s\n", c.Example))
		var headings []string
		groups := map[string]*pflag.FlagSet{}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			rest := "Flags"
			if len(headings) > 0 && headings[0] != rest {
				rest = "Other"
			}
			heading := append(f.Annotations[groupKey], rest)[0]
			if groups[heading] == nil {
				headings = append(headings, heading)
				groups[heading] = pflag.NewFlagSet(heading, pflag.ContinueOnError)
				groups[heading].SortFlags = false
			}
			groups[heading].AddFlag(shown(f))
		})
		for _, heading := range headings {
			if groups[heading].HasAvailableFlags() {
				b.WriteString("\n" + heading + ":\n" + groups[heading].FlagUsagesWrapped(HelpWidth))
			}
		}
		_, err := io.WriteString(c.OutOrStderr(), b.String())
		return err
	})
}

// How much of a command -h shows.
const (
	briefLines    = 24 // of a terminal
	briefExamples = 3
	briefKey      = "brief flags" // of the command's annotations
)

// Brief names the flags that -h shows, those that most people use. Without it -h shows the first ones.
func Brief(cmd *cobra.Command, names ...string) {
	cmd.Annotations = map[string]string{briefKey: strings.Join(names, " ")}
}

// SetHelp has -h print one screen of a command; --help and 'help COMMAND' print all of it, flags under their headings.
func SetHelp(root *cobra.Command) {
	setUsage(root)
	all := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		if !slices.Contains(args, "-h") {
			all(c, args)
			return
		}
		c.Print(briefHelp(c))
	})
}

// briefHelp is what a command does, three examples, and its commands or most used flags.
func briefHelp(c *cobra.Command) string {
	examples := strings.Split(c.Example, "\n")
	usage := c.UseLine()
	if c.HasAvailableSubCommands() {
		usage = c.CommandPath() + " COMMAND"
	}
	text := fmt.Sprintf("%s\n\nUsage: %s\n\n", c.Short, usage)
	if c.Example != "" {
		text += strings.Join(examples[:min(len(examples), briefExamples)], "\n") + "\n\n"
	}
	if c.HasAvailableSubCommands() {
		groups := plain.Each(append(c.Groups(), &cobra.Group{Title: "Commands:"}), func(g *cobra.Group) string {
			return plain.When(len(namesIn(c, g.ID)) > 0, "%-9s %s\n", g.Title, strings.Join(namesIn(c, g.ID), " "))
		})
		return text + strings.Join(groups, "") +
			fmt.Sprintf("\n'%s COMMAND -h' shows the flags of a command, --help all flags.\n", c.CommandPath())
	}
	wanted := strings.Fields(c.Annotations[briefKey])
	var flags []*pflag.Flag
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && (len(wanted) == 0 || slices.Contains(wanted, f.Name)) {
			flags = append(flags, f)
		}
	})
	for all := len(flags); ; flags = flags[:len(flags)-1] { // as many as there is room for
		last := fmt.Sprintf("\n'%s --help' %s.\n", c.CommandPath(),
			map[bool]string{true: "says more", false: "shows all flags"}[len(flags) == all && len(wanted) == 0])
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		fs.SortFlags = false
		for _, f := range flags {
			fs.AddFlag(shown(f))
		}
		if out := text + fs.FlagUsagesWrapped(HelpWidth) + last; strings.Count(out, "\n") <= briefLines || len(flags) == 0 {
			return out
		}
	}
}

// namesIn are the commands of a group. In RDMA "completion" is no command for shells, so the short list goes without
// it.
func namesIn(c *cobra.Command, group string) []string {
	var names []string
	for _, sub := range c.Commands() {
		if sub.GroupID == group && sub.IsAvailableCommand() && sub.Name() != "completion" {
			names = append(names, sub.Name())
		}
	}
	return names
}

// shown is the flag as the help prints it.
func shown(f *pflag.Flag) *pflag.Flag {
	out := *f
	if out.DefValue == "-1" {
		out.DefValue = "0" // not printed: the text says it in better words
	}
	if out.Value.Type() == "string" {
		out.NoOptDefVal = "" // the text names the value that may follow
	}
	if t := out.Value.Type(); strings.Contains(t, "int") || t == "float64" {
		out.Value = number{out.Value}
	}
	return &out
}

// number is the value of a flag whose help says N.
type number struct{ pflag.Value }

func (number) Type() string { return "N" }

// Hide keeps a flag out of the help.
func Hide(fs *pflag.FlagSet, name string) {
	if f := fs.Lookup(name); f != nil {
		f.Hidden = true
	}
}

// Command makes a command of its help: a line of usage, a short text, a long one, and examples. TOOL is the program's
// name.
func Command(tool, help string) *cobra.Command {
	text := strings.ReplaceAll(strings.TrimRight(help, "\n"), "TOOL", tool)
	text, examples, _ := strings.Cut(text, "\n\nExamples:\n")
	head, long, _ := strings.Cut(text, "\n\n")
	use, short, _ := strings.Cut(head, "\n")
	return &cobra.Command{Use: use, Short: short, Long: long, Example: examples}
}
