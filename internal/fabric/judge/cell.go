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

// tested counts the ordered pairs of hosts of which there is a cell.
func (j *Judge) tested() int {
	tested := 0
	pairs := make([]bool, j.cfg.Rails*j.cfg.Hosts*j.cfg.Hosts)
	for _, x := range j.cells {
		if p := &pairs[(int(x.Rail)*j.cfg.Hosts+int(x.From))*j.cfg.Hosts+int(x.To)]; x.State != matrix.Void && !*p {
			*p = true
			tested++
		}
	}
	return tested
}
