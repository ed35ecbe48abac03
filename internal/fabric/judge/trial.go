package judge

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gobw/gobw/internal/fabric/schedule"
	"github.com/gobw/gobw/report/matrix"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

type decision uint8

const (
	open decision = iota
	slow
	fine
)

// evidence is what the re-tests of one subject under one load have brought.
type evidence struct {
	sum      float64
	x        []float64
	missing  int
	decision decision
}

// trial is a subject being tried: first with the network busy, then, if it was slow, alone.
type trial struct {
	order    float64 // the greater the sooner
	screen   float64 // median residual of the scheduled rounds
	screened float64 // how many cells that is of
	missing  bool    // it did not connect
	loaded   evidence
	quiet    evidence
	rounds   int
}

// current is the evidence that is still wanted; nil: none.
func (t *trial) current() *evidence {
	switch {
	case t.loaded.decision == open && t.rounds < mostPerTest:
		return &t.loaded
	case t.loaded.decision == slow && !t.missing && t.quiet.decision == open && t.rounds < 2*mostPerTest:
		return &t.quiet
	}
	return nil
}

// round collects flows in which each host sends once and receives once.
type round struct {
	sends, receives []bool
	flows           []schedule.Flow
}

func (r *round) add(from, to int) bool {
	if from == to || r.sends[from] || r.receives[to] {
		return false
	}
	r.sends[from], r.receives[to] = true, true
	r.flows = append(r.flows, schedule.Flow{From: from, To: to})
	return true
}

func (r *round) free(h int) bool { return !r.sends[h] && !r.receives[h] }

// controlPairs is how many pairs of good hosts run beside suspects that are tried alone.
const controlPairs = 8

// compose makes the next round of re-tests: busy ones first, in which all rails run as in the scheduled rounds; then those
// alone, of one rail, so that what rails take from each other shows.
func (j *Judge) compose() (Retest, bool) {
	if j.retests >= j.cfg.Retests {
		return Retest{}, false
	}
	for _, quiet := range []bool{false, true} {
		for rail := range j.cfg.Rails {
			if r, some := j.composeOf(uint8(rail), quiet); some {
				j.retests++
				return r, true
			}
		}
	}
	return Retest{}, false
}

