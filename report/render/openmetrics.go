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
	"github.com/gobw/gobw/report/qualify"
	"github.com/gobw/gobw/report/stats"
	"github.com/gobw/gobw/report/trend"
)

// metrics are the families of results. A sample is a point: the median over its runs.
type metrics struct {
	families []*openmetrics.Family // in the order of the page

	info, complete, finished, met                     *openmetrics.Family
	bandwidth, peak, rate, delivered, quantiles, mean *openmetrics.Family
	runs, disturbed, counters, goodput, gridTime      *openmetrics.Family
}

func newMetrics() *metrics {
	m := &metrics{}
	add := func(name, unit, help string) *openmetrics.Family {
		f := &openmetrics.Family{Name: name, Unit: unit, Help: help}
		m.families = append(m.families, f)
		return f
	}
	m.info = add("gobw_result_info", "", "What was measured on what: always 1.")
	m.complete = add("gobw_result_complete", "", "1 if the test ran to its end.")
	m.finished = add("gobw_result_finished_timestamp_seconds", "seconds", "When the test ended, in seconds since 1970.")
	m.met = add("gobw_expectation_met", "", "1 if the figure is as expected, 0 if it is not or if that cannot be told.")
	m.bandwidth = add("gobw_bandwidth_bytes_per_second", "bytes_per_second", "Average bandwidth, the median over the runs.")
	m.peak = add("gobw_bandwidth_peak_bytes_per_second", "bytes_per_second", "Highest bandwidth from any post to any completion.")
	m.rate = add("gobw_messages_per_second", "per_second", "Message rate.")
	m.delivered = add("gobw_delivered_ratio", "ratio", "Share of the messages that arrived.")
	m.quantiles = add("gobw_latency_seconds", "seconds", "Latency, of bandwidth tests the time to completion; quantiles 0 and 1 are the least and the greatest sample.")
	m.mean = add("gobw_latency_mean_seconds", "seconds", "Mean of the latency.")
	m.runs = add("gobw_runs", "", "Repetitions of the point.")
	m.disturbed = add("gobw_disturbed_runs", "", "Repetitions during which something else had the CPU.")
	m.counters = add("gobw_device_counter", "", "Change of a device counter during the test, the highest of the runs.")
	m.goodput = add("gobw_noncontig_goodput_bytes_per_second", "bytes_per_second", "Goodput of a non-contiguous transfer.")
	m.gridTime = add("gobw_noncontig_message_seconds", "seconds", "Median time of a non-contiguous message.")
	return m
}

// families are gauges in base units, for a scrape or for node_exporter's textfile collector.
func families(docs []*report.Document) []*openmetrics.Family {
	m := newMetrics()
	m.addAll(docs)
	return m.families
}

// addAll adds documents; several are told apart by the label result.
func (m *metrics) addAll(docs []*report.Document) {
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
}

func tag(name, value string) openmetrics.Label { return openmetrics.Tag(name, value) }

