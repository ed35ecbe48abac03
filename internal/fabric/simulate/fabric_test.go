// Package simulate is a fabric of numbers: hosts, links and trunks with planted faults and noise. It answers rounds as
// a cluster would, so that schedules and judge can be tried without a network, and their error rates counted.
package simulate

import (
	"math"
	"math/rand/v2"

	"github.com/gobw/gobw/internal/fabric/judge"
	"github.com/gobw/gobw/internal/fabric/schedule"
	"github.com/gobw/gobw/report/matrix"
)

// Config describes a simulated fabric.
type Config struct {
	Hosts     int
	Leaf      []int
	Rails     int
	Noise     float64 // standard deviation of one cell, as a share
	Bandwidth float64 // bits/s of a healthy cell; 0: 100 Gb/s
	Latency   bool    // cells are latencies, of 2 us where nothing is wrong
	Plants    []Plant
	Seed      uint64
}

// Fabric answers rounds.
type Fabric struct {
	c              Config
	rng            *rand.Rand
	rails          []rail
	dead           []bool
	betweenLeaves  float64
	aloneIsQuicker float64
}

// rail holds what is wrong on a rail: logarithms, 0 where nothing is.
type rail struct {
	send, receive, load, tail []float64 // by host
	link, trunk               map[[2]int]float64
}

// New makes a fabric.
func New(c Config) *Fabric {
	c.Rails = max(c.Rails, 1)
	if c.Bandwidth == 0 {
		c.Bandwidth = 100e9
	}
	f := &Fabric{
		c: c, rng: rand.New(rand.NewPCG(c.Seed, 1)), dead: make([]bool, c.Hosts), betweenLeaves: math.Log(0.9),
		aloneIsQuicker: math.Log(1.02),
	}
	for range c.Rails {
		f.rails = append(f.rails, rail{
			send: make([]float64, c.Hosts), receive: make([]float64, c.Hosts), load: make([]float64, c.Hosts),
			tail: make([]float64, c.Hosts),
			link: map[[2]int]float64{}, trunk: map[[2]int]float64{},
		})
	}
	for _, p := range c.Plants {
		for k := range f.rails {
			if p.on(k) {
				f.plant(p, &f.rails[k])
			}
		}
	}
	return f
}

func (f *Fabric) plant(p Plant, r *rail) {
	switch p.Kind {
	case Host:
		r.send[p.A], r.receive[p.A] = p.log(), p.log()
	case Sender:
		r.send[p.A] = p.log()
	case Receiver:
		r.receive[p.A] = p.log()
	case Load:
		r.load[p.A] = p.log()
	case Tail:
		r.tail[p.A] = p.log()
	case Link:
		r.link[[2]int{p.A, p.B}] = p.log()
	case Trunk:
		r.trunk[[2]int{p.A, p.B}] = p.log()
	case Dead:
		f.dead[p.A] = true
	}
}

func (f *Fabric) leaf(h int) int {
	if f.c.Leaf == nil {
		return 0
	}
	return f.c.Leaf[h]
}

// Run answers one round on some rails.
func (f *Fabric) Run(number uint16, r schedule.Round, rails []int) []judge.Cell {
	var out, in map[int]int // flows of each host: they share its port
	if r.FanIn > 1 {
		out, in = map[int]int{}, map[int]int{}
		for _, fl := range r.Flows {
			out[fl.From]++
			in[fl.To]++
		}
	}
	cells := make([]judge.Cell, 0, len(r.Flows)*len(rails))
	for _, k := range rails {
		bad := &f.rails[k]
		for _, fl := range r.Flows {
			x := judge.Cell{From: uint16(fl.From), To: uint16(fl.To), Round: number, Rail: uint8(k)}
			if f.dead[fl.From] || f.dead[fl.To] {
				x.State = matrix.Missing
				cells = append(cells, x)
				continue
			}
			y := f.rng.NormFloat64()*f.c.Noise + bad.send[fl.From] + bad.receive[fl.To] + bad.link[[2]int{fl.From, fl.To}]
			if a, b := f.leaf(fl.From), f.leaf(fl.To); a != b {
				y += f.betweenLeaves + bad.trunk[[2]int{a, b}]
			}
			if r.Alone {
				y += f.aloneIsQuicker
			} else {
				y += bad.load[fl.From] + bad.load[fl.To]
			}
			if n := max(out[fl.From], in[fl.To]); n > 1 {
				y -= math.Log(float64(n))
			}
			x.Value = float32(f.c.Bandwidth * math.Exp(y))
			if f.c.Latency {
				f.latency(&x, y, bad.tail[fl.From]+bad.tail[fl.To])
			}
			cells = append(cells, x)
		}
	}
	return cells
}

// latency gives a cell a distribution with a tail to the right, whose ends are noisier than its middle.
func (f *Fabric) latency(x *judge.Cell, y, tail float64) {
	const ns = 2000
	form := [5]float64{0.93, 0.97, 1, 1.04, 1.25}
	for k := range form {
		form[k] *= ns * math.Exp(-y)
	}
	form[3] *= math.Exp(math.Abs(f.rng.NormFloat64()) * f.c.Noise / 2)
	form[4] = max(form[3], form[4]*math.Exp(f.rng.NormFloat64()*f.c.Noise-tail))
	for k, ns := range form {
		x.Quantiles[k] = float32(ns)
	}
	x.Value = x.Quantiles[2]
}

// Judge runs a schedule and the re-tests that the judge asks for.
func Judge(f *Fabric, s schedule.Schedule, c judge.Config) *judge.Judge {
	c.Hosts, c.Leaf, c.Rails, c.Latency = f.c.Hosts, f.c.Leaf, f.c.Rails, f.c.Latency
	j := judge.New(c)
	all := make([]int, f.c.Rails)
	for i := range all {
		all[i] = i
	}
	for k := range s.Rounds {
		r := s.At(k)
		j.Add(f.Run(j.Round(r.Round), r, all))
	}
	for r, more := j.Next(); more; r, more = j.Next() {
		rails := all
		if r.Rail != judge.AllRails {
			rails = []int{r.Rail}
		}
		j.Add(f.Run(j.Round(r.Round.Round), r.Round, rails))
	}
	return j
}
