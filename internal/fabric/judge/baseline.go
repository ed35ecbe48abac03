package judge

import (
	"math"
	"slices"

	"github.com/gobw/gobw/report/fabric"
	"github.com/gobw/gobw/report/stats"
)

// Level is what a run has learnt of a class of cells: the criterion that the next one may be held to.
type Level struct {
	Class Class
	// Values are bits/s, all the same, or the 5th, 25th, 50th, 75th and 95th percentile of a latency in ns.
	Values [percentiles]float64
	Hosts  []float64 // median share of the level of each host, in order: how far healthy hosts scatter
}

// Learnt are the levels of the scheduled rounds in which a flow was measured alone.
func (j *Judge) Learnt() []Level {
	hosts := j.hostMedians(j.levels.own)
	out := make([]Level, 0, len(hosts))
	for class, shares := range hosts {
		out = append(out, Level{class, j.cfg.values(j.levels.own[class]), shares})
	}
	slices.SortFunc(out, func(a, b Level) int { return a.Class.compare(b.Class) })
	return out
}

// baseline is the curve of an earlier run, by class.
func (c *Config) baseline() map[Class]curve {
	out := map[Class]curve{}
	for _, l := range c.Baseline {
		if c.Latency {
			out[l.Class] = latencyCurve(l.Values)
		} else {
			out[l.Class] = curve{middle: math.Log(l.Values[middle])}
		}
	}
	return out
}

// hostMedians are the hosts' median shares of some levels, by class, in order.
func (j *Judge) hostMedians(of map[Class]curve) map[Class][]float64 {
	type place struct {
		Class
		host uint16
	}
	distances := map[place][]float64{}
	for _, x := range sampled(j.cells) {
		class := j.cfg.classOf(x)
		level, known := of[class]
		if !known || !j.usable(x) {
			continue
		}
		d := j.cfg.distance(j.cfg.curveOf(x), level)
		for _, h := range []uint16{x.From, x.To} {
			distances[place{class, h}] = append(distances[place{class, h}], d)
		}
	}
	out := map[Class][]float64{}
	for p, d := range distances {
		out[p.Class] = append(out[p.Class], math.Exp(median(d)))
	}
	for _, shares := range out {
		slices.Sort(shares)
	}
	return out
}

// against compares each class as a whole with the baseline: its hosts then and now, by the verdict of all comparisons. It
// returns those that are slower, and the least drop of a whole class that is found with 95 %; 0: none is.
func (j *Judge) against() (found []Finding, power float64) {
	if len(j.cfg.Baseline) == 0 {
		return nil, 0
	}
	now := j.hostMedians(j.cfg.baseline())
	var effects []stats.Effect
	var of []Level
	for _, l := range j.cfg.Baseline {
		if len(now[l.Class]) > 0 && len(l.Hosts) > 0 {
			effects = append(effects, stats.Unpaired(l.Hosts, now[l.Class], 1-j.cfg.Alpha, stats.HigherIsBetter))
			of = append(of, l)
		}
	}
	for k, v := range stats.Conclude(effects, stats.Margins{Same: j.cfg.Slow / 2, Confidence: 1 - j.cfg.Alpha}) {
		e := effects[k]
		if e.Interval == nil {
			return found, 0
		}
		power = max(power, j.cfg.Slow/2+e.Interval.High-e.Interval.Low)
		if v.Word == stats.Worse {
			s := fabric.Evidence{N: len(now[of[k].Class]), Share: 1 + e.Change, Low: 1 + e.Interval.Low, High: 1 + e.Interval.High}
			found = append(found, Finding{Kind: BelowBaseline, Subject: "class", Rail: int(of[k].Class.Rail), From: -1, To: -1, Crosses: of[k].Class.Trunk, Loaded: s})
		}
	}
	return found, power
}
