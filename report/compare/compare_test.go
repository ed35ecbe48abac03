package compare

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/cputime"
	"github.com/gobw/gobw/internal/testrun"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/matrix"
	"github.com/gobw/gobw/report/noncontig"
	"github.com/gobw/gobw/report/stats"
)

// saved is a result of report/testdata.
func saved(name string) *report.Document {
	d, err := report.Load("../testdata/" + name + ".json")
	if err != nil {
		panic(err)
	}
	return d
}

// repeated is six runs of two tests at a share of their rate.
func repeated(share float64) *report.Document {
	d := saved("repeated")
	for i := range d.Records {
		slowed(&d.Records[i], share)
	}
	return d
}

// slowed makes a record that of a test at a share of its rate.
func slowed(r *report.Record, share float64) {
	r.Bandwidth.AverageBitsPerS, r.MessagesPerS, r.Seconds = share*r.Bandwidth.AverageBitsPerS, share*r.MessagesPerS,
		r.Seconds/share
}

func TestCompareRefusesUnlike(t *testing.T) {
	old, other := saved("repeated"), saved("repeated")
	other.Client.Device, other.Client.Provider, other.Client.LinkBitsPerS = "mlx5_0", "ibv", 100e9
	_, err := Documents([]*report.Document{old}, []*report.Document{other}, Options{})
	var unlike *UnlikeError
	if !errors.As(err, &unlike) || len(unlike.Differences) != 3 {
		t.Fatalf("%v", err)
	}
	for _, want := range []string{
		"client device: roce0 before, mlx5_0 now", "client link rate: 0 Gb/s before, 100.0 Gb/s now", "--unlike",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
	c, err := Documents([]*report.Document{old}, []*report.Document{other}, Options{Unlike: true})
	if err != nil || len(c.Unlike) != 3 {
		t.Errorf("told to, it compares with %d differences: %v", len(c.Unlike), err)
	}
	newer := saved("repeated")
	newer.Client.Version, newer.Client.Firmware = "v0.2.0", "22.1"
	c, err = Documents([]*report.Document{old}, []*report.Document{newer}, Options{})
	if err != nil || len(c.Changed) != 2 {
		t.Errorf("versions are what one compares: %v", err)
	}
}

// Grids that were measured otherwise have no point in common: nothing compares silently.
// A test of many hosts has no row in common with one between two ends: that is said, and not how the machines differ.
// A result without a measurement differs in everything: only its interruption is said.
func TestCompareRefusesNoMeasurement(t *testing.T) {
	empty := &report.Document{Noncontig: &noncontig.Grid{}, Failure: "interrupted (SIGINT)"}
	empty.Description = "e.json"
	for _, o := range []Options{{}, {Unlike: true}} {
		_, err := Documents([]*report.Document{saved("grid")}, []*report.Document{empty}, o)
		if err == nil || !strings.Contains(err.Error(), "e.json is INCOMPLETE and has no measurement") {
			t.Errorf("%v", err)
		}
	}
}

// A row has no comma where the strategy is what is compared, and a field that need not be equal needs no --by.
func TestCompareBy(t *testing.T) {
	if _, row := (report.Plan{Layout: "vector:block=128,num=128,stride=256"}).Row(); row != "128 blocks of 128 B, "+
		"stride 256 B" {
		t.Errorf("row %q", row)
	}
	grid := []*report.Document{saved("grid")}
	for by, want := range map[string]string{
		"priority": "leave out --by", "device": "'compare OLD NEW --unlike' compares", "window": `"tx_depth"`,
	} {
		if _, err := Split(grid, by); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--by %s: %v, want %s", by, err, want)
		}
	}
	if _, err := Documents(grid, grid, Options{By: "priority"}); err == nil ||
		!strings.Contains(err.Error(), "leave out --by") {
		t.Errorf("%v", err)
	}
}

