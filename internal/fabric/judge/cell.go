package judge

import "github.com/gobw/gobw/report/matrix"

// Cell is one flow of one round on one rail.
type Cell struct {
	Value     float32              // bits/s, or the median latency in ns
	Quantiles [percentiles]float32 // of a latency, in ns: the 5th, 25th, 50th, 75th and 95th percentile
	From, To  uint16
	Round     uint16
	Rail      uint8
	State     matrix.State
}

// pairs counts the ordered pairs of hosts that were tested, and of these the ones whose speed was not judged.
func (j *Judge) pairs() (tested, untimed int) {
	const seen, timed = 1, 2
	pairs := make([]uint8, j.cfg.Rails*j.cfg.Hosts*j.cfg.Hosts)
	for _, x := range j.cells {
		p := &pairs[(int(x.Rail)*j.cfg.Hosts+int(x.From))*j.cfg.Hosts+int(x.To)]
		switch {
		case x.State == matrix.Void:
		case j.cfg.rounds[x.Round].FanIn <= 1:
			*p = timed
		default:
			*p = max(*p, seen)
		}
	}
	for _, p := range pairs {
		tested += int(min(p, 1))
		untimed += int(p & seen)
	}
	return tested, untimed
}
