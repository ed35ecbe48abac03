package expect

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/testrun"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/noncontig"
	"github.com/gobw/gobw/report/stats"
)

// expectable is a document with known figures: 40 Gb/s of 100, 2 million messages/s, p50 2 us, p99 3 us, no p99.9.
func expectable() *report.Document {
	p90, p99, share := 2500.0, 3000.0, 0.985
	d := &report.Document{
		Schema: report.SchemaVersion, Complete: true,
		Client: report.Environment{Device: "mlx5_0", LinkBitsPerS: 100e9},
		Server: &report.Environment{Device: "mlx5_0", LinkBitsPerS: 200e9},
		Records: []report.Record{{
			Plan:     report.Plan{Operation: "write", Kind: "bandwidth", Transport: "RC", SizeBytes: 65536, QPs: 1},
			Messages: 3_000_000, Seconds: 1.5, Bytes: 7_500_000_000,
			Bandwidth: report.Bandwidth{AverageBitsPerS: 40e9, PeakBitsPerS: 45e9}, MessagesPerS: 2e6, Delivered: &share,
			Latency: &report.Latency{
				Samples: 5000, MinNs: 1900, P50Ns: 2000, P90Ns: &p90, P99Ns: &p99, MaxNs: 9000, MeanNs: 2100, StdevNs: 100,
			},
			Counters:     map[string]int64{"retransmits": 0, "discards": 4, "odd.name": 1},
			PeerCounters: map[string]int64{"retransmits": 0, "discards": 0, "odd.name": 0, "icrc_errors": 2},
			Series: &report.Series{
				IntervalS: 0.1, Bytes: []float64{1, 5e8, 4e8, 5e8, 1}, Messages: []float64{0, 7629, 6104, 7629, 0},
			},
		}},
	}
	return d
}

func TestExpectation(t *testing.T) {
	earlier := expectable()
	earlier.Records[0].Bandwidth.AverageBitsPerS, earlier.Records[0].Bytes = 50e9, 9_375_000_000
	for _, tt := range []struct {
		text string
		pass bool
	}{
		{"bw >= 40 Gb/s", true},
		{"bw>=40.1Gb/s", false},
		{"bw >= 40 Gb/s ", true},
		{"bw <= 39 Gb/s", false},
		{"bw >= 5000 MB/s", true},
		{"bw >= 5001 MB/s", false},
		{"bw > 4768 MiB/s", true}, // 40e9/8/2^20 = 4768.37
		{"bw > 4769 MiB/s", false},
		{"bw >= 0.4*line", true}, // the slower link has 100 Gb/s
		{"bw >= 0.41 * line", false},
		{"bw >= 40% * line", true},
		{"peak <= 45 Gb/s", true},
		{"lowest >= 32 Gb/s", true}, // 4e8 bytes in 0.1 s
		{"lowest >= 32.1 Gb/s", false},
		{"p99 <= 3us", true},
		{"p99 < 3us", false},
		{"p99 <= 2999 ns", false},
		{"p50 == 2 us", true},
		{"median != 2 us", false},
		{"p99 <= 2*p50", true},
		{"p99 <= 1.4*p50", false},
		{"retransmits == 0", true},
		{"discards == 0", false},
		{"counter.discards <= 4", true},
		{"counter.odd.name == 1", true},
		{"msgrate >= 2M", true},
		{"msgrate >= 2.1 Mmsg/s", false},
		{"delivered >= 98.5%", true},
		{"delivered >= 99%", false},
		{"messages == 3000000", true},
		{"seconds >= 1s", true},
		{"bw >= 99 Gb/s for size < 64KiB", false}, // nothing left to judge
		{"bw >= 40 Gb/s for size >= 64KiB", true},
		{"bw >= 40 Gb/s for size >= 64K", true}, // as everywhere on the command line
		{"bw >= 40 Gb/s for size == 0.0625M", true},
		{"bw >= 0.8*write-64k.bw", true},
		{"bw >= 0.81*write-64k.bw", false},
		{"p50 <= 2µs", true},
		{"quiet", true},
		{"p99.9 <= 1s", false}, // 5000 samples do not support it
	} {
		t.Run(tt.text, func(t *testing.T) {
			e, err := Parse(tt.text, Options{Tests: []string{"write-64k"}})
			if err != nil {
				t.Fatal(err)
			}
			checks := Judge(expectable(), []*Expectation{e}, Judgement{Tests: map[string]*report.Document{"write-64k": earlier}})
			if len(checks) != 1 || (checks[0].Word == stats.Pass) != tt.pass {
				t.Errorf("%+v, want passed %v", checks, tt.pass)
			}
			if !tt.pass && checks[0].Reason == "" && checks[0].Limit != "0" && !strings.Contains(tt.text, "==") {
				t.Errorf("%+v fails without a reason", checks[0])
			}
		})
	}
}

