package matrix

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Fold writes host names as Slurm's lists do: "node[1-3,7],login". Names that are not of letters, digits, dots and dashes
// are left out: the list is pasted into commands.
func Fold(hosts []string) string {
	type group struct {
		prefix  string
		numbers []string
	}
	var groups []group
	for _, h := range slices.Sorted(slices.Values(hosts)) {
		if !Pasteable(h) {
			continue
		}
		i := len(h)
		for i > 0 && h[i-1] >= '0' && h[i-1] <= '9' && len(h)-i < 15 {
			i--
		}
		prefix, digits := h[:i], h[i:]
		at := slices.IndexFunc(groups, func(g group) bool { return g.prefix == prefix && digits != "" && g.numbers[0] != "" })
		if at < 0 {
			groups = append(groups, group{prefix, []string{digits}})
		} else if !slices.Contains(groups[at].numbers, digits) {
			groups[at].numbers = append(groups[at].numbers, digits)
		}
	}
	words := make([]string, 0, len(groups))
	for _, g := range groups {
		if len(g.numbers) == 1 {
			words = append(words, g.prefix+g.numbers[0])
			continue
		}
		words = append(words, g.prefix+"["+ranges(g.numbers)+"]")
	}
	return strings.Join(words, ",")
}

// Pasteable tells whether a name can stand in a command: letters, digits, dots and dashes, and no option.
func Pasteable(name string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	return name != "" && name[0] != '-' && strings.Trim(name, letters) == ""
}

func ranges(numbers []string) string {
	slices.SortFunc(numbers, func(a, b string) int {
		x, _ := strconv.Atoi(a)
		y, _ := strconv.Atoi(b)
		if x != y {
			return x - y
		}
		return len(a) - len(b)
	})
	var parts []string
	for i := 0; i < len(numbers); {
		first, last := numbers[i], numbers[i]
		for i++; i < len(numbers); i++ {
			n, _ := strconv.Atoi(last)
			if numbers[i] != fmt.Sprintf("%0*d", len(first), n+1) {
				break
			}
			last = numbers[i]
		}
		if first == last {
			parts = append(parts, first)
		} else {
			parts = append(parts, first+"-"+last)
		}
	}
	return strings.Join(parts, ",")
}
