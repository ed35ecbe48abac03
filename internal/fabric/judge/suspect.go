package judge

import (
	"cmp"
	"math"
	"slices"

	"github.com/gobw/gobw/report/matrix"
)

// Subject is what can be slow on a rail: a host's sending side, its receiving side, a link, a trunk.
type Subject struct {
	Kind SubjectKind
	Rail uint8
	A, B int32 // host; from and to; leaf and leaf (-1: all leaves)
}

// SubjectKind is the kind of a subject.
type SubjectKind uint8

// Kinds of subject.
const (
	Sender SubjectKind = iota
	Receiver
	Link
	Trunk
)

// anyLeaf stands for all other leaves: the trunk is a leaf's whole way up or down.
const anyLeaf = -1

// trunksOf are the three trunk subjects of a cell that crosses leaves.
func (j *Judge) trunksOf(x Cell) [3]Subject {
	a, b := int32(j.cfg.leaf(x.From)), int32(j.cfg.leaf(x.To))
	return [3]Subject{{Trunk, x.Rail, a, b}, {Trunk, x.Rail, a, anyLeaf}, {Trunk, x.Rail, anyLeaf, b}}
}

// subjectsOf are all that a cell may be slow for.
func (j *Judge) subjectsOf(x Cell) []Subject {
	out := []Subject{{Sender, x.Rail, int32(x.From), 0}, {Receiver, x.Rail, int32(x.To), 0}, {Link, x.Rail, int32(x.From), int32(x.To)}}
	if j.cfg.leaf(x.From) != j.cfg.leaf(x.To) {
		t := j.trunksOf(x)
		out = append(out, t[:]...)
	}
	return out
}

// usable tells whether a cell of the schedule may raise suspicion against a host: one that measured one flow alone.
func (j *Judge) usable(x Cell) bool {
	return x.State == matrix.Measured && j.cfg.rounds[x.Round].FanIn <= 1 && !j.cfg.rounds[x.Round].Retest
}

// leastTrunk is how many cells, and of how many senders and receivers, it takes to suspect a trunk rather than hosts.
const leastTrunk = 3

// suspectTrunks finds leaf pairs, and leaves, most of whose cells are slow although their hosts are not.
func (j *Judge) suspectTrunks() {
	if j.cfg.Leaf == nil {
		return
	}
	type group struct {
		x        []float64
		from, to map[uint16]bool
	}
	groups := map[Subject]*group{}
	note := func(s Subject, x Cell, r float64) {
		g := groups[s]
		if g == nil {
			g = &group{from: map[uint16]bool{}, to: map[uint16]bool{}}
			groups[s] = g
		}
		g.x, g.from[x.From], g.to[x.To] = append(g.x, r), true, true
	}
	for _, x := range j.cells {
		if !j.usable(x) || j.cfg.leaf(x.From) == j.cfg.leaf(x.To) {
			continue
		}
		r := j.levels.residual(x)
		for _, s := range j.trunksOf(x) {
			note(s, x, r)
		}
	}
	d := -math.Log(1-j.cfg.Slow) / 2
	low := func(s Subject) (float64, bool) {
		g := groups[s]
		if g == nil || len(g.from) < leastTrunk || len(g.to) < leastTrunk {
			return 0, false
		}
		m := median(g.x)
		return m, m < -max(d, 3*1.25*j.levels.sigma/math.Sqrt(float64(len(g.x))))
	}
	for s := range groups {
		if m, slow := low(s); slow && (s.A == anyLeaf || s.B == anyLeaf) {
			j.subjects[s] = &trial{screen: m}
		}
	}
	for s := range groups {
		m, slow := low(s)
		if _, up := j.subjects[Subject{Trunk, s.Rail, s.A, anyLeaf}]; up || !slow || s.A == anyLeaf || s.B == anyLeaf {
			continue
		}
		if _, down := j.subjects[Subject{Trunk, s.Rail, anyLeaf, s.B}]; !down {
			j.subjects[s] = &trial{screen: m}
		}
	}
}

// explained tells whether a cell crosses a trunk that is suspected.
func (j *Judge) explained(x Cell) bool {
	if j.cfg.leaf(x.From) == j.cfg.leaf(x.To) {
		return false
	}
	for _, s := range j.trunksOf(x) {
		if j.subjects[s] != nil {
			return true
		}
	}
	return false
}

