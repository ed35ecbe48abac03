//go:build linux && cgo

package truth_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/gobw/gobw/report"
)

// peakClaims are of a device that is three times as slow in each second millisecond. The first request begins a quick
// one, so that the best span has the quick rate, where stamps are close enough to see it.
func peakClaims() (out []claim) {
	for _, options := range []string{"-n 100000 -Q 1", "-n 100000 -Q 100", "-n 19000 -Q 1", "-n 25000 -q 4 -Q 1"} {
		out = append(out, claim{
			what: "peak under waves of 1 ms, " + options, planted: "REQUEST_NS=1000 WAVE_MS=1 WAVE_X=3",
			run: "gobw write -s 64 --warmup 0 " + options, told: named("peak"), truth: 0.512, low: 0.97, high: 1.01,
		})
	}
	return append(out, claim{
		what: "peak under waves of 10 ms, -q 4 -Q 100", planted: "REQUEST_NS=1000 WAVE_MS=10 WAVE_X=3",
		run: "gobw write -s 64 --warmup 0 -n 25000 -q 4", told: named("peak"), truth: 0.512, low: 0.95, high: 1.01,
	})
}

// verdictClaims are of what is concluded from several measurements.
func verdictClaims() []claim {
	const (
		test   = " gobw write -s 64 -n 20000 --runs 10;"
		cells  = "--blocks 64:8K --runs 12 -D 5ms --verify none --only gather-write,multi-wr"
		sizes  = "gobw write -s 64,128,256,512,1K,2K,4K -n 3000 --warmup 0"
		beside = "~--loopback~-d~fake0~-n~20000"
	)
	night := func(n int, device string) string {
		return strings.Repeat(device+" gobw write -s 64 -n 20000 --warmup 0;", n)
	}
	return []claim{
		{
			what: "roce0 counts 4,000 packets of 4,000 messages", run: "gobw write -d roce0 -s 4K -n 4000",
			told: counted("sent_pkts"), truth: 4000,
		},
		{what: "and sends none again", run: "gobw write -d roce0 -s 4K -n 4000", told: counted("resent_pkts"), truth: 0},
		{
			what: "of 1 % loss, 40 of them and those behind them", run: "gobw write -d roce0 -s 4K -n 4000 --emulate loss=1%",
			told: counted("resent_pkts"), truth: 40, low: 0.5, high: 1.75,
		},
		{
			what:    "grid: two strategies with the same requests: winners in 8 cells",
			planted: "REQUEST_NS=400 ENTRY_NS=1800 MOVE=0",
			run:     "gobw noncontig --nums 4 --max-sge 1 " + cells, told: winners(""), truth: 0,
		},
		{
			what: "grid: gather-write is 9 % faster: it wins in 8 cells", planted: "REQUEST_NS=400 ENTRY_NS=1800 MOVE=0",
			run: "gobw noncontig --nums 2 " + cells, told: winners("gather-write"), truth: 8,
		},
		{
			what: "--rate is not taken for other programs", planted: "REQUEST_NS=1000",
			run: "gobw write -s 64 -n 100000 --rate 100M", told: says("disturbed"), truth: 0,
		},
		{
			what: "nor is --gap", planted: away, run: "golat read -s 64 -n 2000 --gap 100us",
			told: says("disturbed"), truth: 0,
		},
		{
			what: "nor is --cpu-time", planted: "REQUEST_NS=1000", run: "gobw write -s 64 -n 200000 --cpu-time",
			told: says("disturbed"), truth: 0,
		},
		{
			what: "on a busy machine the rate is true, or has the note", planted: "REQUEST_NS=1000", beside: true,
			run: "gobw write -s 64 -n 400000", told: func(r *result) float64 {
				if rate := named("msgrate")(r); rate >= 0.97 && rate <= 1.001 {
					return 1
				}
				return says("disturbed")(r)
			}, truth: 1,
		},
		{
			what: "compare of the same device: same",
			run:  "REQUEST_NS=1000" + test + "REQUEST_NS=1000" + test + "gobw compare DIR/1.json DIR/2.json",
			told: says("10+10 same"), truth: 1,
		},
		{
			what: "compare of one that is 9 % slower: worse",
			run:  "REQUEST_NS=1000" + test + "REQUEST_NS=1100" + test + "gobw compare DIR/1.json DIR/2.json",
			told: says("10+10 worse"), truth: 1,
		},
		{
			what: "ab of the same: neither better nor worse", planted: "REQUEST_NS=1000",
			run:  "gobw ab gobw~write~-s~64" + beside + " gobw~write~-s~64" + beside + " --pairs 9 --figure msgrate",
			told: differs, truth: 0,
		},
		{
			what: "ab of sizes of which one is 9 % slower: worse", planted: "REQUEST_NS=1000 BYTE_NS=0.1",
			run:  "gobw ab gobw~write~-s~64" + beside + " gobw~write~-s~1064" + beside + " --pairs 9 --figure msgrate",
			told: differs, truth: -1,
		},
		{
			what: "24 nights of the same device: changes", run: night(24, "REQUEST_NS=1000") + "nights;gobw compare DIR",
			told: says("worse"), truth: 0,
		},
		{
			what: "12 nights and 12 that are 7 % slower: night of the change",
			run:  night(12, "REQUEST_NS=1000") + night(12, "REQUEST_NS=1070") + "nights;gobw compare DIR",
			told: number("2026-01-"), truth: 13, low: 12. / 13, high: 14. / 13,
		},
		{
			what: "--resume of seven sizes, of which the fifth failed: rows",
			run:  "REQUEST_NS=1000 FAIL=15000 " + sizes + ";REQUEST_NS=1000 " + sizes + " --resume",
			told: func(r *result) float64 { return float64(len(r.Records)) }, truth: 7,
		},
		{
			what: "the rows printed before it failed that are printed again",
			run:  "REQUEST_NS=1000 FAIL=15000 " + sizes + ";REQUEST_NS=1000 " + sizes + " --resume",
			told: func(r *result) (same float64) {
				for _, row := range rows(r.texts[0]) {
					if strings.Contains(r.texts[1], row) {
						same++
					}
				}
				return same
			}, truth: 4,
		},
		{
			what: "gobw report prints what was printed", planted: "REQUEST_NS=1000",
			run: "gobw write -s 64,4K -n 20000 --runs 6 --quiet;gobw report DIR/1.json --quiet", told: repeated, truth: 1,
		},
		{
			what: "the same of golat", planted: mixed,
			run: "golat read -s 64 -n 20000 --quiet;gobw report DIR/1.json --quiet", told: repeated, truth: 1,
		},
		{
			what: "the same of a grid", planted: gridPlanted, run: gridRun + " --quiet;gobw report DIR/1.json --quiet",
			told: repeated, truth: 1,
		},
		{
			what: "results that break the schema: a test", run: "gobw write -s 64 -n 20000 --cpu-time", told: unlawful, truth: 0,
		},
		{what: "of latency", run: "golat read -s 64 -n 20000", told: unlawful, truth: 0},
		{what: "a grid", planted: gridPlanted, run: gridRun, told: unlawful, truth: 0},
		{
			what:    "search best: 20 us away at 1 us a request, it needs 21 in flight",
			planted: "REQUEST_NS=1000 LATENCY_NS=20000 MOVE=0",
			run:     "gobw search best write~--loopback~-d~fake0~-s~64~-Q~1 --only tx-depth --test-time 20ms --time 30s",
			told:    number(`best:[^\n]*-t`), truth: 21, low: 1, high: 1.6,
		},
	}
}

