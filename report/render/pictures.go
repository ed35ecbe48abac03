package render

import (
	"cmp"
	"fmt"
	"io"
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
	for _, key := range operations(curves) {
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

// plotTogether draws pictures one below the other.
func plotTogether(w io.Writer, pictures []Picture) error {
	return plot.WriteSVG(w, plain.Each(pictures, func(p Picture) plot.Figure { return p.Figure })...)
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

func operations(curves []curve) []operation {
	var out []operation
	for _, c := range curves {
		out = plain.AddNew(out, c.operation())
	}
	return out
}

// label names curves by what differs among them: the set-up, and of several documents what tells them apart. Where nothing does,
// they are numbered.
func label(curves []curve, several bool) { //nolint:revive // several documents: a fact, not a mode
	if len(curves) == 0 {
		return
	}
	features := setupFeatures()
	if several {
		features = append(documentFeatures(), features...)
	}
	name := func(features []func(curve) string) {
		for i := range curves {
			var parts []string
			for _, f := range features {
				differs := slices.ContainsFunc(curves, func(c curve) bool { return f(c) != f(curves[0]) })
				if s := f(curves[i]); differs && s != "" && !slices.Contains(parts, s) {
					parts = append(parts, s)
				}
			}
			curves[i].name = strings.Join(parts, ", ")
		}
	}
	alike := func() bool {
		for i, c := range curves {
			if slices.ContainsFunc(curves[i+1:], func(o curve) bool { return o.index != c.index && o.name == c.name }) {
				return true
			}
		}
		return false
	}
	if name(features); several && alike() {
		name(append([]func(curve) string{func(c curve) string { return c.doc.Started.UTC().Format("2006-01-02 15:04:05") }}, features...))
	}
	if several && alike() {
		for i := range curves {
			curves[i].name = strings.TrimSuffix(fmt.Sprintf("%d: %s", curves[i].index+1, curves[i].name), ": ")
		}
	}
}

// documentFeatures are what tells documents apart.
func documentFeatures() []func(curve) string {
	return []func(curve) string{
		func(c curve) string { return c.doc.Description },
		func(c curve) string { return c.doc.Client.Host },
		func(c curve) string { return c.doc.Client.Device },
		func(c curve) string { return c.doc.Client.Fabric },
		func(c curve) string { return c.doc.Version },
		func(c curve) string { return c.doc.Client.Firmware },
		func(c curve) string { return c.doc.Client.Driver },
		func(c curve) string { return c.doc.Client.OS },
	}
}

// setupFeatures are what tells set-ups apart: each field of the plan that differs.
func setupFeatures() []func(curve) string {
	var out []func(curve) string
	for _, name := range report.PlanFields() {
		out = append(out, func(c curve) string { return c.Setup.InWords(name) })
	}
	return out
}

// subtitle says what must be said with the numbers: the label, the device, and the set-up where there is one only.
func subtitle(curves []curve) string {
	var parts []string
	for _, c := range curves {
		for _, h := range heading(c.doc) {
			parts = plain.AddNew(parts, h)
		}
	}
	all := slices.Clone(parts) // one label may hold another: "software device, not a NIC; emulated network ..."
	parts = slices.DeleteFunc(parts, func(h string) bool {
		return slices.ContainsFunc(all, func(other string) bool { return strings.HasPrefix(other, h+";") })
	})
	same := func(f func(c curve) string) string {
		s := f(curves[0])
		for _, c := range curves {
			if f(c) != s {
				return ""
			}
		}
		return s
	}
	for _, f := range []func(c curve) string{
		func(c curve) string { return c.doc.Device() },
		func(c curve) string { return c.Setup.Transport },
		func(c curve) string { return plain.Plural(c.Setup.QPs, "QP") },
		func(c curve) string { return fmt.Sprintf("MTU %d", c.Setup.MTU) },
	} {
		if s := same(f); s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, " · ")
}

// sizeName is a size for a legend: "64 KiB", "2 B".
func sizeName(bytes uint64) string {
	s := plot.Bytes(float64(bytes))
	if strings.HasSuffix(s, "i") {
		return s + "B"
	}
	return s + " B"
}

func title(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

func sizeAxis() plot.Axis {
	return plot.Axis{Label: "message size (bytes)", Scale: plot.Log2, Format: plot.Bytes}
}

// overSize draws a figure over the message size; a picture of one size only says nothing and is left out.
func overSize(op operation, curves []curve) []Picture {
	if !slices.ContainsFunc(curves, func(c curve) bool { return len(c.Rows) > 1 }) {
		return nil
	}
	chart := func(what string, y plot.Axis) *plot.Chart {
		return &plot.Chart{Title: title(op.operation + " " + what + " over message size"), Subtitle: subtitle(curves), X: sizeAxis(), Y: y}
	}
	if op.kind == "latency" {
		half := ""
		if curves[0].Setup.RoundTripHalf {
			half = "half round trip "
		}
		c := chart("latency", plot.Axis{Label: half + "latency (us)"})
		for i, cv := range curves {
			c.Series = append(c.Series, cv.series(joined("p50", cv.name), i+1, "p50"))
			p99 := cv.series(joined("p99", cv.name), i+1, "p99")
			if slices.ContainsFunc(p99.Y, func(y float64) bool { return !math.IsNaN(y) }) {
				c.Series = append(c.Series, p99)
			}
		}
		c.Y.Scale = fitting(c.Series, 12)
		c.Note = whiskerNote(c)
		return []Picture{{op.slug(), c}}
	}
	bandwidth := chart("bandwidth", plot.Axis{Label: "bandwidth (Gb/s)"})
	rate := chart("message rate", plot.Axis{Label: "messages (million/s)"})
	for i, cv := range curves {
		bandwidth.Series = append(bandwidth.Series, cv.series(cv.name, i+1, "bw"))
		rate.Series = append(rate.Series, cv.series(cv.name, i+1, "msgrate"))
		if line := cv.doc.Client.LinkBitsPerS; line > 0 && len(bandwidth.Marks) == 0 {
			bandwidth.Marks = append(bandwidth.Marks, plot.Mark{Label: "line rate " + plain.Number(line/1e9) + " Gb/s", Y: line / 1e9})
		}
	}
	rate.Y.Scale = fitting(rate.Series, 12)
	bandwidth.Note, rate.Note = whiskerNote(bandwidth), whiskerNote(rate)
	return []Picture{{op.slug(), bandwidth}, {op.operation + "-message-rate", rate}}
}

// whiskerNote says what the whiskers are, where there are any.
func whiskerNote(c *plot.Chart) string {
	if !slices.ContainsFunc(c.Series, func(s plot.Series) bool { return len(s.Low) > 0 }) {
		return ""
	}
	return "Whiskers: " + stats.Percent(stats.DefaultConfidence) + " intervals of the medians."
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

// series is one figure over the size: medians, with their intervals where there are enough runs.
func (c curve) series(name string, color int, figureName string) plot.Series {
	out, f := plot.Series{Name: name, Color: color}, figure.Of(figureName)
	intervals := false
	for _, r := range c.Rows {
		vs := r.Values(f.Get)
		if len(vs) == 0 { // a gap, which no line may bridge
			out.X, out.Y = append(out.X, float64(r.Size)), append(out.Y, math.NaN())
			out.Low, out.High = append(out.Low, math.NaN()), append(out.High, math.NaN())
			continue
		}
		s := stats.Summarize(vs, stats.DefaultConfidence)
		low, high := s.Median, s.Median
		if s.Interval != nil {
			low, high, intervals = s.Interval.Low, s.Interval.High, true
		}
		out.X, out.Y = append(out.X, float64(r.Size)), append(out.Y, s.Median*f.Scale)
		out.Low, out.High = append(out.Low, low*f.Scale), append(out.High, high*f.Scale)
	}
	if !intervals {
		out.Low, out.High = nil, nil
	}
	return out
}

// mostCurves is how many distributions one picture can hold and still be read.
const mostCurves = 6

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
			for _, rec := range r.Runs {
				if rec.Histogram != nil {
					hs = append(hs, rec.Histogram)
				}
			}
			if most = max(most, len(hs)); len(hs) > 0 {
				rows = append(rows, row{joined(sizeName(r.Size), c.name), hs})
			}
		}
	}
	said := subtitle(curves)
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
	what, axis := "completion time", "completion time (us)"
	if op.kind == "latency" {
		what, axis = "latency", "latency (us)"
		if curves[0].Setup.RoundTripHalf {
			axis = "half round trip latency (us)"
		}
	}
	histogram := &plot.Chart{
		Title: title(op.operation + " " + what + ": histogram"), Subtitle: said,
		X: plot.Axis{Label: axis, Scale: plot.Log10}, Y: plot.Axis{Label: "samples (% of all, per bar)"},
	}
	nines := &plot.Chart{
		Title: title(op.operation + " " + what + " by percentile"), Subtitle: said,
		X: plot.Axis{Label: "share of samples not above", Scale: plot.Nines}, Y: plot.Axis{Label: axis},
	}
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
			out.X, out.Y = append(out.X, b.FromNs/1e3), append(out.Y, 0)
		}
		out.X = append(out.X, b.FromNs/1e3)
		out.Y = append(out.Y, 100*float64(b.Count)/n)
		last = b
	}
	out.X, out.Y = append(out.X, last.ToNs/1e3), append(out.Y, 0)
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
		out.Y = append(out.Y, s.d.QuantileNs(p)/1e3)
	}
	return out
}

