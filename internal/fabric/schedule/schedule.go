package schedule

import (
	"cmp"
	"fmt"
	"math"
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
	phases  []phase
}

// phase is rounds of one kind.
type phase struct {
	rounds int
	at     func(k int) Round
}

func of(p Pattern, phases ...phase) Schedule {
	s := Schedule{Pattern: p, phases: phases}
	for _, f := range phases {
		s.Rounds += f.rounds
	}
	return s
}

// At is round k, counted from 0.
func (s Schedule) At(k int) Round {
	i := 0
	for ; k >= s.phases[i].rounds; i++ {
		k -= s.phases[i].rounds
	}
	return s.phases[i].at(k)
}

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
	return "", fmt.Errorf("no pattern %q%s", s, plain.Choices(s, Patterns()))
}

// Options choose the rounds of a pattern. The zero value of each field works where the pattern does not need it.
type Options struct {
	Hosts  int
	Leaf   []int  // leaf of each host; nil: all hosts hang on one
	Shifts int    // leaves: how many shifts between two leaves; 0: 1
	Count  int    // random: how many matchings; 0: enough that each host has met a few
	Seed   uint64 // random
}

// Matchings of a run: so many find the suspects, and with fewer than the least a slow host cannot be told from its partners.
const (
	defaultMatchings = 6
	leastMatchings   = 3
)

// New makes the schedule of a pattern.
func New(p Pattern, o Options) (Schedule, error) {
	if o.Hosts < 2 {
		return Schedule{}, fmt.Errorf("%d hosts: a fabric test needs two or more", o.Hosts)
	}
	if o.Leaf != nil && len(o.Leaf) != o.Hosts {
		return Schedule{}, fmt.Errorf("leaves of %d hosts, but there are %d", len(o.Leaf), o.Hosts)
	}
	switch p {
	case Pairs:
		return of(p, inside("pairs", [][]int{plain.UpTo(0, o.Hosts)})), nil
	case Incast:
		return of(p, incast(o.Hosts)), nil
	case Leaves:
		groups := o.leaves()
		phases := []phase{inside("inside leaves", groups)}
		for shift := range min(max(o.Shifts, 1), largest(groups)) {
			phases = append(phases, between(groups, shift))
		}
		return of(p, phases...), nil
	case Random:
		return of(p, matchings(o.Hosts, cmp.Or(o.Count, defaultMatchings), o.Seed)), nil
	}
	return Schedule{}, fmt.Errorf("pattern %q is not known", p)
}

// Fit is the schedule of a pattern that uses a number of rounds. Without a pattern it tests most: every pair if that fits, else
// leaf by leaf, else random matchings. A pattern that was asked for may take more rounds; a short one is repeated.
func Fit(p Pattern, o Options, rounds int) (Schedule, error) {
	groups := o.leaves()
	o.Shifts = (rounds - turns(largest(groups))) / max(turns(len(groups)), 1) // as many as fit
	o.Count = max(min(rounds, o.Hosts), leastMatchings)
	if p == "" {
		for _, p := range []Pattern{Pairs, Leaves} {
			s, err := New(p, o)
			if err != nil || s.Rounds <= rounds && (p == Pairs || len(groups) > 1) {
				return s.Repeated(rounds), err
			}
		}
		p = Random
		// A host meets a slow one in few of its matchings: their number grows with the logarithm of the hosts.
		o.Count = min(max(rounds, leastMatchings), int(math.Ceil(math.Log2(float64(o.Hosts))))+defaultMatchings)
	}
	s, err := New(p, o)
	return s.Repeated(rounds), err
}

// leastPerHost is how many cells a host should have on each side: with fewer, noise cannot be told from slowness.
const leastPerHost = 8

// Repeated runs a schedule again and again where it is so short that hosts have few cells, within a number of rounds.
func (s Schedule) Repeated(rounds int) Schedule {
	each := max(s.Rounds, 1)
	times := min((leastPerHost+each-1)/each, rounds/each)
	if times <= 1 {
		return s
	}
	return of(s.Pattern, phase{times * each, func(k int) Round {
		r := s.At(k % each)
		r.Label = fmt.Sprintf("%s, pass %d", r.Label, k/each+1)
		return r
	}})
}
