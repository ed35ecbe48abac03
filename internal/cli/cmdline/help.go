// Package cmdline is what the command lines of all commands share: grouped help, checked arguments, values with units.
package cmdline

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// HelpWidth is what help texts keep to.
const HelpWidth = 80

// HelpTemplate is cobra's, without repeating the short text.
const HelpTemplate = `{{with (or .Long .Short)}}{{. | trimTrailingWhitespaces}}

{{end}}{{if or .Runnable .HasSubCommands}}{{.UsageString}}{{end}}`

// UsageTemplate is cobra's with flags wrapped to the width of the help.
func UsageTemplate(cobras string) string {
	return strings.ReplaceAll(cobras, ".FlagUsages ", fmt.Sprintf(".FlagUsagesWrapped %d ", HelpWidth))
}

// FlagGroup is a heading of the help and the flags below it.
type FlagGroup struct {
	Title string
	Names []string
}

// GroupFlags makes a command print its flags under headings; flags of no group come last.
func GroupFlags(cmd *cobra.Command, groups []FlagGroup) {
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
		other := FlagGroup{Title: "Other"}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if rest[f.Name] != nil && !f.Hidden {
				other.Names = append(other.Names, f.Name)
			}
		})
		return writeFlags(w, other, rest)
	})
}

// writeFlags prints one group and takes its flags out of rest.
func writeFlags(w io.Writer, g FlagGroup, rest map[string]*pflag.Flag) error {
	fs := pflag.NewFlagSet(g.Title, pflag.ContinueOnError)
	fs.SortFlags = false
	for _, name := range g.Names {
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
	_, err := fmt.Fprintf(w, "\n%s:\n%s", g.Title, fs.FlagUsagesWrapped(HelpWidth))
	return err
}

// Hide keeps a flag out of the help.
func Hide(fs *pflag.FlagSet, name string) {
	if f := fs.Lookup(name); f != nil {
		f.Hidden = true
	}
}
