package report

import (
	"bytes"
	"errors"
	"flag"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// noisyDocument has runs of a bandwidth and a latency test with noise as virtual machines have it: a per-cent-sized
// spread, a drift, and now and then a run that something else disturbed by up to a third.
func noisyDocument(rng *rand.Rand, runs int, slower float64) *Document {
	d := repeatedDocument(1)
	template := d.Records[0]
	d.Records = nil
	for run := 1; run <= runs; run++ {
		for _, size := range []uint64{64, 4096, 65536} {
			noise := math.Exp(0.025*rng.NormFloat64() + 0.01*float64(run)/float64(runs))
			if rng.Float64() < 0.1 {
				noise *= 1 + 0.33*rng.Float64()
			}
			seconds := (1e-6 + float64(size)/5e9) * noise * slower * 1e5
			bw := template
			bw.Run, bw.SizeBytes, bw.Seconds = run, size, seconds
			bw.Bandwidth = Bandwidth{AverageBitsPerS: 8 * float64(size) * 1e5 / seconds}
			bw.MessagesPerS = 1e5 / seconds
			d.Records = append(d.Records, bw)
		}
		ns := make([]float64, 1200)
		base := 5200 * slower * math.Exp(0.02*rng.NormFloat64())
		for i := range ns {
			ns[i] = base * math.Exp(0.05*math.Abs(rng.NormFloat64()))
		}
		l := LatencyFromNs(ns)
		lat := template
		lat.Run, lat.Kind, lat.Operation, lat.SizeBytes, lat.Latency = run, "latency", "send", 2, &l
		lat.Bandwidth = Bandwidth{}
		d.Records = append(d.Records, lat)
	}
	return d
}

var repetitions = flag.Int("repetitions", 20, "of the comparison with and without a planted slowdown") //nolint:gochecknoglobals // a flag of the test

// A planted slowdown of 10 % fails the gate and is found at most points, and where nothing was planted no figure differs
// and the gate passes, in at least 19 of 20 repetitions of each.
func TestCompareTellsASlowdownFromNoise(t *testing.T) {
	gate, err := ParseGate("worse>5%")
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(2026, 11))
	found, quiet, silent := 0, 0, 0
	for range *repetitions {
		for _, slower := range []float64{1, 1.10} {
			c, err := Compare([]*Document{noisyDocument(rng, 12, 1)}, []*Document{noisyDocument(rng, 12, slower)}, CompareOptions{})
			if err != nil {
				t.Fatal(err)
			}
			worse, different := 0, 0
			for _, p := range c.Points {
				if p.Verdict == Worse {
					worse++
				}
				if p.Verdict != Same {
					different++
				}
			}
			failed := len(gate.Judge(c)) > 0
			if slower == 1 && !failed {
				silent++
			}
			switch {
			case slower > 1 && 2*worse > len(c.Points) && failed:
				found++
			case slower == 1 && !failed && different == 0:
				quiet++
			}
		}
	}
	t.Logf("of %d: the slowdown was found in %d; without one no figure differed in %d, and the gate was quiet in %d", *repetitions, found, quiet, silent)
	if least := *repetitions * 19 / 20; found < least || quiet < least {
		t.Errorf("the slowdown was found in %d of %d, its absence in %d; want %d each", found, *repetitions, quiet, least)
	}
}

