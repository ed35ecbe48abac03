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
	screen  float64   // median residual of the scheduled rounds: the worst are tried first
	seen    []float64 // of what, but for a link
	effect  float64   // of a host or a trunk that is known to be slow: by how much
	missing bool      // it did not connect
	loaded  evidence
	quiet   evidence
	rounds  int
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

// pairing collects flows in which each host sends once and receives once.
type pairing struct {
	sends, receives []bool
	flows           []schedule.Flow
}

func (r *pairing) add(from, to int) bool {
	if from == to || r.sends[from] || r.receives[to] {
		return false
	}
	r.sends[from], r.receives[to] = true, true
	r.flows = append(r.flows, schedule.Flow{From: from, To: to})
	return true
}

// controlPairs is how many pairs of good hosts run beside suspects that are tried alone.
const controlPairs = 8

// compose makes the next round of re-tests: busy ones first, in which all rails run as in the scheduled rounds; then
// those alone, of one rail, so that what rails take from each other shows.
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
		return cmp.Or(cmp.Compare(j.subjects[a].rounds, j.subjects[b].rounds),
			cmp.Compare(j.subjects[a].screen, j.subjects[b].screen),
			cmp.Compare(a.kind, b.kind), cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
	})
	r := pairing{sends: make([]bool, j.cfg.Hosts), receives: make([]bool, j.cfg.Hosts)}
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
		if j.arrange(&r, s, good) {
			j.subjects[s].rounds++
			tried++
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
		if !j.Lost[h] && j.good(sender(rail, h)) && j.good(receiver(rail, h)) {
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

// arrange finds a flow for a subject in a round: every other part of the flow is known to be good. It runs in both
// directions, except over a trunk, whose other direction may be bad.
func (j *Judge) arrange(r *pairing, s subject, good []int) bool {
	from, to := []int{int(s.from)}, []int{int(s.to)}
	switch s.kind {
	case matrix.Trunk:
		from, to = j.below(good, s.from), j.below(good, s.to)
	case matrix.Sender:
		to = good
	case matrix.Receiver:
		from = good
	case matrix.Link, matrix.WholeOf:
	}
	if s.kind == matrix.Sender && r.sends[s.from] || s.kind == matrix.Receiver && r.receives[s.to] {
		return true // the other side's test was this one's, too
	}
	for _, a := range from {
		for _, b := range to {
			if s.ofHost() && (r.sends[b] || r.receives[a]) || !j.tells(s, a, b) || !r.add(a, b) {
				continue
			}
			if s.kind != matrix.Trunk {
				r.add(b, a)
			}
			return true
		}
	}
	return false
}

// below are the hosts of a leaf.
func (j *Judge) below(hosts []int, leaf int32) []int {
	return slices.DeleteFunc(slices.Clone(hosts),
		func(h int) bool { return leaf != anyLeaf && int32(j.cfg.Leaf[h]) != leaf })
}

// tells whether a flow between two hosts tests a subject alone, and is of a class that the schedule had.
func (j *Judge) tells(s subject, from, to int) bool {
	if j.Lost[from] || j.Lost[to] || from == to || s.kind == matrix.Link {
		return from != to && !j.Lost[from] && !j.Lost[to]
	}
	there, back := Cell{Rail: s.rail, From: uint16(from), To: uint16(to)}, Cell{
		Rail: s.rail, From: uint16(to), To: uint16(from),
	}
	of := j.subjectsOf(there)
	if !slices.Contains(of, s) {
		return false
	}
	if s.ofHost() {
		of = append(of, j.subjectsOf(back)...)
	}
	_, known := j.levels.of[Class{Rail: s.rail, Trunk: j.cfg.Leaf[from] != j.cfg.Leaf[to]}]
	return known && !slices.ContainsFunc(of, func(o subject) bool { return o != s && !o.ofHost() && !j.good(o) })
}

// mostMissing is how often a re-test may bring nothing.
const mostMissing = 4

// fill lets the good hosts that are left work: all of them where the network is to be busy, else a few as controls.
func (j *Judge) fill(r *pairing, good []int, quiet bool) {
	left := slices.DeleteFunc(slices.Clone(good), func(h int) bool { return r.sends[h] || r.receives[h] })
	for i := 0; i+1 < len(left) && (!quiet || i < 2*controlPairs); i += 2 {
		r.add(left[i], left[i+1])
		r.add(left[i+1], left[i])
	}
}

// try weighs the cells of a re-test on one rail.
func (j *Judge) try(cells []Cell, quiet bool) {
	tried := map[bool]int{} // links, and others
	for s := range j.subjects {
		tried[s.kind == matrix.Link]++
	}
	shift := j.controlLevel(cells, quiet)
	for _, x := range cells {
		s, single := j.subjectOf(x)
		if !single || x.State == matrix.Void || x.State == matrix.Corrupted {
			continue
		}
		t, link := j.subjects[s], s.kind == matrix.Link
		e := t.current()
		if e == nil || (e == &t.quiet) != quiet {
			continue
		}
		if x.State == matrix.Missing {
			// One that was measured between two failures connects intermittently.
			if e.missing++; e.missing >= 2 && len(e.x) == 0 || e.missing >= mostMissing {
				e.decision, t.missing = slow, true
			}
			continue
		}
		r := j.levels.residual(x) - shift
		if link {
			r -= j.effectsOf(x)
		}
		if math.IsInf(r, 0) || math.IsNaN(r) {
			continue
		}
		accuse, acquit := j.bounds(tried[link])
		e.x = append(e.x, r)
		e.sum += j.weight(r, accuse, acquit)
		if e.sum <= acquit {
			e.decision = fine
		} else if e.sum >= accuse && j.worse(e.x, j.controls[quiet], tried[link]) {
			e.decision = slow
		}
	}
}

// subjectOf is the one subject that a cell tells of; false where there is none, or where two could be the cause.
func (j *Judge) subjectOf(x Cell) (subject, bool) {
	bad := slices.DeleteFunc(j.subjectsOf(x), func(s subject) bool {
		return j.good(s) || s.kind != matrix.Link && j.stage == tryingLinks // decided: its effect is taken off
	})
	if len(bad) != 1 {
		return subject{}, false
	}
	return bad[0], true
}

// controlLevel is what a re-test as a whole was faster or slower by, seen from cells without a suspect.
func (j *Judge) controlLevel(cells []Cell, quiet bool) float64 {
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
	for _, r := range good {
		j.controls[quiet] = append(j.controls[quiet], r-shift)
	}
	j.controls[quiet] = j.controls[quiet][max(0, len(j.controls[quiet])-mostControls):]
	return shift
}

// mostControls is how many cells of good hosts a suspect's are compared with, the latest.
const mostControls = 512

// worse is the verdict on a suspect's re-tests against those of good hosts under the same load, at a level that holds
// for all suspects together. Where it cannot tell yet, the suspect is tested again.
func (j *Judge) worse(suspect, controls []float64, tried int) bool {
	confidence := 1 - falseAlarm/float64(max(tried, 1))
	effect := stats.Unpaired(plain.Each(controls, math.Exp), plain.Each(suspect, math.Exp), confidence,
		stats.HigherIsBetter)
	return stats.Conclude([]stats.Effect{effect}, j.cfg.Slow/2, confidence)[0].Word == stats.Worse
}
