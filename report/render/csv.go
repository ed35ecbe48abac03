package render

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
)

// csvColumn is a column of documentsCSV.
type csvColumn struct {
	name  string
	value func(d *report.Document, r *report.Record) string
}

// csvColumns are the columns of documentsCSV, in order. They are stable: new ones are only added at the end.
func csvColumns() []csvColumn {
	return []csvColumn{
		textColumn("started", func(d *report.Document, _ *report.Record) string { return d.Started.UTC().Format(time.RFC3339) }),
		textColumn("tool", func(d *report.Document, _ *report.Record) string { return d.Tool }),
		textColumn("version", func(d *report.Document, _ *report.Record) string { return d.Version }),
		textColumn("label", func(d *report.Document, _ *report.Record) string { return d.Label }),
		textColumn("complete", func(d *report.Document, _ *report.Record) string { return strconv.FormatBool(d.Complete) }),
		textColumn("client_host", func(d *report.Document, _ *report.Record) string { return d.Client.Host }),
		textColumn("client_device", func(d *report.Document, _ *report.Record) string { return d.Client.Device }),
		textColumn("server_host", func(d *report.Document, _ *report.Record) string { return serverOf(d).Host }),
		textColumn("server_device", func(d *report.Document, _ *report.Record) string { return serverOf(d).Device }),
		textColumn("operation", func(_ *report.Document, r *report.Record) string { return r.Operation }),
		textColumn("kind", func(_ *report.Document, r *report.Record) string { return r.Kind }),
		textColumn("transport", func(_ *report.Document, r *report.Record) string { return r.Transport }),
		textColumn("direction", func(_ *report.Document, r *report.Record) string { return r.Direction }),
		integerColumn("size_bytes", func(r *report.Record) uint64 { return r.SizeBytes }),
		integerColumn("qps", func(r *report.Record) uint64 { return uint64(r.QPs) }),
		integerColumn("run", func(r *report.Record) uint64 { return uint64(r.Run) }),
		integerColumn("tx_depth", func(r *report.Record) uint64 { return uint64(r.TxDepth) }),
		integerColumn("cq_mod", func(r *report.Record) uint64 { return uint64(r.CQMod) }),
		integerColumn("post_list", func(r *report.Record) uint64 { return uint64(r.PostList) }),
		integerColumn("inline_bytes", func(r *report.Record) uint64 { return uint64(r.InlineBytes) }),
		integerColumn("mtu_bytes", func(r *report.Record) uint64 { return uint64(r.MTU) }),
		integerColumn("iterations", func(r *report.Record) uint64 { return r.Iterations }),
		integerColumn("messages", func(r *report.Record) uint64 { return r.Messages }),
		integerColumn("bytes", func(r *report.Record) uint64 { return r.Bytes }),
		floatColumn("seconds", func(r *report.Record) *float64 { return &r.Seconds }),
		floatColumn("average_bits_per_s", func(r *report.Record) *float64 { return &r.Bandwidth.AverageBitsPerS }),
		floatColumn("peak_bits_per_s", func(r *report.Record) *float64 {
			if r.Bandwidth.PeakBitsPerS == 0 {
				return nil
			}
			return &r.Bandwidth.PeakBitsPerS
		}),
		floatColumn("messages_per_s", func(r *report.Record) *float64 { return &r.MessagesPerS }),
		floatColumn("delivered", func(r *report.Record) *float64 { return r.Delivered }),
		textColumn("samples", func(_ *report.Document, r *report.Record) string {
			if r.Latency == nil {
				return ""
			}
			return strconv.FormatUint(r.Latency.Samples, 10)
		}),
		latencyColumn("min_ns", func(l *report.Latency) *float64 { return &l.MinNs }),
		latencyColumn("p50_ns", func(l *report.Latency) *float64 { return &l.P50Ns }),
		latencyColumn("p90_ns", func(l *report.Latency) *float64 { return l.P90Ns }),
		latencyColumn("p99_ns", func(l *report.Latency) *float64 { return l.P99Ns }),
		latencyColumn("p999_ns", func(l *report.Latency) *float64 { return l.P999Ns }),
		latencyColumn("p9999_ns", func(l *report.Latency) *float64 { return l.P9999Ns }),
		latencyColumn("max_ns", func(l *report.Latency) *float64 { return &l.MaxNs }),
		latencyColumn("mean_ns", func(l *report.Latency) *float64 { return &l.MeanNs }),
		latencyColumn("stdev_ns", func(l *report.Latency) *float64 { return &l.StdevNs }),
		textColumn("half_round_trip", func(_ *report.Document, r *report.Record) string { return strconv.FormatBool(r.RoundTripHalf) }),
		textColumn("verified", func(_ *report.Document, r *report.Record) string { return r.Verified }),
		textColumn("warnings", func(_ *report.Document, r *report.Record) string { return strings.Join(r.Warnings, "; ") }),
		integerColumn("threads", func(r *report.Record) uint64 { return uint64(max(r.Threads, 1)) }),
		integerColumn("rails", func(r *report.Record) uint64 { return uint64(max(r.Rails, 1)) }),
	}
}

func textColumn(name string, f func(d *report.Document, r *report.Record) string) csvColumn {
	return csvColumn{name, func(d *report.Document, r *report.Record) string { return plain.CSV(f(d, r)) }}
}

func integerColumn(name string, f func(r *report.Record) uint64) csvColumn {
	return csvColumn{name, func(_ *report.Document, r *report.Record) string { return strconv.FormatUint(f(r), 10) }}
}

// floatColumn is empty where there is no figure.
func floatColumn(name string, f func(r *report.Record) *float64) csvColumn {
	return csvColumn{name, func(_ *report.Document, r *report.Record) string {
		if v := f(r); v != nil {
			return strconv.FormatFloat(*v, 'g', -1, 64)
		}
		return ""
	}}
}

func latencyColumn(name string, f func(l *report.Latency) *float64) csvColumn {
	return floatColumn(name, func(r *report.Record) *float64 {
		if r.Latency == nil {
			return nil
		}
		return f(r.Latency)
	})
}

// serverOf is the other end; without one nothing is known of it.
func serverOf(d *report.Document) report.Environment {
	if d.Server == nil {
		return report.Environment{}
	}
	return *d.Server
}

// documentsCSV writes a header and a line for each record of the documents. A cell is empty where there is no figure.
func documentsCSV(w io.Writer, docs []*report.Document) error {
	if isNoncontig(docs) {
		return noncontigCSV(w, docs)
	}
	columns := csvColumns()
	line := make([]string, len(columns))
	for i, c := range columns {
		line[i] = c.name
	}
	lines := [][]string{line}
	for _, d := range docs {
		for i := range d.Records {
			line := make([]string, len(columns))
			for j, c := range columns {
				line[j] = c.value(d, &d.Records[i])
			}
			lines = append(lines, line)
		}
	}
	return writeCSV(w, lines)
}

func writeCSV(w io.Writer, lines [][]string) error {
	if err := csv.NewWriter(w).WriteAll(lines); err != nil {
		return fmt.Errorf("csv: %w", err)
	}
	return nil
}
