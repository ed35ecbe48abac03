package noncontig_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
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
	n := &noncontig.Grid{
		Setup: noncontig.Setup{Device: "rxe0", Transport: "RC", Cache: "hot", Window: 16, MaxSGE: 32, Runs: runs},
	}
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
					Shape: "gather", Strategy: s.name, Layout: "vector:" + plain.Bytes(float64(block)), BlockBytes: block,
					Blocks:      blocks,
					StrideBytes: 2 * block, Stride: "2x", SizeBytes: total, WRs: int(s.wrs), SGEs: int(s.sges),
				}
				for i := range runs {
					ns := s.ns * math.Exp(noise*r.NormFloat64())
					p.Runs = append(p.Runs, noncontig.Run{
						Round: i + 1, Messages: 1000, Seconds: 0.1, GoodputBitsPerS: float64(total) * 8e9 / ns, P50Ns: ns * 16,
					})
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
			t.Errorf("size %d: got %.0f to %.0f around %.0f, want 256 or 512 to 512 or 1024", x.SizeBytes, x.Low, x.High,
				x.BlockBytes)
		}
	}
	if got, want := n.Summary[0],
		"gather (G-WR), 16 KiB messages, stride 2x: gather-write wins from about "; !strings.HasPrefix(got, want) {
		t.Errorf("got summary %q, want it to start with %q", got, want)
	}
	if got, want := n.Summary[0], "below, pack wins by up to "; !strings.Contains(got, want) {
		t.Errorf("got summary %q, want %q in it", got, want)
	}
}

