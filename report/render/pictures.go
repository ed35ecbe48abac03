package render

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/figure"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/plot"
	"github.com/gobw/gobw/report/stats"
)

// Picture is a figure with a name that is fit for a file and unique in its list.
type Picture struct {
	Name   string // "write-bandwidth"
	Figure plot.Figure
}

// Pictures draws the documents: for each operation bandwidth, message rate or latency over size, and for each set-up
// with histograms or series those. Several documents are laid over one another.
func Pictures(docs []*report.Document) []Picture {
	var out []Picture
	curves := allCurves(docs)
	var operations []operation
	for _, c := range curves {
		operations = plain.AddNew(operations, c.operation())
	}
	for _, key := range operations {
		chosen := slices.DeleteFunc(slices.Clone(curves), func(c curve) bool { return c.operation() != key })
		label(chosen, len(docs) > 1)
		out = append(out, overSize(key, chosen)...)
		out = append(out, distributions(key, chosen)...)
		out = append(out, overTime(key, chosen)...)
	}
	for i, d := range docs {
		var more []Picture
		if d.Noncontig != nil {
			more = experiment{d.Noncontig}.pictures(d)
		}
		if d.Fabric != nil {
			more = append(more, hostMatrix{d.Fabric}.pictures(d)...)
		}
		for _, p := range more {
			if len(docs) > 1 {
				p.Name += "-" + strconv.Itoa(i+1)
			}
			out = append(out, p)
		}
	}
	return named(out)
}

// named makes the names fit for files, as operations and shapes are whatever a file says, and unique.
func named(pictures []Picture) []Picture {
	seen := map[string]int{}
	for i := range pictures {
		p := &pictures[i]
		p.Name = plain.FileName(p.Name)
		if seen[p.Name]++; seen[p.Name] > 1 {
			p.Name += "-" + strconv.Itoa(seen[p.Name])
		}
	}
	return pictures
}

// curve is the records of one set-up of one document.
type curve struct {
	figure.Group
	doc   *report.Document
	index int    // of the document
	name  string // what tells it from the others of its picture
}

func (c curve) operation() operation { return operation{c.Setup.Operation, c.Setup.Kind} }

// operation is what shares a picture.
type operation struct{ operation, kind string }

func (o operation) slug() string { return o.operation + "-" + o.kind }

func allCurves(docs []*report.Document) []curve {
	var out []curve
	for i, d := range docs {
		if d.Fabric != nil { // a matrix is the picture of its hosts
			continue
		}
		for _, g := range figure.Groups(d.Records) {
			slices.SortStableFunc(g.Rows, func(a, b figure.Row) int { return cmp.Compare(a.Size, b.Size) })
			out = append(out, curve{Group: g, doc: d, index: i})
		}
	}
	return out
}

// label names curves by what differs among them: the set-up, and of several documents what tells them apart. Where nothing does,
// they are numbered.
func label(curves []curve, several bool) { //nolint:revive // several documents: a fact, not a mode
	features := make([][]string, len(curves))
	for i, c := range curves {
		if env := c.doc.Client; several {
			features[i] = []string{c.doc.Description, env.Host, env.Device, env.Fabric, c.doc.Version, env.Firmware, env.Driver, env.OS}
		}
		for _, name := range report.PlanFields() {
			features[i] = append(features[i], c.Setup.InWords(name))
		}
	}
	name := func() (alike bool) { // with a curve of another document
		for i := range curves {
			var parts []string
			for k, s := range features[i] {
				if differs := slices.ContainsFunc(features, func(of []string) bool { return of[k] != features[0][k] }); differs && s != "" {
					parts = plain.AddNew(parts, s)
				}
			}
			curves[i].name = strings.Join(parts, ", ")
			alike = alike || slices.ContainsFunc(curves[:i], func(o curve) bool { return o.index != curves[i].index && o.name == curves[i].name })
		}
		return several && alike
	}
	for _, apart := range []func(c curve) string{
		func(c curve) string { return c.doc.Started.UTC().Format("2006-01-02 15:04:05") },
		func(c curve) string { return strconv.Itoa(c.index + 1) },
	} {
		if !name() {
			return
		}
		for i, c := range curves {
			features[i] = append([]string{apart(c)}, features[i]...)
		}
	}
	name()
}

