package schedule

import "math"

// leastMatchings is how many random matchings a run has, however short its time is: with fewer, a slow host cannot be told
// from its partners.
const leastMatchings = 3

// Choose picks the pattern that tests most within a number of rounds: every pair if that fits, else leaf by leaf with as
// many shifts as fit, else random matchings.
func Choose(o Options, rounds int) (Schedule, error) {
	s, err := New(Pairs, o)
	if err != nil || s.Rounds <= rounds {
		return s, err
	}
	if o.Leaf != nil && len(o.leafGroups()) > 1 {
		o.Shifts = 1
		one, err := New(Leaves, o)
		if err != nil {
			return one, err
		}
		o.Shifts = 2
		two, err := New(Leaves, o)
		if err != nil {
			return two, err
		}
		if one.Rounds <= rounds {
			o.Shifts = 1
			if per := two.Rounds - one.Rounds; per > 0 {
				o.Shifts += (rounds - one.Rounds) / per
			}
			return New(Leaves, o)
		}
	}
	// A host meets a slow one in few of its matchings: their number grows with the logarithm of the hosts.
	o.Count = min(max(rounds, leastMatchings), max(DefaultMatchings, int(math.Ceil(math.Log2(float64(o.Hosts))))+DefaultMatchings))
	if o.OneWay {
		o.Count = max(o.Count/2, leastMatchings)
	}
	return New(Random, o)
}
