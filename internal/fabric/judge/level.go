package judge

import (
	"math"
	"slices"

	"github.com/gobw/gobw/report/matrix"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

// levels are the medians that cells are measured against.
type levels struct {
	cfg   *Config
	of    map[Class]curve
	sigma float64 // of one cell's logarithm, from the good half
	round map[roundRail]float64
}

// Class is what cells must share to be compared: the rail, whether they cross a trunk, and how many send to one.
type Class struct {
	Rail  uint8
	Trunk bool
	FanIn int
}

type roundRail struct {
	round uint16
	rail  uint8
}

// enoughForRound is how many good cells a round needs to have a level of its own.
const enoughForRound = 16

// leastSigma is the noise below which none is believed: clocks and rounding.
const leastSigma = 0.002

func (c *Config) classOf(x Cell) Class {
	r := c.rounds[x.Round]
	k := Class{Rail: x.Rail, Trunk: c.Leaf[x.From] != c.Leaf[x.To], FanIn: r.FanIn}
	if k.FanIn == 1 { // as a re-test: one host alone sends to another
		k.FanIn = 0
	}
	return k
}

// learn finds level and noise of each class.
func (c *Config) learn(cells []Cell) levels {
	l := levels{cfg: c, of: c.medians(cells), round: map[roundRail]float64{}}
	l.learnRounds(cells)
	var above []float64
	for _, x := range cells {
		if x.State != matrix.Measured {
			continue
		}
		if r := l.residual(x); r > 0 {
			above = append(above, r)
		}
	}
	if n := len(above); n > 0 {
		l.sigma = 1.4826 * stats.Median(above) * (1 + sigmaMargin/math.Sqrt(float64(n)))
	}
	if repeated, enough := c.repeatability(cells[:min(len(cells), mostRepeats)]); enough {
		l.sigma = min(l.sigma, repeated)
	}
	l.sigma = max(l.sigma, leastSigma)
	return l
}

// medians are the levels of the classes: the median over hosts of each host's median as a sender and
// as a receiver, so that a slow host counts once and not for each of its partners: of four hosts one
// slow one makes half of all cells slow.
func (c *Config) medians(cells []Cell) map[Class]curve {
	sides := map[Class][][]curve{}
	for _, x := range cells {
		if x.State != matrix.Measured {
			continue
		}
		k, y := c.classOf(x), c.curveOf(x)
		if sides[k] == nil {
			sides[k] = make([][]curve, 2*c.Hosts)
		}
		for _, side := range []int{int(x.From), c.Hosts + int(x.To)} {
			sides[k][side] = append(sides[k][side], y)
		}
	}
	out := map[Class]curve{}
	for k, of := range sides {
		of = slices.DeleteFunc(of, func(seen []curve) bool { return len(seen) == 0 })
		out[k] = c.middleOf(plain.Each(of, c.middleOf))
	}
	return out
}

// middleOf is the curve of the medians in each percentile.
func (c *Config) middleOf(curves []curve) (out curve) {
	for k := range out {
		if c.Latency || k == middle {
			out[k] = upperMedian(plain.Each(curves, func(y curve) float64 { return y[k] }))
		}
	}
	return out
}

// sigmaMargin keeps the noise from being taken for less than it is, which would make noise look like evidence.
// The relative standard error of a median deviation of n values is 1.17/sqrt(n); an estimate is raised by 2.3
// of them, so that one in a hundred is too low. Both estimates err upwards (faults inflate the first, few
// repeats the second), so the smaller is used.
const sigmaMargin = 2.3 * 1.17

// enoughRepeats is how many repeated cells tell their noise, and mostRepeats among how many they are looked for.
const (
	enoughRepeats = 8
	mostRepeats   = 1 << 16
)

// repeatability is the noise of one cell, from cells that were measured more than once. It is the only one
// that does not depend on which hosts are slow.
func (c *Config) repeatability(cells []Cell) (float64, bool) {
	type pair struct {
		Class
		from, to uint16
	}
	last := map[pair]curve{}
	var differences []float64
	for _, x := range cells {
		if x.State != matrix.Measured {
			continue
		}
		k, y := pair{c.classOf(x), x.From, x.To}, c.curveOf(x)
		if before, again := last[k]; again {
			differences = append(differences, math.Abs(c.distance(y, before)))
		}
		last[k] = y
	}
	n := float64(len(differences))
	return 1.4826 * stats.Median(differences) / math.Sqrt2 * (1 + sigmaMargin/math.Sqrt(max(n, 1))), n >= enoughRepeats
}

// learnRounds finds what rounds as a whole were faster or slower, where they have cells enough to tell.
func (l *levels) learnRounds(cells []Cell) {
	of := map[roundRail][]float64{}
	for _, x := range cells {
		if x.State == matrix.Measured {
			k := roundRail{x.Round, x.Rail}
			of[k] = append(of[k], l.cfg.distance(l.cfg.curveOf(x), l.of[l.cfg.classOf(x)]))
		}
	}
	for k, all := range of {
		if len(all) >= enoughForRound {
			l.round[k] = stats.Median(all)
		}
	}
}

// residual is by how much a cell is above (or below) its level; NaN where there is none for
// it, as only re-tests made such cells.
func (l *levels) residual(x Cell) float64 {
	level, known := l.of[l.cfg.classOf(x)]
	if !known {
		return math.NaN()
	}
	return l.cfg.distance(l.cfg.curveOf(x), level) - l.round[roundRail{x.Round, x.Rail}]
}

// upperMedian takes the upper of two middle values: the good one, where half are bad.
func upperMedian(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}
