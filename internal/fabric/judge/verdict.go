package judge

import (
	"cmp"
	"math"
	"slices"

	"github.com/gobw/gobw/report/fabric"
)

// Kind is what a finding says.
type Kind string

// Kinds of finding.
const (
	SlowHost         Kind = "slow host"
	SlowLink         Kind = "slow link"
	SlowTrunk        Kind = "slow trunk"
	SlowUnderLoad    Kind = "slow only under load"
	NotReproduced    Kind = "not reproduced"
	HostNotConnected Kind = "host not connected"
	LinkNotConnected Kind = "not connected"
	WrongDataHost    Kind = "wrong data at host"
	WrongDataLink    Kind = "wrong data"
	CannotTell       Kind = "cannot tell"
	BelowBaseline    Kind = "slower than baseline" // all paths of a class
)

// Bad tells whether a finding is a fault that was shown.
func (k Kind) Bad() bool { return k != NotReproduced && k != CannotTell }

// Finding is one verdict with its evidence. Shares are of what is expected of healthy cells of that class: 0.8 is a fifth
// slower.
type Finding struct {
	Kind     Kind            `json:"kind"`
	Of       int             `json:"cells_of,omitempty"`
	Cells    int             `json:"cells,omitempty"`
	Subject  string          `json:"subject"` // "sender", "receiver", "host", "link", "trunk", "class"
	Rail     int             `json:"rail"`
	From     int             `json:"from"` // host, or leaf of a trunk (-1: all others)
	To       int             `json:"to"`
	Crosses  bool            `json:"crosses,omitempty"`        // class: the paths between leaves
	Screened float64         `json:"screened_share,omitempty"` // in the scheduled rounds
	Loaded   fabric.Evidence `json:"busy"`
	Quiet    fabric.Evidence `json:"alone"`
}

// Verdict is what the whole run says.
type Verdict struct {
	Findings []Finding `json:"findings"`
	fabric.Judged
}

// Conclude judges with what is there. It may be asked at any time.
func (j *Judge) Conclude() Verdict {
	if j.stage == screening {
		j.levels = j.cfg.learn(j.cells)
	}
	v := Verdict{slices.Clone(j.bad), fabric.Judged{
		Sigma: j.levels.sigma, Slow: j.cfg.Slow, Retests: j.retests, Untried: j.links, KnownGood: j.cfg.Hosts, Pairs: j.cfg.Rails * j.cfg.Hosts * (j.cfg.Hosts - 1),
	}}
	for _, c := range j.tested {
		v.Tested += c.n
		v.Untimed += c.n
	}
	for _, c := range j.timed {
		v.Untimed -= c.n
	}
	for rail := range j.cfg.Rails {
		v.KnownGood = min(v.KnownGood, len(j.goodHosts(uint8(rail))))
	}
	j.power(&v)
	for s, t := range j.subjects {
		f := j.finding(s, t)
		switch {
		case f.Kind == CannotTell:
			v.Undecided++
		case f.Kind == NotReproduced && s.Kind == Link:
			v.NotReproduced++
			continue
		case f.Kind == NotReproduced && f.Screened > 1-j.cfg.Slow/2: // noise: it was never slow by as much as matters
			continue
		}
		v.Findings = append(v.Findings, f)
	}
	below, power := j.against()
	v.Findings, v.BaselinePower = append(joinSides(v.Findings), below...), power
	slices.SortFunc(v.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(rankOf(a.Kind), rankOf(b.Kind)), cmp.Compare(a.worst(), b.worst()),
			cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), cmp.Compare(a.Rail, b.Rail))
	})
	return v
}

func rankOf(k Kind) int {
	return slices.Index([]Kind{
		WrongDataHost, WrongDataLink, HostNotConnected, BelowBaseline, SlowTrunk, SlowHost, LinkNotConnected, SlowLink, SlowUnderLoad, CannotTell, NotReproduced,
	}, k)
}

func (f Finding) worst() float64 {
	if f.Loaded.N > 0 {
		return f.Loaded.Share
	}
	return f.Screened
}

func (j *Judge) finding(s Subject, t *trial) Finding {
	f := Finding{
		Subject: [...]string{"sender", "receiver", "link", "trunk"}[s.Kind], Rail: int(s.Rail), From: int(s.A), To: int(s.B),
		Loaded: t.loaded.share(), Quiet: t.quiet.share(),
	}
	if !math.IsInf(t.screen, 0) {
		f.Screened = math.Exp(t.screen)
	}
	if s.Kind <= Receiver {
		f.To = f.From
	}
	kind := map[SubjectKind]Kind{Sender: SlowHost, Receiver: SlowHost, Link: SlowLink, Trunk: SlowTrunk}[s.Kind]
	switch {
	case t.missing && t.loaded.decision == slow:
		f.Kind = LinkNotConnected
	case t.loaded.decision == fine:
		f.Kind = NotReproduced
	case t.loaded.decision == slow && t.quiet.decision == slow:
		f.Kind = kind
	case t.loaded.decision == slow && t.quiet.decision == fine:
		f.Kind = SlowUnderLoad
	default:
		f.Kind = CannotTell
	}
	return f
}

// share is the median of the evidence with the distribution-free interval of its order statistics.
func (e *evidence) share() fabric.Evidence {
	n := len(e.x)
	if n == 0 {
		return fabric.Evidence{}
	}
	x := slices.Clone(e.x)
	slices.Sort(x)
	k := max(int(math.Floor(float64(n)/2-0.98*math.Sqrt(float64(n)))), 0)
	return fabric.Evidence{N: n, Share: math.Exp(median(x)), Low: math.Exp(x[k]), High: math.Exp(x[n-1-k])}
}

// joinSides makes one finding of a host whose sending and receiving sides have the same verdict.
func joinSides(all []Finding) []Finding {
	type host struct {
		kind     Kind
		rail, at int
	}
	first := map[host]int{}
	var out []Finding
	for _, f := range all {
		if f.Subject != "sender" && f.Subject != "receiver" {
			out = append(out, f)
			continue
		}
		k := host{f.Kind, f.Rail, f.From}
		if i, both := first[k]; both {
			if f.worst() < out[i].worst() {
				out[i] = f
			}
			out[i].Subject = "host"
			continue
		}
		first[k] = len(out)
		out = append(out, f)
	}
	return out
}

// power fills in which drops this run could see: of a host by the sequential test, down to the drop looked for if the
// re-tests allowed it; of a link only where its one cell stood out of the noise.
func (j *Judge) power(v *Verdict) {
	const quantile = 1.645 // of the normal distribution, for likely
	d := -math.Log(1 - j.cfg.Slow)
	v.LinkPower = 1 - math.Exp(-max((screenSigma+quantile)*v.Sigma, d/2+quantile*v.Sigma, d))
	_, acquit := j.bounds(1)
	accuse, _ := j.bounds(2 * j.cfg.Hosts)
	cells := min(float64(mostPerTest), float64(max(j.cfg.Retests, 1)))
	// The mean weight of a cell of a host slower by x is (x-d/2)·d/σ²; it must reach accuse within the cells there are.
	x := d/2 + v.Sigma*v.Sigma/d*accuse/cells + quantile*v.Sigma/math.Sqrt(cells)
	v.HostPower = 1 - math.Exp(-max(x, d))
	if v.KnownGood == 0 || acquit == 0 {
		v.HostPower, v.LinkPower = 0, 0
	}
}
