package judge

import "math"

// curve is what the judge sees of a cell, or expects of cells of its class: logarithms of which less is worse. A
// bandwidth has one, in the middle; a latency has its percentiles.
type curve [percentiles]float64

const (
	percentiles = 5
	middle      = percentiles / 2
)

func (c *Config) curveOf(x Cell) curve {
	if !c.Latency {
		return curve{middle: math.Log(float64(x.Value))}
	}
	return latencyCurve(x.Quantiles)
}

func latencyCurve(ns [percentiles]float32) (out curve) {
	for k, q := range ns {
		out[k] = -math.Log(max(float64(q), 1))
	}
	return out
}

// distance is by how much a cell is better (above 0) or worse than what is expected of it, as the logarithm of a share.
//
// Of latencies it is one-sided, as SuperBench's criterion (Xiong et al., USENIX ATC'24): the area between
// the two cumulative distributions where the cell's is the slower one counts, and what is faster elsewhere
// does not make up for it. Where the faster side has the larger area, that is the distance, upwards, so that
// noise has no direction: distance(a, b) is -distance(b, a). It is a share of the mean, where SuperBench
// takes the largest value: one late message would move that. For two distributions of the same form it is
// the logarithm of their ratio, as for bandwidths.
func (c *Config) distance(of, expected curve) float64 {
	if !c.Latency {
		return of[middle] - expected[middle]
	}
	weights := [percentiles]float64{0.15, 0.225, 0.25, 0.225, 0.15} // what each stands for of the whole distribution
	var slower, faster, mean, wanted float64
	for k, w := range weights {
		q, e := math.Exp(-of[k]), math.Exp(-expected[k])
		mean += w * q
		wanted += w * e
		slower += w * max(q-e, 0)
		faster += w * max(e-q, 0)
	}
	if slower >= faster {
		return -math.Log1p(slower / wanted)
	}
	return math.Log1p(faster / mean)
}
