package noncontig_test

import (
	"cmp"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gobw/gobw/report/noncontig"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

// knownCosts is a grid from known costs, with noise: gather costs 100 ns an entry, pack 0.2 ns a byte and 2 ns a
// block, so that they meet where 98 ns buy as many bytes: at 490 bytes.
func knownCosts(noise float64, runs int) *noncontig.Grid {
	r := rand.New(rand.NewPCG(1, 2))
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

func TestNoncontigCrossover(t *testing.T) {
	n := knownCosts(0.01, 7)
	n.Analyze()
	if len(n.Crossovers) != 2 {
		t.Fatalf("got %d crossovers, want 2", len(n.Crossovers))
	}
	for _, x := range n.Crossovers {
		// 98.4375 - 2 + 50/32 = 98 ns a block against 0.2 ns a byte; interpolation is between 256 and 512.
		if x.BlockBytes < 465 || x.BlockBytes > 505 {
			t.Errorf("size %d: got a crossover at %.0f bytes, want about 490", x.SizeBytes, x.BlockBytes)
		}
		if x.Low != 256 && x.Low != 512 || x.High != 512 && x.High != 1024 {
			t.Errorf("size %d: got %.0f to %.0f around %.0f, want 256 or 512 to 512 or 1024", x.SizeBytes, x.Low, x.High, x.BlockBytes)
		}
	}
	if got, want := n.Summary[0], "gather (G-WR), 16 KiB messages, stride 2x: gather-write wins from about "; !strings.HasPrefix(got, want) {
		t.Errorf("got summary %q, want it to start with %q", got, want)
	}
	if got, want := n.Summary[0], "below, pack wins, "; !strings.Contains(got, want) {
		t.Errorf("got summary %q, want %q in it", got, want)
	}
}

// TestNoncontigCrossoverLiesBetweenVerdicts: whatever the noise and the shape of the curve, a crossover lies between a block size at
// which the copy is better and a larger one at which the device is, and beyond them no verdict says otherwise.
func TestNoncontigCrossoverLiesBetweenVerdicts(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	found := 0
	for round := range 100 {
		n := &noncontig.Grid{}
		noise, slope, runs := 0.3*r.Float64(), 0.6*(r.Float64()-0.2), 8+r.IntN(8)
		for i, block := range []int64{64, 128, 256, 512, 1024, 2048, 4096} {
			middle := 6 * r.Float64()
			for _, s := range []string{"gather-write", "pack"} {
				p := noncontig.Point{Shape: "gather", Strategy: s, Layout: plain.Bytes(float64(block)), BlockBytes: block, Stride: "2x", SizeBytes: 1 << 16}
				for run := range runs {
					g := noise * r.NormFloat64()
					if r.IntN(10) == 0 { // now and then the processor was away
						g -= 1
					}
					if s == "gather-write" {
						g += slope * (float64(i) - middle)
					}
					p.Runs = append(p.Runs, noncontig.Run{Round: run + 1, GoodputBitsPerS: 1e9 * math.Exp(g)})
				}
				n.Points = append(n.Points, p)
			}
		}
		n.Analyze()
		if len(n.Crossovers) == 0 {
			continue
		}
		x := n.Crossovers[0]
		found++
		if !(x.Low <= x.BlockBytes && x.BlockBytes <= x.High) {
			t.Errorf("round %d: %v lies outside of %v to %v", round, x.BlockBytes, x.Low, x.High)
		}
		for _, c := range n.Cells {
			at, word := float64(c.BlockBytes), c.Question.Word
			if at == x.Low && word != stats.Worse || at == x.High && word != stats.Better || at < x.Low && word == stats.Better || at > x.High && word == stats.Worse {
				t.Errorf("round %d: %q at %v, with a crossover between %v and %v", round, word, at, x.Low, x.High)
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d of 100 curves had a crossover: the test shows too little", found)
	}
}

// TestNoncontigUnderDrift: on a machine whose speed wanders by 30 % from round to round, with a run in ten disturbed, a planted
// cost of 10 % is found in nine tenths of cells, a strategy against itself is hardly ever called faster or slower, and
// mostly the same; and without rounds, as earlier versions measured, hardly anything is.
func TestNoncontigUnderDrift(t *testing.T) {
	grid := func(seed uint64, planted float64, rounds bool) *noncontig.Grid {
		r := rand.New(rand.NewPCG(seed, 3))
		n := &noncontig.Grid{Setup: noncontig.Setup{Planted: planted}}
		for _, block := range []int64{64, 128, 256, 512, 1024, 2048, 4096} {
			speed := 1.0
			points := map[string]*noncontig.Point{}
			for run := range 12 {
				speed *= math.Exp(0.3 * r.NormFloat64())
				for _, s := range []string{"gather-write", "pack", noncontig.Control} {
					if points[s] == nil {
						points[s] = &noncontig.Point{Shape: "gather", Strategy: s, Layout: plain.Bytes(float64(block)), BlockBytes: block, Stride: "2x", SizeBytes: 1 << 16}
					}
					g := speed * math.Exp(0.025*r.NormFloat64())
					switch s {
					case "pack":
						g *= 0.9
					case noncontig.Control:
						g *= 1 - planted
					}
					time := 1e9 / g * math.Exp(0.01*r.NormFloat64())
					if r.IntN(10) == 0 {
						g *= 1 - 0.3*r.Float64() // the processor was away, which the median message does not see
					}
					one := noncontig.Run{GoodputBitsPerS: 1e9 * g, P50Ns: time}
					if rounds {
						one.Round = run + 1
					}
					points[s].Runs = append(points[s].Runs, one)
				}
			}
			for _, s := range []string{"gather-write", "pack", noncontig.Control} {
				n.Points = append(n.Points, *points[s])
			}
		}
		n.Analyze()
		return n
	}
	count := func(planted float64, rounds bool) (pack, control map[stats.Word]int, all int) {
		pack, control = map[stats.Word]int{}, map[stats.Word]int{}
		for seed := range uint64(40) {
			for _, c := range grid(seed, planted, rounds).Cells {
				pack[c.Question.Word]++
				control[c.Control.Word]++
				all++
			}
		}
		return pack, control, all
	}
	pack, control, all := count(0, true)
	if got := control[stats.Better] + control[stats.Worse]; got > all*4/100 || control[stats.Same] < all*9/10 {
		t.Errorf("a strategy against itself: %v of %d, want 99 %% without an alarm, 90 %% the same", control, all)
	}
	if pack[stats.Better] < all*9/10 || pack[stats.Worse] > 0 {
		t.Errorf("a strategy that is 10 %% slower: %v of %d, want 90 %% found", pack, all)
	}
	if _, control, _ = count(0.1, true); control[stats.Worse] < all*9/10 {
		t.Errorf("a planted cost of 10 %%: %v of %d, want 90 %% found", control, all)
	}
	if pack, _, _ = count(0, false); pack[stats.Better] > all/2 {
		t.Errorf("without rounds: %v of %d: the drift of this test is too small to show what pairs are for", pack, all)
	}
}

// TestNoncontigOnBusyMachine: where goodput and the median time are those of waiting for a processor, the best spans tell: a
// planted cost is found, a strategy against itself is the same. Rounds without a span are left out; where hardly any has
// one, nothing is told; and where goodput tells, the spans are not asked.
func TestNoncontigOnBusyMachine(t *testing.T) {
	count := func(planted, seen, noise float64) map[stats.Word]int {
		words := map[stats.Word]int{}
		for seed := range uint64(60) {
			r := rand.New(rand.NewPCG(seed, 7))
			n := &noncontig.Grid{Setup: noncontig.Setup{Planted: planted}}
			for _, block := range []int64{64, 256, 1024, 4096} {
				for _, s := range []string{"gather-send", noncontig.Control} {
					p := noncontig.Point{Shape: "both", Strategy: s, Layout: plain.Bytes(float64(block)), BlockBytes: block, Stride: "2x", SizeBytes: 1 << 16}
					for run := range 21 {
						g := 1e9
						if s == noncontig.Control {
							g *= 1 - planted
						}
						one := noncontig.Run{Round: run + 1, GoodputBitsPerS: g * math.Exp(noise*r.NormFloat64())}
						if r.Float64() < seen {
							one.BestBitsPerS = g * math.Exp(0.02*r.NormFloat64())
						}
						p.Runs = append(p.Runs, one)
					}
					n.Points = append(n.Points, p)
				}
			}
			n.Analyze()
			for _, c := range n.Cells {
				words[c.Control.Word]++
			}
		}
		return words
	}
	const all = 60 * 4
	if w := count(0.1, 0.8, 1); w[stats.Worse] < all*95/100 || w[stats.Better] > all*2/100 {
		t.Errorf("a planted cost of 10 %%: %v of %d, want 95 %% found, 2 %% the other way at most", w, all)
	}
	if w := count(0, 0.8, 1); w[stats.Same] < all*9/10 || w[stats.Better]+w[stats.Worse] > all*4/100 {
		t.Errorf("a strategy against itself: %v of %d, want 90 %% the same", w, all)
	}
	if w := count(0.1, 0.1, 1); w[stats.CannotTell] < all*95/100 {
		t.Errorf("with spans in one run of ten: %v of %d, want no verdict", w, all)
	}
}

// TestNoncontigTwoFigures: where one figure cannot tell the other does; where they contradict each other, nothing is told.
func TestNoncontigTwoFigures(t *testing.T) {
	for name, tt := range map[string]struct {
		goodput, time float64 // of pack over gather-write
		noisy         bool    // the goodput
		shape         string
		want          stats.Word
		by            string
	}{
		"both":               {goodput: 0.8, time: 1.25, want: stats.Better, by: "by goodput and p50 time"},
		"time alone":         {goodput: 0.9, time: 1.25, noisy: true, want: stats.Better, by: "by p50 time"},
		"goodput alone":      {goodput: 0.8, time: 1, want: stats.Better, by: "by goodput"},
		"contrary":           {goodput: 0.8, time: 0.8, want: stats.CannotTell, by: "goodput says faster"},
		"the same":           {goodput: 1, time: 1, want: stats.Same, by: "by goodput and p50 time"},
		"a SEND has no time": {goodput: 1, time: 1.25, shape: "both", want: stats.Same, by: "by goodput:"},
	} {
		t.Run(name, func(t *testing.T) {
			shape := cmp.Or(tt.shape, "gather")
			device, cpu := noncontig.Sides(shape)
			n := &noncontig.Grid{}
			for _, s := range []string{device, cpu} {
				p := noncontig.Point{Shape: shape, Strategy: s, Layout: "a", BlockBytes: 64, Stride: "2x", SizeBytes: 4096}
				for i := range 12 {
					r := noncontig.Run{Round: i + 1, GoodputBitsPerS: 1e9, P50Ns: 1000}
					if s == cpu {
						r.GoodputBitsPerS, r.P50Ns = tt.goodput*1e9, tt.time*1000
						if tt.noisy {
							r.GoodputBitsPerS *= math.Exp(0.5 * math.Sin(float64(i*i)))
						}
					}
					p.Runs = append(p.Runs, r)
				}
				n.Points = append(n.Points, p)
			}
			n.Analyze()
			c := n.Cells[0]
			if c.Question.Word != tt.want || !strings.Contains(c.Question.Reason, tt.by) {
				t.Errorf("%s: %s; want %s, %q", c.Question.Word, c.Question.Reason, tt.want, tt.by)
			}
			if want := plain.When(tt.want == stats.Better, "%s", device); c.Winner != want {
				t.Errorf("winner %q, want %q", c.Winner, want)
			}
		})
	}
}

func TestNoncontigWinners(t *testing.T) {
	n := knownCosts(0.01, 12)
	n.Analyze()
	for _, c := range n.Cells {
		want := "pack"
		if c.BlockBytes > 512 {
			want = "gather-write"
		}
		if c.BlockBytes != 512 && c.Winner != want {
			t.Errorf("block %d: got winner %q, want %q", c.BlockBytes, c.Winner, want)
		}
	}
}

func TestNoncontigNoDifference(t *testing.T) {
	grid := func(spread float64) *noncontig.Grid {
		n := &noncontig.Grid{}
		for _, block := range []int64{64, 128} {
			for _, s := range []string{"gather-write", "pack"} {
				p := noncontig.Point{Shape: "gather", Strategy: s, Layout: plain.Bytes(float64(block)), BlockBytes: block, Stride: "2x", SizeBytes: 4096}
				for i := range 7 {
					p.Runs = append(p.Runs, noncontig.Run{GoodputBitsPerS: 1e9 * (1 + spread*float64((i*3+len(s))%7))})
				}
				n.Points = append(n.Points, p)
			}
		}
		n.Analyze()
		return n
	}
	for spread, want := range map[float64]string{
		0.005: "no crossover seen; gather-write and pack are the same at 64 B and 128 B blocks", 0.1: "cannot tell whether gather-write or pack is faster; more rounds do not help: the machine is too noisy",
	} {
		n := grid(spread)
		for _, c := range n.Cells {
			if c.Winner != "" {
				t.Errorf("block %d: got winner %q, want none", c.BlockBytes, c.Winner)
			}
		}
		if got, want := n.Summary[0], "gather (G-WR), 4 KiB messages, stride 2x: "+want; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// TestNoncontigFewRounds: what is told of rounds that are too few is how many are needed, not when they would tell.
func TestNoncontigFewRounds(t *testing.T) {
	for _, rounds := range []int{1, 4} {
		n := knownCosts(0.01, rounds)
		n.Analyze()
		want := "gather (G-WR), 2 series: cannot tell whether gather-write or pack is faster; try --runs 20 (at least 6)"
		if n.Summary[0] != want {
			t.Errorf("%d rounds: %q, want %q", rounds, n.Summary[0], want)
		}
		n.Setup.Runs, n.Missing = 20, []string{"gather/pack run 9"}
		n.Analyze()
		if want = "is faster: not all of the 20 rounds are measured"; !strings.HasSuffix(n.Summary[0], want) {
			t.Errorf("interrupted: %q, want %q", n.Summary[0], want)
		}
	}
}

func TestNoncontigNoCrossoverInRange(t *testing.T) {
	n := knownCosts(0, 6)
	var few []noncontig.Point
	for _, p := range n.Points {
		if p.BlockBytes >= 1024 {
			few = append(few, p)
		}
	}
	n.Points = few
	n.Analyze()
	want := "no crossover seen; gather-write wins at 1 KiB to 4 KiB blocks"
	if got := n.Summary[0]; !strings.Contains(got, want) || len(n.Crossovers) != 0 {
		t.Errorf("got %q at %v, want %q in it", got, n.Crossovers, want)
	}
}

// TestGridsOfEarlierVersionsAreJudged: what was saved before there were verdicts and rounds gets them when it is read, from its runs.
func TestGridsOfEarlierVersionsAreJudged(t *testing.T) {
	n := knownCosts(0.01, 8)
	for i := range n.Points {
		for k := range n.Points[i].Runs {
			n.Points[i].Runs[k].Round = 0
		}
	}
	n.Cells = []noncontig.Cell{{Strategies: []noncontig.Figure{{Strategy: "gather-write"}, {Strategy: "pack"}}}}
	n.Analyze()
	if len(n.Cells) != 14 || n.Cells[0].Winner != "pack" || n.Cells[0].Question.Goodput.Pairs {
		t.Errorf("%d cells, the first won by %q: %+v; want 14, pack, judged without pairs", len(n.Cells), n.Cells[0].Winner, n.Cells[0].Question)
	}
}
