package flags

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gobw/gobw/report/plain"
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

// given is one option on a command line.
type given struct {
	*perftestFlag
	text string // its value
}

// getopt parses a command line as glibc's getopt_long does: clusters, attached values, abbreviated long options, and
// options behind operands.
func getopt(table []perftestFlag, args []string) (found []given, operands []string, err error) {
	for len(args) > 0 {
		a := args[0]
		args = args[1:]
		switch {
		case a == "--":
			return found, append(operands, args...), nil
		case strings.HasPrefix(a, "--"):
			name, value, attached := strings.Cut(a[2:], "=")
			f, err := findLong(table, name)
			switch {
			case err != nil:
				return nil, nil, err
			case attached && !f.value:
				return nil, nil, fmt.Errorf("option '--%s' doesn't allow an argument", f.long)
			case !attached && f.value:
				if len(args) == 0 {
					return nil, nil, fmt.Errorf("option '--%s' requires an argument", f.long)
				}
				value, args = args[0], args[1:]
			}
			found = append(found, given{f, value})
		case len(a) > 1 && a[0] == '-':
			for cluster := a[1:]; cluster != ""; {
				i := slices.IndexFunc(table, func(f perftestFlag) bool { return f.short == cluster[0] })
				if i < 0 {
					return nil, nil, fmt.Errorf("invalid option -- '%c'", cluster[0])
				}
				g := given{perftestFlag: &table[i]}
				if cluster = cluster[1:]; g.value {
					if cluster == "" {
						if len(args) == 0 {
							return nil, nil, fmt.Errorf("option requires an argument -- '%c'", g.short)
						}
						cluster, args = args[0], args[1:]
					}
					g.text, cluster = cluster, ""
				}
				found = append(found, g)
			}
		default:
			operands = append(operands, a)
		}
	}
	return found, operands, nil
}

// findLong finds a long option by its name or by a beginning that no other option has.
func findLong(table []perftestFlag, name string) (*perftestFlag, error) {
	var candidates []int
	for i, f := range table {
		if f.long == name {
			return &table[i], nil
		}
		if name != "" && !f.exact && strings.HasPrefix(f.long, name) {
			candidates = append(candidates, i)
		}
	}
	switch len(candidates) {
	case 0:
		return nil, fmt.Errorf("unrecognized option '--%s'", name)
	case 1:
		return &table[candidates[0]], nil
	}
	names := plain.Each(candidates, func(i int) string { return "'--" + table[i].long + "'" })
	return nil, fmt.Errorf("option '--%s' is ambiguous; possibilities: %s", name, strings.Join(names, " "))
}