func TestExpectationMistakes(t *testing.T) {
	for _, tt := range []struct {
		text   string
		column int
		want   string
	}{
		{"bww >= 1 Gb/s", 1, `did you mean "bw"?`},
		{"bandwdth >= 1 Gb/s", 1, `"bandwidth"`},
		{"bw >= 1 Gbs", 9, `"Gb/s"`},
		{"bw >= 10", 7, "the number needs a unit: the left of >= is a bandwidth (as 10 Gb/s)"},
		{"p99 <= 3 Gb/s", 8, "a time"},
		{"bw = 1 Gb/s", 4, `"=="`},
		{"bw", 3, "a comparison is missing: >= or <=, and a bandwidth (as 10 Gb/s)"},
		{"p99", 4, "and a time (as 3 us)"},
		{"bw >=", 6, "a value is missing"},
		{"peak >= mine.bw", 9, "mine is this test: write bw alone"},
		{"1 Gb/s >= 2 Gb/s", 1, "begins with a figure"},
		{"2*bw >= 2 Gb/s", 1, "begins with a figure"},
		{"bw >= 1 Gb/s please", 14, "unexpected"},
		{"bw >= 1 Gb/s fr size > 2", 14, `did you mean "for"`},
		{"bw >= (1 Gb/s", 7, "means nothing"},
		{"p50 + p99 <= 3us", 5, "means nothing"},
		{"bw >= 2*3", 9, "a figure or line is missing"},
		{"bw worze<5% of line", 4, `did you mean "worse"?`},
		{"bw >= 0.9*write-64.bw", 11, `did you mean "write-64k`},
		{"bw >= 0.9*write-64k.bww", 21, `"bw"`},
		{"bw >= 1 Gb/s for sise > 2 B", 18, `"size"`},
		{"bw >= $5", 7, "means nothing"},
		{"worse<5% of a file.json for size > 2 B", 13, "a file.json for size > 2 B: no such file"},
		{"worse<5%", 9, "write worse<5% of FILE"},
		{"worse<5% of", 12, "no such file"},
		{"", 1, "a value is missing"},
		{"bw >= 1 Gb/s for size > 2 B for size < 5 B", 29, "unexpected"},
		{"bw worse<100% of x", 10, "cannot fail"},
		{"bw worse<1e999% of x", 10, "not a percentage"},
		{"bw >= 1e999 Gb/s", 7, "not a number"},
		{"peer.retransmit == 0", 6, `"retransmits"`},
		{"retransmits == 0 where cunted", 24, `"counted"`},
		{"bw >= 1 Gb/s where counted", 1, "for a counter"},
	} {
		_, err := Parse(tt.text, Options{Tests: []string{"write-64k"}, Test: "mine"})
		var ee *Error
		if !errors.As(err, &ee) || ee.Column != tt.column || !strings.Contains(ee.Problem, tt.want) {
			t.Errorf("%q: %v, want column %d and %q", tt.text, err, tt.column, tt.want)
		}
	}
}

