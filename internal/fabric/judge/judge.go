package judge

import (
	"cmp"
	"math"
	"slices"

	"github.com/gobw/gobw/internal/fabric/schedule"
	"github.com/gobw/gobw/report/matrix"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

// Config is what a judge must know beforehand.
type Config struct {
	Hosts   int
	Leaf    []int   // leaf of each host; nil: all share one
	Rails   int     // 0: 1
	Latency bool    // values are latencies
	Slow    float64 // the least drop that matters, as a share; 0: 0.05
	Retests int     // the most rounds of re-tests; 0: 40
	Seed    uint64

	rounds []matrix.Round
}

const (
	falseAlarm  = 0.01 // chance that any healthy host or link of the run is accused
	missRate    = 0.01 // chance that one that is slower by Config.Slow is acquitted
	mostPerTest = 40   // cells after which a subject that is still undecided stays so
	screenSigma = 3    // a link is suspected from one cell: that many times the noise
)

// Judge collects cells and asks for more until it can tell. It belongs to one goroutine.
type Judge struct {
	Cells []Cell // so far
	Lost  []bool // hosts that are gone: no partner is sought for them

	cfg      Config
	levels   levels
	stage    stage
	subjects map[subject]*trial
	bad      []matrix.Finding   // found without a trial: not connected, wrong data
	controls map[bool][]float64 // of re-tests, by whether they ran alone: logarithms
	retests  int
	links    int // suspected links beyond the most that are tried
}

type stage uint8

const (
	screening stage = iota
	tryingHosts
	tryingLinks
	decided
)

// New makes a judge of a run.
func New(c Config) *Judge {
	c.Rails = max(c.Rails, 1)
	c.Slow = cmp.Or(c.Slow, 0.05)
	c.Retests = cmp.Or(c.Retests, 40)
	if c.Leaf == nil {
		c.Leaf = make([]int, c.Hosts)
	}
	return &Judge{cfg: c, subjects: map[subject]*trial{}, Lost: make([]bool, c.Hosts), controls: map[bool][]float64{}}
}

// Rounds are all rounds so far.
func (j *Judge) Rounds() []matrix.Round { return j.cfg.rounds }

// Round notes the next round and returns its number.
func (j *Judge) Round(r matrix.Round) uint16 {
	j.cfg.rounds = append(j.cfg.rounds, r)
	return uint16(len(j.cfg.rounds) - 1)
}

// Add takes the cells of one round.
func (j *Judge) Add(cells []Cell) {
	j.Cells = append(j.Cells, cells...)
	for rail := range j.cfg.Rails {
		on := slices.DeleteFunc(slices.Clone(cells), func(x Cell) bool { return int(x.Rail) != rail })
		if len(on) > 0 && j.cfg.rounds[on[0].Round].Retest {
			j.try(on, j.cfg.rounds[on[0].Round].Alone)
		}
	}
}

// Retest is a round that the judge asks for.
type Retest struct {
	schedule.Round
	Rail int // the only rail to run, or AllRails
}

// Next is the next round that the judge needs, once all scheduled rounds are in; false: it has decided.
func (j *Judge) Next() (Retest, bool) {
	for ; j.stage != decided; j.stage++ {
		next := j.compose
		if j.stage == screening {
			j.suspect()
			next = j.another
		}
		if r, some := next(); some {
			return r, true
		}
		if j.stage == tryingHosts {
			j.learnEffects()
			j.suspectLinks()
		}
	}
	return Retest{}, false
}

// suspect looks at all scheduled rounds.
func (j *Judge) suspect() {
	clear(j.subjects)
	j.bad = nil
	j.levels = j.cfg.learn(j.Cells)
	j.findMissing()
	j.suspectTrunks()
	j.suspectHosts()
}

// another is one more round of the scheduled kind, where the noise has left too few hosts without suspicion to test the
// others with.
func (j *Judge) another() (Retest, bool) {
	living := slices.DeleteFunc(plain.UpTo(0, j.cfg.Hosts), func(h int) bool { return j.Lost[h] })
	enough := true
	for rail := range j.cfg.Rails {
		enough = enough && len(j.goodHosts(uint8(rail))) >= max(2, (len(living)+1)/2)
	}
	if enough || len(living) < 3 || j.retests >= j.cfg.Retests/2 {
		return Retest{}, false
	}
	j.retests++
	out := Retest{Rail: AllRails}
	out.Label, out.Flows = "extra round: too noisy so far", schedule.Matching(living, j.cfg.Seed^0x5eed+uint64(j.retests))
	return out, true
}

// AllRails is the Rail of a round that runs on all.
const AllRails = -1

// Share is a cell as a share of what is expected of its class; above 1 is better. Of a class that
// only re-tests had nothing is expected.
func (j *Judge) Share(x Cell) float64 {
	if r := j.levels.residual(x); !math.IsNaN(r) {
		return math.Exp(r)
	}
	return 1
}

// bounds are Wald's: above accuse a subject is slow, below acquit it is not. The first falls with the number of
// subjects that are tried, so that the chance to accuse any healthy one stays as it was asked for.
func (j *Judge) bounds(tried int) (accuse, acquit float64) {
	alpha := falseAlarm / float64(max(tried, 1)) / 4 // both stages, busy and alone
	return math.Log((1 - missRate) / alpha), math.Log(missRate)
}

// weight is the evidence of one cell: the logarithm of how much likelier it is if the subject is slow, bounded so that
// one cell neither accuses nor acquits.
func (j *Judge) weight(residual, accuse, acquit float64) float64 {
	d := -math.Log(1 - j.cfg.Slow)
	w := (-residual - d/2) * d / (j.levels.sigma * j.levels.sigma)
	return min(max(w, 0.75*acquit), accuse/2.5)
}

// findMissing finds hosts that most flows could not connect to, or whose data most flows found wrong; and links with
// wrong data. A host is not accused for its partners: most of those with which it failed have to be better than it is.
func (j *Judge) findMissing() {
	for state, why := range map[matrix.State]stats.Cause{
		matrix.Missing: matrix.NotConnected, matrix.Corrupted: matrix.WrongData,
	} {
		failed, all := make([]int, j.cfg.Hosts), make([]int, j.cfg.Hosts)
		links := map[[2]int]int{}
		for _, x := range j.Cells {
			if x.State == matrix.Void {
				continue
			}
			all[x.From]++
			all[x.To]++
			if x.State == state {
				failed[x.From]++
				failed[x.To]++
				links[[2]int{int(x.From), int(x.To)}]++
			}
		}
		share := func(h int) float64 { return float64(failed[h]) / float64(all[h]) }
		accused := func(h int) bool {
			if j.cfg.Hosts <= 2 || failed[h] < 2 || 2*failed[h] <= all[h] {
				return false
			}
			partners := slices.DeleteFunc(plain.UpTo(0, j.cfg.Hosts), func(p int) bool {
				return links[[2]int{h, p}]+links[[2]int{p, h}] == 0
			})
			most := 2 * len(partners)
			better := slices.DeleteFunc(partners, func(p int) bool { return share(p) >= share(h) })
			return failed[h] == all[h] || 3*len(better) >= most
		}
		for h := range j.cfg.Hosts {
			if accused(h) {
				j.bad = append(j.bad, found(matrix.WholeOf, h, h, why, failed[h], all[h]))
				j.Lost[h] = j.Lost[h] || state == matrix.Missing
			}
		}
		for pair, n := range links {
			if state == matrix.Corrupted && !accused(pair[0]) && !accused(pair[1]) { // what does not connect is tried
				j.bad = append(j.bad, found(matrix.Link, pair[0], pair[1], why, n, n))
			}
		}
	}
}

func found(s matrix.Subject, from, to int, why stats.Cause, cells, of int) matrix.Finding {
	return matrix.Finding{
		Subject: s, From: from, To: to, Verdict: stats.Failure(why, "", "%d of %d flows failed", cells, of),
	}
}
