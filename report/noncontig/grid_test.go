package noncontig_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gobw/gobw/report/internal/sample"
	"github.com/gobw/gobw/report/noncontig"
	"github.com/gobw/gobw/report/plain"
)

func TestNoncontigCrossover(t *testing.T) {
	n := sample.Noncontig(0.01, 7)
	n.Analyze()
	if len(n.Crossovers) != 2 {
		t.Fatalf("got %d crossovers, want 2", len(n.Crossovers))
	}
	for _, x := range n.Crossovers {
		// 98.4375 - 2 + 50/32 = 98 ns a block against 0.2 ns a byte; interpolation is between 256 and 512.
		if x.BlockBytes < 465 || x.BlockBytes > 505 {
			t.Errorf("size %d: got a crossover at %.0f bytes, want about 490", x.SizeBytes, x.BlockBytes)
		}
		if !(x.Low < x.BlockBytes && x.BlockBytes < x.High) || x.High-x.Low > 60 {
			t.Errorf("size %d: got the interval %.0f to %.0f around %.0f", x.SizeBytes, x.Low, x.High, x.BlockBytes)
		}
	}
	if got, want := n.Summary[0], "on rxe0, gather of 16 KiB messages, stride 2x: gather-write wins from about "; !strings.HasPrefix(got, want) {
		t.Errorf("got summary %q, want it to start with %q", got, want)
	}
	if got, want := n.Summary[0], "below, pack wins, "; !strings.Contains(got, want) {
		t.Errorf("got summary %q, want %q in it", got, want)
	}
}

// TestNoncontigCrossoverLiesInItsInterval: whatever the noise and the shape of the curve, the estimate lies within the
// interval told with it, and within the range of block sizes.
func TestNoncontigCrossoverLiesInItsInterval(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	intervals := 0
	for round := range 100 {
		n := &noncontig.Grid{}
		noise, slope, runs := 0.6*r.Float64(), 0.6*(r.Float64()-0.2), 3+r.IntN(8)
		for i, block := range []int64{64, 128, 256, 512, 1024, 2048, 4096} {
			for _, s := range []string{"gather-write", "pack"} {
				p := noncontig.Point{Shape: "gather", Strategy: s, Layout: plain.Bytes(float64(block)), BlockBytes: block, Stride: "2x", SizeBytes: 1 << 16}
				for range runs {
					g := noise * r.NormFloat64()
					if r.IntN(10) == 0 { // now and then the processor was away
						g -= 1
					}
					if s == "gather-write" {
						g += slope * (float64(i) - 6*r.Float64())
					}
					p.Runs = append(p.Runs, noncontig.Run{GoodputBitsPerS: 1e9 * math.Exp(g)})
				}
				n.Points = append(n.Points, p)
			}
		}
		n.Analyze()
		x := n.Crossovers[0]
		if x.BlockBytes != 0 && (x.BlockBytes < 64 || x.BlockBytes > 4096) {
			t.Fatalf("round %d: a crossover at %v, outside the range", round, x.BlockBytes)
		}
		if x.Low > 0 {
			intervals++
			if x.BlockBytes < x.Low || x.BlockBytes > x.High {
				t.Errorf("round %d: %v lies outside its interval, %v to %v", round, x.BlockBytes, x.Low, x.High)
			}
		}
	}
	if intervals < 20 {
		t.Errorf("only %d of 100 curves had an interval: the test shows too little", intervals)
	}
}

// TestNoncontigIntervalsCover: of curves whose crossover is known, the 95 % intervals hold it about as often as they say.
func TestNoncontigIntervalsCover(t *testing.T) {
	exact := sample.Noncontig(0, 1)
	exact.Analyze()
	covered, told := 0, 0
	for seed := range uint64(60) {
		n := sample.NoncontigSeed(0.05, 9, seed)
		n.Analyze()
		for i, x := range n.Crossovers {
			if x.Low == 0 {
				continue
			}
			told++
			if want := exact.Crossovers[i].BlockBytes; x.Low <= want && want <= x.High {
				covered++
			}
		}
	}
	if share := float64(covered) / float64(told); told < 100 || share < 0.88 {
		t.Errorf("%.3f of %d intervals hold the true crossover, want 0.88 or more of 100 or more", share, told)
	}
}