func TestCompareRefusesHostsWithEnds(t *testing.T) {
	one, many := saved("repeated"), saved("repeated")
	many.Fabric, many.Client.CPUs = &matrix.Matrix{}, 0
	_, err := Documents([]*report.Document{one}, []*report.Document{many}, Options{Unlike: true})
	if err == nil || !strings.Contains(err.Error(), "OLD is a test between two ends and NEW is a test of many hosts") {
		t.Errorf("got %v", err)
	}
}

// TestCompareHostsAdvises: gobw fabric has no --runs, so none is advised.
func TestCompareHostsAdvises(t *testing.T) {
	old, noisy := repeated(1), repeated(1)
	old.Fabric, noisy.Fabric = &matrix.Matrix{}, &matrix.Matrix{}
	for i := range noisy.Records {
		slowed(&noisy.Records[i], []float64{0.5, 2, 0.6}[i%3])
	}
	c, err := Documents([]*report.Document{old}, []*report.Document{noisy}, Options{})
	if err != nil || c.Points[0].Cause != stats.Unclear || !strings.HasPrefix(c.Points[0].Settle, "a longer --time") {
		t.Errorf("%v, %+v", err, c)
	}
	// Nor has it --resume; and its device is that of one host.
	noisy.Complete, noisy.Tool, noisy.Started = false, "gobw", time.Date(2026, 11, 27, 4, 0, 0, 0, time.UTC)
	c, err = Documents([]*report.Document{old}, []*report.Document{noisy}, Options{})
	if err != nil || c.Points[0].Settle != "measuring again, or leave it out" ||
		!slices.Contains(c.Incomplete, "gobw fabric of 2026-11-27 04:00:00") {
		t.Errorf("%v, %+v", err, c)
	}
}

func TestCompareRefusesUnlikeGrids(t *testing.T) {
	old := saved("grid")
	if c, err := Documents([]*report.Document{old}, []*report.Document{old}, Options{}); err != nil || len(c.Points) == 0 {
		t.Fatalf("equal grids: %v", err)
	}
	for name, change := range map[string]func(*noncontig.Setup){
		"transport": func(s *noncontig.Setup) { s.Transport = "UC" },
		"tx_depth":  func(s *noncontig.Setup) { s.Window++ },
		"kernel":    func(s *noncontig.Setup) { s.Kernel = "another" },
		"cache":     func(s *noncontig.Setup) { s.Cache, s.FootprintBytes = "cold", 64<<20 },
		"events":    func(s *noncontig.Setup) { s.Events = !s.Events },
	} {
		now := *old
		now.Noncontig = new(*old.Noncontig)
		change(&now.Noncontig.Setup)
		c, err := Documents([]*report.Document{old}, []*report.Document{&now}, Options{})
		if err == nil {
			t.Errorf("another %s: %d points compare silently", name, len(c.Points))
		} else if !strings.Contains(err.Error(), name+": ") {
			t.Errorf("another %s is not named: %v", name, err)
		}
		if c, err := Documents([]*report.Document{old}, []*report.Document{&now}, Options{By: name}); err != nil ||
			len(c.Points) == 0 {
			t.Errorf("--by %s compares nothing: %v", name, err)
		} else if name == "cache" &&
			c.Points[0].Group != "noncontig bandwidth, RC, 1 QP, tx depth 16, gather, lists of 32 entries, cache hot → cold" {
			t.Errorf("hot and cold, under the title %q", c.Points[0].Group)
		}
	}
}

