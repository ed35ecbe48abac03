package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"

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

// Schedule is a list of rounds that are computed when asked for.
type Schedule struct {
	Pattern Pattern
	Rounds  int
	At      func(k int) Round // round k, counted from 0
}

// Pattern names a way to pair hosts.
type Pattern string

// Patterns.
const (
	Pairs  Pattern = "pairs"  // everyone with everyone, one partner a round
	Incast Pattern = "incast" // 1, 2, 4, 8, ... hosts send to one
)

const (
	// leastRounds is how many rounds of pairs there are at least: with fewer a slow host cannot be told from its partners.
	leastRounds = 3
	// leastPerHost is how many cells a host should have on each side: with fewer, noise cannot be told from slowness.
	leastPerHost = 8
)

// New is the schedule of a pattern for two or more hosts. rounds says how many there is time for. Pairs keep to it, but
// have at least leastRounds; incast always has all of its rounds. While there is time, a short schedule is repeated
// until each side of a host has leastPerHost cells.
func New(p Pattern, hosts, rounds int, seed uint64) Schedule {
	s := incast(hosts)
	if p == Pairs {
		s = pairs(plain.UpTo(0, hosts), seed)
		s.Rounds = min(s.Rounds, max(rounds, leastRounds))
	}
	once := s
	times := min((leastPerHost+once.Rounds-1)/once.Rounds, rounds/once.Rounds)
	if times <= 1 {
		return once
	}
	s.Rounds *= times
	s.At = func(k int) Round {
		r := once.At(k % once.Rounds)
		r.Label = fmt.Sprintf("%s, repetition %d of %d", r.Label, k/once.Rounds+1, times)
		return r
	}
	return s
}

// pairs brings each of some hosts together with each other. Their order is random, so that the first rounds alone are
// random pairs. Otherwise neighbours, which share a switch, would have neighbours as partners.
func pairs(hosts []int, seed uint64) Schedule {
	order := slices.Clone(hosts)
	r := rand.New(rand.NewPCG(seed, 0))
	r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	n := len(order)
	return Schedule{Pairs, n - 1 + n%2, func(k int) Round {
		var flows []Flow
		for _, f := range circle(n, k) {
			flows = append(flows, Flow{order[f.From], order[f.To]}, Flow{order[f.To], order[f.From]})
		}
		return Round{matrix.Round{Label: fmt.Sprintf("pairs %d", k+1)}, flows}
	}}
}

// Matching pairs some hosts at random, both ways.
func Matching(hosts []int, seed uint64) []Flow { return pairs(hosts, seed).At(0).Flows }

// circle is round k of the circle method: host n-1 stands still, the others turn. With odd n one is idle.
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

// incast lets groups of 1, 2, 4, 8, ... and n-1 hosts send to one each. The receivers differ from fan-in to fan-in.
// The round with one sender is the yardstick of the others. In it both hosts of a pair send and receive, so that a
// host's sending and receiving is seen alone once.
func incast(n int) Schedule {
	var fans []int
	for k := 1; k < n-1; k *= 2 {
		fans = append(fans, k)
	}
	fans = append(fans, n-1)
	return Schedule{Incast, len(fans), func(k int) Round {
		fan := fans[k]
		r := Round{Round: matrix.Round{FanIn: fan, Label: fmt.Sprintf("incast %d:1", fan)}}
		for first := 0; first+fan < n; first += fan + 1 {
			to := first + fan/2
			for i := first; i <= first+fan; i++ {
				if i == to {
					continue
				}
				if r.Flows = append(r.Flows, Flow{i, to}); fan == 1 {
					r.Flows = append(r.Flows, Flow{to, i})
				}
			}
		}
		return r
	}}
}