// subtitle says what must be said with the numbers of a picture: the labels, the device where there is one only, and more.
func subtitle(docs []*report.Document, more ...string) string {
	var labels, devices []string
	for _, d := range docs {
		devices = plain.AddNew(devices, d.Device())
		for _, h := range heading(d) {
			labels = plain.AddNew(labels, h)
		}
	}
	parts := slices.DeleteFunc(slices.Clone(labels), func(h string) bool { // one label may hold another: "software device, not a NIC; emulated network ..."
		return slices.ContainsFunc(labels, func(other string) bool { return strings.HasPrefix(other, h+";") })
	})
	if len(devices) == 1 {
		parts = append(parts, devices[0])
	}
	return strings.Join(slices.DeleteFunc(append(parts, more...), func(s string) bool { return s == "" }), " · ")
}

// subtitleOf curves says what they have in common.
func subtitleOf(curves []curve) string {
	same := func(f func(c curve) string) string {
		all := plain.Each(curves, f)
		return plain.When(!slices.ContainsFunc(all, func(s string) bool { return s != all[0] }), "%s", all[0])
	}
	return subtitle(plain.Each(curves, func(c curve) *report.Document { return c.doc }),
		same(func(c curve) string { return c.Setup.Transport }),
		same(func(c curve) string { return plain.Plural(c.Setup.QPs, "QP") }),
		same(func(c curve) string { return fmt.Sprintf("MTU %d", c.Setup.MTU) }))
}

