package fabric

// numberLeaves gives each leaf a number in the order of first appearance, and the names by number. Hosts without a leaf share
// number 0 and the name "" where all lack one; where only some do, each of those is a leaf of its own.
func numberLeaves(leaf []string) (numbers []int, names []string) {
	known := map[string]int{}
	any := false
	for _, l := range leaf {
		any = any || l != ""
	}
	numbers = make([]int, len(leaf))
	for i, l := range leaf {
		n, seen := known[l]
		if !seen || l == "" && any {
			n = len(names)
			names = append(names, l)
			known[l] = n
		}
		numbers[i] = n
	}
	return numbers, names
}
