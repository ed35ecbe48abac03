package compare

import (
	"encoding/json"
	"errors"
	"flag"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/internal/sample"
	"github.com/gobw/gobw/report/noncontig"
	"github.com/gobw/gobw/report/stats"
)

// noisyDocument has runs of a bandwidth and a latency test with noise as virtual machines have it: a per-cent-sized
// spread, a drift, and now and then a run that something else disturbed by up to a third.
func noisyDocument(rng *rand.Rand, runs int, slower float64) *report.Document {
	d := sample.Repeated(1)
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
			bw.Bandwidth = report.Bandwidth{AverageBitsPerS: 8 * float64(size) * 1e5 / seconds}
			bw.MessagesPerS = 1e5 / seconds
			d.Records = append(d.Records, bw)
		}
		ns := make([]float64, 1200)
		base := 5200 * slower * math.Exp(0.02*rng.NormFloat64())
		for i := range ns {
			ns[i] = base * math.Exp(0.05*math.Abs(rng.NormFloat64()))
		}
		l := sample.Latency(ns)
		lat := template
		lat.Run, lat.Kind, lat.Operation, lat.SizeBytes, lat.Latency = run, "latency", "send", 2, &l
		lat.Bandwidth = report.Bandwidth{}
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
			c, err := Documents([]*report.Document{noisyDocument(rng, 12, 1)}, []*report.Document{noisyDocument(rng, 12, slower)}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			worse, different := 0, 0
			for _, p := range c.Points {
				if p.Word == stats.Worse {
					worse++
				}
				if p.Word == stats.Worse || p.Word == stats.Better {
					different++
				}
			}
			failed := len(gate.Judge(c, nil)) > 0
			if slower == 1 && !failed {
				silent++
			}
			switch {
			case slower > 1 && 2*worse > len(c.Points) && failed:
				found++
			case slower == 1 && different == 0:
				quiet++
			}
		}
	}
	t.Logf("of %d: the slowdown was found in %d; without one no figure differed in %d, and the gate passed in %d", *repetitions, found, quiet, silent)
	if least := *repetitions * 19 / 20; found < least || quiet < least {
		t.Errorf("the slowdown was found in %d of %d, its absence in %d; want %d each", found, *repetitions, quiet, least)
	}
}

