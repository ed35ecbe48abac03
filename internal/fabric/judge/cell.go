package judge

import (
	"math"

	"github.com/gobw/gobw/report/matrix"
)

// Cell is one flow of one round on one rail, in 16 bytes.
type Cell struct {
	Value    float32 // bits/s, or the median latency in ns
	From, To uint16
	Round    uint16
	Rail     uint8
	State    matrix.State
	Shape    Shape
}

// Shape is a latency's distribution around its median: the 5th, 25th, 75th and 95th percentile as how many doublings lie
// between, to the square: steps of a percent near the median, and up to 2^16 times it. For a bandwidth it is zero.
type Shape [percentiles - 1]uint8

const (
	mostDoublings = 16
	shapeSteps    = 255
)

// ShapeOf rounds a distribution to a Shape.
func ShapeOf(p5, p25, p50, p75, p95 float64) Shape {
	step := func(ratio float64) uint8 {
		if !(ratio > 1) {
			return 0
		}
		return uint8(math.Round(math.Sqrt(min(math.Log2(ratio)/mostDoublings, 1)) * shapeSteps))
	}
	return Shape{step(p50 / p5), step(p50 / p25), step(p75 / p50), step(p95 / p50)}
}

// Quantiles are the distribution's 5th, 25th, 50th, 75th and 95th percentile.
func (c Cell) Quantiles() [percentiles]float64 {
	v := float64(c.Value)
	at := func(k int, sign float64) float64 {
		root := float64(c.Shape[k]) / shapeSteps
		return v * math.Exp2(sign*root*root*mostDoublings)
	}
	return [percentiles]float64{at(0, -1), at(1, -1), v, at(2, 1), at(3, 1)}
}

// coverage counts which ordered pairs of hosts were tested, a bit each.
type coverage struct {
	hosts int
	bits  []uint64
	n     int
}

func newCoverage(hosts int) *coverage {
	return &coverage{hosts: hosts, bits: make([]uint64, (hosts*hosts+63)/64)}
}

func (c *coverage) add(x Cell) {
	i := int(x.From)*c.hosts + int(x.To)
	if c.bits[i/64]&(1<<(i%64)) == 0 {
		c.bits[i/64] |= 1 << (i % 64)
		c.n++
	}
}