func (j *Judge) composeOf(rail uint8, quiet bool) (Retest, bool) {
	var wanted []subject
	for s, t := range j.subjects {
		if e := t.current(); s.rail == rail && e != nil && (e == &t.quiet) == quiet {
			wanted = append(wanted, s)
		}
	}
	slices.SortFunc(wanted, func(a, b subject) int {
		return cmp.Or(cmp.Compare(j.subjects[a].rounds, j.subjects[b].rounds), cmp.Compare(j.subjects[b].order, j.subjects[a].order),
			cmp.Compare(a.kind, b.kind), cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
	})
	r := round{sends: make([]bool, j.cfg.Hosts), receives: make([]bool, j.cfg.Hosts)}
	good := j.goodHosts(rail)
	rng := rand.New(rand.NewPCG(j.cfg.Seed, uint64(j.retests)))
	rng.Shuffle(len(good), func(a, b int) { good[a], good[b] = good[b], good[a] })
	most := len(wanted)
	if quiet {
		most = max(1, j.cfg.Hosts/8)
	}
	tried := 0
	for _, s := range wanted {
		if tried == most {
			break
		}
		if j.place(&r, s, good) {
			j.subjects[s].rounds++
			tried++
		} else if s.kind == matrix.Link && (j.lost[s.from] || j.lost[s.to]) || s.ofHost() && (j.lost[s.from] || len(good) == 0) {
			j.subjects[s].rounds = 2 * mostPerTest // no host is left to test it with
		}
	}
	if tried == 0 {
		return Retest{}, false
	}
	j.fill(&r, good, quiet)
	out := Retest{Rail: AllRails}
	out.Label, out.Flows, out.Retest, out.Alone = "re-test, network busy", r.flows, true, quiet
	if quiet {
		out.Label, out.Rail = "re-test, alone", int(rail)
	}
	return out, true
}

// goodHosts are hosts of whose two sides none is a subject.
func (j *Judge) goodHosts(rail uint8) []int {
	var out []int
	for h := range j.cfg.Hosts {
		if !j.lost[h] && j.good(sender(rail, h)) && j.good(receiver(rail, h)) {
			out = append(out, h)
		}
	}
	return out
}

// good tells whether a subject is not suspected, or was acquitted.
func (j *Judge) good(s subject) bool {
	t := j.subjects[s]
	return t == nil || t.loaded.decision == fine
}

// goodPath tells whether a cell between two good hosts would be good.
func (j *Judge) goodPath(rail uint8, from, to int) bool {
	for _, s := range j.subjectsOf(Cell{Rail: rail, From: uint16(from), To: uint16(to)}) {
		if !s.ofHost() && !j.good(s) {
			return false
		}
	}
	return true
}

// place finds flows for a subject in a round.
func (j *Judge) place(r *round, s subject, good []int) bool {
	switch s.kind {
	case matrix.Link:
		if j.lost[s.from] || j.lost[s.to] || !r.add(int(s.from), int(s.to)) {
			return false
		}
		r.add(int(s.to), int(s.from)) // as it was in the scheduled round
		return true
	case matrix.Trunk:
		return j.placeTrunk(r, s, good)
	case matrix.Sender, matrix.Receiver, matrix.WholeOf:
	}
	if j.lost[s.from] {
		return false
	}
	if s.kind == matrix.Sender && r.sends[s.from] || s.kind == matrix.Receiver && r.receives[s.from] {
		return true // the other side's test was this one's, too
	}
	for i := range good {
		g := good[(i+j.subjects[s].rounds*7+int(s.from))%len(good)]
		if !r.free(g) || g == int(s.from) || !j.comparable(s.rail, int(s.from), g) || !j.goodPath(s.rail, int(s.from), g) || !j.goodPath(s.rail, g, int(s.from)) {
			continue
		}
		r.add(int(s.from), g)
		r.add(g, int(s.from))
		return true
	}
	return false
}

// comparable tells whether the schedule had paths such as the one between two hosts.
func (j *Judge) comparable(rail uint8, a, b int) bool {
	_, known := j.levels.of[Class{Rail: rail, Trunk: j.cfg.leaf(uint16(a)) != j.cfg.leaf(uint16(b))}]
	return known
}

// mostMissing is how often a re-test may bring nothing.
const mostMissing = 4

// trunkFlows is how many flows try a trunk at a time.
const trunkFlows = 4

func (j *Judge) placeTrunk(r *round, s subject, good []int) bool {
	placed := 0
	for _, from := range good {
		if placed == trunkFlows {
			break
		}
		if r.sends[from] || s.from != anyLeaf && int32(j.cfg.Leaf[from]) != s.from {
			continue
		}
		for _, to := range good {
			leaf := int32(j.cfg.Leaf[to])
			if leaf != int32(j.cfg.Leaf[from]) && (s.to == anyLeaf || leaf == s.to) && (s.from != anyLeaf || int32(j.cfg.Leaf[from]) != s.to) && r.add(from, to) {
				placed++
				break
			}
		}
	}
	return placed > 0
}

// fill lets the good hosts that are left work: all of them where the network is to be busy, else a few as controls.
func (j *Judge) fill(r *round, good []int, quiet bool) {
	var left []int
	for _, h := range good {
		if r.free(h) {
			left = append(left, h)
		}
	}
	pairs := len(left) / 2
	if quiet {
		pairs = min(pairs, controlPairs)
	}
	for i := range pairs {
		a, b := left[2*i], left[2*i+1]
		r.add(a, b)
		r.add(b, a)
	}
}

// try weighs the cells of a re-test on one rail.
func (j *Judge) try(cells []Cell) {
	if len(cells) == 0 {
		return
	}
	hosts, links := 0, 0
	for s := range j.subjects {
		if s.kind == matrix.Link {
			links++
		} else {
			hosts++
		}
	}
	shift := j.controlLevel(cells)
	quiet := j.cfg.rounds[cells[0].Round].Alone
	for _, x := range cells {
		s, single := j.subjectOf(x)
		if !single || x.State == matrix.Void || x.State == matrix.Corrupted {
			continue
		}
		t := j.subjects[s]
		e := t.current()
		if e == nil || (e == &t.quiet) != j.cfg.rounds[x.Round].Alone {
			continue
		}
		tried := hosts
		if s.kind == matrix.Link {
			tried = links
		}
		accuse, acquit := j.bounds(tried)
		if x.State == matrix.Missing {
			// One that was measured between two failures connects intermittently.
			if e.missing++; e.missing >= 2 && len(e.x) == 0 || e.missing >= mostMissing {
				e.decision, t.missing = slow, true
			}
			continue
		}
		r := j.levels.residual(x) - shift
		if s.kind == matrix.Link {
			r -= j.effectsOf(x)
		}
		if math.IsInf(r, 0) || math.IsNaN(r) {
			continue
		}
		e.x = append(e.x, r)
		e.sum += max(j.weight(r, accuse, acquit), 0.75*acquit)
		switch {
		case e.sum >= accuse:
			if j.worse(e.x, j.controls[quiet], tried) {
				e.decision = slow
			}
		case e.sum <= acquit:
			e.decision = fine
		}
	}
}

// subjectOf is the one subject that a cell tells of; false where there is none, or where two could be the cause.
func (j *Judge) subjectOf(x Cell) (subject, bool) {
	var found subject
	n := 0
	for _, s := range j.subjectsOf(x) {
		if !j.good(s) {
			if s.kind != matrix.Link && j.stage == tryingLinks { // decided: its effect is taken off
				continue
			}
			found = s
			n++
		}
	}
	return found, n == 1
}

// controlLevel is what a re-test as a whole was faster or slower by, seen from cells without a suspect.
func (j *Judge) controlLevel(cells []Cell) float64 {
	var good []float64
	for _, x := range cells {
		r := j.levels.residual(x)
		suspect := slices.ContainsFunc(j.subjectsOf(x), func(s subject) bool { return !j.good(s) })
		if x.State == matrix.Measured && !math.IsNaN(r) && !suspect {
			good = append(good, r)
		}
	}
	shift := 0.0
	if len(good) >= 2 {
		shift = stats.Median(good) * float64(len(good)) / float64(len(good)+1)
	}
	quiet := j.cfg.rounds[cells[0].Round].Alone
	for _, r := range good {
		j.controls[quiet] = append(j.controls[quiet], r-shift)
	}
	j.controls[quiet] = j.controls[quiet][max(0, len(j.controls[quiet])-mostControls):]
	return shift
}

// mostControls is how many cells of good hosts a suspect's are compared with, the latest.
const mostControls = 512

// worse is the verdict on a suspect's re-tests against those of good hosts under the same load, at a level that holds for
// all suspects together. Where it cannot tell yet, the suspect is tested again.
func (j *Judge) worse(suspect, controls []float64, tried int) bool {
	confidence := 1 - falseAlarm/float64(max(tried, 1))
	effect := stats.Unpaired(plain.Each(controls, math.Exp), plain.Each(suspect, math.Exp), confidence, stats.HigherIsBetter)
	return stats.Conclude([]stats.Effect{effect}, stats.Margins{Same: j.cfg.Slow / 2, Confidence: confidence})[0].Word == stats.Worse
}