func TestCompareRefusesUnlike(t *testing.T) {
	old, other := sample.Repeated(1), sample.Repeated(1)
	other.Client.Device, other.Client.Provider, other.Client.LinkBitsPerS = "mlx5_0", "ibv", 100e9
	_, err := Documents([]*report.Document{old}, []*report.Document{other}, Options{})
	var unlike *UnlikeError
	if !errors.As(err, &unlike) || len(unlike.Differences) != 3 {
		t.Fatalf("%v", err)
	}
	for _, want := range []string{"client device: roce0 before, mlx5_0 now", "client link rate: 0 Gb/s before, 100.0 Gb/s now", "--unlike"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
	c, err := Documents([]*report.Document{old}, []*report.Document{other}, Options{Unlike: true})
	if err != nil || len(c.Unlike) != 3 {
		t.Errorf("told to, it compares with %d differences: %v", len(c.Unlike), err)
	}
	newer := sample.Repeated(1)
	newer.Client.Version, newer.Client.Firmware = "v0.2.0", "22.1"
	c, err = Documents([]*report.Document{old}, []*report.Document{newer}, Options{})
	if err != nil || len(c.Changed) != 2 {
		t.Errorf("versions are what one compares: %v", err)
	}
}

// Grids that were measured otherwise have no point in common: nothing compares silently.
func TestCompareRefusesUnlikeGrids(t *testing.T) {
	for name, change := range map[string]func(*noncontig.Setup){
		"transport": func(s *noncontig.Setup) { s.Transport = "UC" },
		"window":    func(s *noncontig.Setup) { s.Window++ },
		"kernel":    func(s *noncontig.Setup) { s.Kernel = "another" },
		"cache":     func(s *noncontig.Setup) { s.Cache = "cold" },
		"events":    func(s *noncontig.Setup) { s.Events = !s.Events },
	} {
		old, now := sample.NoncontigDocument(), sample.NoncontigDocument()
		if c, err := Documents([]*report.Document{old}, []*report.Document{now}, Options{}); err != nil || len(c.Points) == 0 {
			t.Fatalf("equal grids: %v", err)
		}
		change(&now.Noncontig.Setup)
		c, err := Documents([]*report.Document{old}, []*report.Document{now}, Options{})
		if err == nil {
			t.Errorf("another %s: %d points compare silently", name, len(c.Points))
		} else if !strings.Contains(err.Error(), name+": ") {
			t.Errorf("another %s is not named: %v", name, err)
		}
	}
}

func TestCompareWithoutACommonPoint(t *testing.T) {
	old, other := sample.Repeated(1), sample.Repeated(1)
	for i := range other.Records {
		other.Records[i].TxDepth = 16
	}
	_, err := Documents([]*report.Document{old}, []*report.Document{other}, Options{})
	if err == nil || !strings.Contains(err.Error(), "they differ in tx_depth: 128 before, 16 now") {
		t.Errorf("%v", err)
	}
	if _, err := Documents(nil, nil, Options{}); err == nil {
		t.Error("nothing compares with nothing")
	}
	if _, err := Documents([]*report.Document{old}, []*report.Document{old}, Options{Figures: []string{"bandwdth"}}); err == nil || !strings.Contains(err.Error(), `"bandwidth"`) {
		t.Errorf("%v", err)
	}
}

// Options that decide a figure are part of the point: a paced run is no worse one of the same test.
func TestCompareKeepsOptionsApart(t *testing.T) {
	for name, change := range map[string]func(*report.Record){
		"rate limit":  func(r *report.Record) { r.RateLimitBitsPerS = 1e9 },
		"pause":       func(r *report.Record) { r.GapNs = 5000 },
		"immediate":   func(r *report.Record) { r.Immediate = true },
		"atomic":      func(r *report.Record) { r.Atomic = "compare-and-swap" },
		"outstanding": func(r *report.Record) { r.Outstanding = 4 },
		"srq":         func(r *report.Record) { r.SRQ = true },
	} {
		d := sample.Repeated(1)
		for i := range d.Records {
			change(&d.Records[i])
		}
		if c, err := Documents([]*report.Document{sample.Repeated(1)}, []*report.Document{d}, Options{}); err == nil {
			t.Errorf("%s: %d points are taken for the same", name, len(c.Points))
		}
	}
}

func TestCompareTooFewRuns(t *testing.T) {
	one := sample.Document()
	one.Complete = true
	c, err := Documents([]*report.Document{one}, []*report.Document{one}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range c.Points {
		if p.Cause != stats.TooFew || p.Settle == "" {
			t.Errorf("one run a side is judged %+v", p.Verdict)
		}
	}
	if c, err := Documents([]*report.Document{sample.Repeated(1)}, []*report.Document{sample.Repeated(0.8)}, Options{}); err != nil || c.Points[0].Word != stats.Worse {
		t.Errorf("six runs a side, 20 %% slower: %+v %v", c.Points[0], err)
	}
}

// What cannot be trusted is not judged: disturbed runs, interrupted documents, figures that are no numbers.
func TestCompareCannotTell(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(d *report.Document)
		accept stats.Accepted
		want   string
	}{
		"as it is":               {func(*report.Document) {}, nil, "worse"},
		"four of six disturbed":  {disturb(4), nil, "cannot tell: disturbed"},
		"three of six disturbed": {disturb(3), nil, "worse"},
		"disturbed and accepted": {disturb(6), stats.Accepted{stats.Disturbed}, "worse"},
		"interrupted":            {func(d *report.Document) { d.Complete = false }, nil, "cannot tell: incomplete"},
		"interrupted, accepted":  {func(d *report.Document) { d.Complete = false }, stats.Accepted{stats.Incomplete}, "worse"},
		"infinite":               {func(d *report.Document) { d.Records[0].Bandwidth.AverageBitsPerS = math.Inf(1) }, nil, "cannot tell: not-finite"},
		"not a number":           {func(d *report.Document) { d.Records[0].Bandwidth.AverageBitsPerS = math.NaN() }, nil, "cannot tell: not-finite"},
	} {
		t.Run(name, func(t *testing.T) {
			d := sample.Repeated(0.7)
			tt.change(d)
			c, err := Documents([]*report.Document{sample.Repeated(1)}, []*report.Document{d}, Options{Accept: tt.accept})
			if err != nil {
				t.Fatal(err)
			}
			if got := c.Points[0].Verdict; got.String() != tt.want {
				t.Errorf("got %q (%s), want %q", got, got.Reason, tt.want)
			}
			if _, err := json.Marshal(c); err != nil {
				t.Error(err)
			}
			gate, _ := ParseGate("worse>99%")
			if passed := len(gate.Judge(c, tt.accept)) == 0; passed != (c.Points[0].Word != stats.CannotTell) {
				t.Errorf("a gate that nothing misses passes: %v", passed)
			}
		})
	}
}

func disturb(runs int) func(d *report.Document) {
	return func(d *report.Document) {
		for i := range d.Records {
			if d.Records[i].Run <= runs {
				d.Records[i].Warnings = []string{"peer: disturbed: the measuring thread waited 300 ms, 65 % of the time"}
			}
		}
	}
}

// Two results may differ in the one field by which they are compared, and in no other.
func TestCompareByAField(t *testing.T) {
	old, four := sample.Repeated(1), sample.Repeated(0.7)
	for i := range four.Records {
		four.Records[i].QPs = 4
	}
	if _, err := Documents([]*report.Document{old}, []*report.Document{four}, Options{}); err == nil || !strings.Contains(err.Error(), "--by qps") {
		t.Errorf("other queue pairs compare silently: %v", err)
	}
	c, err := Documents([]*report.Document{old}, []*report.Document{four}, Options{By: "qps"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Points[0].Word != stats.Worse || !strings.Contains(c.Points[0].Row, "qps 1 → 4") {
		t.Errorf("got %+v", c.Points[0])
	}
	both := sample.Repeated(1)
	both.Records = append(both.Records, four.Records...)
	if _, err := Documents([]*report.Document{both}, []*report.Document{old}, Options{By: "qps"}); err == nil || !strings.Contains(err.Error(), "1 and 4") {
		t.Errorf("two values on a side: %v", err)
	}
	sides, err := Split([]*report.Document{both}, "qps")
	if err != nil || len(sides) != 2 || sides[0][0].Records[0].QPs != 1 || len(sides[1][0].Records) != len(four.Records) {
		t.Errorf("got %v, %v", sides, err)
	}
	if _, err := Split([]*report.Document{old}, "qps"); err == nil {
		t.Error("one value compares with nothing")
	}
	if _, err := Documents([]*report.Document{old}, []*report.Document{old}, Options{By: "qp"}); err == nil || !strings.Contains(err.Error(), `"qps"`) {
		t.Errorf("got %v", err)
	}
	device := sample.Repeated(0.7)
	device.Client.Device = "roce1"
	if _, err := Documents([]*report.Document{old}, []*report.Document{device}, Options{By: "device"}); err != nil {
		t.Errorf("by device: %v", err)
	}
}

// Every field of a record's plan keeps points apart: a new field belongs to the key or into the list here.
func TestWholePlanIsTheKey(t *testing.T) {
	results := []string{
		"size_bytes", "cq_mod", "run", "duration_test", "iterations", "messages", "bytes", "seconds", "bandwidth", "messages_per_s", "latency", "delivered", "clock",
		"histogram", "series", "cpu", "peer_cpu", "per_thread", "peer_per_thread", "per_rail", "peer_per_rail", "counters", "peer_counters", "local", "remote", "extra", "warnings", "plan",
	}
	for i := range reflect.TypeFor[report.Record]().NumField() {
		f := reflect.TypeFor[report.Record]().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if slices.Contains(results, name) {
			continue
		}
		a, b := &report.Record{}, &report.Record{}
		v := reflect.ValueOf(b).Elem().Field(i)
		switch v.Kind() {
		case reflect.String:
			v.SetString("x")
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Float64:
			v.SetFloat(1)
		case reflect.Int:
			v.SetInt(3)
		default:
			t.Errorf("%s: a %s in a plan?", name, v.Kind())
		}
		if a.Point() == b.Point() {
			t.Errorf("records that differ in %s have the same key", name)
		}
	}
	a, b := &report.Record{}, &report.Record{Plan: map[string]string{"of_another_version": "2"}}
	rest, value, ok := b.Point().Without("of_another_version")
	if a.Point() == b.Point() || !ok || value != "2" || rest != a.Point() {
		t.Errorf("the rest of the plan: %q %v", value, ok)
	}
}

func TestFigureWithoutABetterSide(t *testing.T) {
	d := sample.Repeated(1)
	if _, err := Documents([]*report.Document{d}, []*report.Document{d}, Options{Figures: []string{"seconds"}}); err == nil || !strings.Contains(err.Error(), "neither better nor worse") {
		t.Errorf("got %v", err)
	}
}

// Eight times the records take about eight times the processor's time, and not its square: a hundred thousand compare in
// seconds.
func TestCompareMany(t *testing.T) {
	records := 100_000
	if testing.Short() {
		records = 24_000
	}
	few, many := timeToCompare(t, records/8), timeToCompare(t, records)
	t.Logf("%v for %d records, %v for %d", few, records/8, many, records)
	if many > 24*max(few, 50*time.Millisecond) {
		t.Errorf("%d records take %v and %d take %v", records/8, few, records, many)
	}
}

// timeToCompare is the processor's time for a comparison of so many records with themselves: what else the machine does
// leaves it as it is.
func timeToCompare(t *testing.T, records int) time.Duration {
	t.Helper()
	d := sample.Repeated(1)
	template := d.Records[0]
	d.Records = nil
	for i := range records {
		r := template
		r.SizeBytes, r.Run = uint64(i/5), i%5+1
		d.Records = append(d.Records, r)
	}
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := used()
	if _, err := Documents([]*report.Document{d}, []*report.Document{d}, Options{}); err != nil {
		t.Fatal(err)
	}
	return used() - before
}

func TestGate(t *testing.T) {
	point := func(row string, better stats.Direction, change, low, high float64) Point {
		e := stats.Effect{Change: change, Interval: &stats.Interval{Low: low, High: high, Confidence: 0.96}, P: 1e-6, N: 9, Better: better}
		p := Point{Group: "g", Row: row, Figure: "bw", Effect: e, Verdict: stats.Conclude([]stats.Effect{e}, stats.Margins{})[0]}
		p.WorseBy, _, _ = e.Worse()
		return p
	}
	few := stats.Unknown(stats.TooFew, "", "2 runs")
	c := &Comparison{
		Margin: 0.05,
		Points: []Point{
			point("worse", stats.HigherIsBetter, -0.10, -0.12, -0.08),
			point("better", stats.HigherIsBetter, 0.2, 0.15, 0.25),
			point("same", stats.HigherIsBetter, 0, -0.01, 0.01),
			point("wide", stats.LowerIsBetter, 0, -0.09, 0.09),
			{Group: "g", Row: "few", Figure: "bw", Verdict: few},
		},
		Geomeans: []Geomean{{Figure: "bw", WorseBy: 0.03, Effect: stats.Effect{Change: 0.03, Better: stats.LowerIsBetter, Interval: &stats.Interval{Low: 0.02, High: 0.04}}}},
		OnlyOld:  []string{"gone"}, Incomplete: []string{"half"},
	}
	for _, tt := range []struct {
		text, accept string
		want         int
	}{
		{"worse", "", 5}, // worse, wide, few, gone, half
		{"worse>5%", "", 5},
		{"worse>5%", "too-few,missing,incomplete", 2},
		{"worse>5%", "too-few,missing,incomplete,unclear", 1},
		{"worse > 15 %", "", 3},
		{"worse > 9 %", "too-few,missing,incomplete", 1},
		{"worse>10%", "too-few,missing,incomplete", 1}, // by how much it cannot tell: 8 to 12 %
		{"worse>10%", "too-few,missing,incomplete,unclear", 0},
		{"worse>0%", "too-few,missing,incomplete,unclear", 1}, // and not more than the margin
		{"worse>100%", "too-few,missing,incomplete", 3},       // of what is better higher nothing can be worse by more
		{"too-few", "", 1},
		{"missing", "", 2},
		{"geomean>2%", "too-few,missing,incomplete", 1},
		{"geomean>5%", "too-few,missing,incomplete", 0},
		{"geomean>5%", "missing,incomplete", 1}, // few is not in the mean
		{"geomean>5%", "", 3},
	} {
		accepted, _ := stats.ParseAccepted(tt.accept)
		g, err := ParseGate(tt.text)
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		if got := g.Judge(c, accepted); len(got) != tt.want {
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
		{"worse, too-fw", 8, `"too-few"`},
		{"worse>NaN%", 7, "not a percentage"},
		{"worse>Inf%", 7, "not a percentage"},
		{"missing>5%", 8, "takes no limit"},
		{"geomean", 8, "needs a limit"},
		{"", 1, "no rule"},
	} {
		_, err := ParseGate(tt.text)
		var ee *report.ExpressionError
		if !errors.As(err, &ee) || ee.Column != tt.column || !strings.Contains(ee.Problem, tt.want) {
			t.Errorf("%s: %v, want column %d and %q", tt.text, err, tt.column, tt.want)
		}
	}
}
