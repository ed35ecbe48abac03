package simulate

import (
	"math"
	"math/rand/v2"

	"github.com/gobw/gobw/internal/fabric/judge"
	"github.com/gobw/gobw/internal/fabric/schedule"
)

// Config describes a simulated fabric.
type Config struct {
	Hosts     int
	Leaf      []int
	Rails     int
	Noise     float64 // standard deviation of one cell, as a share
	Bandwidth float64 // bits/s of a healthy cell; 0: 100 Gb/s
	Plants    []Plant
	Seed      uint64
}

// Fabric answers rounds.
type Fabric struct {
	c              Config
	rng            *rand.Rand
	send, receive  []float64 // logarithms
	load           []float64
	link, trunk    map[[2]int]float64
	dead           []bool
	betweenLeaves  float64
	aloneIsQuicker float64
}

// New makes a fabric.
func New(c Config) *Fabric {
	c.Rails = max(c.Rails, 1)
	if c.Bandwidth == 0 {
		c.Bandwidth = 100e9
	}
	f := &Fabric{
		c: c, rng: rand.New(rand.NewPCG(c.Seed, 1)), send: make([]float64, c.Hosts), receive: make([]float64, c.Hosts),
		load: make([]float64, c.Hosts), link: map[[2]int]float64{}, trunk: map[[2]int]float64{}, dead: make([]bool, c.Hosts),
		betweenLeaves: math.Log(0.9), aloneIsQuicker: math.Log(1.02),
	}
	for _, p := range c.Plants {
		switch p.Kind {
		case PlantHost:
			f.send[p.A], f.receive[p.A] = p.log(), p.log()
		case PlantSender:
			f.send[p.A] = p.log()
		case PlantReceiver:
			f.receive[p.A] = p.log()
		case PlantLoad:
			f.load[p.A] = p.log()
		case PlantLink:
			f.link[[2]int{p.A, p.B}] = p.log()
		case PlantTrunk:
			f.trunk[[2]int{p.A, p.B}] = p.log()
		case PlantDead:
			f.dead[p.A] = true
		}
	}
	return f
}

func (f *Fabric) leaf(h int) int {
	if f.c.Leaf == nil {
		return 0
	}
	return f.c.Leaf[h]
}

// Run answers one round on some rails.
func (f *Fabric) Run(number uint16, r schedule.Round, l judge.Load, rails []int) []judge.Cell {
	senders := map[int]int{}
	if r.FanIn > 1 {
		for _, fl := range r.Flows {
			senders[fl.To]++
		}
	}
	cells := make([]judge.Cell, 0, len(r.Flows)*len(rails))
	for _, rail := range rails {
		for _, fl := range r.Flows {
			x := judge.Cell{From: uint16(fl.From), To: uint16(fl.To), Round: number, Rail: uint8(rail)}
			if f.dead[fl.From] || f.dead[fl.To] {
				x.State = judge.NotConnected
				cells = append(cells, x)
				continue
			}
			y := math.Log(f.c.Bandwidth) + f.rng.NormFloat64()*f.c.Noise + f.send[fl.From] + f.receive[fl.To] + f.link[[2]int{fl.From, fl.To}]
			if a, b := f.leaf(fl.From), f.leaf(fl.To); a != b {
				y += f.betweenLeaves + f.trunk[[2]int{a, b}]
			}
			if l.Quiet {
				y += f.aloneIsQuicker
			} else {
				y += f.load[fl.From] + f.load[fl.To]
			}
			if n := senders[fl.To]; n > 1 {
				y -= math.Log(float64(n))
			}
			x.Value = float32(math.Exp(y))
			cells = append(cells, x)
		}
	}
	return cells
}

// Judge runs a schedule and the re-tests that the judge asks for.
func Judge(f *Fabric, s schedule.Schedule, c judge.Config) *judge.Judge {
	c.Hosts, c.Leaf, c.Rails = f.c.Hosts, f.c.Leaf, f.c.Rails
	j := judge.New(c)
	all := make([]int, f.c.Rails)
	for i := range all {
		all[i] = i
	}
	for k := range s.Rounds {
		r := s.At(k)
		l := judge.Load{FanIn: r.FanIn, OneWay: c.OneWay}
		j.Add(f.Run(j.Round(l), r, l, all))
	}
	for r, more := j.Next(); more; r, more = j.Next() {
		rails := all
		if r.Rail != judge.AllRails {
			rails = []int{r.Rail}
		}
		j.Add(f.Run(j.Round(r.Load), r.Round, r.Load, rails))
	}
	return j
}
