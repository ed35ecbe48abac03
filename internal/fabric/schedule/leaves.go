package schedule

import (
	"cmp"
	"fmt"
	"slices"
)

// leafGroups are the hosts by leaf, in the order of the leaves' numbers.
func (o Options) leafGroups() [][]int {
	if o.Leaf == nil {
		return [][]int{ordered(o.Hosts)}
	}
	groups := map[int][]int{}
	for host, leaf := range o.Leaf {
		groups[leaf] = append(groups[leaf], host)
	}
	out := make([][]int, 0, len(groups))
	for _, g := range groups {
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b []int) int { return cmp.Compare(o.Leaf[a[0]], o.Leaf[b[0]]) })
	return out
}

// leaves tests the hosts inside all leaves at once, then all pairs of leaves by the circle method: host i of one with host
// i+s of the other, for a few shifts s.
func leaves(o Options) Schedule {
	groups := o.leafGroups()
	largest := 0
	for _, g := range groups {
		largest = max(largest, len(g))
	}
	inside := 0
	if largest > 1 {
		inside = largest - 1 + largest%2
	}
	between := 0
	if len(groups) > 1 {
		between = len(groups) - 1 + len(groups)%2
	}
	shifts := min(max(o.Shifts, 1), largest)
	return Schedule{
		Pattern: Leaves, Rounds: inside + between*shifts,
		at: func(k int) Round {
			if k < inside {
				return insideLeaves(groups, k)
			}
			k -= inside
			return betweenLeaves(groups, k%between, k/between)
		},
	}
}

func insideLeaves(groups [][]int, k int) Round {
	var pairs []Flow
	for _, g := range groups {
		if k < len(g)-1+len(g)%2 {
			for _, f := range circle(len(g), k) {
				pairs = append(pairs, Flow{g[f.From], g[f.To]})
			}
		}
	}
	return NewRound(fmt.Sprintf("inside leaves %d", k+1), bothWays(pairs))
}

func betweenLeaves(groups [][]int, k, shift int) Round {
	var pairs []Flow
	for _, f := range circle(len(groups), k) {
		a, b := groups[f.From], groups[f.To]
		wide := max(len(a), len(b))
		for i := range wide {
			if j := (i + shift) % wide; shift < wide && i < len(a) && j < len(b) { // by as many shifts these two have met in all ways
				pairs = append(pairs, Flow{a[i], b[j]})
			}
		}
	}
	return NewRound(fmt.Sprintf("between leaves %d, shift %d", k+1, shift), bothWays(pairs))
}