func (m *metrics) add(d *report.Document, result openmetrics.Label) {
	ends := []openmetrics.Label{result, tag("device", d.Client.Device), tag("host", d.Client.Host)}
	peer := tag("peer", "")
	if d.Server != nil {
		peer.Value = d.Server.Host
	}
	ends = append(ends, peer)
	m.info.Add(1, append(slices.Clone(ends),
		tag("tool", d.Tool), tag("version", d.Version), tag("provider", d.Client.Provider), tag("firmware", d.Client.Firmware), tag("note", d.Label), tag("failure", d.Failure))...)
	m.complete.Add(openmetrics.Flag(d.Complete), ends...)
	if !d.Finished.IsZero() {
		m.finished.Add(float64(d.Finished.UnixMilli())/1000, ends...)
	}
	for _, c := range d.Checks {
		m.met.Add(openmetrics.Flag(c.Word == stats.Pass), append(slices.Clone(ends), tag("expectation", c.Expression), tag("point", c.Point))...)
	}
	for _, g := range figure.Groups(d.Records) {
		for _, row := range g.Rows {
			m.addRow(row, append(slices.Clone(ends), pointLabels(row.Runs[0].Plan)...))
		}
	}
	m.addGrid(d, ends)
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

func (m *metrics) addRow(row figure.Row, labels []openmetrics.Label) {
	with := func(more ...openmetrics.Label) []openmetrics.Label { return append(slices.Clone(labels), more...) }
	median := func(f *openmetrics.Family, name string, scale float64) {
		if vs := row.Values(figure.Of(name).Get); len(vs) > 0 {
			f.Add(stats.Median(vs)*scale, labels...)
		}
	}
	median(m.bandwidth, "bw", 1.0/8)
	median(m.peak, "peak", 1.0/8)
	if !row.Runs[0].IsLatency() {
		median(m.rate, "msgrate", 1)
	}
	median(m.delivered, "delivered", 1)
	if l := row.Latency(); l != nil && l.Samples > 0 {
		for _, f := range report.LatencyFigures() {
			p, is := f.Percentile()
			if at, end := map[string]float64{"min": 0, "max": 1}[f.Name]; end {
				p, is = at, true
			}
			if ns, has := f.Ns(l); has && is {
				m.quantiles.Add(ns/1e9, with(tag("quantile", strconv.FormatFloat(p, 'g', -1, 64)))...)
			}
		}
		m.mean.Add(l.MeanNs/1e9, labels...)
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
	m.runs.Add(float64(len(row.Runs)), labels...)
	m.disturbed.Add(float64(disturbed), labels...)
	keys := slices.SortedFunc(maps.Keys(highest), func(a, b [2]string) int { return strings.Compare(a[0]+"\x00"+a[1], b[0]+"\x00"+b[1]) })
	for _, k := range keys {
		m.counters.Add(float64(highest[k]), with(tag("counter", k[0]), tag("end", k[1]))...)
	}
}

// addGrid adds the points of a non-contiguous experiment.
func (m *metrics) addGrid(d *report.Document, ends []openmetrics.Label) {
	n := d.Noncontig
	if n == nil {
		return
	}
	for i := range n.Points {
		p := &n.Points[i]
		if len(p.Runs) == 0 {
			continue
		}
		labels := append(slices.Clone(ends),
			tag("shape", p.Shape), tag("strategy", p.Strategy), tag("layout", p.Layout), tag("stride", p.Stride), tag("held", p.Held), tag("size_bytes", strconv.FormatInt(p.SizeBytes, 10)),
			tag("transport", n.Setup.Transport), tag("cache", n.Setup.Cache), tag("window", strconv.Itoa(n.Setup.Window)), tag("kernel", n.Setup.Kernel))
		var goodput, p50 []float64
		for _, r := range p.Runs {
			goodput, p50 = append(goodput, r.GoodputBitsPerS/8), append(p50, r.P50Ns/1e9)
		}
		m.goodput.Add(stats.Median(goodput), labels...)
		m.gridTime.Add(stats.Median(p50), labels...)
	}
}

// qualificationFamilies are the verdicts of a qualification and the figures of its tests.
func qualificationFamilies(q *qualify.Qualification) []*openmetrics.Family {
	passed := &openmetrics.Family{Name: "gobw_qualification_passed", Help: "1 if every test passed."}
	status := &openmetrics.Family{Name: "gobw_qualification_exit_status", Help: "Exit status of the qualification."}
	test := &openmetrics.Family{Name: "gobw_qualification_test_passed", Help: "1 if the test passed; the outcome says how it ended."}
	passed.Add(openmetrics.Flag(q.Outcome == stats.Pass), tag("qualification", q.Plan))
	status.Add(float64(q.ExitCode), tag("qualification", q.Plan))
	for _, t := range q.Tests {
		test.Add(openmetrics.Flag(t.Outcome == stats.Pass), tag("qualification", q.Plan), tag("test", t.Name), tag("outcome", string(t.Outcome)))
	}
	return append([]*openmetrics.Family{passed, status, test}, families(q.Documents())...)
}

// comparisonMetrics are the changes of a comparison with their intervals and verdicts.
func comparisonMetrics(c *compare.Comparison) []*openmetrics.Family {
	change := &openmetrics.Family{Name: "gobw_comparison_change_ratio", Unit: "ratio", Help: "Change of the figure as a share of the old."}
	low := &openmetrics.Family{Name: "gobw_comparison_change_low_ratio", Unit: "ratio", Help: "Lower end of the interval of the change."}
	high := &openmetrics.Family{Name: "gobw_comparison_change_high_ratio", Unit: "ratio", Help: "Upper end of the interval of the change."}
	verdict := &openmetrics.Family{Name: "gobw_comparison_verdict", Help: "What can be told of the change: always 1."}
	for _, p := range c.Points {
		labels := []openmetrics.Label{tag("setup", p.Group), tag("point", p.Row), tag("figure", p.Figure)}
		change.Add(p.Change, labels...)
		if p.Interval != nil {
			low.Add(p.Interval.Low, labels...)
			high.Add(p.Interval.High, labels...)
		}
		verdict.Add(1, append(slices.Clone(labels), tag("verdict", string(p.Word)), tag("cause", string(p.Cause)))...)
	}
	return []*openmetrics.Family{change, low, high, verdict}
}

// trendMetrics are, for each series, how often and when it last changed, and by how much.
func trendMetrics(t *trend.Trend) []*openmetrics.Family {
	results := &openmetrics.Family{Name: "gobw_trend_results", Help: "Results of the series."}
	changes := &openmetrics.Family{Name: "gobw_trend_changes", Help: "Changes found in the series."}
	last := &openmetrics.Family{Name: "gobw_trend_last_change_ratio", Unit: "ratio", Help: "Last change of the figure as a share of what it was before."}
	when := &openmetrics.Family{Name: "gobw_trend_last_change_timestamp_seconds", Unit: "seconds", Help: "When the first result after the last change began, in seconds since 1970."}
	for i := range t.Series {
		s := &t.Series[i]
		labels := []openmetrics.Label{tag("setup", s.Group), tag("place", s.Place), tag("point", s.Row), tag("figure", s.Figure)}
		results.Add(float64(len(s.Points)), labels...)
		changes.Add(float64(len(s.Changes)), labels...)
		if n := len(s.Changes); n > 0 {
			c := &s.Changes[n-1]
			last.Add(c.Change, labels...)
			when.Add(float64(c.First.UnixMilli())/1000, labels...)
		}
	}
	return []*openmetrics.Family{results, changes, last, when}
}
