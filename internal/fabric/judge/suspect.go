package judge

import (
	"cmp"
	"math"
	"slices"

	"github.com/gobw/gobw/report/matrix"
	"github.com/gobw/gobw/report/stats"
)

// subject is what can be slow on a rail: a host's sending or receiving side (to is from), a link from host to host, a trunk from leaf to leaf
// ([anyLeaf]: all leaves).
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
	a, b := int32(j.cfg.leaf(x.From)), int32(j.cfg.leaf(x.To))
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

// suspectTrunks finds leaf pairs, and leaves, most of whose cells are slow although their hosts are not.
func (j *Judge) suspectTrunks() {
	type group struct {
		x        []float64
		from, to map[uint16]bool
	}
	groups := map[subject]*group{}
	for _, x := range j.cells {
		for _, s := range j.trunksOf(x) {
			if !j.usable(x) {
				break
			}
			g := groups[s]
			if g == nil {
				g = &group{from: map[uint16]bool{}, to: map[uint16]bool{}}
				groups[s] = g
			}
			g.x, g.from[x.From], g.to[x.To] = append(g.x, j.levels.residual(x)), true, true
		}
	}
	d := -math.Log(1-j.cfg.Slow) / 2
	low := func(s subject) (float64, bool) {
		g := groups[s]
		if g == nil || len(g.from) < leastTrunk || len(g.to) < leastTrunk {
			return 0, false
		}
		m := stats.Median(g.x)
		return m, m < -max(d, 3*1.25*j.levels.sigma/math.Sqrt(float64(len(g.x))))
	}
	for s := range groups {
		if m, slow := low(s); slow && (s.from == anyLeaf || s.to == anyLeaf) {
			j.subjects[s] = &trial{screen: m}
		}
	}
	for s := range groups {
		m, slow := low(s)
		if _, up := j.subjects[subject{matrix.Trunk, s.rail, s.from, anyLeaf}]; up || !slow || s.from == anyLeaf || s.to == anyLeaf {
			continue
		}
		if _, down := j.subjects[subject{matrix.Trunk, s.rail, anyLeaf, s.to}]; !down {
			j.subjects[s] = &trial{screen: m}
		}
	}
}

// explained tells whether a cell crosses a trunk that is suspected.
func (j *Judge) explained(x Cell) bool {
	return slices.ContainsFunc(j.trunksOf(x), func(s subject) bool { return j.subjects[s] != nil })
}

// suspectHosts suspects each host that its cells do not acquit. In the second and third look a cell counts only if its
// other end has been acquitted, or the partners of a slow host would be suspected, too.
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
		for side, of := range []func(uint8, int) subject{sender, receiver} {
			for h := range n {
				if suspect[side][h] && !j.lost[h] {
					j.subjects[of(uint8(rail), h)] = &trial{order: sum[side][h], screened: count[side][h]}
				}
			}
		}
	}
	j.screen()
}

// screen notes the median residual of each suspected host's cells.
func (j *Judge) screen() {
	of := map[subject][]float64{}
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
		j.subjects[s].screen = stats.Median(residuals)
	}
}

// mostLinks is how many links are tried, the slowest first.
const mostLinks = 4096

// suspectLinks suspects links whose own cell is slow beyond what their ends explain, and those that did not connect.
func (j *Judge) suspectLinks() {
	worst := map[subject]float64{}
	for _, x := range j.cells {
		s := linkOf(x)
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
	all := make([]subject, 0, len(worst))
	for s := range worst {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b subject) int {
		return cmp.Or(cmp.Compare(worst[a], worst[b]), cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to), cmp.Compare(a.rail, b.rail))
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
		sum, n := t.screen*t.screened, t.screened
		if busy := t.loaded.x; len(busy) > 0 {
			sum, n = sum+stats.Median(busy)*float64(len(busy)), n+float64(len(busy))
		}
		if n > 0 {
			j.effects[s] = sum / n
		}
	}
}

// effectsOf is what slow hosts and trunks take from a cell. Where one of them is still undecided, no drop
// of the cell counts against its link.
func (j *Judge) effectsOf(x Cell) float64 {
	least := 0.0
	for _, s := range j.subjectsOf(x) {
		if s.kind == matrix.Link {
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
