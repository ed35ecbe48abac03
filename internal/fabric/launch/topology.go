package launch

import "slices"

// NumberLeaves gives each leaf a number in the order of first appearance, and the names by number. Hosts without a leaf
// share number 0 and the name "" where all lack one; where only some do, each of those is a leaf of its own.
func NumberLeaves(leaf []string) (numbers []int, names []string) {
	some := slices.ContainsFunc(leaf, func(l string) bool { return l != "" })
	for _, l := range leaf {
		n := slices.Index(names, l)
		if n < 0 || l == "" && some {
			n = len(names)
			names = append(names, l)
		}
		numbers = append(numbers, n)
	}
	return numbers, names
}
