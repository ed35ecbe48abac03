package perftestcli

import (
	"fmt"
	"math"
	"os"
	"strings"

	"github.com/gobw/gobw/internal/plan"
)

// Document is --out_json: the keys, the order and the digits of perftest 6.29, which parsers hold it to. (Before 6.20 perftest's
// file is no JSON.)
type Document struct {
	v    Invocation
	info []string
}

// NewDocument makes the document's description of the test.
func NewDocument(f Facts, v Invocation) *Document {
	name := line{is: true, key: "test", value: strings.ReplaceAll(strings.Join(append(title(f.Plan), "Test"), "_"), " ", "_")}
	doc := &Document{v: v, info: []string{name.json()}}
	for _, x := range f.lines(v.Style()) {
		if text := x.json(); text != "" {
			doc.info = append(doc.info, text)
		}
	}
	return doc
}

// results are the lines of a row.
func (d *Document) results(r Row) []string {
	var out []string
	put := func(key string, digits int, v float64) {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			v = 0
		}
		out = append(out, fmt.Sprintf("%q: %.*f", key, digits, v))
	}
	latency, byTime := d.v.Plan.Kind == plan.Latency, d.v.Plan.Duration > 0
	switch d.v.Output {
	case "bandwidth":
		put("bw_avg", 6, r.Average)
		return out
	case "message_rate":
		put("msgRate_avg", 6, r.MsgRate)
		return out
	case "latency":
		put(map[bool]string{true: "t_avg", false: "avg_lat"}[byTime], 6, r.Avg)
		return out
	}
	out = append(out, fmt.Sprintf("\"MsgSize\": %d", r.Size), fmt.Sprintf("\"n_iterations\": %d", r.Iterations))
	switch {
	case !latency:
		digits := 2
		if d.v.Gbits && r.Average < 0.1 {
			digits = 6
		}
		put("BW_peak", digits, r.Peak)
		put("BW_average", digits, r.Average)
		put("MsgRate", 6, r.MsgRate)
	case byTime:
		put("t_avg", 2, r.Avg)
		put("tps_average", 2, r.TPS)
	default:
		for _, f := range []struct {
			key string
			v   float64
		}{
			{"t_min", r.Min},
			{"t_max", r.Max},
			{"t_typical", r.Typical},
			{"t_avg", r.Avg},
			{"t_stdev", r.Stdev},
			{"percentile_99", r.P99},
			{"percentile_99.9", r.P999},
		} {
			put(f.key, 2, f.v)
		}
	}
	if d.v.CPUUtil {
		put("CPU_util", 2, r.CPU)
	}
	return out
}

// Write replaces the file. It is called after each row, so that the last one is left, as by perftest.
func (d *Document) Write(path string, r Row) error {
	text := fmt.Sprintf("{\n\"test_info\": {\n%s\n},\n\"results\": {\n%s\n}\n}\n", strings.Join(d.info, ",\n"), strings.Join(d.results(r), ",\n"))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return fmt.Errorf("--out_json: %w", err)
	}
	return nil
}