// suspectHosts suspects each host that its cells do not acquit. In the second and third look a cell counts only if its
// other end has been acquitted, so that a slow host does not draw its partners along.
func (j *Judge) suspectHosts() {
	n := j.cfg.Hosts
	accuse, acquit := j.bounds(2 * n * j.cfg.Rails)
	for rail := range j.cfg.Rails {
		var sum, count [2][]float64
		var suspect [2][]bool
		for look := range 3 {
			var next, seen [2][]float64
			for side := range 2 {
				next[side], seen[side] = make([]float64, n), make([]float64, n)
			}
			for _, x := range j.cells {
				if int(x.Rail) != rail || !j.usable(x) || j.explained(x) {
					continue
				}
				w := j.weight(j.levels.residual(x), accuse, acquit)
				if look == 0 || !suspect[1][x.To] {
					next[0][x.From] += w
					seen[0][x.From]++
				}
				if look == 0 || !suspect[0][x.From] {
					next[1][x.To] += w
					seen[1][x.To]++
				}
			}
			for side := range 2 {
				if look == 0 {
					sum[side], count[side], suspect[side] = next[side], seen[side], make([]bool, n)
				}
				for h := range n {
					if seen[side][h] > 0 {
						sum[side][h], count[side][h] = next[side][h], seen[side][h]
					}
					suspect[side][h] = count[side][h] > 0 && sum[side][h] > acquit
				}
			}
		}
		for side, kind := range []SubjectKind{Sender, Receiver} {
			for h := range n {
				if suspect[side][h] && !j.lost[h] {
					j.subjects[Subject{kind, uint8(rail), int32(h), 0}] = &trial{order: sum[side][h], screened: count[side][h]}
				}
			}
		}
	}
	j.screen()
}

// screen notes the median residual of each suspected host's cells.
func (j *Judge) screen() {
	of := map[Subject][]float64{}
	for _, x := range j.cells {
		if !j.usable(x) {
			continue
		}
		for _, s := range j.subjectsOf(x)[:2] {
			if j.subjects[s] != nil {
				of[s] = append(of[s], j.levels.residual(x))
			}
		}
	}
	for s, residuals := range of {
		j.subjects[s].screen = median(residuals)
	}
}

// mostLinks is how many links are tried, the slowest first.
const mostLinks = 4096

// suspectLinks suspects links whose own cell is slow beyond what their ends explain, and those that did not connect.
func (j *Judge) suspectLinks() {
	worst := map[Subject]float64{}
	for _, x := range j.cells {
		s := Subject{Link, x.Rail, int32(x.From), int32(x.To)}
		if j.lost[x.From] || j.lost[x.To] || j.cfg.rounds[x.Round].Alone {
			continue
		}
		if x.State == matrix.Missing {
			worst[s] = math.Inf(-1)
			continue
		}
		if x.State != matrix.Measured || j.cfg.rounds[x.Round].FanIn > 1 {
			continue
		}
		r := j.levels.residual(x) - j.effectsOf(x)
		if r < min(-screenSigma*j.levels.sigma, math.Log(1-j.cfg.Slow)/2) && r < worst[s] {
			worst[s] = r
		}
	}
	all := make([]Subject, 0, len(worst))
	for s := range worst {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Subject) int {
		return cmp.Or(cmp.Compare(worst[a], worst[b]), cmp.Compare(a.A, b.A), cmp.Compare(a.B, b.B), cmp.Compare(a.Rail, b.Rail))
	})
	j.links = max(0, len(all)-mostLinks)
	for _, s := range all[:len(all)-j.links] {
		j.subjects[s] = &trial{order: -worst[s], screen: worst[s], missing: math.IsInf(worst[s], -1)}
	}
}

// learnEffects keeps by how much each slow host and trunk is slow, for what it explains of links. All its cells under load
// count: an error here would be blamed on its links.
func (j *Judge) learnEffects() {
	for s, t := range j.subjects {
		if t.loaded.decision != slow {
			continue
		}
		n := float64(len(t.loaded.x))
		j.effects[s] = t.loaded.median()
		if t.screen != 0 && t.screened > 0 {
			j.effects[s] = (t.screen*t.screened + j.effects[s]*n) / (t.screened + n)
		}
	}
}

// effectsOf is what slow hosts and trunks take from a cell. Where one of them is still undecided, its whole drop is
// excused, so that a link is not accused in its place.
func (j *Judge) effectsOf(x Cell) float64 {
	least := 0.0
	for _, s := range j.subjectsOf(x) {
		if s.Kind == Link {
			continue
		}
		t := j.subjects[s]
		if t != nil && t.loaded.decision == open {
			return math.Inf(-1)
		}
		least += j.effects[s]
	}
	return least
}
