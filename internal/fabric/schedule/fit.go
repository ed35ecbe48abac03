package schedule

import "math"

// leastMatchings is how many random matchings a run has, however short its time is: with fewer, a slow host cannot be told
// from its partners.
const leastMatchings = 3

// Fit is the schedule of a pattern that uses a number of rounds. Without a pattern it tests most: every pair if that fits, else
// leaf by leaf, else random matchings. A pattern that was asked for may take more rounds; a short one is repeated.
func Fit(p Pattern, o Options, rounds int) (Schedule, error) {
	switch p {
	case "":
		s, err := New(Pairs, o)
		if err != nil || s.Rounds <= rounds {
			return s.Repeated(rounds), err
		}
		if s = shifts(o, rounds); o.Leaf != nil && len(o.leafGroups()) > 1 && s.Rounds <= rounds {
			return s.Repeated(rounds), nil
		}
		p = Random
		// A host meets a slow one in few of its matchings: their number grows with the logarithm of the hosts.
		o.Count = min(max(rounds, leastMatchings), max(DefaultMatchings, int(math.Ceil(math.Log2(float64(o.Hosts))))+DefaultMatchings))
	case Leaves:
		s, err := New(p, o)
		if err == nil {
			s = shifts(o, rounds).Repeated(rounds)
		}
		return s, err
	case Random:
		o.Count = max(min(rounds, o.Hosts), leastMatchings)
	case Pairs, Incast: // as they are
	}
	s, err := New(p, o)
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