func TestExpectationMissingFigure(t *testing.T) {
	latency := expectable()
	latency.Records[0].Kind = "latency"
	few := expectable()
	few.Records[0].Latency = &report.Latency{Samples: 500, P50Ns: 2000}
	bare := expectable()
	bare.Records[0].Delivered, bare.Records[0].Counters, bare.Records[0].PeerCounters = nil, nil, nil
	none := expectable()
	none.Records = nil
	for _, tt := range []struct {
		text string
		doc  *report.Document
		want string
	}{
		{"bw >= 1 Gb/s", latency, "no bw here: a latency test has p50"},
		{"p99 <= 1 s", few, "no p99 here: 500 samples, 1000 needed"},
		{"delivered >= 99%", bare, "no delivered here: RC delivers every message or fails"},
		{"retransmits == 0", bare, "no retransmits here: the device reported no counters"},
		{"counter.discard == 0", expectable(), `did you mean "discards"?`},
		{"bw >= 1 Gb/s", none, "the test has no result"},
		{"bw >= 1 Gb/s for size > 1 MiB", expectable(), "the filter leaves no point"},
	} {
		e, err := Parse(tt.text, Options{})
		if err != nil {
			t.Fatal(err)
		}
		checks := Judge(tt.doc, []*Expectation{e}, Judgement{})
		if len(checks) != 1 || checks[0].Word == stats.Pass || !strings.Contains(checks[0].Reason, tt.want) {
			t.Errorf("%s: %+v, want %q", tt.text, checks, tt.want)
		}
	}
}

func TestExpectationLine(t *testing.T) {
	e, err := Parse("bw >= 0.9*line", Options{})
	if err != nil {
		t.Fatal(err)
	}
	software := report.Environment{Device: "roce0", Software: true, LinkBitsPerS: 1e9}
	if err := e.CheckDevice(software); err == nil ||
		!strings.Contains(err.Error(), "roce0 is a software device: there is no line rate") {
		t.Errorf("%v", err)
	}
	if err := e.CheckDevice(report.Environment{Device: "mlx5_0", LinkBitsPerS: 100e9}); err != nil {
		t.Error(err)
	}
	d := expectable()
	d.Client = software
	if c := Judge(d, []*Expectation{e}, Judgement{}); c[0].Word == stats.Pass ||
		!strings.Contains(c[0].Reason, "software device") {
		t.Errorf("%+v", c)
	}
	if c := Judge(d, []*Expectation{e}, Judgement{LineBitsPerS: 44e9}); c[0].Word != stats.Pass {
		t.Errorf("with the rate given: %+v", c)
	}
}

func TestExpectationCheckTest(t *testing.T) {
	for _, tt := range []struct {
		text, kind, transport string
		want                  string
	}{
		{"bw >= 1 Gb/s", "latency", "RC", `this RC latency test has no "bw"`},
		{"p99 <= 1 us", "latency", "RC", ""},
		{"p99 <= 1 us", "bandwidth", "RC", ""},
		{"delivered >= 99%", "bandwidth", "RC", "delivers every message"},
		{"delivered >= 99%", "bandwidth", "UD", ""},
	} {
		e, err := Parse(tt.text, Options{})
		if err != nil {
			t.Fatal(err)
		}
		err = e.CheckTest(tt.kind, tt.transport)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s of %s: %v, want %q", tt.text, tt.kind, err, tt.want)
		}
	}
}