// overTime draws the rate per interval of what has a series.
func overTime(op operation, curves []curve) []Picture {
	c := &plot.Chart{
		Title: title(op.operation + " bandwidth over time"), Subtitle: subtitle(curves),
		X: plot.Axis{Label: "time (s)"}, Y: plot.Axis{Label: "bandwidth (Gb/s)"},
	}
	if op.kind == "latency" {
		c.Title, c.Y.Label = title(op.operation+" round trips over time"), "messages (1000/s)"
	}
	type run struct {
		name  string
		rates *report.Series
	}
	var all, first []run // of all runs; of the first of each size
	for _, cv := range curves {
		for _, r := range cv.Rows {
			for i, rec := range r.Runs {
				rates := rec.Rates()
				if rates == nil {
					continue
				}
				name := joined(sizeName(r.Size), cv.name)
				name += plain.When(len(r.Runs) > 1, ", run %d", rec.Run)
				all = append(all, run{name, rates})
				if i == 0 {
					first = append(first, run{name, rates})
				}
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	chosen := all
	if len(all) > mostCurves {
		if len(first) > 1 {
			chosen = first
		}
		chosen = spread(chosen, mostCurves)
		c.Subtitle = fmt.Sprintf("%d of %d · %s", len(chosen), len(all), c.Subtitle)
	}
	for _, r := range chosen {
		s := plot.Series{Name: r.name, Shape: plot.Steps}
		counts, scale := r.rates.Bytes, 8e-9
		if op.kind == "latency" {
			counts, scale = r.rates.Messages, 1e-3
		}
		for i, b := range counts {
			s.X = append(s.X, float64(i)*r.rates.IntervalS)
			s.Y = append(s.Y, b*scale/r.rates.IntervalS)
		}
		last := len(s.X) - 1
		s.X, s.Y = append(s.X, s.X[last]+r.rates.IntervalS), append(s.Y, s.Y[last])
		c.Series = append(c.Series, s)
	}
	lo := math.Inf(1)
	for _, s := range c.Series {
		for _, y := range s.Y {
			lo = min(lo, y)
		}
	}
	if lo > 0 { // a dip is seen against nothing
		c.Y.Min = -1e-12
	}
	return []Picture{{op.slug() + "-over-time", c}}
}
