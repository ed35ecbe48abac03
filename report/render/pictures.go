package render

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/figure"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/plot"
	"github.com/gobw/gobw/report/stats"
)

// NoGridPicture says what a grid needs for a picture.
const NoGridPicture = "no picture: a grid needs two --blocks or more, a list its --threshold; --layout has none"

// NoPictureError is that documents give no picture.
type NoPictureError struct{ Docs []*report.Document }

func (e NoPictureError) Error() string {
	if slices.ContainsFunc(e.Docs, func(d *report.Document) bool { return d.Noncontig != nil }) {
		return NoGridPicture
	}
	return fmt.Sprintf("no picture: a curve needs two sizes or more, a histogram needs %d samples or more", leastSamples)
}

// Pictures draws the documents: for each operation bandwidth, message rate or latency over size, and for each set-up
// with histograms or series those. Several documents are laid over one another.
func Pictures(docs []*report.Document) []plot.Figure {
	var out []plot.Figure
	for _, chosen := range plain.Grouped(allCurves(docs), curve.operation) {
		label(chosen, len(docs) > 1)
		out = append(out, overSize(chosen)...)
		chosen = ofOneSize(chosen)
		out = append(out, distributions(chosen)...)
		out = append(out, overTime(chosen)...)
	}
	for _, d := range docs {
		if d.Noncontig != nil {
			out = append(out, experiment{d.Noncontig}.pictures(d)...)
		}
		if d.Fabric != nil {
			out = append(out, hostMatrix{d.Fabric}.pictures(d)...)
		}
	}
	return out
}

// curve is the records of one set-up of one document.
type curve struct {
	figure.Group
	doc  *report.Document
	name string // what tells it from the others of its picture
}

// operation is what shares a picture.
func (c curve) operation() [2]string { return [2]string{c.Setup.Operation, c.Setup.Kind} }

func allCurves(docs []*report.Document) []curve {
	var out []curve
	for _, d := range docs {
		if d.Fabric != nil { // a matrix is the picture of its hosts
			continue
		}
		records := slices.Clone(d.Records)
		for i := range records {
			records[i].InlineBytes = 0 // small messages alone have it, and one curve has all sizes
		}
		for _, g := range figure.Groups(records) {
			slices.SortStableFunc(g.Rows, func(a, b figure.Row) int { return cmp.Compare(a.Size, b.Size) })
			out = append(out, curve{Group: g, doc: d})
		}
	}
	return out
}

// label names curves by what differs: the document if there are several, and the fields of the plan.
func label(curves []curve, several bool) { //nolint:revive // several documents: a fact, not a mode
	for i, c := range curves {
		var parts []string
		if several {
			parts = append(parts, c.doc.Name())
		}
		for _, name := range report.PlanFields() {
			said := c.Setup.InWords(name)
			if said != "" && slices.ContainsFunc(curves, func(o curve) bool { return o.Setup.InWords(name) != said }) {
				parts = append(parts, said)
			}
		}
		curves[i].name = strings.Join(parts, ", ")
	}
}