// Devices call the same thing differently; the words of expectations find it.
func TestExpectationCounterNames(t *testing.T) {
	for _, tt := range []struct {
		counters map[string]int64
		text     string
		pass     bool
	}{
		{map[string]int64{"resent_pkts": 3, "local_ack_timeout_err": 1}, "retransmits == 3", true},
		{map[string]int64{"local_ack_timeout_err": 1, "packet_seq_err": 2}, "retransmits == 3", true},
		{map[string]int64{"completer_retry_err": 0}, "retransmits == 0", true},
		{map[string]int64{"np_cnp_sent": 5}, "cnps == 5", true},
		{map[string]int64{"sent_pkts": 5}, "retransmits == 0", false},
	} {
		d := expectable()
		d.Records[0].Counters, d.Records[0].PeerCounters = tt.counters, map[string]int64{}
		for name := range tt.counters {
			d.Records[0].PeerCounters[name] = 0
		}
		e, err := Parse(tt.text, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if c := Judge(d, []*Expectation{e}, Judgement{}); (c[0].Word == stats.Pass) != tt.pass {
			t.Errorf("%v: %+v, want %v", tt.counters, c[0], tt.pass)
		}
	}
}

// Several runs are judged on their median, counters on the worst run.
func TestExpectationOverRuns(t *testing.T) {
	d := expectable()
	for i, bits := range []float64{39e9, 10e9} {
		r := d.Records[0]
		r.Run, r.Bytes, r.Bandwidth.AverageBitsPerS, r.Counters = i+2, 0, bits, map[string]int64{"retransmits": int64(i)}
		d.Records = append(d.Records, r)
	}
	for text, pass := range map[string]bool{"bw == 39 Gb/s": true, "retransmits == 0": false} {
		e, err := Parse(text, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if c := Judge(d, []*Expectation{e}, Judgement{}); len(c) != 1 || (c[0].Word == stats.Pass) != pass {
			t.Errorf("%s: %+v, want %v", text, c, pass)
		}
	}
}

func TestExpectationBaseline(t *testing.T) {
	dir := t.TempDir()
	expectable := func() *report.Document {
		d := expectable()
		for run := 2; run <= 5; run++ {
			r := d.Records[0]
			r.Run = run
			d.Records = append(d.Records, r)
		}
		return d
	}
	times := func(factor float64) func(d *report.Document) {
		return func(d *report.Document) {
			for i := range d.Records {
				d.Records[i].Bandwidth.AverageBitsPerS *= factor
				d.Records[i].Seconds /= factor
				d.Records[i].MessagesPerS *= factor
			}
		}
	}
	if err := report.Save(filepath.Join(dir, "base.json"), expectable()); err != nil {
		t.Fatal(err)
	}
	parse := func(text string) *Expectation {
		t.Helper()
		e, err := Parse(text, Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	for _, tt := range []struct {
		name   string
		change func(d *report.Document)
		pass   bool
		want   string
	}{
		{"the same", func(*report.Document) {}, true, ""},
		{"4 % less", times(0.96), true, ""},
		{"6 % less", times(0.94), false, "-6.0 %"},
		{"twice as much", times(2), true, ""},
		{
			"one run", func(d *report.Document) { d.Records = d.Records[:1] }, false,
			"cannot tell: too-few: runs on a side: 1, needed: 4",
		},
		{
			"one run is infinite", func(d *report.Document) { d.Records[0].Bandwidth.AverageBitsPerS = math.Inf(1) }, false,
			"cannot tell: not-finite",
		},
		{"other verification", func(d *report.Document) {
			for i := range d.Records {
				d.Records[i].Verified = "all"
			}
		}, false, "differ in verified"},
		{
			"another size", func(d *report.Document) { d.Records = d.Records[:1]; d.Records[0].SizeBytes = 2 }, false,
			"differ in size_bytes: 65536 before, 2 now",
		},
		{
			"another device", func(d *report.Document) { d.Client.Device = "mlx5_1" }, false,
			"client device: mlx5_0 before, mlx5_1 now",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := expectable()
			tt.change(d)
			for _, text := range []string{"worse<5% of base.json", `bw worse<5% of "base.json"`, "bw worse<5% of ./base.json"} {
				c := Judge(d, []*Expectation{parse(text)}, Judgement{})
				if len(c) != 1 || (c[0].Word == stats.Pass) != tt.pass ||
					!strings.Contains(strings.ReplaceAll(c[0].InWords(), "./", ""), tt.want) {
					t.Errorf("%s: %+v, want %v %q", text, c, tt.pass, tt.want)
				}
				if elsewhere := strings.HasPrefix(tt.want, "client device"); elsewhere &&
					Judge(d, []*Expectation{parse(text)}, Judgement{Accept: stats.Causes()})[0].Word == stats.Pass {
					t.Errorf("%s: what was measured elsewhere was accepted", text)
				}
			}
		})
	}
	_, err := Parse("bw worse<5% of nowhere.json", Options{Dir: dir})
	var fe *report.FileError
	if !errors.As(err, &fe) || !strings.Contains(err.Error(), "nowhere.json") ||
		!strings.Contains(err.Error(), "column 16") {
		t.Errorf("%v", err)
	}
}

// What cannot be told fails, and says so; what was accepted by name passes, unless what was seen is bad.
func TestExpectationCannotTell(t *testing.T) {
	infinite := func(d *report.Document) { d.Records[0].Bandwidth.AverageBitsPerS = math.Inf(1) }
	nothing := func(d *report.Document) { d.Records[0].Bandwidth.AverageBitsPerS, d.Records[0].Delivered = 0, nil }
	reset := func(d *report.Document) { d.Records[0].Counters["discards"] = -65526 }
	runs := func(bits ...float64) func(d *report.Document) {
		return func(d *report.Document) {
			for i, b := range bits {
				r := d.Records[0]
				r.Run, r.Bytes, r.Bandwidth.AverageBitsPerS = i+1, 0, b
				if i > 0 {
					d.Records = append(d.Records, r)
				} else {
					d.Records[0] = r
				}
			}
		}
	}
	for _, tt := range []struct {
		text   string
		change func(d *report.Document)
		accept stats.Accepted
		pass   bool
		cause  stats.Cause
	}{
		{"bw >= 1 Gb/s", infinite, nil, false, stats.NotFinite},
		{"bw <= 1 Gb/s", infinite, nil, false, stats.NotFinite},
		{"bw <= 1 Gb/s", nothing, nil, false, stats.Missing}, // what was not measured is not 0
		{"p99.9 <= 1 s", func(*report.Document) {}, nil, false, stats.Missing},
		{"bw >= 1 Gb/s", func(d *report.Document) { d.Records[0].Seconds *= 2 }, nil, false, stats.Impossible},
		{"discards <= 0", reset, nil, false, stats.Impossible},
		{"discards <= 0 where counted", reset, nil, false, stats.Impossible},
		{"local.discards <= 9", reset, stats.Accepted{stats.Unclear, stats.Disturbed}, false, stats.Impossible},
		{"peer.retransmits == 0", reset, nil, true, ""},
		{"bw >= 10 Gb/s", runs(9e9, 13e9, 12e9, 11e9, 9.5e9, 10.6e9, 10.9e9), nil, false, stats.Unclear},
		{
			"bw >= 10 Gb/s", runs(9e9, 13e9, 12e9, 11e9, 9.5e9, 10.6e9, 10.9e9),
			stats.Accepted{stats.Unclear},
			true,
			stats.Unclear,
		},
		{"bw >= 8 Gb/s", runs(9e9, 13e9, 12e9, 11e9, 9.5e9, 10.6e9, 10.9e9), nil, true, ""},
		// missed by the median alone
		{"bw >= 11.5 Gb/s", runs(9e9, 13e9, 12e9, 11e9, 9.5e9, 10.6e9, 10.9e9), nil, false, stats.Unclear},
		{"bw >= 11.5 Gb/s", runs(9e9, 13e9, 12e9, 11e9, 9.5e9, 10.6e9, 10.9e9), stats.Accepted{stats.Unclear}, false, ""},
		{"bw >= 14 Gb/s", runs(9e9, 13e9, 12e9, 11e9, 9.5e9, 10.6e9, 10.9e9), stats.Accepted{stats.Unclear}, false, ""},
	} {
		e, err := Parse(tt.text, Options{})
		if err != nil {
			t.Fatal(err)
		}
		d := expectable()
		tt.change(d)
		c := Judge(d, []*Expectation{e}, Judgement{Accept: tt.accept})
		if len(c) != 1 || (c[0].Word == stats.Pass) != tt.pass || c[0].Cause != tt.cause {
			t.Errorf("%s: %+v, want %v %s", tt.text, c, tt.pass, tt.cause)
		}
	}
}

// A bare counter is that of both ends; one end is chosen by name; where nobody counts, "where counted" does not judge.
func TestExpectationCountersOfBothEnds(t *testing.T) {
	for _, tt := range []struct {
		text        string
		local, peer map[string]int64
		pass        bool
	}{
		{"out_of_sequence == 0", map[string]int64{"out_of_sequence": 0}, map[string]int64{"out_of_sequence": 3}, false},
		{"out_of_sequence == 3", map[string]int64{"out_of_sequence": 0}, map[string]int64{"out_of_sequence": 3}, true},
		{"local.out_of_sequence == 0", map[string]int64{"out_of_sequence": 0}, map[string]int64{"out_of_sequence": 3}, true},
		{
			"peer.out_of_sequence == 3", map[string]int64{"out_of_sequence": 0}, map[string]int64{"out_of_seq_request": 3}, true,
		},
		{"peer.counter.odd == 1", map[string]int64{"odd": 0}, map[string]int64{"odd": 1}, true},
		{"out_of_sequence == 0", map[string]int64{"out_of_sequence": 0}, nil, false}, // one end was not seen
		{"out_of_sequence == 0", map[string]int64{"out_of_sequence": 0}, map[string]int64{"x": 0}, false},
		{"out_of_sequence == 0", map[string]int64{"x": 0}, map[string]int64{"out_of_sequence": 0}, false},
		{"local.out_of_sequence == 0", map[string]int64{"out_of_sequence": 0}, nil, true},
		{"icrc_errors == 0 where counted", map[string]int64{"x": 0}, map[string]int64{"x": 3}, true},
		{"icrc_errors == 0 where counted", map[string]int64{"x": 0}, map[string]int64{"icrc_errors": 3}, false},
		{"icrc_errors == 0 where counted", map[string]int64{"icrc_errors": 3}, nil, false},
		{"local.icrc_errors == 0 where counted", nil, nil, true},
		{"icrc_errors == 0", map[string]int64{"x": 0}, map[string]int64{"x": 3}, false},
	} {
		e, err := Parse(tt.text, Options{})
		if err != nil {
			t.Fatal(err)
		}
		d := expectable()
		d.Records[0].Counters, d.Records[0].PeerCounters = tt.local, tt.peer
		if c := Judge(d, []*Expectation{e}, Judgement{}); (c[0].Word == stats.Pass) != tt.pass {
			t.Errorf("%v %v: %+v, want %v", tt.local, tt.peer, c[0], tt.pass)
		}
	}
}

// A counter that every device knows may be judged only where it is counted. A word that may be mistyped would then pass
// for ever.
func TestWhereCountedIsAdvised(t *testing.T) {
	for text, advised := range map[string]bool{
		"icrc_errors == 0": true, "peer.icrc_errors == 0": true, "counter.icrc_error == 0": false,
		"peer.counter.icrc_error == 0": false,
	} {
		e, err := Parse(text, Options{})
		if err != nil {
			t.Fatal(err)
		}
		d := expectable()
		d.Records[0].Counters, d.Records[0].PeerCounters = map[string]int64{"x": 0}, map[string]int64{"x": 0}
		if c := Judge(d, []*Expectation{e}, Judgement{}); (c[0].Settle != "") != advised || c[0].Word != stats.CannotTell {
			t.Errorf("%s: %+v, want advice: %v", text, c[0], advised)
		}
	}
}

// A check that passed says its limit and how far the figure is from it.
func TestExpectationMargin(t *testing.T) {
	for text, want := range map[string]float64{"bw >= 20 Gb/s": 1, "p99 <= 4 us": 0.25, "bw >= 80 Gb/s": -0.5} {
		e, err := Parse(text, Options{})
		if err != nil {
			t.Fatal(err)
		}
		c := Judge(expectable(), []*Expectation{e}, Judgement{})[0]
		if c.Margin == nil || math.Abs(*c.Margin-want) > 1e-9 || c.Limit == "" {
			t.Errorf("%s: %+v, want a margin of %v", text, c, want)
		}
	}
}

func FuzzParseExpectation(f *testing.F) {
	for _, s := range []string{
		"bw >= 0.9*line", "p99 worse<5% of base.json", "bw==1e3Gb/s for size > 2 KiB", "of ./", "a.b-c.d<=µ", "a-b", "local",
	} {
		f.Add(s)
	}
	d := expectable()
	testrun.Fuzz(f, func(t *testing.T, s string) {
		testrun.Within(t, 200*time.Millisecond, 16<<20, func() { _, _ = Parse(s, Options{Dir: t.TempDir()}) })
		e, err := Parse(s, Options{Dir: t.TempDir(), Tests: []string{"a-b"}})
		if err != nil {
			var ee *Error
			if errors.As(err, &ee) && (ee.Column < 1 || ee.Column > len([]rune(s))+1) {
				t.Errorf("%q: column %d lies outside", s, ee.Column)
			}
			return
		}
		if len(Judge(d, []*Expectation{e}, Judgement{})) == 0 {
			t.Errorf("%q judges nothing", s)
		}
	})
}

// In a non-contiguous experiment every strategy is a test, at every layout.
func TestExpectationNoncontig(t *testing.T) {
	point := func(strategy, layout string, bits float64) noncontig.Point {
		return noncontig.Point{
			Shape: "gather", Strategy: strategy, Layout: layout, SizeBytes: 65536,
			Runs: []noncontig.Run{{Messages: 1000, Seconds: 1000 * 65536 * 8 / bits, GoodputBitsPerS: bits, P50Ns: 2000}},
		}
	}
	d := &report.Document{Complete: true, Noncontig: &noncontig.Grid{Points: []noncontig.Point{
		point("pack", "a", 8e9), point("gather-write", "a", 4e9), point("contiguous", "a", 10e9),
		point("pack", "b", 5e9), point("gather-write", "b", 9e9), point("contiguous", "b", 10e9),
	}}}
	strategies := []string{"pack", "gather-write", "contiguous"}
	for text, want := range map[string][]bool{
		"gather-write.bw >= pack.bw":  {false, true},
		"bw >= 0.8*contiguous.bw":     {true, true}, // the fastest of each layout
		"bw >= 0.85*contiguous.bw":    {false, true},
		"pack.p50 <= 2us":             {true, true},
		"pack.max <= 2us":             {false, false}, // which a grid does not keep
		"bw >= 1 Gb/s for bw > 8Gb/s": {true},
	} {
		e, err := Parse(text, Options{Tests: strategies})
		if err != nil {
			t.Fatal(err)
		}
		checks := Judge(d, []*Expectation{e}, Judgement{})
		if len(checks) != len(want) {
			t.Errorf("%s: %+v, want %v", text, checks, want)
			continue
		}
		for i, c := range checks {
			if (c.Word == stats.Pass) != want[i] {
				t.Errorf("%s: %+v, want %v", text, c, want[i])
			}
		}
	}
	// Where a strategy is faster than contiguous, nothing is told of the layout.
	d.Noncontig.Cells = []noncontig.Cell{
		{Key: noncontig.Key{Shape: "gather"}, Layout: "a", Impossible: "pack is faster than contiguous"},
	}
	e, err := Parse("gather-write.bw >= pack.bw", Options{Tests: strategies})
	if err != nil {
		t.Fatal(err)
	}
	checks := Judge(d, []*Expectation{e}, Judgement{Accept: stats.Accepted{stats.Unclear, stats.Disturbed}})
	if checks[0].Cause != stats.Impossible || checks[1].Word != stats.Pass {
		t.Errorf("%+v, want that nothing is told of the first", checks)
	}
}

// A limit is not kept by a figure that is not there.
func TestMissingFigureKeepsNoLimit(t *testing.T) {
	d := &report.Document{
		Complete: true, Records: []report.Record{
			{Plan: report.Plan{Operation: "write", Kind: "bandwidth", Transport: "UC", SizeBytes: 64}, Run: 1, Messages: 10},
		},
	}
	e, err := Parse("bw <= 1 Gb/s", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if c := Judge(d, []*Expectation{e}, Judgement{}); len(c) != 1 || c[0].Word == stats.Pass {
		t.Errorf("%+v", c)
	}
}

// The answers of a grid are figures: the ratio of each layout, and the block size from which lists are faster.
func TestRatioAndCrossover(t *testing.T) {
	d := &report.Document{Complete: true, Noncontig: &noncontig.Grid{}}
	for i, speedup := range []float64{0.5, 0.8, 1.2, 2} {
		block := int64(64) << i
		layout := fmt.Sprintf("vector:block=%d,num=%d,stride=%d", block, 65536/block, 2*block)
		for _, s := range []string{"gather-write", "pack"} {
			p := noncontig.Point{
				Shape: "gather", Strategy: s, Layout: layout, BlockBytes: block, Blocks: 65536 / block, StrideBytes: 2 * block,
				Stride:    "2x",
				SizeBytes: 65536, Held: "size",
			}
			bits := 1e10 * map[string]float64{"gather-write": speedup, "pack": 1}[s]
			for range 8 {
				p.Runs = append(p.Runs, noncontig.Run{Messages: 1000, Seconds: 1000 * 65536 * 8 / bits, GoodputBitsPerS: bits})
			}
			d.Noncontig.Points = append(d.Noncontig.Points, p)
		}
	}
	d.Noncontig.Analyze()
	for text, want := range map[string][]bool{
		"ratio >= 0.7":                         {false, true, true, true},
		"ratio >= 1.1 for size >= 64KiB":       {false, false, true, true},
		"crossover <= 256 B":                   {true, true, true, true},
		"crossover <= 128 B":                   {false, false, false, false},
		"crossover >= 128 B for size == 64KiB": {true, true, true, true},
		"gather-write.ratio < 0.6":             {true, false, false, false},
	} {
		e, err := Parse(text, Options{Tests: []string{"gather-write", "pack"}})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var got []bool
		for _, c := range Judge(d, []*Expectation{e}, Judgement{}) {
			got = append(got, c.Word == stats.Pass)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v (crossovers %v)", text, got, want, d.Noncontig.Crossovers)
		}
	}
	bare, err := Parse("ratio >= 1", Options{})
	if err != nil {
		t.Fatal(err)
	}
	// rounds that differ by more than the limit is away, and a copy that is faster than contiguous
	for name, spoil := range map[string]func(p *noncontig.Point){
		"unclear": func(p *noncontig.Point) {
			for k := range p.Runs {
				p.Runs[k].GoodputBitsPerS *= 1 + 0.5*float64(k%2)*b2f(p.Strategy == "pack")
				p.Runs[k].Seconds /= 1 + 0.5*float64(k%2)*b2f(p.Strategy == "pack")
			}
		},
		"impossible": func(p *noncontig.Point) {
			if p.Strategy != "pack" {
				return
			}
			bound := *p
			bound.Strategy, bound.Runs = noncontig.Contiguous, slices.Clone(p.Runs)
			for k := range bound.Runs {
				bound.Runs[k].GoodputBitsPerS /= 2
				bound.Runs[k].Seconds *= 2
			}
			d.Noncontig.Points = append(d.Noncontig.Points, bound)
		},
	} {
		all := d.Noncontig.Points
		d.Noncontig.Points = slices.Clone(all[4:6])
		for i := range d.Noncontig.Points {
			d.Noncontig.Points[i].Runs = slices.Clone(d.Noncontig.Points[i].Runs)
		}
		for i := range 2 {
			spoil(&d.Noncontig.Points[i])
		}
		d.Noncontig.Analyze()
		if c := Judge(d, []*Expectation{bare}, Judgement{}); len(c) != 1 || c[0].Word != stats.CannotTell {
			t.Errorf("%s: %+v, question %+v", name, c, d.Noncontig.Cells[0].Question)
		}
		d.Noncontig.Points = all
	}
	checks := Judge(&report.Document{Records: []report.Record{{Plan: report.Plan{Kind: "bandwidth"}}}},
		[]*Expectation{bare}, Judgement{})
	if len(checks) != 1 || checks[0].Word != stats.CannotTell {
		t.Errorf("a test without a grid: %+v, want cannot tell", checks)
	}
}

// What a program says is judged as it stands, and nothing that it says is a number by chance.
func TestFields(t *testing.T) {
	d := &report.Document{Program: &report.Program{ExitCode: 3, Output: "why", Said: map[string]any{
		"n": 5.0, "ok": true, "text": "yes", "nested": map[string]any{"a": 1.0}, "null": nil, "list": []any{1.0},
		"long": strings.Repeat("é", 5000),
	}}}
	for text, want := range map[string]stats.Word{
		"exit == 3": stats.Pass, "exit == 0": stats.Fail, "exit != 0": stats.Pass, "n >= 5": stats.Pass, "n<5": stats.Fail,
		"n == 5.0":   stats.Pass,
		"ok == true": stats.Pass, "ok != true": stats.Fail, "text == yes": stats.Pass, `text == "yes"`: stats.Pass,
		"text >= 1": stats.Fail,
		"ok > 0":    stats.Fail, "nested >= 0": stats.Fail, "null == 0": stats.Fail, "list > 0": stats.Fail,
		"missing != 1": stats.Fail, "long != x": stats.Pass,
	} {
		e, err := Parse(text, Options{Program: true})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if c := Judge(d, []*Expectation{e}, Judgement{})[0]; c.Word != want || len(c.Actual) > 200 {
			t.Errorf("%s: %v (%s), want %v", text, c.Word, c.Actual, want)
		}
	}
	for _, text := range []string{
		"", "quiet", "exit", "exit = 0", "== 0", "a.b == 1", "n >=", "n >= 1" + strings.Repeat("0", 2000),
	} {
		if _, err := Parse(text, Options{Program: true}); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func b2f(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