func title(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

func sizeAxis(label string) plot.Axis {
	return plot.Axis{Label: label, Scale: plot.Log2, Format: plain.Bytes}
}

// overSize draws a figure over the message size; a picture of one size only says nothing and is left out.
func overSize(op operation, curves []curve) []Picture {
	if !slices.ContainsFunc(curves, func(c curve) bool { return len(c.Rows) > 1 }) {
		return nil
	}
	chart := func(what string, y plot.Axis, figures ...string) *plot.Chart {
		c := &plot.Chart{Title: title(op.operation + " " + what + " over message size"), Subtitle: subtitleOf(curves), X: sizeAxis("message size"), Y: y}
		var b bands
		for _, cv := range curves {
			for _, name := range figures {
				s := b.series(len(cv.Rows), func(i int) (x float64, values []float64) {
					return float64(cv.Rows[i].Size), cv.Rows[i].Values(figure.Of(name).Get)
				})
				if s.Name = cv.name; len(figures) > 1 {
					s.Name = joined(name, cv.name)
				}
				if slices.ContainsFunc(s.Y, func(y float64) bool { return !math.IsNaN(y) }) {
					c.Series = append(c.Series, s)
				}
			}
		}
		c.Y.Scale, c.Note = fitting(c.Series, 12), b.note()
		return c
	}
	if op.kind == "latency" {
		return []Picture{{op.slug(), chart("latency", latencyAxis(curves[0]), "p50", "p99")}}
	}
	bandwidth := chart("bandwidth", plot.Axis{Label: "bandwidth", Units: plain.BitsPerS}, "bw")
	bandwidth.Y.Scale = plot.Linear
	for _, cv := range curves {
		if line := cv.doc.Client.LinkBitsPerS; line > 0 && len(bandwidth.Marks) == 0 {
			bandwidth.Marks = append(bandwidth.Marks, plot.Mark{Label: "line rate " + plain.WithUnit(line, plain.BitsPerS), Y: line})
		}
	}
	return []Picture{{op.slug(), bandwidth}, {op.operation + "-message-rate", chart("message rate", plot.Axis{Label: "messages", Units: plain.MessagesPerS}, "msgrate")}}
}

// latencyAxis says what was timed.
func latencyAxis(c curve) plot.Axis {
	label := "latency"
	switch {
	case !c.Setup.IsLatency():
		label = "completion time"
	case c.Setup.RoundTripHalf:
		label = "half round trip latency"
	}
	return plot.Axis{Label: label, Units: plain.Seconds}
}

// fitting is the logarithmic scale where the values span more than a ratio.
func fitting(series []plot.Series, ratio float64) plot.Scale {
	lo, hi := math.Inf(1), 0.0
	for _, s := range series {
		for _, y := range s.Y {
			if y > 0 {
				lo, hi = min(lo, y), max(hi, y)
			}
		}
	}
	if hi > ratio*lo {
		return plot.Log10
	}
	return plot.Linear
}

func joined(a, b string) string {
	if b == "" {
		return a
	}
	return b + ", " + a
}

// bands are what the shades around the curves of a chart are.
type bands struct{ intervals, ranges bool }

// series is a figure's median over the runs at each of some points, in base units, with its interval, or with their range where they
// are too few for one. A point without the figure is a gap, which no line may bridge.
func (b *bands) series(points int, at func(i int) (x float64, values []float64)) plot.Series {
	var out plot.Series
	for i := range points {
		x, values := at(i)
		s := stats.Summarize(values, stats.DefaultConfidence)
		low, high := math.NaN(), math.NaN()
		switch {
		case s.Interval != nil:
			low, high, b.intervals = s.Interval.Low, s.Interval.High, true
		case s.N > 0:
			low, high = slices.Min(values), slices.Max(values)
			b.ranges = b.ranges || low < high
		}
		out.X, out.Y, out.Low, out.High = append(out.X, x), append(out.Y, s.Median), append(out.Low, low), append(out.High, high)
	}
	return out
}

func (b bands) note() string {
	s := plain.When(b.intervals, "Bands: %s intervals of the medians", stats.Percent(stats.DefaultConfidence))
	switch {
	case b.intervals && b.ranges:
		s += "; of fewer than six runs their range"
	case b.ranges:
		s = "Bands: the range of the runs, which are too few for an interval"
	}
	return s + plain.When(s != "", ".")
}

// mostCurves is how many distributions or runs one picture shows.
const mostCurves = 4

// mostMerged is how many runs of a point one distribution is made of.
const mostMerged = 100

// spread picks so many of all, the first and the last among them; fewer stay as they are.
func spread[T any](all []T, most int) []T {
	if len(all) <= most {
		return all
	}
	out := make([]T, most)
	for i := range out {
		out[i] = all[i*(len(all)-1)/(most-1)]
	}
	return out
}

// sampled is the decoded histogram of one size of one curve, over its runs.
type sampled struct {
	name string
	d    *report.Distribution
}

// leastSamples are those that have a distribution: of fewer each is a bar of its own.
const leastSamples = 30

// distributions draws histogram and percentiles of what has histograms; a histogram that does not decode is left out
// here, as Load has no business failing for a picture.
func distributions(op operation, curves []curve) []Picture {
	type row struct {
		name string
		runs []*report.Histogram
	}
	var rows []row
	sizes, most := 0, 0
	for _, c := range curves {
		sizes = max(sizes, len(c.Rows))
		for _, r := range c.Rows {
			var hs []*report.Histogram
			samples := uint64(0)
			for _, rec := range r.Runs {
				if rec.Histogram != nil && rec.Latency != nil {
					hs = append(hs, rec.Histogram)
					samples += rec.Latency.Samples
				}
			}
			if most = max(most, len(hs)); samples >= leastSamples {
				rows = append(rows, row{joined(plain.Bytes(float64(r.Size)), c.name), hs})
			}
		}
	}
	said := subtitleOf(curves)
	if len(rows) > mostCurves {
		said = fmt.Sprintf("%d of %d curves · %s", mostCurves, len(rows), said)
		rows = spread(rows, mostCurves)
	}
	if most > mostMerged { // decoding is what takes the time
		said = fmt.Sprintf("%d of %d runs · %s", mostMerged, most, said)
	}
	var all []sampled
	for _, r := range rows {
		h, err := report.MergeHistograms(spread(r.runs, mostMerged)...)
		if err != nil || h == nil {
			continue
		}
		if d, err := h.Decode(); err == nil {
			all = append(all, sampled{r.name, d})
		}
	}
	if len(all) == 0 {
		return nil
	}
	axis := latencyAxis(curves[0])
	what := op.operation + " " + axis.Label
	histogram := &plot.Chart{
		Title: title(what + ": histogram"), Subtitle: said, X: axis, Y: plot.Axis{Label: "samples in a bar (%)", Zero: true},
	}
	histogram.X.Scale = plot.Log10
	nines := &plot.Chart{Title: title(what + " by percentile"), Subtitle: said, X: plot.Axis{Label: "share of samples not above", Scale: plot.Nines}, Y: axis}
	for _, s := range all {
		histogram.Series = append(histogram.Series, s.bars())
		nines.Series = append(nines.Series, s.percentiles())
	}
	if sizes == 1 && len(all) == 1 {
		histogram.Series[0].Name, nines.Series[0].Name = "", ""
	}
	nines.Y.Scale = fitting(nines.Series, 8)
	return []Picture{{op.slug() + "-histogram", histogram}, {op.slug() + "-percentiles", nines}}
}

// bars of the histogram as steps.
func (s sampled) bars() plot.Series {
	const bars = 90
	out := plot.Series{Name: s.name, Shape: plot.Steps}
	n := float64(s.d.N())
	var last report.Bar
	for i, b := range s.d.Bars(bars) {
		if i == 0 {
			out.X, out.Y = append(out.X, b.FromNs/1e9), append(out.Y, 0)
		}
		out.X = append(out.X, b.FromNs/1e9)
		out.Y = append(out.Y, 100*float64(b.Count)/n)
		last = b
	}
	out.X, out.Y = append(out.X, last.ToNs/1e9), append(out.Y, 0)
	return out
}

// percentiles as far as the samples support them: 10/(1-p) samples for p.
func (s sampled) percentiles() plot.Series {
	out := plot.Series{Name: s.name}
	limit := math.Log10(max(float64(s.d.N())/10, 2))
	const points = 160
	for i := range points + 1 {
		p := 1 - math.Pow(10, -limit*float64(i)/points)
		out.X = append(out.X, p)
		out.Y = append(out.Y, s.d.QuantileNs(p)/1e9)
	}
	return out
}

// overTime draws the rate per interval of what has a series: of the first run of each size where all are too many.
func overTime(op operation, curves []curve) []Picture {
	c := &plot.Chart{
		Title: title(op.operation + " bandwidth over time"), Subtitle: subtitleOf(curves),
		X: plot.Axis{Label: "time", Units: plain.Seconds}, Y: plot.Axis{Label: "bandwidth", Units: plain.BitsPerS, Zero: true}, // a dip is seen against nothing
	}
	if op.kind == "latency" {
		c.Title, c.Y.Label, c.Y.Units = title(op.operation+" round trips over time"), "messages", plain.MessagesPerS
	}
	var all, first []plot.Series
	for _, cv := range curves {
		for _, r := range cv.Rows {
			for i, rec := range r.Runs {
				rates := rec.Rates()
				if rates == nil {
					continue
				}
				s := plot.Series{Name: joined(plain.Bytes(float64(r.Size)), cv.name) + plain.When(len(r.Runs) > 1, ", run %d", rec.Run), Shape: plot.Steps}
				counts, each := rates.Bytes, 8.0
				if op.kind == "latency" {
					counts, each = rates.Messages, 1
				}
				for i, n := range counts {
					s.X, s.Y = append(s.X, float64(i)*rates.IntervalS), append(s.Y, n*each/rates.IntervalS)
				}
				last := len(s.X) - 1
				s.X, s.Y = append(s.X, s.X[last]+rates.IntervalS), append(s.Y, s.Y[last])
				if all = append(all, s); i == 0 {
					first = append(first, s)
				}
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	c.Series = all
	if len(all) > mostCurves && len(first) > 1 {
		c.Series = first
	}
	if c.Series = spread(c.Series, mostCurves); len(c.Series) < len(all) {
		c.Subtitle = fmt.Sprintf("%d of %d curves · %s", len(c.Series), len(all), c.Subtitle)
	}
	return []Picture{{op.slug() + "-over-time", c}}
}
