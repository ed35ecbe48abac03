package cmdline

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report/plain"
)

// quoted tells a line in quotes that begins with a flag.
func quoted(err error) bool {
	e, is := errors.AsType[*pflag.NotExistError](err)
	return is && strings.Contains(e.GetSpecifiedName()+e.GetSpecifiedShortnames(), " ")
}

// FlagError words a refused flag, with the nearest right one.
func FlagError(c *cobra.Command, err error) error {
	text := err.Error()
	unknown := func(flag string) string {
		if strings.Contains(c.Use, " '") && testWith(c, strings.TrimLeft(flag, "-"), plan.Operations()...) != nil {
			// those before the flag
			test := append([]string{"write" + plain.When(flag != "--loopback", " HOST")}, c.Flags().Args()...)
			if len(test) > 1 && !strings.Contains(test[len(test)-1], " ") {
				test = []string{strings.Join(test[1:], " ")}
			}
			advice := "put the test and its flags in quotes, the test first"
			if quoted(err) {
				advice = "begin the test with its operation"
			}
			return fmt.Sprintf("; %s: %s '%s %s ...'", advice, c.CommandPath(), test[len(test)-1], flag)
		}
		return fmt.Sprintf("; '%s --help' lists all", c.CommandPath())
	}
	switch e := err.(type) { //nolint:errorlint // as pflag has made it
	case *pflag.NotExistError:
		name, _, _ := strings.Cut(e.GetSpecifiedName(), " ") // of a quoted line
		if e.GetSpecifiedShortnames() != "" {
			text += cmp.Or(perftestFlag(c, name), synonym(c, name), unknown("-"+name))
			break
		}
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		})
		if hint := cmp.Or(perftestFlag(c, name), synonym(c, name)); hint != "" {
			text += hint
		} else if near := plain.Nearest(name, names); near != "" {
			text += fmt.Sprintf("; did you mean --%s?", near)
		} else if near := plain.Nearest(name, plain.Each(c.Commands(), (*cobra.Command).Name)); near != "" {
			text += fmt.Sprintf("; did you mean '%s %s'?", c.CommandPath(), near)
		} else {
			text += unknown("--" + name)
		}
	case *pflag.InvalidValueError:
		f := e.GetFlag()
		text = fmt.Sprintf("%s--%s %q: %s", plain.When(f.Shorthand != "", "-%s, ", f.Shorthand), f.Name, e.GetValue(),
			badNumber(e.Unwrap().Error()))
	case *pflag.ValueRequiredError:
		_, usage := pflag.UnquoteUsage(e.GetFlag())
		text = fmt.Sprintf("--%s needs a value: %s", e.GetFlag().Name, usage)
	}
	return exit.With(exit.Usage, errors.New(text))
}

// badNumber says what a flag wants, in place of the Go function that refused its value.
func badNumber(reason string) string {
	switch {
	case strings.HasSuffix(reason, "value out of range"):
		return "the number is too large"
	case strings.HasPrefix(reason, "strconv.ParseFloat"):
		return "want a number, such as 2.5"
	case strings.HasPrefix(reason, "strconv.ParseUint"):
		return "want a whole number, 0 or more"
	case strings.HasPrefix(reason, "strconv.ParseInt"):
		return "want a whole number"
	case strings.HasPrefix(reason, "strconv.ParseBool"):
		return "want true or false, or the flag alone"
	}
	return reason
}

// Explain words the error of a command line, so that it says what to type instead. command is the one that has refused
// it.
func Explain(root, command *cobra.Command, args []string, err error) error {
	var word, program string
	if n, _ := fmt.Sscanf(fmt.Sprint(err), "unknown command %q for %q", &word, &program); n == 2 {
		err = exit.With(exit.Usage, unknownCommand(root, word))
	}
	code := exit.Code(err)
	if code != exit.Usage && code != exit.Setup {
		return err
	}
	if line := withoutCommand(root, args); line != "" && command == root && code == exit.Usage {
		err = exit.With(code, errors.New(line))
	}
	if meant := SingleDash(command.Flags(), args); meant != nil {
		err = meant
	}
	if word := typography(args); word != "" {
		err = exit.With(exit.Usage, errors.New(word))
	}
	return err
}

// SingleDash names the flag that a word with one dash is meant as; nil where none is.
func SingleDash(fs *pflag.FlagSet, words []string) error {
	for _, word := range words {
		name, _, _ := strings.Cut(strings.TrimPrefix(word, "-"), "=")
		if meant := fs.Lookup(name); strings.HasPrefix(word, "-") && len(name) > 1 && meant != nil {
			return exit.With(exit.Usage, fmt.Errorf("unknown flag: %s; did you mean --%s?", word, meant.Name))
		}
	}
	return nil
}

// NoArguments refuses words that are no flags.
func NoArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return exit.With(exit.Usage,
			fmt.Errorf("%q: '%s' takes flags only; '%s --help' lists them", args[0], cmd.CommandPath(), cmd.CommandPath()))
	}
	return nil
}

// ArgumentCount refuses another number of words than low to high.
func ArgumentCount(low, high int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < low || len(args) > high {
			return exit.With(exit.Usage, fmt.Errorf("%s wants %s; '%s -h' has examples", cmd.Name(), what, cmd.CommandPath()))
		}
		return nil
	}
}

// help explains a command, or else a word of the glossary.
func help(root, c *cobra.Command, args []string) error {
	topic, rest, err := root.Find(args)
	if err == nil && len(rest) == 0 {
		return topic.Help()
	}
	if text := explain(args); text != "" {
		c.Print(text)
		return nil
	}
	near := plain.Suggest(args[0], plain.Each(root.Commands(), (*cobra.Command).Name))
	return exit.With(exit.Usage, fmt.Errorf("%q is no command%s: '%s --help' lists all, and 'help SGE' explains a word: "+
		"docs/glossary.md has them", strings.Join(args, " "), near, root.Name()))
}

// RefuseUnknownWords makes cobra's own commands (help, completion) fail on a word they do not know, where they would
// print their help and exit with status 0.
func RefuseUnknownWords(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Run = nil
			c.Use, c.Short = "help [COMMAND or TERM]", "Explain a command, or a word of RDMA"
			c.Long = c.Short + ", such as SGE, UD, stride or GSSR."
			c.Example = "  " + root.Name() + " help write\n  " + root.Name() + " help GSSR"
			c.RunE = func(c *cobra.Command, args []string) error { return help(root, c, args) }
		case "completion":
			c.Args = cobra.ArbitraryArgs
			c.Use, c.Short = "completion SHELL", "Print a script that completes commands and flags"
			c.Example = fmt.Sprintf("  source <(%s completion bash)   # or fish, powershell, zsh", root.Name())
			c.RunE = func(c *cobra.Command, args []string) error {
				return exit.With(exit.Usage,
					fmt.Errorf("no completion for %q: there are bash, fish, powershell and zsh", strings.Join(args, " ")))
			}
		}
	}
}