func TestCompareRefusesUnlike(t *testing.T) {
	old, other := repeatedDocument(1), repeatedDocument(1)
	other.Client.Device, other.Client.Provider, other.Client.LinkBitsPerS = "mlx5_0", "ibv", 100e9
	_, err := Compare([]*Document{old}, []*Document{other}, CompareOptions{})
	var unlike *UnlikeError
	if !errors.As(err, &unlike) || len(unlike.Differences) != 3 {
		t.Fatalf("%v", err)
	}
	for _, want := range []string{"client device: roce0 before, mlx5_0 now", "client link rate: 0 Gb/s before, 100.0 Gb/s now", "--unlike"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
	c, err := Compare([]*Document{old}, []*Document{other}, CompareOptions{Unlike: true})
	if err != nil || len(c.Unlike) != 3 {
		t.Errorf("told to, it compares with %d differences: %v", len(c.Unlike), err)
	}
	newer := repeatedDocument(1)
	newer.Client.Version, newer.Client.Firmware = "v0.2.0", "22.1"
	c, err = Compare([]*Document{old}, []*Document{newer}, CompareOptions{})
	if err != nil || len(c.Changed) != 2 {
		t.Errorf("versions are what one compares: %v", err)
	}
}

func TestCompareWithoutACommonPoint(t *testing.T) {
	old, other := repeatedDocument(1), repeatedDocument(1)
	for i := range other.Records {
		other.Records[i].TxDepth = 16
	}
	_, err := Compare([]*Document{old}, []*Document{other}, CompareOptions{})
	if err == nil || !strings.Contains(err.Error(), "tx depth 128") || !strings.Contains(err.Error(), "tx depth 16") {
		t.Errorf("%v", err)
	}
	if _, err := Compare(nil, nil, CompareOptions{}); err == nil {
		t.Error("nothing compares with nothing")
	}
	if _, err := Compare([]*Document{old}, []*Document{old}, CompareOptions{Figures: []string{"bandwdth"}}); err == nil || !strings.Contains(err.Error(), `"bandwidth"`) {
		t.Errorf("%v", err)
	}
}

// Options that decide a figure are part of the point: a paced run is no worse one of the same test.
func TestCompareKeepsOptionsApart(t *testing.T) {
	for name, change := range map[string]func(*Record){
		"rate limit":  func(r *Record) { r.RateLimitBitsPerS = 1e9 },
		"pause":       func(r *Record) { r.GapNs = 5000 },
		"immediate":   func(r *Record) { r.Immediate = true },
		"atomic":      func(r *Record) { r.Atomic = "compare-and-swap" },
		"outstanding": func(r *Record) { r.Outstanding = 4 },
		"srq":         func(r *Record) { r.SRQ = true },
	} {
		d := repeatedDocument(1)
		for i := range d.Records {
			change(&d.Records[i])
		}
		if c, err := Compare([]*Document{repeatedDocument(1)}, []*Document{d}, CompareOptions{}); err == nil {
			t.Errorf("%s: %d points are taken for the same", name, len(c.Points))
		}
	}
}

// The extremes of several runs are extremes of their samples.
func TestExtremesOverRuns(t *testing.T) {
	var r row
	for _, ns := range [][]float64{{1, 5, 9}, {2, 5, 30}, {3, 4, 8}} {
		l := LatencyFromNs(ns)
		r.runs = append(r.runs, &Record{Latency: &l})
	}
	if got := r.latency(); got.MinNs != 1 || got.MaxNs != 30 || got.P50Ns != 5 || got.Samples != 9 {
		t.Errorf("min %v, median %v, max %v of %d; want 1, 5, 30 of 9", got.MinNs, got.P50Ns, got.MaxNs, got.Samples)
	}
}

func TestCompareTooFewRuns(t *testing.T) {
	one := sampleDocument()
	c, err := Compare([]*Document{one}, []*Document{one}, CompareOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range c.Points {
		if p.Verdict != TooFewRuns {
			t.Errorf("one run a side is judged %q", p.Verdict)
		}
	}
	// All 5 of one side below all 5 of the other: p = 2/C(10,5) = 2/252 < 0.01; 4 and 4 give 2/70.
	if c, err := Compare([]*Document{repeatedDocument(1)}, []*Document{repeatedDocument(0.8)}, CompareOptions{}); err != nil || c.Points[0].Verdict != Worse {
		t.Errorf("six runs a side, 20 %% slower: %+v %v", c.Points[0], err)
	}
}

func TestCompareRender(t *testing.T) {
	old := repeatedDocument(1)
	slower := repeatedDocument(0.9)
	slower.Records = slower.Records[:len(slower.Records)-6]
	slower.Client.Version = "v0.2.0"
	extra := sampleDocument().Records[6]
	old.Records = append(old.Records, extra)
	c, err := Compare([]*Document{old}, []*Document{slower}, CompareOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for format, file := range map[string]string{"table": "compare.txt", "markdown": "compare.md", "json": "compare.json"} {
		var b bytes.Buffer
		if err := RenderComparison(&b, format, c); err != nil {
			t.Fatal(err)
		}
		golden(t, file, b.Bytes())
	}
	if err := RenderComparison(&bytes.Buffer{}, "tabel", c); err == nil || !strings.Contains(err.Error(), `"table"`) {
		t.Errorf("%v", err)
	}
}

func TestGate(t *testing.T) {
	c := &Comparison{
		Points: []ComparedPoint{
			{Group: "g", Row: "2 B", Figure: "bw", Verdict: Worse, WorseBy: 0.06},
			{Group: "g", Row: "4 B", Figure: "bw", Verdict: Better, WorseBy: -0.2},
			{Group: "g", Row: "8 B", Figure: "bw", Verdict: TooFewRuns, WorseBy: 0.5},
			{Group: "g", Row: "16 B", Figure: "bw", Verdict: Same, WorseBy: 0.5},
		},
		Geomeans: []Geomean{{Figure: "bw", WorseBy: 0.03}},
		OnlyOld:  []string{"gone"},
	}
	for _, tt := range []struct {
		text string
		want int
	}{
		{"worse", 1},
		{"worse>5%", 1},
		{"worse > 7 %", 0},
		{"better", 1},
		{"better>30%", 0},
		{"too-few", 1},
		{"missing", 1},
		{"geomean>2%", 1},
		{"geomean>4%", 0},
		{"worse>5%, missing,too-few", 3},
	} {
		g, err := ParseGate(tt.text)
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		if got := g.Judge(c); len(got) != tt.want {
			t.Errorf("%s: %v, want %d reasons", tt.text, got, tt.want)
		}
	}
	for _, tt := range []struct {
		text   string
		column int
		want   string
	}{
		{"wors>5%", 1, `did you mean "worse"?`},
		{"worse>5", 7, "not a percentage"},
		{"worse, bettr", 8, `"better"`},
		{"missing>5%", 8, "takes no limit"},
		{"geomean", 8, "needs a limit"},
		{"", 1, "no rule"},
	} {
		_, err := ParseGate(tt.text)
		var ee *ExpressionError
		if !errors.As(err, &ee) || ee.Column != tt.column || !strings.Contains(ee.Problem, tt.want) {
			t.Errorf("%s: %v, want column %d and %q", tt.text, err, tt.column, tt.want)
		}
	}
}