func TestNoncontigWinners(t *testing.T) {
	n := sample.Noncontig(0.01, 7)
	n.Analyze()
	for _, c := range n.Cells {
		want := "pack"
		if c.BlockBytes > 512 {
			want = "gather-write"
		}
		if c.BlockBytes != 512 && c.Winner != want {
			t.Errorf("block %d: got winner %q with %.3f, want %q", c.BlockBytes, c.Winner, c.Margin, want)
		}
		if got := c.Find(noncontig.Contiguous).Ratio; got != 1 {
			t.Errorf("block %d: contiguous is %v of itself", c.BlockBytes, got)
		}
	}
}

func TestNoncontigNoDifference(t *testing.T) {
	n := &noncontig.Grid{}
	for _, block := range []int64{64, 128} {
		for _, s := range []string{"gather-write", "pack"} {
			p := noncontig.Point{Shape: "gather", Strategy: s, Layout: plain.Bytes(float64(block)), BlockBytes: block, Stride: "2x", SizeBytes: 4096}
			for i := range 7 {
				p.Runs = append(p.Runs, noncontig.Run{GoodputBitsPerS: 1e9 + 1e7*float64((i*3+len(s))%7)})
			}
			n.Points = append(n.Points, p)
		}
	}
	n.Analyze()
	for _, c := range n.Cells {
		if c.Winner != "" || c.Differs {
			t.Errorf("block %d: got winner %q, want none", c.BlockBytes, c.Winner)
		}
	}
	if got, want := n.Summary[0], "gather of 4 KiB messages, stride 2x: no difference between gather-write and pack at 64 B and 128 B blocks"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestNoncontigNoCrossoverInRange(t *testing.T) {
	n := sample.Noncontig(0, 6)
	var few []noncontig.Point
	for _, p := range n.Points {
		if p.BlockBytes >= 1024 {
			few = append(few, p)
		}
	}
	n.Points = few
	n.Analyze()
	if got, want := n.Crossovers[0].Words, "none in range: gather-write is ahead from 1 KiB to 4 KiB"; got != want || n.Crossovers[0].BlockBytes != 0 {
		t.Errorf("got %q at %v, want %q", got, n.Crossovers[0].BlockBytes, want)
	}
}

func TestNoncontigModel(t *testing.T) {
	n := sample.Noncontig(0.01, 7)
	n.Analyze()
	if len(n.Models) != 4 {
		t.Fatalf("got %d models, want 4: %v", len(n.Models), n.Models)
	}
	m := n.Models[0]
	if m.Strategy != "gather-write" || math.Abs(m.Costs.SGENs-98.4) > 10 || math.Abs(m.Costs.ByteNs-0.1) > 0.02 {
		t.Errorf("got %s: %s", m.Strategy, m)
	}
	for _, m := range n.Models {
		if m.HeldOutError == nil || *m.HeldOutError > 0.03 {
			t.Errorf("%s: got held-out error %v, want below 0.03", m.Strategy, m.HeldOutError)
		}
	}
	got := n.Predict("vector", []noncontig.Load{
		{Shape: "gather", Strategy: "gather-write", WRs: 4, SGEs: 128, Blocks: 128, Bytes: 96 << 10},
		{Shape: "gather", Strategy: "pack", WRs: 1, SGEs: 1, Blocks: 128, Bytes: 96 << 10},
		{Shape: "scatter", Strategy: "scatter-read", WRs: 1, SGEs: 1, Blocks: 128, Bytes: 96 << 10},
	})
	if len(got) != 2 || got[0].Strategy != "gather-write" {
		t.Fatalf("got predictions %+v, want gather-write first of 2", got)
	}
	want := 1000 + 50*4 + 98.4375*128 + 0.1*98304
	if math.Abs(got[0].MessageNs/want-1) > 0.05 {
		t.Errorf("got %.0f ns, want %.0f", got[0].MessageNs, want)
	}
}