func TestCompareWithoutACommonPoint(t *testing.T) {
	old, other := saved("repeated"), saved("repeated")
	for i := range other.Records {
		other.Records[i].TxDepth = 16
	}
	_, err := Documents([]*report.Document{old}, []*report.Document{other}, Options{})
	if err == nil || !strings.Contains(err.Error(), "nearest points differ in tx_depth: 128 before, 16 now") {
		t.Errorf("%v", err)
	}
	latency := &report.Document{
		Records: []report.Record{
			{Plan: report.Plan{Operation: "send", Kind: "latency"}, Latency: &report.Latency{P50Ns: 2000, Samples: 1}},
		},
	}
	if _, err := Documents([]*report.Document{old}, []*report.Document{latency}, Options{Unlike: true}); err == nil ||
		!strings.Contains(err.Error(), "(OLD: bw; NEW: p50") {
		t.Errorf("bandwidth and latency: %v", err)
	}
	if _, err := Split([]*report.Document{old}, "size"); err == nil ||
		!strings.Contains(err.Error(), `did you mean "size_bytes"?`) {
		t.Errorf("--by size: %v", err)
	}
	if _, err := Documents(nil, nil, Options{}); err == nil {
		t.Error("nothing compares with nothing")
	}
	if _, err := Documents([]*report.Document{old}, []*report.Document{old},
		Options{Figures: []string{"bandwdth"}}); err == nil || !strings.Contains(err.Error(), `"bandwidth"`) {
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
		d := saved("repeated")
		for i := range d.Records {
			change(&d.Records[i])
		}
		if c, err := Documents([]*report.Document{saved("repeated")}, []*report.Document{d}, Options{}); err == nil {
			t.Errorf("%s: %d points are taken for the same", name, len(c.Points))
		}
	}
}

