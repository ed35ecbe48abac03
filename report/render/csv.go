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
	text := func(name string, f func(d *report.Document, r *report.Record) string) csvColumn {
		return csvColumn{name, func(d *report.Document, r *report.Record) string { return plain.CSV(f(d, r)) }}
	}
	integer := func(name string, f func(r *report.Record) uint64) csvColumn {
		return csvColumn{name, func(_ *report.Document, r *report.Record) string { return strconv.FormatUint(f(r), 10) }}
	}
	float := func(name string, f func(r *report.Record) *float64) csvColumn {
		return csvColumn{name, func(_ *report.Document, r *report.Record) string {
			if v := f(r); v != nil {
				return strconv.FormatFloat(*v, 'g', -1, 64)
			}
			return ""
		}}
	}
	latency := func(name string, f func(l *report.Latency) *float64) csvColumn {
		return float(name, func(r *report.Record) *float64 {
			if r.Latency == nil {
				return nil
			}
			return f(r.Latency)
		})
	}
	return []csvColumn{
		text("started", func(d *report.Document, _ *report.Record) string { return d.Started.UTC().Format(time.RFC3339) }),
		text("tool", func(d *report.Document, _ *report.Record) string { return d.Tool }),
		text("version", func(d *report.Document, _ *report.Record) string { return d.Version }),
		text("label", func(d *report.Document, _ *report.Record) string { return d.Label }),
		text("complete", func(d *report.Document, _ *report.Record) string { return strconv.FormatBool(d.Complete) }),
		text("client_host", func(d *report.Document, _ *report.Record) string { return d.Client.Host }),
		text("client_device", func(d *report.Document, _ *report.Record) string { return d.Client.Device }),
		text("server_host", func(d *report.Document, _ *report.Record) string { return serverOf(d).Host }),
		text("server_device", func(d *report.Document, _ *report.Record) string { return serverOf(d).Device }),
		text("operation", func(_ *report.Document, r *report.Record) string { return r.Operation }),
		text("kind", func(_ *report.Document, r *report.Record) string { return r.Kind }),
		text("transport", func(_ *report.Document, r *report.Record) string { return r.Transport }),
		text("direction", func(_ *report.Document, r *report.Record) string { return r.Direction }),
		integer("size_bytes", func(r *report.Record) uint64 { return r.SizeBytes }),
		integer("qps", func(r *report.Record) uint64 { return uint64(r.QPs) }),
		integer("run", func(r *report.Record) uint64 { return uint64(r.Run) }),
		integer("tx_depth", func(r *report.Record) uint64 { return uint64(r.TxDepth) }),
		integer("cq_mod", func(r *report.Record) uint64 { return uint64(r.CQMod) }),
		integer("post_list", func(r *report.Record) uint64 { return uint64(r.PostList) }),
		integer("inline_bytes", func(r *report.Record) uint64 { return uint64(r.InlineBytes) }),
		integer("mtu_bytes", func(r *report.Record) uint64 { return uint64(r.MTU) }),
		integer("iterations", func(r *report.Record) uint64 { return r.Iterations }),
		integer("messages", func(r *report.Record) uint64 { return r.Messages }),
		integer("bytes", func(r *report.Record) uint64 { return r.Bytes }),
		float("seconds", func(r *report.Record) *float64 { return &r.Seconds }),
		float("average_bits_per_s", func(r *report.Record) *float64 { return &r.Bandwidth.AverageBitsPerS }),
		float("peak_bits_per_s", func(r *report.Record) *float64 {
			if r.Bandwidth.PeakBitsPerS == 0 {
				return nil
			}
			return &r.Bandwidth.PeakBitsPerS
		}),
		float("messages_per_s", func(r *report.Record) *float64 { return &r.MessagesPerS }),
		float("delivered", func(r *report.Record) *float64 { return r.Delivered }),
		text("samples", func(_ *report.Document, r *report.Record) string {
			if r.Latency == nil {
				return ""
			}
			return strconv.FormatUint(r.Latency.Samples, 10)
		}),
		latency("min_ns", func(l *report.Latency) *float64 { return &l.MinNs }),
		latency("p50_ns", func(l *report.Latency) *float64 { return &l.P50Ns }),
		latency("p90_ns", func(l *report.Latency) *float64 { return l.P90Ns }),
		latency("p99_ns", func(l *report.Latency) *float64 { return l.P99Ns }),
		latency("p999_ns", func(l *report.Latency) *float64 { return l.P999Ns }),
		latency("p9999_ns", func(l *report.Latency) *float64 { return l.P9999Ns }),
		latency("max_ns", func(l *report.Latency) *float64 { return &l.MaxNs }),
		latency("mean_ns", func(l *report.Latency) *float64 { return &l.MeanNs }),
		latency("stdev_ns", func(l *report.Latency) *float64 { return &l.StdevNs }),
		text("half_round_trip", func(_ *report.Document, r *report.Record) string { return strconv.FormatBool(r.RoundTripHalf) }),
		text("verified", func(_ *report.Document, r *report.Record) string { return r.Verified }),
		text("warnings", func(_ *report.Document, r *report.Record) string { return strings.Join(r.Warnings, "; ") }),
		integer("threads", func(r *report.Record) uint64 { return uint64(max(r.Threads, 1)) }),
		integer("rails", func(r *report.Record) uint64 { return uint64(max(r.Rails, 1)) }),
	}
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
