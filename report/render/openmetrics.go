package render

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/figure"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/qualify"
	"github.com/gobw/gobw/report/stats"
)

//go:embed families.txt
var families string

// family is one metric: a gauge.
type family struct {
	name, unit, figure, help string
}

// everyFamily has the families of all kinds of results, in the order of the page.
func everyFamily() []family {
	return plain.Each(plain.Rows(families), func(row []string) family { return family{row[0], row[1], row[2], row[3]} })
}

// metrics are the samples of one page, by family.
type metrics map[string][]sample

// sample is one value. Its labels, names and values by turns, tell it from the others of its family.
type sample struct {
	labels []string
	value  float64
}

// sample adds a value to the family of a name. A label without a value is the same as none and is not written.
func (m metrics) sample(name string, value float64, labels ...string) {
	m[name] = append(m[name], sample{labels, value})
}

// write writes OpenMetrics 1.0 text. All of it are gauges and carry no time, so that the same bytes are valid in
// Prometheus's older text format, too, which node_exporter's textfile collector reads. Families without samples are not
// written, and of samples with the same labels the first is: readers refuse the whole of a text with two.
// https://github.com/prometheus/OpenMetrics/blob/v1.0.0/specification/OpenMetrics.md
func (m metrics) write(out *strings.Builder) {
	for _, f := range everyFamily() {
		if len(m[f.name]) == 0 {
			continue
		}
		fmt.Fprintf(out, "# TYPE %s gauge\n", f.name)
		if f.unit != "-" {
			fmt.Fprintf(out, "# UNIT %s %s\n", f.name, f.unit)
		}
		fmt.Fprintf(out, "# HELP %s %s\n", f.name, f.help)
		seen := map[string]bool{}
		for _, s := range m[f.name] {
			labels := labelSet(s.labels)
			if !seen[labels] {
				fmt.Fprintf(out, "%s%s %s\n", f.name, labels, strconv.FormatFloat(s.value, 'g', -1, 64))
			}
			seen[labels] = true
		}
	}
	out.WriteString("# EOF\n")
}

// labelSet writes labels in braces, text from elsewhere cleaned; nothing where there is none.
func labelSet(labels []string) string {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	var parts []string
	for label := range slices.Chunk(labels, 2) {
		if v := escape.Replace(plain.Terminal(strings.ToValidUTF8(label[1], "?"))); v != "" {
			parts = append(parts, label[0]+`="`+v+`"`)
		}
	}
	return plain.When(len(parts) > 0, "{%s}", strings.Join(parts, ","))
}

// truth is 1 or 0.
func truth(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// metricsOf are gauges in base units, for a scrape or for node_exporter's textfile collector. Several results are told
// apart by the label result. The label file keeps two files of one command apart, which lie in one directory of
// node_exporter.
func metricsOf(docs []*report.Document, file string) metrics {
	m := metrics{}
	seen := map[string]int{}
	for _, d := range docs {
		name := ""
		if len(docs) > 1 || d.Description != "" {
			name = d.Name()
		}
		if seen[name]++; seen[name] > 1 {
			name = fmt.Sprintf("%s %d", name, seen[name])
		}
		m.add(d, name, file)
	}
	return m
}

func (m metrics) add(d *report.Document, name, file string) {
	ends := []string{
		"result", name, "file", file, "command", commandOf(d.Command), "device", d.Client.Device, "host", d.Client.Host,
	}
	if d.Server != nil {
		ends = append(ends, "peer", d.Server.Host)
	}
	m.sample("gobw_result_info", 1, append(slices.Clone(ends),
		"tool", d.Tool, "version", d.Version, "provider", d.Client.Provider, "firmware", d.Client.Firmware, "note", d.Label,
		"failure", d.Failure)...)
	m.sample("gobw_result_complete", truth(d.Complete), ends...)
	if !d.Finished.IsZero() {
		m.sample("gobw_result_finished_timestamp_seconds", float64(d.Finished.UnixMilli())/1000, ends...)
	}
	for _, c := range d.Checks {
		m.sample("gobw_expectation_met", truth(c.Word == stats.Pass),
			append(slices.Clone(ends), "expectation", c.Expression, "point", c.Point)...)
	}
	for _, g := range figure.Groups(d.Measured()) {
		for _, row := range g.Rows {
			m.addRow(row, append(slices.Clone(ends), pointLabels(row.Runs[0].Plan)...))
		}
	}
}

// commandOf is the typed command without --save, --format, --quiet and --resume.
func commandOf(words []string) string {
	var out []string
	value := false // of the flag before
	for _, word := range words {
		name, _, joined := strings.Cut(word, "=")
		of := slices.Contains([]string{"--save", "--format"}, name)
		if !value && !of && word != "--resume" && word != "--quiet" {
			out = append(out, word)
		}
		value = of && !joined
	}
	return plain.JoinWords(out)
}

// pointLabels are the plan of a point: each field with a value is a label.
func pointLabels(p report.Plan) []string {
	var out []string
	for _, name := range report.PlanFields() {
		if _, value, _ := p.Without(name); value != "0" && value != "false" {
			out = append(out, name, value)
		}
	}
	return out
}

func (m metrics) addRow(row figure.Row, labels []string) {
	with := func(more ...string) []string { return append(slices.Clone(labels), more...) }
	for _, f := range everyFamily() {
		if f.figure == "-" || f.figure == "msgrate" && row.Runs[0].IsLatency() {
			continue
		}
		if v, has := row.Told(figure.Of(f.figure)); has {
			if f.unit == "bytes_per_second" {
				v /= 8
			}
			m.sample(f.name, v, labels...)
		}
	}
	for _, f := range report.LatencyFigures() {
		p, is := f.Percentile()
		if at, end := map[string]float64{"min": 0, "max": 1}[f.Name]; end {
			p, is = at, true
		}
		if s, has := row.Told(figure.Of(f.Name)); has && is {
			m.sample("gobw_latency_seconds", s, with("quantile", strconv.FormatFloat(p, 'g', -1, 64))...)
		}
	}
	disturbed := 0
	var counters [][2]string
	for _, r := range row.Runs {
		if figure.Disturbed(r.Warnings) {
			disturbed++
		}
		for name := range r.Counters {
			counters = plain.AddNew(counters, [2]string{name, "local"})
		}
		for name := range r.PeerCounters {
			counters = plain.AddNew(counters, [2]string{name, "peer"})
		}
	}
	m.sample("gobw_runs", float64(len(row.Runs)), labels...)
	m.sample("gobw_disturbed_runs", float64(disturbed), labels...)
	slices.SortFunc(counters, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	for _, c := range counters {
		if highest, err := figure.CounterOf(c[1], c[0]).Over(row); err == nil { // one that nobody can tell is none
			m.sample("gobw_device_counter", highest, with("counter", c[0], "end", c[1])...)
		}
	}
}

// qualification adds the verdicts of a qualification.
func (m metrics) qualification(q *qualify.Qualification, file string) {
	whole := []string{"qualification", q.Plan, "file", file, "command", commandOf(q.Command)}
	m.sample("gobw_qualification_passed", truth(q.Outcome == stats.Pass), whole...)
	m.sample("gobw_qualification_exit_status", float64(q.ExitCode), whole...)
	for _, t := range q.Tests {
		m.sample("gobw_qualification_test_passed", truth(t.Outcome == stats.Pass),
			append(slices.Clone(whole), "test", t.Name, "outcome", string(t.Outcome))...)
	}
}