func TestCompareTooFewRuns(t *testing.T) {
	one := saved("sample")
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
	if c, err := Documents([]*report.Document{saved("repeated")}, []*report.Document{repeated(0.8)},
		Options{}); err != nil || c.Points[0].Word != stats.Worse {
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
		"interrupted early": {
			func(d *report.Document) { d.Complete, d.Records = false, d.Records[:2] }, nil, "cannot tell: incomplete",
		},
		"infinite": {
			func(d *report.Document) { d.Records[0].Bandwidth.AverageBitsPerS = math.Inf(1) }, nil, "cannot tell: not-finite",
		},
		"impossible": {func(d *report.Document) { d.Records[0].Seconds *= 2 }, nil, "cannot tell: impossible"},
		"not a number": {
			func(d *report.Document) { d.Records[0].Bandwidth.AverageBitsPerS = math.NaN() }, nil, "cannot tell: not-finite",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := repeated(0.7)
			tt.change(d)
			c, err := Documents([]*report.Document{saved("repeated")}, []*report.Document{d}, Options{Accept: tt.accept})
			if err != nil {
				t.Fatal(err)
			}
			if got := c.Points[0].Verdict; got.String() != tt.want || got.Cause == stats.Disturbed &&
				!strings.HasPrefix(got.Settle, "measuring again with 'chrt") {
				t.Errorf("got %q (%s), want %q", got, got.Reason, tt.want)
			}
			if _, err := json.Marshal(c); err != nil {
				t.Error(err)
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
	old, four := saved("repeated"), repeated(0.7)
	for i := range four.Records {
		four.Records[i].QPs = 4
	}
	if _, err := Documents([]*report.Document{old}, []*report.Document{four}, Options{}); err == nil ||
		!strings.Contains(err.Error(), "--by qps") {
		t.Errorf("other queue pairs compare silently: %v", err)
	}
	c, err := Documents([]*report.Document{old}, []*report.Document{four}, Options{By: "qps"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Points[0].Word != stats.Worse || !strings.Contains(c.Points[0].Group, "qps 1 → 4") {
		t.Errorf("got %+v", c.Points[0])
	}
	both := saved("repeated")
	both.Records = append(both.Records, four.Records...)
	if _, err := Documents([]*report.Document{both}, []*report.Document{old}, Options{By: "qps"}); err == nil ||
		!strings.Contains(err.Error(), "1 and 4") {
		t.Errorf("two values on a side: %v", err)
	}
	sides, err := Split([]*report.Document{both}, "qps")
	if err != nil || len(sides) != 2 || sides[0][0].Records[0].QPs != 1 || len(sides[1][0].Records) != len(four.Records) {
		t.Errorf("got %v, %v", sides, err)
	}
	if _, err := Split([]*report.Document{old}, "qps"); err == nil ||
		!strings.HasPrefix(err.Error(), "--by qps: all records have qps 1; add a result with another value") {
		t.Error("one value compares with nothing")
	}
	if _, err := Documents([]*report.Document{old}, []*report.Document{old}, Options{By: "qp"}); err == nil ||
		!strings.Contains(err.Error(), `"qps"`) {
		t.Errorf("got %v", err)
	}
}

func TestFigureWithoutABetterSide(t *testing.T) {
	d := saved("repeated")
	if _, err := Documents([]*report.Document{d}, []*report.Document{d},
		Options{Figures: []string{"seconds"}}); err == nil || !strings.Contains(err.Error(), "cannot be better or worse") {
		t.Errorf("got %v", err)
	}
}

// Eight times the records take about eight times the processor's time, and not its square: a hundred thousand compare
// in seconds.
func TestCompareMany(t *testing.T) {
	records := 100_000
	switch {
	case testing.Short():
		records = 8_000
	case !testrun.Whole():
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
	d := saved("repeated")
	template := d.Records[0]
	d.Records = nil
	for i := range records {
		r := template
		r.SizeBytes, r.Run = uint64(i/5), i%5+1
		d.Records = append(d.Records, r)
	}
	before := cputime.Process()
	if _, err := Documents([]*report.Document{d}, []*report.Document{d}, Options{}); err != nil {
		t.Fatal(err)
	}
	return cputime.Process() - before
}

// The same document counts once, however often it is named: four copies of one run are one run.
func TestCompareCountsADocumentOnce(t *testing.T) {
	one := func(factor float64) *report.Document {
		d := repeated(factor)
		d.Records = d.Records[:1]
		d.Started = time.Unix(int64(1e9*factor), 0)
		return d
	}
	old, new := one(1), one(0.7)
	c, err := Documents([]*report.Document{old, old, old, old}, []*report.Document{new, new, new, new}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if p := c.Points[0]; p.Cause != stats.TooFew || p.Old.N != 1 || p.New.N != 1 || len(c.LeftOut) != 6 {
		t.Errorf("%+v, left out %v", p, c.LeftOut)
	}
}

// What a row says of old, new and change is of one statistic: the change can be computed again from the medians.
func TestChangeIsThatOfTheMedians(t *testing.T) {
	old, new := saved("repeated"), saved("repeated")
	for i := range new.Records { // most runs as before, the middle ones faster
		if r := &new.Records[i]; r.Run == 3 || r.Run == 4 {
			r.Bandwidth.AverageBitsPerS *= 1.3
		}
	}
	c, err := Documents([]*report.Document{old}, []*report.Document{new}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range c.Points {
		if want := p.New.Median/p.Old.Median - 1; math.Abs(p.Change-want) > 1e-12 {
			t.Errorf("%s: old %g, new %g and a change of %g: want %g", p.Row, p.Old.Median, p.New.Median, p.Change, want)
		}
	}
}

// The new side was not asked for READs: its WRITEs are compared, and are not how it measured the READs. Where it has
// them with other queue pairs, that is said.
func TestOtherwise(t *testing.T) {
	old, now := saved("repeated"), saved("repeated")
	for _, r := range old.Records {
		r.Operation = "read"
		old.Records = append(old.Records, r)
	}
	c, err := Documents([]*report.Document{old}, []*report.Document{now}, Options{})
	if err != nil || len(c.OnlyOld) == 0 || len(c.Otherwise) > 0 {
		t.Fatalf("%v, only in old %q, said to be measured otherwise: %q", err, c.OnlyOld, c.Otherwise)
	}
	for _, r := range now.Records {
		r.Operation, r.QPs = "read", 7
		now.Records = append(now.Records, r)
	}
	c, err = Documents([]*report.Document{old}, []*report.Document{now}, Options{})
	if err != nil || !strings.HasPrefix(c.Otherwise[c.OnlyOld[0]], "qps: 1 before, 7 now") {
		t.Errorf("%v, %q", err, c.Otherwise)
	}
}

// TestCompareShortRuns: where some runs are too short for a figure, more runs of this length are no remedy.
func TestCompareShortRuns(t *testing.T) {
	d := &report.Document{Complete: true}
	for run := range 8 { // those that have the figure are enough for an interval, and are the quick ones
		l := &report.Latency{P50Ns: 2000, P99Ns: new(3000.0), Samples: 1200}
		if run == 3 {
			l = &report.Latency{P50Ns: 2000, Samples: 300}
		}
		d.Records = append(d.Records,
			report.Record{Plan: report.Plan{Operation: "send", Kind: "latency"}, Run: run + 1, Latency: l})
	}
	c, err := Documents([]*report.Document{d}, []*report.Document{d}, Options{Figures: []string{"p99"}, Unlike: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Points[0].InWords(); got != "cannot tell: missing: not every run has p99: 300 samples, "+
		"1000 needed (raise -n or -D)" {
		t.Error(got)
	}
}

// TestSessionsDiffer: sessions of the same test that differ by 4 %, though the runs of each differ by 1 %, are not
// called better or worse more often than is promised. Sessions of a test that is a fifth slower are.
func TestSessionsDiffer(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 1))
	side := func(sessions, from int, level float64) (out []*report.Document) {
		for k := range sessions {
			d := &report.Document{Complete: true, Started: time.Date(2026, 11, from+k, 4, 0, 0, 0, time.UTC)}
			bits := 1e10 * level * math.Exp(0.04*r.NormFloat64())
			for run := range 10 {
				d.Records = append(d.Records, report.Record{
					Plan: report.Plan{Operation: "write", Kind: "bandwidth"}, Run: run + 1,
					Bandwidth: report.Bandwidth{AverageBitsPerS: bits * math.Exp(0.01*r.NormFloat64())},
				})
			}
			out = append(out, d)
		}
		return out
	}
	const pairs = 200
	for level, want := range map[float64][2]int{1: {0, 15}, 0.8: {180, pairs}} {
		told := 0
		for range pairs {
			c, err := Documents(side(5, 1, 1), side(5, 10, level), Options{})
			if err != nil {
				t.Fatal(err)
			}
			if w := c.Points[0].Word; w == stats.Better || w == stats.Worse {
				told++
			}
		}
		if told < want[0] || told > want[1] {
			t.Errorf("level %g: %d of %d pairs are better or worse, want %d to %d", level, told, pairs, want[0], want[1])
		}
	}
}

// Two results of one session each are told: what differs may be the sessions. Parts of one result are of the same
// session.
func TestSessionsAreTold(t *testing.T) {
	at := func(minute int) *report.Document {
		d := repeated(0.8)
		d.Started = time.Date(2026, 11, 27, 4, minute, 0, 0, time.UTC)
		return d
	}
	type side = []*report.Document
	for _, tt := range []struct {
		name     string
		old, new side
		want     bool
	}{
		{"two sessions", side{at(0)}, side{at(1)}, true},
		{"parts of one", side{at(0)}, side{at(0)}, false},
		{"two sessions each", side{at(0), at(1)}, side{at(2), at(3)}, true},
		{"four sessions each", side{at(0), at(1), at(2), at(3)}, side{at(4), at(5), at(6), at(7)}, false},
		{"one of them on both sides", side{at(0), at(1)}, side{at(1), at(2)}, false},
	} {
		if c, err := Documents(tt.old, tt.new, Options{}); err != nil || c.Sessions != tt.want {
			t.Errorf("%s: %v %v, want %v", tt.name, c, err, tt.want)
		}
	}
}
