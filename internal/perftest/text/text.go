package text

import (
	"fmt"
	"io"
	"path"

	"github.com/gobw/gobw/internal/perftest/flags"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/verbs"
)

// Text writes perftest's output to w as the test goes on. The first write error stops it; see [Text.Err].
type Text struct {
	w     io.Writer
	v     flags.Invocation
	plan  plan.Spec
	perUs float64 // cycles per microsecond, with -C
	err   error
}

// NewText writes the text of one invocation. cyclesPerNs is for -C.
func NewText(w io.Writer, v flags.Invocation, cyclesPerNs float64) *Text {
	return &Text{w: w, v: v, plan: v.Plan, perUs: cyclesPerNs * 1e3}
}

// Err is the first error of the writer.
func (t *Text) Err() error { return t.err }

// printf writes what --output, which wants one bare number and nothing else, leaves out.
func (t *Text) printf(format string, args ...any) {
	if t.v.Output == "" {
		t.always(format, args...)
	}
}

func (t *Text) always(format string, args ...any) {
	if t.err == nil {
		_, t.err = fmt.Fprintf(t.w, format, args...)
	}
}

// mute tells an end that has no table: the server of a latency test that only its client measures.
func (t *Text) mute() bool {
	return t.v.Server() && t.plan.Kind == plan.Latency && rowOf(&t.plan).Responded
}

// Begin is what comes before there is a peer: a line, where the device has no part number by which stock knows what
// inline data it takes, and a server's banner.
func (t *Text) Begin(device verbs.DeviceInfo) {
	if device.PartID == 0 && (rowOf(&t.plan).Responded || t.plan.InlineBytes >= 0) {
		t.printf("%s", flags.Dashes)
	}
	if t.v.Server() == t.v.Plan.Reversed { // with --reversed it is perftest's TCP client that says it waits
		return
	}
	const stars = "************************************\n"
	t.printf("\n%s* Waiting for client to connect... *\n%s", stars, stars)
}

// Header writes the block of parameters, the addresses and the heading of the table.
func (t *Text) Header(f Facts) {
	t.plan = f.Plan.Spec
	t.printf("%s", fill("header", f.page(&t.v)))
	if t.mute() {
		return
	}
	t.printf("%s", flags.Dashes)
	t.heading()
}

// rowOf is the operation of a spec that has been read.
func rowOf(p *plan.Spec) plan.Row {
	row, _ := p.Row() // refused while it was read
	return row
}

// Row is one result in the units that are printed.
type Row struct {
	Size       uint64
	Iterations uint64
	CPU        float64 // %
	// Bandwidth.
	Peak, Average, MsgRate float64
	// Latency, in microseconds, or cycles with -C.
	Min, Max, Typical, Avg, Stdev, P99, P999 float64
	TPS                                      float64
}

// rowOf turns a record into the row that perftest would print.
func (t *Text) rowOf(r report.Record, samples report.Samples) Row {
	row := Row{Size: r.SizeBytes, Iterations: r.Iterations}
	if r.CPU != nil {
		row.CPU = r.CPU.SystemUtilization * 100
	}
	if a, b, all := r.Local, r.Remote, &r.Bandwidth.AverageBitsPerS; a != nil && b != nil { // -b: each end's own
		sum := a.AverageBitsPerS + b.AverageBitsPerS // which perftest tells, although the two ends need not overlap
		row.Iterations /= 2
		if r.DurationTest && sum > 0 {
			row.Iterations = uint64(float64(r.Iterations)*a.AverageBitsPerS/sum + 0.5)
		}
		if *all > 0 {
			*all, r.MessagesPerS = sum, r.MessagesPerS*sum / *all
		}
	}
	row.Peak, row.Average, row.MsgRate = t.bandwidth(r.Bandwidth, r.MessagesPerS)
	if l := r.Latency; l != nil && r.Kind == string(plan.Latency) {
		scale, _ := t.times()
		row.Min, row.Max, row.Typical, row.Avg, row.Stdev = l.MinNs*scale, l.MaxNs*scale, l.P50Ns*scale, l.MeanNs*scale,
			l.StdevNs*scale
		if samples.N > 0 { // perftest prints them however few samples there are
			d := samples.Distribution()
			row.P99, row.P999 = d.QuantileNs(0.99)*scale, d.QuantileNs(0.999)*scale
		}
		row.TPS = r.MessagesPerS
	}
	return row
}

// times is the unit of times as printed, and how many of it a nanosecond has.
func (t *Text) times() (perNs float64, unit string) {
	if t.v.Cycles && t.perUs > 0 {
		return t.perUs / 1e3, "cycles"
	}
	return 1e-3, "usec"
}

// bandwidth converts to the unit printed.
func (t *Text) bandwidth(b report.Bandwidth, perSecond float64) (peak, average, rate float64) {
	unit := 8.0 * (1 << 20)
	if t.v.Gbits {
		unit = 1e9
	}
	return b.PeakBitsPerS / unit, b.AverageBitsPerS / unit, perSecond / 1e6
}

// Measured writes one record's row, and what -U, -H and --report-both add. It returns the row.
func (t *Text) Measured(r report.Record, samples report.Samples) Row {
	row := t.rowOf(r, samples)
	switch {
	case t.mute():
		return row
	case t.v.Output != "":
		t.always("%s", fill("alone", columnsOf(&t.v, row)))
		return row
	}
	if t.plan.Kind == plan.Latency && (t.v.Unsorted || t.v.Histogram) {
		t.samples(samples)
		t.printf("%s", flags.Dashes)
		t.heading()
	}
	t.row(row)
	t.counters(r)
	if !t.v.ReportBoth || r.Local == nil || r.Remote == nil {
		return row
	}
	for _, side := range []struct {
		name string
		b    *report.Bandwidth
	}{{"Local", r.Local}, {"Remote", r.Remote}} {
		space := " "
		if rowOf(&t.plan).Counter {
			space = "" // as it is
		}
		t.printf("%s\n %s results:%s\n%s", flags.Dashes, side.name, space, flags.Dashes)
		t.heading()
		half := row
		half.Peak, half.Average, half.MsgRate = t.bandwidth(*side.b, side.b.AverageBitsPerS/8/float64(max(r.SizeBytes, 1)))
		t.row(half)
	}
	return row
}

// counters writes what -W asks for: how far each counter moved during the row's test.
func (t *Text) counters(r report.Record) {
	if len(t.v.Counters) == 0 {
		return
	}
	for _, name := range t.v.Counters {
		t.printf("\t%s=%d\n", name, r.Counters[path.Base(name)])
	}
	t.printf("\n")
}

// Finish closes the table, and says that --wait_destroy has begun. In a one-sided test without end the server has no
// row, and from 6.25 on the client says that it was stopped.
func (t *Text) Finish() {
	switch stopped := t.plan.Infinite && rowOf(&t.plan).Addressed() && !t.plan.Bidirectional; {
	case stopped && t.v.Server():
		t.always(" Client closed connection\n")
	case stopped && t.v.Style() == flags.Modern:
		t.always("\n User stopped traffic\n")
	}
	t.printf("%s", flags.Dashes)
	if t.v.WaitDestroy > 0 {
		t.printf(" Waiting %d seconds before releasing resources...\n", int(t.v.WaitDestroy.Seconds()))
	}
}
