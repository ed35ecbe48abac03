package perftestcli

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

func (f perftestFlag) String() string {
	if f.short == 0 {
		return "--" + f.long
	}
	return fmt.Sprintf("-%c (--%s)", f.short, f.long)
}

// briefly is the letter, or the name where there is none.
func (f perftestFlag) briefly() string {
	if f.short == 0 {
		return "--" + f.long
	}
	return "-" + string(f.short)
}

// getopt parses a command line nearly as glibc's getopt_long does: clusters, attached values, abbreviated long options, and options behind
// operands. apply is called with each option.
func getopt(table []perftestFlag, args []string, apply func(*perftestFlag, string) error) (operands []string, err error) {
	var ambiguous error
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	fs.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		whole, err := wholeName(table, name)
		ambiguous = cmp.Or(ambiguous, err)
		return pflag.NormalizedName(whole)
	})
	for i := range table {
		f := &table[i]
		letter := strings.TrimRight(string(f.short), "\x00")
		if f.value {
			fs.FuncP(f.long, letter, "", func(value string) error { return apply(f, value) })
			continue
		}
		fs.BoolFuncP(f.long, letter, "", func(value string) error {
			if value != "true" { // what stands behind an equals sign
				return errors.New("it takes no value")
			}
			return apply(f, "")
		})
	}
	err = fs.Parse(args)
	return fs.Args(), cmp.Or(ambiguous, err)
}

// wholeName finds a long option by a beginning that no other option has. A name that is none stays as it is.
func wholeName(table []perftestFlag, name string) (string, error) {
	var candidates []string
	for _, f := range table {
		if f.long == name {
			return name, nil
		}
		if name != "" && !f.exact && strings.HasPrefix(f.long, name) {
			candidates = append(candidates, f.long)
		}
	}
	switch len(candidates) {
	case 0:
		return name, nil
	case 1:
		return candidates[0], nil
	}
	return name, fmt.Errorf("option '--%s' is ambiguous; possibilities: '--%s'", name, strings.Join(candidates, "' '--"))
}
