package sample

import (
	"math"
	"math/rand/v2"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/noncontig"
	"github.com/gobw/gobw/report/plain"
)

// NoncontigDocument is a grid of known costs with two strides: at the wider one packing is dearer.
func NoncontigDocument() *report.Document {
	n := Noncontig(0.02, 7)
	wide := Noncontig(0.02, 7)
	for _, p := range wide.Points {
		p.Stride, p.StrideBytes, p.Layout = "16x", 16*p.BlockBytes, p.Layout+"/16"
		if p.Strategy == "pack" {
			for i := range p.Runs {
				p.Runs[i].GoodputBitsPerS /= 2
			}
		}
		n.Points = append(n.Points, p)
	}
	n.Analyze()
	return &report.Document{
		Schema: report.SchemaVersion, Tool: "gobw", Complete: true, Label: "software device, not a NIC",
		Client: report.Environment{Device: "rxe0", Provider: "ibv", Host: "alpha"}, Noncontig: n,
	}
}

// Noncontig is a grid from known costs, with noise: gather costs 100 ns an entry, pack 0.2 ns a byte and 2 ns a
// block, so that they meet where 98 ns buy as many bytes: at 490 bytes.
func Noncontig(noise float64, runs int) *noncontig.Grid {
	return NoncontigSeed(noise, runs, 2)
}

// NoncontigSeed is the same with noise of its own.
func NoncontigSeed(noise float64, runs int, seed uint64) *noncontig.Grid {
	r := rand.New(rand.NewPCG(1, seed))
	n := &noncontig.Grid{Setup: noncontig.Setup{Device: "rxe0", Transport: "RC", Cache: "hot", Window: 16, MaxSGE: 32, Runs: runs}}
	for _, total := range []int64{16 << 10, 64 << 10} {
		for _, block := range []int64{64, 128, 256, 512, 1024, 2048, 4096} {
			blocks := total / block
			wrs := (blocks + 31) / 32
			for _, s := range []struct {
				name      string
				wrs, sges int64
				ns        float64
			}{
				{"gather-write", wrs, blocks, 1000 + 50*float64(wrs) + 98.4375*float64(blocks) + 0.1*float64(total)},
				{"pack", 1, 1, 1050 + 2*float64(blocks) + 0.3*float64(total)},
				{"multi-wr", blocks, blocks, 1000 + 300*float64(blocks) + 0.1*float64(total)},
				{"contiguous", 1, 1, 1050 + 0.1*float64(total)},
			} {
				p := noncontig.Point{
					Shape: "gather", Strategy: s.name, Layout: "vector:" + plain.Bytes(float64(block)), BlockBytes: block, Blocks: blocks,
					StrideBytes: 2 * block, Stride: "2x", SizeBytes: total, WRs: int(s.wrs), SGEs: int(s.sges),
				}
				for i := range runs {
					ns := s.ns * math.Exp(noise*r.NormFloat64())
					p.Runs = append(p.Runs, noncontig.Run{Order: i, Round: i + 1, Messages: 1000, Seconds: 0.1, GoodputBitsPerS: float64(total) * 8e9 / ns, P50Ns: ns * 16})
				}
				n.Points = append(n.Points, p)
			}
		}
	}
	return n
}
