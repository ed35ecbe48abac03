package figure

import (
	"fmt"
	"math"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

// Impossible is the kind of a note on a figure that cannot be true. Such a figure is no result: tables do not show it,
// and a verdict on it is 'cannot tell'.
const Impossible = string(stats.Impossible)

// contradiction says that a rate differs from its count divided by the seconds, by more than [stats.DefaultMargin].
func contradiction(r *report.Record) string {
	if r.Seconds <= 0 {
		return ""
	}
	differ := func(told, counted float64) bool {
		return told > 0 && counted > 0 && !math.IsInf(told, 0) && math.Abs(told-counted) > stats.DefaultMargin*counted
	}
	bits, messages := 8*float64(r.Bytes)/r.Seconds, float64(r.Messages)/r.Seconds
	switch {
	case differ(r.Bandwidth.AverageBitsPerS, bits):
		return fmt.Sprintf("the bandwidth is %s, but %d bytes in %s are %s",
			plain.WithUnit(r.Bandwidth.AverageBitsPerS, plain.BitsPerS),
			r.Bytes, plain.WithUnit(r.Seconds, plain.Seconds), plain.WithUnit(bits, plain.BitsPerS))
	case differ(r.MessagesPerS, messages):
		return fmt.Sprintf("the rate is %s, but %d messages in %s are %s", plain.WithUnit(r.MessagesPerS, plain.MessagesPerS),
			r.Messages, plain.WithUnit(r.Seconds, plain.Seconds), plain.WithUnit(messages, plain.MessagesPerS))
	}
	return ""
}

// Impossible says why the figure of a record cannot be true; empty: it can.
func (f Figure) Impossible(r *report.Record) string {
	if f.Direction == stats.Neither { // counts and settings
		return ""
	}
	if f.counter != nil {
		return f.counter(r)
	}
	switch v, _ := f.read(r); {
	case noted(r) != "":
		return noted(r)
	case v < 0:
		return fmt.Sprintf("%s is %s", f.Name, f.InUnit(v))
	case f.Dimension == Bandwidth || f.Dimension == Rate:
		return contradiction(r)
	}
	return ""
}

// noted is what a record's note says of figures that cannot be true.
func noted(r *report.Record) string {
	for _, w := range r.Warnings {
		if kind, text := NoteOf(w); kind == Impossible {
			return text
		}
	}
	return ""
}

// fell says which counter of a record cannot have the change that it has.
func fell(name string, change int64) string {
	if change == report.CounterFull {
		return name + " is at the highest value that it can have, and counts no more; reset the counters of the port"
	}
	return fmt.Sprintf("%s fell by %d during the test: something reset it", name, -change)
}
