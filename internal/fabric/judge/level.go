package judge

import (
	"math"
	"slices"
)

// levels are the medians that cells are measured against.
type levels struct {
	cfg   *Config
	base  map[class]float64
	sigma float64 // of one cell's logarithm, from the good half
	round map[roundRail]float64
}

// class is what cells must share to be compared: the rail, whether they cross a trunk, and how many send to one.
type class struct {
	rail   uint8
	trunk  bool
	fanIn  int
	oneWay bool
}

type roundRail struct {
	round uint16
	rail  uint8
}

// enoughForRound is how many good cells a round needs to have a level of its own.
const enoughForRound = 16

// leastSigma is the noise below which none is believed: clocks and rounding.
const leastSigma = 0.002

func (c *Config) classOf(x Cell) class {
	load := c.loadOf(x.Round)
	return class{rail: x.Rail, trunk: c.leaf(x.From) != c.leaf(x.To), fanIn: load.FanIn, oneWay: load.OneWay}
}

// learn finds level and noise of each class. It has to stand up to a large share of bad cells where hosts are few: of four
// hosts one slow one makes half of all cells slow. Therefore the level is the median over hosts of each host's median.
func (c *Config) learn(all []Cell) levels {
	cells := sampled(all)
	l := levels{cfg: c, base: map[class]float64{}, round: map[roundRail]float64{}}
	logs := map[class][]float64{}
	hosts := map[class]map[int32][]float64{}
	few := len(cells) <= 64*c.Hosts && c.Hosts <= 128
	for _, x := range cells {
		if x.State != Measured {
			continue
		}
		k, y := c.classOf(x), x.logOf(c.Latency)
		logs[k] = append(logs[k], y)
		if !few {
			continue
		}
		if hosts[k] == nil {
			hosts[k] = map[int32][]float64{}
		}
		out, in := int32(x.From), -1-int32(x.To)
		hosts[k][out] = append(hosts[k][out], y)
		hosts[k][in] = append(hosts[k][in], y)
	}
	for k, values := range logs {
		if !few {
			l.base[k] = median(values)
			continue
		}
		medians := make([]float64, 0, len(hosts[k]))
		for _, of := range hosts[k] {
			medians = append(medians, upperMedian(of))
		}
		l.base[k] = upperMedian(medians)
	}
	l.learnRounds(cells)
	var above []float64
	for _, x := range cells {
		if x.State != Measured {
			continue
		}
		if r := l.residual(x); r > 0 {
			above = append(above, r)
		}
	}
	l.sigma = 1.4826 * median(above) * (1 + sigmaMargin/math.Sqrt(float64(max(len(above), 1))))
	if few {
		if repeated, enough := c.repeatability(cells); enough {
			l.sigma = min(l.sigma, repeated)
		}
	}
	l.sigma = max(l.sigma, leastSigma)
	return l
}

// sigmaMargin keeps the noise from being taken for less than it is, which would make noise look like evidence. The relative
// standard error of a median deviation of n values is 1.17/sqrt(n); an estimate is raised by 2.3 of them, so that one in a
// hundred is too low. Both estimates are upper bounds (faults widen the one, few repeats the other): the lesser holds.
const sigmaMargin = 2.3 * 1.17

// enoughRepeats is how many repeated cells tell their noise.
const enoughRepeats = 8

// repeatability is the noise of one cell, from cells that were measured more than once. Where hosts are few, it is the only
// one that does not depend on which of them are slow.
func (c *Config) repeatability(cells []Cell) (float64, bool) {
	type place struct {
		class
		from, to uint16
	}
	last := map[place]float64{}
	var differences []float64
	for _, x := range cells {
		if x.State != Measured {
			continue
		}
		k, y := place{c.classOf(x), x.From, x.To}, x.logOf(c.Latency)
		if before, again := last[k]; again {
			differences = append(differences, math.Abs(y-before))
		}
		last[k] = y
	}
	n := float64(len(differences))
	return 1.4826 * median(differences) / math.Sqrt2 * (1 + sigmaMargin/math.Sqrt(max(n, 1))), n >= enoughRepeats
}

// mostLearnt is how many cells the levels are learnt from: more tell nothing more, and take memory.
const mostLearnt = 1 << 20

// sampled takes every n-th cell of very many.
func sampled(cells []Cell) []Cell {
	if len(cells) <= mostLearnt {
		return cells
	}
	stride := len(cells)/mostLearnt + 1
	stride += 1 - stride%2 // rounds come in pairs of directions
	out := make([]Cell, 0, len(cells)/stride+1)
	for i := 0; i < len(cells); i += stride {
		out = append(out, cells[i])
	}
	return out
}

// learnRounds finds what rounds as a whole were faster or slower, where they have cells enough to tell.
func (l *levels) learnRounds(cells []Cell) {
	of := map[roundRail][]float64{}
	for _, x := range cells {
		if x.State == Measured {
			k := roundRail{x.Round, x.Rail}
			of[k] = append(of[k], x.logOf(l.cfg.Latency)-l.base[l.cfg.classOf(x)])
		}
	}
	for k, all := range of {
		if len(all) >= enoughForRound {
			l.round[k] = median(all)
		}
	}
}

// residual is by how much a cell is above (or below) what cells like it are.
func (l *levels) residual(x Cell) float64 {
	k := l.cfg.classOf(x)
	base, known := l.base[k]
	if !known { // a class that only a re-test made: take the same rail's other side
		k.trunk = !k.trunk
		base = l.base[k]
	}
	return x.logOf(l.cfg.Latency) - base - l.round[roundRail{x.Round, x.Rail}]
}

// median of values that may be reordered; 0 of none.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// upperMedian takes the upper of two middle values: the good one, where half are bad.
func upperMedian(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}
