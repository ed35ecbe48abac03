package search

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// Dimension is one setting of a test.
type Dimension struct {
	Name   string   `json:"name"`
	Values []int    `json:"values"`          // that a search tries, the smallest setting first
	Words  []string `json:"words,omitempty"` // of a setting that has names: value v is Words[v]
	Base   int      `json:"base"`            // where a search starts
	Fine   bool     `json:"fine,omitempty"`  // values between two of Values exist, too: an edge is told exactly
	// AnyCost tells that any value may be slower than others, as an operation may. Else a
	// smaller one may, and a larger one may not.
	AnyCost bool `json:"any_cost,omitempty"`
}

// Word is a value as a person writes it.
func (d *Dimension) Word(v int) string {
	switch {
	case d.Words != nil:
		return d.Words[v]
	case v < 0:
		return "default"
	}
	return strconv.Itoa(v)
}

// near is the index of the largest of the values that is not above v; 0 where all are.
func (d *Dimension) near(v int) int {
	i, found := slices.BinarySearch(d.Values, v)
	if !found && i > 0 {
		i--
	}
	return i
}

func (d *Dimension) low() int  { return d.Values[0] }
func (d *Dimension) high() int { return d.Values[len(d.Values)-1] }

// Point is a value for each dimension of a space.
type Point []int

// with is the point with one value changed.
func (p Point) with(d, v int) Point {
	q := slices.Clone(p)
	q[d] = v
	return q
}

// Space is what a search may try.
type Space struct {
	Dimensions []Dimension
	Size       int // the dimension that is the bytes of a message; -1: none
	// Repair makes a point that breaks a rule one that does not. The dimension keep stays as it is where it can; -1: none.
	Repair func(p Point, keep int) Point
}

// Base is the point where a search starts.
func (s *Space) Base() Point {
	p := make(Point, len(s.Dimensions))
	for d := range p {
		p[d] = s.Dimensions[d].Base
	}
	return s.repaired(p)
}

// Index is the dimension of this name; -1: there is none.
func (s *Space) Index(name string) int {
	return slices.IndexFunc(s.Dimensions, func(d Dimension) bool { return d.Name == name })
}

// Text writes a point's values that differ from another's.
func (s *Space) Text(p, from Point) string {
	var words []string
	for d, v := range p {
		if from == nil || v != from[d] {
			words = append(words, s.Dimensions[d].Name+" "+s.Dimensions[d].Word(v))
		}
	}
	return strings.Join(words, ", ")
}

func (s *Space) repaired(p Point) Point { return s.Repair(slices.Clone(p), -1) }

// Moved is the point with one value changed, and whatever that value needs.
func (s *Space) Moved(p Point, d, v int) Point { return s.Repair(p.with(d, v), d) }

// random draws a point. Causes lie at ends more often than between them, so a value is an end twice in three times.
// Half of the points keep half of the base's values: where all is slow a further cause is hard to see.
func (s *Space) random(r *rand.Rand) Point {
	p := s.Base()
	sparse := r.IntN(2) == 0
	for d := range p {
		if !sparse || r.IntN(2) == 0 {
			p[d] = s.Dimensions[d].draw(r)
		}
	}
	return s.repaired(p)
}

func (d *Dimension) draw(r *rand.Rand) int {
	if d.Words == nil && !d.Fine {
		switch r.IntN(3) {
		case 0:
			return d.low()
		case 1:
			return d.high()
		}
	}
	return d.Values[r.IntN(len(d.Values))]
}

// Condition is what a rule says of one dimension: an interval, or some of its words.
type Condition struct {
	Dimension string   `json:"dimension"`
	Low       *int     `json:"low,omitempty"` // at least; nil: any
	High      *int     `json:"high,omitempty"`
	Words     []string `json:"words,omitempty"`
}

// String is the condition in words: "post-list >= 32".
func (c Condition) String() string {
	switch {
	case c.Words != nil:
		return c.Dimension + " " + strings.Join(c.Words, " or ")
	case c.Low != nil && c.High != nil && *c.Low == *c.High:
		return fmt.Sprintf("%s %d", c.Dimension, *c.Low)
	case c.Low != nil && c.High != nil:
		return fmt.Sprintf("%s %d to %d", c.Dimension, *c.Low, *c.High)
	case c.Low != nil:
		return fmt.Sprintf("%s >= %d", c.Dimension, *c.Low)
	case c.High != nil:
		return fmt.Sprintf("%s <= %d", c.Dimension, *c.High)
	}
	return c.Dimension + " any"
}

// Rule is a minimal set: all of it is needed.
type Rule []Condition

// String is the rule in words.
func (r Rule) String() string {
	words := make([]string, len(r))
	for i, c := range r {
		words[i] = c.String()
	}
	return strings.Join(words, " and ")
}

// Holds tells whether a point fulfils the rule.
func (r Rule) Holds(s *Space, p Point) bool {
	for _, c := range r {
		i := s.Index(c.Dimension)
		if i < 0 {
			return false
		}
		v := p[i]
		if c.Low != nil && v < *c.Low || c.High != nil && v > *c.High ||
			c.Words != nil && !slices.Contains(c.Words, s.Dimensions[i].Word(v)) {
			return false
		}
	}
	return true
}