// subtitle is the line below a picture's title: labels, the device if there is only one, and more.
func subtitle(docs []*report.Document, more ...string) string {
	var parts, devices []string
	for _, d := range docs {
		devices = plain.AddNew(devices, d.Device())
		for _, h := range heading(d) {
			parts = plain.AddNew(parts, h)
		}
	}
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
func overSize(curves []curve) []plot.Figure {
	if !slices.ContainsFunc(curves, func(c curve) bool { return len(c.Rows) > 1 }) {
		return nil
	}
	operation := title(curves[0].Setup.Operation)
	chart := func(what string, y plot.Axis, figures ...string) *plot.Chart {
		c := &plot.Chart{
			Title: operation + " " + what + " over message size", Subtitle: subtitleOf(curves),
			X: sizeAxis("message size"), Y: y,
		}
		for _, name := range figures {
			for _, cv := range curves {
				s := medians(len(cv.Rows), func(i int) (x float64, values []float64) {
					return float64(cv.Rows[i].Size), cv.Rows[i].Values(figure.Of(name))
				})
				if s.Name = cv.name; len(figures) > 1 {
					s.Name = joined(name, cv.name)
				}
				if slices.ContainsFunc(s.Y, func(y float64) bool { return !math.IsNaN(y) }) {
					c.Series = append(c.Series, s)
				}
			}
		}
		c.Note = bandsOf(c.Series)
		return c
	}
	if curves[0].Setup.IsLatency() {
		return []plot.Figure{chart("latency", latencyAxis(curves[0]), "p50", "p99")}
	}
	bandwidth := chart("bandwidth", plot.Axis{Label: "bandwidth", Units: plain.BitsPerS}, "bw")
	for _, cv := range curves {
		if line := cv.doc.Client.LinkBitsPerS; line > 0 && len(bandwidth.Marks) == 0 {
			bandwidth.Marks = append(bandwidth.Marks,
				plot.Mark{Label: "line rate " + plain.WithUnit(line, plain.BitsPerS), Y: line})
		}
	}
	rate := chart("message rate", plot.Axis{Label: "messages", Units: plain.MessagesPerS, Scale: plot.Log10}, "msgrate")
	return []plot.Figure{bandwidth, rate}
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
	return plot.Axis{Label: label, Units: plain.Seconds, Scale: plot.Log10}
}

func joined(a, b string) string {
	if b == "" {
		return a
	}
	return b + ", " + a
}

// medians is a series of medians over the runs of each point, in base units. It has intervals, or the range of runs
// that are too few for one. A point without the figure is a gap in the line.
func medians(points int, at func(i int) (x float64, values []float64)) plot.Series {
	var out plot.Series
	for i := range points {
		x, values := at(i)
		s := stats.Summarize(values, stats.DefaultConfidence)
		low, high := math.NaN(), math.NaN()
		switch {
		case s.Interval != nil:
			low, high = s.Interval.Low, s.Interval.High
		case s.N > 0:
			low, high = slices.Min(values), slices.Max(values)
		}
		out.X, out.Y, out.Low, out.High = append(out.X, x), append(out.Y, s.Median), append(out.Low,
			low), append(out.High, high)
	}
	return out
}

// bandsOf explains the bands around curves, if there are some.
func bandsOf(series []plot.Series) string {
	shaded := false
	for _, s := range series {
		for i := range s.Low {
			shaded = shaded || s.Low[i] < s.High[i]
		}
	}
	return plain.When(shaded, "Bands: %s intervals of the medians; of fewer than six runs their range.",
		stats.Percent(stats.DefaultConfidence))
}

// ofOneSize are curves with the rows that a picture of one row each compares: if all rows are too many, those of the
// smallest size that most curves have.
func ofOneSize(curves []curve) []curve {
	var sizes []uint64
	for _, c := range curves {
		sizes = append(sizes, plain.Each(c.Rows, func(r figure.Row) uint64 { return r.Size })...)
	}
	if len(curves) < 2 || len(sizes) <= mostCurves {
		return curves
	}
	slices.Sort(sizes)
	same := plain.Grouped(sizes, func(size uint64) uint64 { return size })
	chosen := slices.MaxFunc(same, func(a, b []uint64) int { return len(a) - len(b) })[0]
	return plain.Each(curves, func(c curve) curve {
		c.Rows = slices.DeleteFunc(slices.Clone(c.Rows), func(r figure.Row) bool { return r.Size != chosen })
		return c
	})
}

// mostCurves is how many distributions or runs one picture shows.
const mostCurves = 4

// spread picks as many curves as one picture shows, with the first and the last, and says of how many.
func spread[T any](all []T, subtitle string) ([]T, string) {
	if len(all) <= mostCurves {
		return all, subtitle
	}
	out := make([]T, mostCurves)
	for i := range out {
		out[i] = all[i*(len(all)-1)/(mostCurves-1)]
	}
	return out, fmt.Sprintf("%d of %d curves · %s", mostCurves, len(all), subtitle)
}

// leastSamples are those that have a distribution.
const leastSamples = 30

// distributions draws histograms and percentiles. A histogram that does not decode is left out: a picture is no reason
// to fail.
func distributions(curves []curve) []plot.Figure {
	type row struct {
		name string
		runs []*report.Histogram
	}
	var rows []row
	for _, c := range curves {
		for _, r := range c.Rows {
			of, samples := row{name: joined(plain.Bytes(float64(r.Size)), c.name)}, uint64(0)
			for _, rec := range r.Runs {
				if rec.Histogram != nil && rec.Latency != nil {
					of.runs = append(of.runs, rec.Histogram)
					samples += rec.Latency.Samples
				}
			}
			if samples >= leastSamples {
				rows = append(rows, of)
			}
		}
	}
	rows, said := spread(rows, subtitleOf(curves))
	axis := latencyAxis(curves[0])
	what := title(curves[0].Setup.Operation + " " + axis.Label)
	bars := &plot.Chart{Title: what + ": histogram", Subtitle: said, X: axis, Y: plot.Axis{Label: "samples (%)"}}
	shares := &plot.Chart{Title: what + " by percentile", Subtitle: said, X: sharesAxis(), Y: axis}
	for _, r := range rows {
		if d, err := report.Decode(r.runs...); err == nil && d.N() > 0 {
			bars.Series, shares.Series = append(bars.Series, histogram(r.name, d)), append(shares.Series, percentiles(r.name, d))
		}
	}
	if len(bars.Series) == 0 {
		return nil
	}
	return []plot.Figure{bars, shares}
}

// histogram has a step for each bar.
func histogram(name string, d *report.Distribution) plot.Series {
	edges, shares := d.Bars()
	out := plot.Series{Name: name, Shape: plot.Steps, X: []float64{edges[0] / 1e9}, Y: []float64{0}}
	for i, share := range append(shares, 0) {
		out.X, out.Y = append(out.X, edges[i]/1e9), append(out.Y, 100*share)
	}
	return out
}

// sharesAxis has a share p at 1/(1-p): 90 %, 99 % and 99.9 % are equally far apart.
func sharesAxis() plot.Axis {
	return plot.Axis{Label: "share of samples not above", Scale: plot.Log10, Format: func(v float64) string {
		return fmt.Sprintf("%.*g %%", 4+int(math.Log10(v)), 100-100/v)
	}}
}

// percentiles as far as the samples support them: 10/(1-p) samples for p.
func percentiles(name string, d *report.Distribution) plot.Series {
	out := plot.Series{Name: name}
	limit := math.Log10(max(float64(d.N())/10, 2))
	const points = 160
	for i := range points + 1 {
		x := math.Pow(10, limit*float64(i)/points)
		out.X, out.Y = append(out.X, x), append(out.Y, d.QuantileNs(1-1/x)/1e9)
	}
	return out
}

// overTime draws the rate per interval of the first run of each size that has a series.
func overTime(curves []curve) []plot.Figure {
	operation, latency := curves[0].Setup.Operation, curves[0].Setup.IsLatency()
	c := &plot.Chart{
		Title: title(operation + " bandwidth over time"),
		X:     plot.Axis{Label: "time", Units: plain.Seconds}, Y: plot.Axis{Label: "bandwidth", Units: plain.BitsPerS},
	}
	if latency {
		c.Title, c.Y.Label, c.Y.Units = title(operation+" round trips over time"), "messages", plain.MessagesPerS
	}
	for _, cv := range curves {
		for _, r := range cv.Rows {
			rates := r.Runs[0].Rates()
			if rates == nil {
				continue
			}
			s := plot.Series{Name: joined(plain.Bytes(float64(r.Size)), cv.name), Shape: plot.Steps}
			counts, each := rates.Bytes, 8.0
			if latency {
				counts, each = rates.Messages, 1
			}
			for i, n := range counts {
				s.X, s.Y = append(s.X, float64(i)*rates.IntervalS), append(s.Y, n*each/rates.IntervalS)
			}
			last := len(s.X) - 1
			s.X, s.Y = append(s.X, s.X[last]+rates.IntervalS), append(s.Y, s.Y[last])
			c.Series = append(c.Series, s)
		}
	}
	if len(c.Series) == 0 {
		return nil
	}
	c.Series, c.Subtitle = spread(c.Series, subtitleOf(curves))
	return []plot.Figure{c}
}
