package judge

import (
	"cmp"
	"math"
	"slices"

	"github.com/gobw/gobw/report/matrix"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

// Conclude judges with what is there: findings, the gravest first. It may be asked at any time.
func (j *Judge) Conclude() ([]matrix.Finding, matrix.Judged) {
	if j.stage == screening {
		j.levels = j.cfg.learn(j.Cells)
	}
	v := matrix.Judged{
		Sigma: j.levels.sigma, Slow: j.cfg.Slow, Retests: j.retests, Untried: j.links, KnownGood: j.cfg.Hosts,
		Pairs: j.cfg.Rails * j.cfg.Hosts * (j.cfg.Hosts - 1),
	}
	v.Tested = j.tested()
	for rail := range j.cfg.Rails {
		v.KnownGood = min(v.KnownGood, len(j.goodHosts(uint8(rail))))
	}
	j.power(&v)
	findings := slices.Clone(j.bad)
	for s, t := range j.subjects {
		if t.loaded.decision != fine {
			findings = append(findings, j.finding(s, t))
		}
	}
	findings = joinSides(findings)
	slices.SortFunc(findings, func(a, b matrix.Finding) int {
		return cmp.Or(cmp.Compare(gravity(a), gravity(b)), cmp.Compare(a.Share(), b.Share()),
			cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), cmp.Compare(a.Rail, b.Rail))
	})
	return findings, v
}

// gravity orders findings: what is lost before what is slow, what many paths share before what one has.
func gravity(f matrix.Finding) int {
	cause := slices.Index([]stats.Cause{
		matrix.WrongData, matrix.NotConnected, matrix.Slow, matrix.SlowUnderLoad, stats.Unclear,
	}, f.Cause)
	return 10*cause +
		slices.Index([]matrix.Subject{matrix.Trunk, matrix.WholeOf, matrix.Sender, matrix.Receiver, matrix.Link}, f.Subject)
}

// remedy is what lets a run tell that could not. More time helps where re-tests were still
// wanted when the most of them had run.
func (j *Judge) remedy(wanted bool, most int) string {
	switch {
	case j.stage != decided:
		return "a complete run"
	case j.cfg.Hosts < 3:
		return "longer rounds (--round), quieter hosts and a quieter network, or a third host"
	case wanted && j.retests >= most:
		return "a longer --time, or longer rounds (--round)"
	}
	return "longer rounds (--round), or quieter hosts and a quieter network"
}

func (j *Judge) finding(s subject, t *trial) matrix.Finding {
	f := matrix.Finding{
		Subject: s.kind, Rail: int(s.rail), From: int(s.from), To: int(s.to),
		Busy: t.loaded.shares(), Alone: t.quiet.shares(),
	}
	if !math.IsInf(t.screen, 0) && !math.IsNaN(t.screen) {
		f.Screened = math.Exp(t.screen)
	}
	unclear := func(why string) stats.Verdict {
		return stats.Unknown(stats.Unclear, j.remedy(t.current() != nil, j.cfg.Retests), "%s", why)
	}
	switch {
	case t.missing && t.loaded.decision == slow:
		f.Verdict = stats.Failure(matrix.NotConnected, "", "")
	case t.loaded.decision == slow && t.quiet.decision == slow:
		f.Verdict = stats.Failure(matrix.Slow, "", "")
	case t.loaded.decision == slow && t.quiet.decision == fine:
		f.Verdict = stats.Failure(matrix.SlowUnderLoad, "", "")
	case len(t.loaded.x) == 0 && len(j.goodHosts(s.rail)) == 0:
		f.Verdict = unclear("not tested again: no host was steady enough to test it with")
	case len(t.loaded.x) == 0:
		f.Verdict = unclear("not tested again: the run ended first")
	case t.loaded.decision == slow && len(t.quiet.x) == 0:
		f.Verdict = unclear("slow on a busy network; the run ended before it was tested alone")
	default:
		f.Verdict = unclear("its re-tests do not differ enough from those of good hosts for a verdict")
	}
	return f
}

// shares are the re-tests as shares of what is expected: their median, and its interval where they are enough for one.
func (e *evidence) shares() stats.Summary {
	if len(e.x) == 0 {
		return stats.Summary{}
	}
	return stats.Summarize(plain.Each(e.x, math.Exp), stats.DefaultConfidence)
}

// joinSides makes one finding, the worse, of a host whose sending and receiving sides have the same verdict.
func joinSides(all []matrix.Finding) (out []matrix.Finding) {
	for _, f := range all {
		twin := func(g matrix.Finding) bool {
			return g.OfHost() && g.Cause == f.Cause && g.Rail == f.Rail && g.From == f.From
		}
		i := -1
		if f.OfHost() {
			i = slices.IndexFunc(out, twin)
		}
		if i < 0 {
			out = append(out, f)
			continue
		}
		if f.Share() < out[i].Share() {
			out[i] = f
		}
		out[i].Subject = matrix.WholeOf
	}
	return out
}

// power fills in which drops this run could see: of a host by the sequential test, down to the drop looked for if the
// re-tests allowed it; of a link only where its one cell stood out of the noise.
func (j *Judge) power(v *matrix.Judged) {
	const quantile = 1.645 // of the normal distribution, for 95 %
	d := -math.Log(1 - j.cfg.Slow)
	v.LinkPower = 1 - math.Exp(-max((screenSigma+quantile)*v.Sigma, d/2+quantile*v.Sigma, d))
	accuse, _ := j.bounds(2 * j.cfg.Hosts)
	cells := min(float64(mostPerTest), float64(max(j.cfg.Retests, 1)))
	// The mean weight of a cell of a host slower by x is (x-d/2)·d/σ²; it must reach accuse within the cells there are.
	x := d/2 + v.Sigma*v.Sigma/d*accuse/cells + quantile*v.Sigma/math.Sqrt(cells)
	v.HostPower = 1 - math.Exp(-max(x, d))
	if v.KnownGood == 0 {
		v.HostPower, v.LinkPower = 0, 0
		v.Settle = j.remedy(true, j.cfg.Retests/2)
	}
}
