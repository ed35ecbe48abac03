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

// tested counts the ordered pairs of hosts, on all rails, whose speed was judged:
// that sent with no other to the same host.
func (j *Judge) tested() int {
	seen := map[subject]bool{}
	for _, x := range j.Cells {
		if x.State != matrix.Void && j.cfg.rounds[x.Round].FanIn <= 1 {
			seen[linkOf(x)] = true
		}
	}
	return len(seen)
}