// counted is what a counter rose by.
func counted(name string) func(*result) float64 {
	return first(func(r *report.Record) float64 {
		v, has := r.Counters[name]
		if !has {
			return math.NaN()
		}
		return float64(v)
	})
}

// winners are the cells of a grid that one strategy wins; of an empty name, any.
func winners(strategy string) func(r *result) float64 {
	return func(r *result) (n float64) {
		if r.Noncontig == nil {
			return math.NaN()
		}
		for _, c := range r.Noncontig.Cells {
			if c.Winner != "" && (strategy == "" || c.Winner == strategy) {
				n++
			}
		}
		return n
	}
}

// differs is the verdict of gobw ab: -1 is worse, 1 better, and 0 neither.
func differs(r *result) float64 {
	for line := range strings.Lines(r.text) {
		if !strings.HasPrefix(line, "B against A") {
			continue
		}
		return map[string]float64{
			"worse": -1, "better": 1,
		}[line[strings.LastIndexByte(strings.TrimSpace(line), ' ')+1:len(strings.TrimSpace(line))]]
	}
	return math.NaN()
}

// rows are the lines of a table that begin with a number, without those of a test that did not end.
func rows(text string) (out []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && line[0] >= '0' && line[0] <= '9' &&
			!strings.Contains(line, "incomplete") {
			out = append(out, line)
		}
	}
	return out
}

// repeated is 1 where the last command printed what the first did.
func repeated(r *result) float64 {
	if len(r.texts) > 1 && r.texts[0] != "" && r.texts[0] == r.text {
		return 1
	}
	return 0
}

// unlawful is 1 where the saved result does not follow the schema.
func unlawful(r *result) float64 {
	schema, err := jsonschema.NewCompiler().Compile(filepath.Join("..", "..", "report", "schema.json"))
	if err != nil {
		r.text += fmt.Sprint("\n", err)
		return math.NaN()
	}
	file, err := os.Open(filepath.Join(r.dir, "1.json"))
	if err != nil {
		return math.NaN()
	}
	defer func() { _ = file.Close() }()
	v, err := jsonschema.UnmarshalJSON(file)
	if err == nil {
		err = schema.Validate(v)
	}
	if err != nil {
		r.text += fmt.Sprint("\n", err)
		return 1
	}
	return 0
}
