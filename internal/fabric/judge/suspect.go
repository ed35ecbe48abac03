package judge

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/gobw/gobw/report/matrix"
	"github.com/gobw/gobw/report/stats"
)

// subject is what can be slow on a rail: a host's sending or receiving side (to is from), a link from host to host, a
// trunk from leaf to leaf ([anyLeaf]: all leaves).
type subject struct {
	kind     matrix.Subject
	rail     uint8
	from, to int32
}

// sender and receiver are the sides of a host.
func sender(rail uint8, host int) subject {
	return subject{matrix.Sender, rail, int32(host), int32(host)}
}

func receiver(rail uint8, host int) subject {
	return subject{matrix.Receiver, rail, int32(host), int32(host)}
}

func linkOf(x Cell) subject { return subject{matrix.Link, x.Rail, int32(x.From), int32(x.To)} }

func (s subject) ofHost() bool { return s.kind == matrix.Sender || s.kind == matrix.Receiver }

// anyLeaf stands for all other leaves: the trunk is a leaf's whole way up or down.
const anyLeaf = -1

// trunksOf are the trunks that a cell crosses: between its two leaves, and those of each leaf to all others.
func (j *Judge) trunksOf(x Cell) []subject {
	a, b := int32(j.cfg.Leaf[x.From]), int32(j.cfg.Leaf[x.To])
	if a == b {
		return nil
	}
	return []subject{{matrix.Trunk, x.Rail, a, b}, {matrix.Trunk, x.Rail, a, anyLeaf}, {matrix.Trunk, x.Rail, anyLeaf, b}}
}

// subjectsOf are all that a cell may be slow for.
func (j *Judge) subjectsOf(x Cell) []subject {
	return append([]subject{sender(x.Rail, int(x.From)), receiver(x.Rail, int(x.To)), linkOf(x)}, j.trunksOf(x)...)
}

// usable tells whether a cell of the schedule may raise suspicion against a host: one that measured one flow alone.
func (j *Judge) usable(x Cell) bool {
	return x.State == matrix.Measured && j.cfg.rounds[x.Round].FanIn <= 1 && !j.cfg.rounds[x.Round].Retest
}

// leastTrunk is how many cells, and of how many senders and receivers, it takes to suspect a trunk rather than hosts.
const leastTrunk = 3

// group is the residuals of the scheduled cells of a subject, and of how many senders and receivers they are.
type group struct {
	x        []float64
	from, to map[uint16]bool
}

// groups gathers the cells of the schedule by what they may be slow for.
func (j *Judge) groups(of func(Cell) []subject) map[subject]*group {
	out := map[subject]*group{}
	for _, x := range j.Cells {
		if !j.usable(x) {
			continue
		}
		for _, s := range of(x) {
			g := out[s]
			if g == nil {
				g = &group{from: map[uint16]bool{}, to: map[uint16]bool{}}
				out[s] = g
			}
			g.x = append(g.x, j.levels.residual(x))
			g.from[x.From], g.to[x.To] = true, true
		}
	}
	return out
}

// screen is the median of a group, which slow partners do not move unless most are, and its standard error.
func (j *Judge) screen(g *group) (median, err float64) {
	return upperMedian(g.x), 1.25 * j.levels.sigma / math.Sqrt(float64(len(g.x)))
}

// suspectTrunks finds leaf pairs, and leaves, most of whose cells are slow although their hosts are not.
func (j *Judge) suspectTrunks() {
	groups := j.groups(j.trunksOf)
	d := -math.Log(1-j.cfg.Slow) / 2
	low := map[subject]float64{}
	for s, g := range groups {
		if m, err := j.screen(g); len(g.from) >= leastTrunk && len(g.to) >= leastTrunk && m < -max(d, 3*err) {
			low[s] = m
		}
	}
	for s, m := range low {
		_, up := low[subject{matrix.Trunk, s.rail, s.from, anyLeaf}]
		_, down := low[subject{matrix.Trunk, s.rail, anyLeaf, s.to}]
		if s.from == anyLeaf || s.to == anyLeaf || !up && !down {
			j.subjects[s] = &trial{screen: m, seen: groups[s].x}
		}
	}
}

// explained tells whether a cell crosses a trunk that is suspected.
func (j *Judge) explained(x Cell) bool {
	return slices.ContainsFunc(j.trunksOf(x), func(s subject) bool { return j.subjects[s] != nil })
}

// suspectHosts suspects each side of a host that could be slow: one that is would be
// acquitted here with a chance of missRate.
func (j *Judge) suspectHosts() {
	// standard errors: 2.3 of the normal distribution for 1 - missRate, and what the
	// upper of two middle values is too high by
	const quantile = 3
	d := -math.Log(1 - j.cfg.Slow)
	sides := j.groups(func(x Cell) []subject {
		if j.explained(x) {
			return nil
		}
		return j.subjectsOf(x)[:2]
	})
	for s, g := range sides {
		if m, err := j.screen(g); m < max(-d/2, quantile*err-d) && !j.Lost[s.from] {
			j.subjects[s] = &trial{screen: m, seen: g.x}
		}
	}
}

// mostLinks is how many links are tried, the slowest first.
const mostLinks = 4096

// suspectLinks suspects links whose own cell is slow beyond what their ends explain, and those that did not connect.
func (j *Judge) suspectLinks() {
	least := min(-screenSigma*j.levels.sigma, math.Log(1-j.cfg.Slow)/2)
	worst := map[subject]float64{}
	for _, x := range j.Cells {
		s, r, round := linkOf(x), math.Inf(-1), j.cfg.rounds[x.Round]
		if x.State == matrix.Measured && round.FanIn <= 1 {
			r = j.levels.residual(x) - j.effectsOf(x)
		} else if x.State != matrix.Missing {
			continue
		}
		if r < min(least, worst[s]) && !round.Alone && !j.Lost[x.From] && !j.Lost[x.To] {
			worst[s] = r
		}
	}
	all := slices.SortedFunc(maps.Keys(worst), func(a, b subject) int {
		return cmp.Or(cmp.Compare(worst[a], worst[b]), cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to),
			cmp.Compare(a.rail, b.rail))
	})
	j.links = max(0, len(all)-mostLinks)
	for _, s := range all[:len(all)-j.links] {
		j.subjects[s] = &trial{screen: worst[s], missing: math.IsInf(worst[s], -1)}
	}
}

// learnEffects keeps by how much each slow host and trunk is slow, for what it explains of links. All its cells under
// load count: an error here would be blamed on its links.
func (j *Judge) learnEffects() {
	for _, t := range j.subjects {
		if all := slices.Concat(t.seen, t.loaded.x); t.loaded.decision == slow && len(all) > 0 {
			t.effect = stats.Median(all)
		}
	}
}

// effectsOf is what slow hosts and trunks take from a cell. Where one of them is still undecided, no drop
// of the cell counts against its link.
func (j *Judge) effectsOf(x Cell) float64 {
	least := 0.0
	for _, s := range j.subjectsOf(x) {
		t := j.subjects[s]
		if s.kind == matrix.Link || t == nil {
			continue
		}
		if t.loaded.decision == open {
			return math.Inf(-1)
		}
		least += t.effect
	}
	return least
}
