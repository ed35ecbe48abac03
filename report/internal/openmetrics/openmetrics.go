// Package openmetrics writes figures as OpenMetrics 1.0 text. All of them are gauges and carry no time, so that the same bytes
// are valid in Prometheus's older text format, too, which node_exporter's textfile collector reads.
// https://github.com/prometheus/OpenMetrics/blob/v1.0.0/specification/OpenMetrics.md
package openmetrics

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/gobw/gobw/report/plain"
)

// Label is a name and a value. A label without a value is the same as none and is not written.
type Label struct{ Name, Value string }

// Tag makes a label.
func Tag(name, value string) Label { return Label{name, value} }

// sample is one value. Its labels tell it from the others of its family.
type sample struct {
	Labels []Label
	Value  float64
}

// Family is the samples of one metric.
type Family struct {
	Name    string // ends in the unit, where there is one: "gobw_latency_seconds"
	Unit    string // a base unit: "seconds", "bytes_per_second", "ratio"; empty: a count, or 0 and 1
	Help    string // a sentence
	Samples []sample
}

// Add adds a sample.
func (f *Family) Add(value float64, labels ...Label) {
	f.Samples = append(f.Samples, sample{labels, value})
}

// Write writes families in their order, those without samples not at all. Of samples with the same labels the first is
// written: readers refuse the whole of a text with two. Text from elsewhere is cleaned.
func Write(out io.Writer, families ...*Family) error {
	w := bufio.NewWriter(out)
	help := strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `'`)
	for _, f := range families {
		if len(f.Samples) == 0 {
			continue
		}
		fmt.Fprintf(w, "# TYPE %s gauge\n", f.Name)
		if f.Unit != "" {
			fmt.Fprintf(w, "# UNIT %s %s\n", f.Name, f.Unit)
		}
		fmt.Fprintf(w, "# HELP %s %s\n", f.Name, help.Replace(f.Help))
		seen := map[string]bool{}
		for _, s := range f.Samples {
			labels := labelSet(s.Labels)
			if seen[labels] {
				continue
			}
			seen[labels] = true
			fmt.Fprintf(w, "%s%s %s\n", f.Name, labels, strconv.FormatFloat(s.Value, 'g', -1, 64))
		}
	}
	fmt.Fprintln(w, "# EOF")
	return w.Flush()
}

// labelSet writes labels in braces; nothing where there is none.
func labelSet(labels []Label) string {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	var parts []string
	for _, l := range labels {
		if v := escape.Replace(plain.Terminal(strings.ToValidUTF8(l.Value, "?"))); v != "" {
			parts = append(parts, l.Name+`="`+v+`"`)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// Flag is 1 or 0.
func Flag(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
