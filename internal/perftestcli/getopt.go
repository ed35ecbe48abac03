package perftestcli

import (
	"fmt"
	"strings"
)

// option is one option as getopt_long sees it.
type option struct {
	short byte   // 0: none
	long  string // empty: none
	value bool   // takes a value
	exact bool   // known by its whole name only, so that older abbreviations stay unambiguous
}

func (o option) String() string {
	switch {
	case o.short == 0:
		return "--" + o.long
	case o.long == "":
		return "-" + string(o.short)
	}
	return fmt.Sprintf("-%c (--%s)", o.short, o.long)
}

// given is one option on a command line.
type given struct {
	index int // in the list of options
	value string
}

// getopt parses a command line as glibc's getopt_long does: clusters, attached values, abbreviated long options, and
// options behind operands.
func getopt(options []option, args []string) (found []given, operands []string, err error) {
	for len(args) > 0 {
		a := args[0]
		args = args[1:]
		switch {
		case a == "--":
			return found, append(operands, args...), nil
		case strings.HasPrefix(a, "--"):
			name, value, attached := strings.Cut(a[2:], "=")
			i, err := findLong(options, name)
			if err != nil {
				return nil, nil, err
			}
			switch o := options[i]; {
			case attached && !o.value:
				return nil, nil, fmt.Errorf("option '--%s' doesn't allow an argument", o.long)
			case !attached && o.value:
				if len(args) == 0 {
					return nil, nil, fmt.Errorf("option '--%s' requires an argument", o.long)
				}
				value, args = args[0], args[1:]
			}
			found = append(found, given{i, value})
		case len(a) > 1 && a[0] == '-':
			for cluster := a[1:]; cluster != ""; {
				i := findShort(options, cluster[0])
				if i < 0 {
					return nil, nil, fmt.Errorf("invalid option -- '%c'", cluster[0])
				}
				cluster = cluster[1:]
				g := given{index: i}
				if options[i].value {
					g.value = cluster
					if cluster == "" {
						if len(args) == 0 {
							return nil, nil, fmt.Errorf("option requires an argument -- '%c'", options[i].short)
						}
						g.value, args = args[0], args[1:]
					}
					cluster = ""
				}
				found = append(found, g)
			}
		default:
			operands = append(operands, a)
		}
	}
	return found, operands, nil
}

func findShort(options []option, c byte) int {
	for i, o := range options {
		if o.short == c && c != 0 {
			return i
		}
	}
	return -1
}

// findLong finds a long option by its name or by a beginning that no other option has.
func findLong(options []option, name string) (int, error) {
	var candidates []int
	for i, o := range options {
		if o.long == name {
			return i, nil
		}
		if name != "" && !o.exact && strings.HasPrefix(o.long, name) {
			candidates = append(candidates, i)
		}
	}
	switch len(candidates) {
	case 0:
		return 0, fmt.Errorf("unrecognized option '--%s'", name)
	case 1:
		return candidates[0], nil
	}
	var names []string
	for _, i := range candidates {
		names = append(names, "'--"+options[i].long+"'")
	}
	return 0, fmt.Errorf("option '--%s' is ambiguous; possibilities: %s", name, strings.Join(names, " "))
}
