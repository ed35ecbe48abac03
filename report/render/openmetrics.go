package render

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/compare"
	"github.com/gobw/gobw/report/figure"
	"github.com/gobw/gobw/report/internal/openmetrics"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/qualify"
	"github.com/gobw/gobw/report/stats"
	"github.com/gobw/gobw/report/trend"
)

// everyFamily has the families of all kinds of results, in the order of the page. A sample of a result is a point: the median over its runs.
var everyFamily = []openmetrics.Family{
	{Name: "gobw_qualification_passed", Help: "1 if every test passed."},
	{Name: "gobw_qualification_exit_status", Help: "Exit status of the qualification."},
	{Name: "gobw_qualification_test_passed", Help: "1 if the test passed; the outcome says how it ended."},
	{Name: "gobw_result_info", Help: "What was measured on what: always 1."},
	{Name: "gobw_result_complete", Help: "1 if the test ran to its end."},
	{Name: "gobw_result_finished_timestamp_seconds", Unit: "seconds", Help: "When the test ended, in seconds since 1970."},
	{Name: "gobw_expectation_met", Help: "1 if the figure is as expected, 0 if it is not or if that cannot be told."},
	{Name: "gobw_bandwidth_bytes_per_second", Unit: "bytes_per_second", Help: "Average bandwidth, the median over the runs."},
	{Name: "gobw_bandwidth_peak_bytes_per_second", Unit: "bytes_per_second", Help: "Highest bandwidth from any post to any completion."},
	{Name: "gobw_messages_per_second", Unit: "per_second", Help: "Message rate."},
	{Name: "gobw_delivered_ratio", Unit: "ratio", Help: "Share of the messages that arrived."},
	{Name: "gobw_latency_seconds", Unit: "seconds", Help: "Latency, of bandwidth tests the time to completion; quantiles 0 and 1 are the least and the greatest sample."},
	{Name: "gobw_latency_mean_seconds", Unit: "seconds", Help: "Mean of the latency."},
	{Name: "gobw_runs", Help: "Repetitions of the point."},
	{Name: "gobw_disturbed_runs", Help: "Repetitions during which something else had the CPU."},
	{Name: "gobw_device_counter", Help: "Change of a device counter during the test, the highest of the runs."},
	{Name: "gobw_comparison_change_ratio", Unit: "ratio", Help: "Change of the figure as a share of the old."},
	{Name: "gobw_comparison_change_low_ratio", Unit: "ratio", Help: "Lower end of the interval of the change."},
	{Name: "gobw_comparison_change_high_ratio", Unit: "ratio", Help: "Upper end of the interval of the change."},
	{Name: "gobw_comparison_verdict", Help: "What can be told of the change: always 1."},
	{Name: "gobw_trend_results", Help: "Results of the series."},
	{Name: "gobw_trend_changes", Help: "Changes found in the series."},
	{Name: "gobw_trend_last_change_ratio", Unit: "ratio", Help: "Last change of the figure as a share of what it was before."},
	{Name: "gobw_trend_last_change_timestamp_seconds", Unit: "seconds", Help: "When the first result after the last change began, in seconds since 1970."},
}

// metrics are the families of one page.
type metrics []*openmetrics.Family

func newMetrics() metrics {
	return plain.Each(everyFamily, func(f openmetrics.Family) *openmetrics.Family { return &f })
}

// sample adds a value to the family of a name.
func (m metrics) sample(name string, value float64, labels ...openmetrics.Label) {
	m[slices.IndexFunc(m, func(f *openmetrics.Family) bool { return f.Name == name })].Add(value, labels...)
}

// families are gauges in base units, for a scrape or for node_exporter's textfile collector. Several results are told apart by the
// label result.
func families(docs []*report.Document) metrics {
	m := newMetrics()
	seen := map[string]int{}
	for _, d := range docs {
		name := ""
		if len(docs) > 1 || d.Description != "" {
			name = d.Name()
		}
		if seen[name]++; seen[name] > 1 {
			name = fmt.Sprintf("%s %d", name, seen[name])
		}
		m.add(d, tag("result", name))
	}
	return m
}

func tag(name, value string) openmetrics.Label { return openmetrics.Tag(name, value) }

func (m metrics) add(d *report.Document, result openmetrics.Label) {
	ends := []openmetrics.Label{result, tag("device", d.Client.Device), tag("host", d.Client.Host)}
	peer := tag("peer", "")
	if d.Server != nil {
		peer.Value = d.Server.Host
	}
	ends = append(ends, peer)
	m.sample("gobw_result_info", 1, append(slices.Clone(ends),
		tag("tool", d.Tool), tag("version", d.Version), tag("provider", d.Client.Provider), tag("firmware", d.Client.Firmware), tag("note", d.Label), tag("failure", d.Failure))...)
	m.sample("gobw_result_complete", openmetrics.Flag(d.Complete), ends...)
	if !d.Finished.IsZero() {
		m.sample("gobw_result_finished_timestamp_seconds", float64(d.Finished.UnixMilli())/1000, ends...)
	}
	for _, c := range d.Checks {
		m.sample("gobw_expectation_met", openmetrics.Flag(c.Word == stats.Pass), append(slices.Clone(ends), tag("expectation", c.Expression), tag("point", c.Point))...)
	}
	for _, g := range figure.Groups(d.Measured()) {
		for _, row := range g.Rows {
			m.addRow(row, append(slices.Clone(ends), pointLabels(row.Runs[0].Plan)...))
		}
	}
}

