package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/gobw/gobw/report/matrix"
	"github.com/gobw/gobw/report/plain"
)

// turns is how many rounds the circle method takes to bring each of n together with each other. With odd n one is idle.
func turns(n int) int {
	if n < 2 {
		return 0
	}
	return n - 1 + n%2
}

// circle is round k of the circle method: host n-1 stands still, the others turn.
func circle(n, k int) []Flow {
	even := n + n%2
	out := make([]Flow, 0, n/2)
	for i := range even {
		j := 0
		switch i {
		case even - 1:
			j = k
		case k:
			j = even - 1
		default:
			j = ((2*k-i)%(even-1) + even - 1) % (even - 1)
		}
		if i < j && j < n {
			out = append(out, Flow{i, j})
		}
	}
	return out
}

// bothWays makes two flows of each pair, one after the other.
func bothWays(pairs []Flow) []Flow {
	out := make([]Flow, 0, 2*len(pairs))
	for _, p := range pairs {
		out = append(out, p, Flow{p.To, p.From})
	}
	return out
}

// leaves are the hosts by leaf, in the order of the leaves' numbers.
func (o Options) leaves() [][]int {
	if o.Leaf == nil {
		return [][]int{plain.UpTo(0, o.Hosts)}
	}
	var out [][]int
	for host, leaf := range o.Leaf {
		for leaf >= len(out) {
			out = append(out, nil)
		}
		out[leaf] = append(out[leaf], host)
	}
	return slices.DeleteFunc(out, func(hosts []int) bool { return len(hosts) == 0 })
}

func largest(groups [][]int) int {
	n := 0
	for _, g := range groups {
		n = max(n, len(g))
	}
	return n
}

// inside tests the hosts of each group among themselves, in all groups at once.
func inside(label string, groups [][]int) phase {
	return phase{turns(largest(groups)), func(k int) Round {
		var pairs []Flow
		for _, g := range groups {
			if k < turns(len(g)) {
				for _, f := range circle(len(g), k) {
					pairs = append(pairs, Flow{g[f.From], g[f.To]})
				}
			}
		}
		return NewRound(fmt.Sprintf("%s %d", label, k+1), bothWays(pairs))
	}}
}

// between tests all pairs of groups: host i of one with host i+shift of the other.
func between(groups [][]int, shift int) phase {
	return phase{turns(len(groups)), func(k int) Round {
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
	}}
}

// incast lets groups of 1, 2, 4, 8, ... and n-1 hosts send to one each; one sender is the yardstick of the others. The receivers
// differ from fan-in to fan-in. Of two hosts each is both, so that every host's sending and receiving is seen alone once.
func incast(n int) phase {
	var fans []int
	for k := 1; k < n-1; k *= 2 {
		fans = append(fans, k)
	}
	fans = append(fans, n-1)
	return phase{len(fans), func(k int) Round {
		fan := fans[k]
		r := Round{Round: matrix.Round{FanIn: fan, Label: fmt.Sprintf("incast %d:1", fan)}}
		for first := 0; first+fan < n; first += fan + 1 {
			to := first + fan/2
			for i := first; i <= first+fan; i++ {
				if i != to {
					r.Flows = append(r.Flows, Flow{i, to})
				}
			}
		}
		if fan == 1 {
			r.Flows = bothWays(r.Flows)
		}
		return r
	}}
}

func matchings(n, count int, seed uint64) phase {
	all := plain.UpTo(0, n)
	return phase{count, func(k int) Round {
		return NewRound(fmt.Sprintf("matching %d", k+1), Matching(all, seed, uint64(k)))
	}}
}

// Matching is one random matching of some hosts, both ways.
func Matching(hosts []int, seed, stream uint64) []Flow {
	order := slices.Clone(hosts)
	r := rand.New(rand.NewPCG(seed, stream))
	r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	half := len(order) / 2
	pairs := make([]Flow, half)
	for i := range pairs {
		pairs[i] = Flow{order[i], order[i+half]}
	}
	return bothWays(pairs)
}