// TestNoncontigCrossoverLiesBetweenVerdicts: whatever the noise and the shape of the curve, a crossover
// lies between a block size at which the copy is better and a larger one at which the device is, and
// beyond them no verdict says otherwise.
func TestNoncontigCrossoverLiesBetweenVerdicts(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	found := 0
	for round := range 100 {
		n := &noncontig.Grid{}
		noise, slope, runs := 0.3*r.Float64(), 0.6*(r.Float64()-0.2), 8+r.IntN(8)
		for i, block := range []int64{64, 128, 256, 512, 1024, 2048, 4096} {
			middle := 6 * r.Float64()
			for _, s := range []string{"gather-write", "pack"} {
				p := noncontig.Point{
					Shape: "gather", Strategy: s, Layout: plain.Bytes(float64(block)), BlockBytes: block, Stride: "2x",
					SizeBytes: 1 << 16,
				}
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
			if at == x.Low && word != stats.Worse || at == x.High && word != stats.Better ||
				at < x.Low && word == stats.Better || at > x.High && word == stats.Worse {
				t.Errorf("round %d: %q at %v, with a crossover between %v and %v", round, word, at, x.Low, x.High)
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d of 100 curves had a crossover: the test shows too little", found)
	}
}

// TestNoncontigUnderDrift: on a machine whose speed wanders by 30 % from round to round, with a run in ten disturbed, a
// strategy that is 10 % slower is found in nine tenths of cells; two equal ones are hardly ever called faster or
// slower, and in nine tenths the same. Without rounds hardly anything is found.
func TestNoncontigUnderDrift(t *testing.T) {
	count := func(slower float64) (words map[stats.Word]int, unpaired, all int) {
		words = map[stats.Word]int{}
		for seed := range uint64(120) {
			r := rand.New(rand.NewPCG(seed, 3))
			n := &noncontig.Grid{}
			for _, block := range []int64{64, 128, 256, 512, 1024, 2048, 4096} {
				place := noncontig.Point{
					Shape: "gather", Layout: plain.Bytes(float64(block)), BlockBytes: block, Stride: "2x", SizeBytes: 1 << 16,
				}
				ours, theirs := place, place
				ours.Strategy, theirs.Strategy = "gather-write", "pack"
				speed := 1.0
				for run := range 20 {
					speed *= math.Exp(0.3 * r.NormFloat64())
					measured := func(g float64) noncontig.Run {
						g *= speed * math.Exp(0.025*r.NormFloat64())
						if r.IntN(10) == 0 {
							g *= 1 - 0.3*r.Float64() // the processor was away
						}
						return noncontig.Run{Round: run + 1, GoodputBitsPerS: 1e9 * g}
					}
					ours.Runs, theirs.Runs = append(ours.Runs, measured(1)), append(theirs.Runs, measured(1-slower))
				}
				n.Points = append(n.Points, ours, theirs)
			}
			n.Analyze()
			for _, c := range n.Cells {
				words[c.Question.Word]++
				if stats.Unpaired(c.Find("pack").Goodputs, c.Find("gather-write").Goodputs, stats.DefaultConfidence,
					stats.HigherIsBetter).P < 0.05 {
					unpaired++
				}
				all++
			}
		}
		return words, unpaired, all
	}
	if words, _, all := count(0); words[stats.Better]+words[stats.Worse] > all*4/100 || words[stats.Same] < all*9/10 {
		t.Errorf("a strategy against its equal: %v of %d, want 96 %% without an alarm, 90 %% the same", words, all)
	}
	words, unpaired, all := count(0.1)
	if words[stats.Better] < all*9/10 || words[stats.Worse] > 0 {
		t.Errorf("a strategy that is 10 %% slower: %v of %d, want 90 %% found", words, all)
	}
	if unpaired > all/2 {
		t.Errorf("without rounds: %d of %d: the drift of this test is too small to show what pairs are for", unpaired, all)
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
				p := noncontig.Point{
					Shape: "gather", Strategy: s, Layout: plain.Bytes(float64(block)), BlockBytes: block, Stride: "2x",
					SizeBytes: 4096,
				}
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
		0.005: "gather (G-WR), 4 KiB messages, stride 2x: no crossover seen; gather-write and pack are the same at " +
			"64 B, 128 B", 0.3: "cannot tell: 2 of 2 rows; try --runs 26 (about half of these rows then have a verdict)",
	} {
		n := grid(spread)
		for _, c := range n.Cells {
			if c.Winner != "" {
				t.Errorf("block %d: got winner %q, want none", c.BlockBytes, c.Winner)
			}
		}
		if got := n.Summary[0]; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// TestNoncontigOneSide: a grid that lacks one side of the question says so.
func TestNoncontigOneSide(t *testing.T) {
	n := knownCosts(0.01, 6)
	n.Points = slices.DeleteFunc(n.Points, func(p noncontig.Point) bool { return p.Strategy != "pack" })
	n.Analyze()
	if want := "no verdict: add both strategies to --only: gather-write and pack"; len(n.Summary) != 1 ||
		n.Summary[0] != want {
		t.Errorf("%q, want %q", n.Summary, want)
	}
}

// TestNoncontigWarnings: what spoils measurements has a line each, and says how many they are.
func TestNoncontigWarnings(t *testing.T) {
	n := knownCosts(0.01, 6)
	n.Points[0].Runs[0].Warnings = []string{"short", "disturbed"}
	n.Points[1].Runs[2].Warnings = []string{"short"}
	n.Analyze()
	runs := 0
	for _, p := range n.Points {
		runs += len(p.Runs)
	}
	for _, want := range []string{
		fmt.Sprintf("disturbed: 1 of %d measurements", runs),
		fmt.Sprintf("short: 2 of %d measurements; try a longer -D", runs),
	} {
		if !slices.Contains(n.Summary, want) {
			t.Errorf("%q lacks %q", n.Summary, want)
		}
	}
}

// TestNoncontigFewRounds: what is told of rounds that are too few is how many are needed, not when they would tell.
func TestNoncontigFewRounds(t *testing.T) {
	for _, rounds := range []int{1, 4} {
		n := knownCosts(0.01, rounds)
		n.Analyze()
		want := "cannot tell: 14 of 14 rows; try --runs 20 (about half of these rows then have a verdict)"
		if n.Summary[0] != want {
			t.Errorf("%d rounds: %q, want %q", rounds, n.Summary[0], want)
		}
		n.Setup.Runs = 20
		n.Analyze()
		if want = "cannot tell: 14 of 14 rows"; n.Summary[0] != want {
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
	want := "no crossover seen; gather-write wins at 1 KiB, 2 KiB, 4 KiB"
	if got := n.Summary[0]; !strings.Contains(got, want) || len(n.Crossovers) != 0 {
		t.Errorf("got %q at %v, want %q in it", got, n.Crossovers, want)
	}
}

// TestGridsOfEarlierVersionsAreJudged: what was saved before there were verdicts and rounds
// gets them when it is read, from its runs.
func TestGridsOfEarlierVersionsAreJudged(t *testing.T) {
	n := knownCosts(0.01, 8)
	for i := range n.Points {
		for k := range n.Points[i].Runs {
			n.Points[i].Runs[k].Round = 0
		}
	}
	n.Cells = []noncontig.Cell{{Strategies: []noncontig.Figure{{Strategy: "gather-write"}, {Strategy: "pack"}}}}
	n.Analyze()
	if len(n.Cells) != 14 || n.Cells[0].Winner != "pack" || !n.Cells[0].Question.Goodput.Pairs {
		t.Errorf("%d cells, the first won by %q: %+v; want 14, pack, runs paired in their order", len(n.Cells),
			n.Cells[0].Winner, n.Cells[0].Question)
	}
}

// TestAboveContiguous: a copy that is faster than contiguous cannot be. Neither a
// winner nor a crossover follows from it.
func TestAboveContiguous(t *testing.T) {
	slowed := func(share float64) *noncontig.Grid {
		n := knownCosts(0.01, 12)
		for i := range n.Points {
			p := &n.Points[i]
			for k := range p.Runs {
				// the tool is in the way of all but the copy
				if p.BlockBytes == 4096 && p.SizeBytes == 16<<10 && p.Strategy != "pack" {
					p.Runs[k].GoodputBitsPerS *= share
				}
			}
		}
		n.Analyze()
		return n
	}
	for share, impossible := range map[float64]bool{1: false, 0.3: true} {
		n := slowed(share)
		for _, c := range n.Cells {
			here := impossible && c.BlockBytes == 4096 && c.Bytes == 16<<10
			told := strings.HasPrefix(c.Impossible, "pack is faster than contiguous (+")
			if told != here || here && (c.Winner != "" || c.Question.String() != "cannot tell: impossible") {
				t.Errorf("at %v of the rate, %d B: %q, winner %q, %v", share, c.BlockBytes, c.Impossible, c.Winner, c.Question)
			}
		}
		said := slices.ContainsFunc(n.Summary, func(s string) bool {
			return strings.HasPrefix(s, "impossible: 1 of 14 rows: pack is faster than contiguous (")
		})
		if said != impossible {
			t.Errorf("at %v of the rate: %q", share, n.Summary)
		}
	}
}