// pointLabels are the whole plan of a point: each of its fields that says something is a label.
func pointLabels(p report.Plan) []openmetrics.Label {
	var out []openmetrics.Label
	for _, name := range report.PlanFields() {
		if _, value, _ := p.Without(name); value != "0" && value != "false" {
			out = append(out, tag(name, value))
		}
	}
	return out
}

func (m metrics) addRow(row figure.Row, labels []openmetrics.Label) {
	with := func(more ...openmetrics.Label) []openmetrics.Label { return append(slices.Clone(labels), more...) }
	median := func(family, name string, scale float64) {
		if vs := row.Values(figure.Of(name).Get); len(vs) > 0 {
			m.sample(family, stats.Median(vs)*scale, labels...)
		}
	}
	median("gobw_bandwidth_bytes_per_second", "bw", 1.0/8)
	median("gobw_bandwidth_peak_bytes_per_second", "peak", 1.0/8)
	if !row.Runs[0].IsLatency() {
		median("gobw_messages_per_second", "msgrate", 1)
	}
	median("gobw_delivered_ratio", "delivered", 1)
	if l := row.Latency(); l != nil && l.Samples > 0 {
		for _, f := range report.LatencyFigures() {
			p, is := f.Percentile()
			if at, end := map[string]float64{"min": 0, "max": 1}[f.Name]; end {
				p, is = at, true
			}
			ns, has := f.Ns(l)
			if has && f.Name == "mean" {
				m.sample("gobw_latency_mean_seconds", ns/1e9, labels...)
			}
			if has && is {
				m.sample("gobw_latency_seconds", ns/1e9, with(tag("quantile", strconv.FormatFloat(p, 'g', -1, 64)))...)
			}
		}
	}
	disturbed := 0
	highest := map[[2]string]int64{}
	for _, r := range row.Runs {
		if figure.Disturbed(r.Warnings) {
			disturbed++
		}
		for end, counters := range map[string]map[string]int64{"local": r.Counters, "peer": r.PeerCounters} {
			for name, n := range counters {
				key := [2]string{name, end}
				if before, seen := highest[key]; !seen || n > before {
					highest[key] = n
				}
			}
		}
	}
	m.sample("gobw_runs", float64(len(row.Runs)), labels...)
	m.sample("gobw_disturbed_runs", float64(disturbed), labels...)
	keys := slices.SortedFunc(maps.Keys(highest), func(a, b [2]string) int { return strings.Compare(a[0]+"\x00"+a[1], b[0]+"\x00"+b[1]) })
	for _, k := range keys {
		m.sample("gobw_device_counter", float64(highest[k]), with(tag("counter", k[0]), tag("end", k[1]))...)
	}
}

// qualificationFamilies are the verdicts of a qualification and the figures of its tests.
func qualificationFamilies(q *qualify.Qualification) metrics {
	m := families(q.Documents())
	m.sample("gobw_qualification_passed", openmetrics.Flag(q.Outcome == stats.Pass), tag("qualification", q.Plan))
	m.sample("gobw_qualification_exit_status", float64(q.ExitCode), tag("qualification", q.Plan))
	for _, t := range q.Tests {
		m.sample("gobw_qualification_test_passed", openmetrics.Flag(t.Outcome == stats.Pass), tag("qualification", q.Plan), tag("test", t.Name), tag("outcome", string(t.Outcome)))
	}
	return m
}

// comparison adds the changes of a comparison with their intervals and verdicts.
func (m metrics) comparison(c *compare.Comparison) metrics {
	for _, p := range c.Points {
		labels := []openmetrics.Label{tag("setup", p.Group), tag("point", p.Row), tag("figure", p.Figure)}
		m.sample("gobw_comparison_change_ratio", p.Change, labels...)
		if p.Interval != nil {
			m.sample("gobw_comparison_change_low_ratio", p.Interval.Low, labels...)
			m.sample("gobw_comparison_change_high_ratio", p.Interval.High, labels...)
		}
		m.sample("gobw_comparison_verdict", 1, append(slices.Clone(labels), tag("verdict", string(p.Word)), tag("cause", string(p.Cause)))...)
	}
	return m
}

// trend adds, for each series, how often and when it last changed, and by how much.
func (m metrics) trend(t *trend.Trend) metrics {
	for i := range t.Series {
		s := &t.Series[i]
		labels := []openmetrics.Label{tag("setup", s.Group), tag("place", s.Place), tag("point", s.Row), tag("figure", s.Figure)}
		m.sample("gobw_trend_results", float64(len(s.Points)), labels...)
		m.sample("gobw_trend_changes", float64(len(s.Changes)), labels...)
		if n := len(s.Changes); n > 0 {
			c := &s.Changes[n-1]
			m.sample("gobw_trend_last_change_ratio", c.Change, labels...)
			m.sample("gobw_trend_last_change_timestamp_seconds", float64(c.First.UnixMilli())/1000, labels...)
		}
	}
	return m
}
