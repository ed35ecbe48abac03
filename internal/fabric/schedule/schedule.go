package schedule

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/gobw/gobw/report/matrix"
	"github.com/gobw/gobw/report/plain"
)

// Flow is one host sending to another.
type Flow struct{ From, To int }

// Round is what runs at one time.
type Round struct {
	matrix.Round
	Flows []Flow
}

// NewRound makes a round in which each host receives from one at most.
func NewRound(label string, flows []Flow) Round { return Round{matrix.Round{Label: label}, flows} }

// Schedule is a list of rounds that are computed when asked for.
type Schedule struct {
	Pattern Pattern
	Rounds  int
	at      func(k int) Round
}

// At is round k, counted from 0.
func (s Schedule) At(k int) Round { return s.at(k) }

// Pattern names a way to pair hosts.
type Pattern string

// Patterns.
const (
	Pairs  Pattern = "pairs"  // everyone with everyone, one partner a round (circle method)
	Incast Pattern = "incast" // 2, 4, 8, ... hosts send to one
	Leaves Pattern = "leaves" // inside each leaf, then leaf by leaf
	Random Pattern = "random" // random matchings
)

// Patterns lists all patterns in the order of the documentation.
func Patterns() []Pattern {
	return []Pattern{Pairs, Incast, Leaves, Random}
}

// PatternText are their names for people.
func PatternText() string {
	return strings.Join(plain.Each(Patterns(), func(p Pattern) string { return string(p) }), ", ")
}

// ParsePattern reads a pattern's name.
func ParsePattern(s string) (Pattern, error) {
	if p := Pattern(s); slices.Contains(Patterns(), p) {
		return p, nil
	}
	return "", fmt.Errorf("no pattern %q%s; there are %s", s, plain.Suggest(s, Patterns()), PatternText())
}

// Options choose the rounds of a pattern. The zero value of each field works where the pattern does not need it.
type Options struct {
	Hosts  int
	Leaf   []int  // leaf of each host; nil: all hosts hang on one
	Shifts int    // leaves: how many shifts between two leaves; 0: 1
	Count  int    // random: how many matchings; 0: enough that each host has met a few
	Seed   uint64 // random
}

// New makes the schedule of a pattern.
func New(p Pattern, o Options) (Schedule, error) {
	if o.Hosts < 2 {
		return Schedule{}, fmt.Errorf("%d hosts: a fabric test needs two or more", o.Hosts)
	}
	if o.Leaf != nil && len(o.Leaf) != o.Hosts {
		return Schedule{}, fmt.Errorf("leaves of %d hosts, but there are %d", len(o.Leaf), o.Hosts)
	}
	n := o.Hosts
	switch p {
	case Pairs:
		return Schedule{Pattern: p, Rounds: n - 1 + n%2, at: func(k int) Round {
			return NewRound(fmt.Sprintf("pairs %d", k+1), bothWays(circle(n, k)))
		}}, nil
	case Incast:
		fans := fanIns(n)
		return Schedule{Pattern: p, Rounds: len(fans), at: func(k int) Round { return incast(n, fans[k]) }}, nil
	case Leaves:
		return leaves(o), nil
	case Random:
		return random(o), nil
	}
	return Schedule{}, fmt.Errorf("pattern %q is not known", p)
}

// leastPerHost is how many cells a host should have on each side: with fewer, noise cannot be told from slowness.
const leastPerHost = 8

// Repeated runs a schedule again and again where it is so short that hosts have few cells, within a number of rounds.
func (s Schedule) Repeated(rounds int) Schedule {
	each := s.Rounds
	times := min((leastPerHost+each-1)/max(each, 1), rounds/max(each, 1))
	if times <= 1 {
		return s
	}
	once := s.at
	s.Rounds *= times
	s.at = func(k int) Round {
		r := once(k % each)
		r.Label = fmt.Sprintf("%s, pass %d", r.Label, k/each+1)
		return r
	}
	return s
}

// bothWays makes two flows of each pair, one after the other.
func bothWays(pairs []Flow) []Flow {
	out := make([]Flow, 0, 2*len(pairs))
	for _, p := range pairs {
		out = append(out, p, Flow{p.To, p.From})
	}
	return out
}

// circle is round k of the circle method: host n-1 stands still, the others turn. With odd n one host is idle.
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

func ordered(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// fanIns are 1, 2, 4, 8, ... and n-1. One sender is the yardstick of the others.
func fanIns(n int) []int {
	var out []int
	for k := 1; k < n-1; k *= 2 {
		out = append(out, k)
	}
	return append(out, n-1)
}

// incast lets groups of k hosts send to one each. The receivers differ from fan-in to fan-in. Of two hosts each is both, so that every
// host's sending and receiving is seen alone once.
func incast(n, k int) Round {
	r := Round{Round: matrix.Round{FanIn: k, Label: fmt.Sprintf("incast %d:1", k)}}
	for first := 0; first+k < n; first += k + 1 {
		to := first + k/2
		for i := first; i <= first+k; i++ {
			if i != to {
				r.Flows = append(r.Flows, Flow{i, to})
			}
		}
	}
	if k == 1 {
		r.Flows = bothWays(r.Flows)
	}
	return r
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

func random(o Options) Schedule {
	all := ordered(o.Hosts)
	return Schedule{Pattern: Random, Rounds: cmp.Or(o.Count, DefaultMatchings), at: func(k int) Round {
		return NewRound(fmt.Sprintf("matching %d", k+1), Matching(all, o.Seed, uint64(k)))
	}}
}

// DefaultMatchings is how many random matchings find the suspects.
const DefaultMatchings = 6
