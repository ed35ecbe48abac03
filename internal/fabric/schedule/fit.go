package schedule

import "math"

// leastMatchings is how many random matchings a run has, however short its time is: with fewer, a slow host cannot be told
// from its partners.
const leastMatchings = 3

// Fit is the schedule that tests most in a number of rounds: every pair if that fits, else leaf by leaf, else random matchings. A
// short one is repeated.
func Fit(o Options, rounds int) (Schedule, error) {
	s, err := New(Pairs, o)
	if err == nil && s.Rounds > rounds {
		if s = shifts(o, rounds); o.Leaf == nil || len(o.leafGroups()) < 2 || s.Rounds > rounds {
			// A host meets a slow one in few of its matchings: their number grows with the logarithm of the hosts.
			o.Count = min(max(rounds, leastMatchings), max(DefaultMatchings, int(math.Ceil(math.Log2(float64(o.Hosts))))+DefaultMatchings))
			s, err = New(Random, o)
		}
	}
	return s.Repeated(rounds), err
}

// shifts goes leaf by leaf, with as many shifts as fit; at least one.
func shifts(o Options, rounds int) Schedule {
	o.Shifts = 1
	one := leaves(o)
	o.Shifts = 2
	o.Shifts = 1 + (rounds-one.Rounds)/max(leaves(o).Rounds-one.Rounds, 1)
	return leaves(o)
}
