package compare

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
)

// Difference is one thing that is not the same on both sides.
type Difference struct {
	What string `json:"what"`
	Old  string `json:"old"`
	New  string `json:"new"`
}

func (d Difference) String() string {
	return fmt.Sprintf("%s: %s before, %s now", d.What, cmp.Or(d.Old, "none"), cmp.Or(d.New, "none"))
}

// is tells whether the difference is in the field by which is compared.
func (d Difference) is(by string) bool {
	_, what, found := strings.Cut(d.What, " ")
	return by != "" && (found && fieldOf(what) == by || d.What == "label" && (by == "device" || by == "emulated_network"))
}

// Differences between set-ups: those that make figures incomparable, and those a comparison may be about.
func Differences(old, new []*report.Document) (unlike, changed []Difference) {
	if a, b := labels(old), labels(new); a != b {
		unlike = append(unlike, Difference{What: "label", Old: a, New: b})
	}
	for _, end := range []struct {
		name string
		of   func(d *report.Document) *report.Environment
	}{
		{"client", func(d *report.Document) *report.Environment { return &d.Client }},
		{"server", func(d *report.Document) *report.Environment { return d.Server }},
	} {
		all := func(docs []*report.Document, i int) string {
			var values []string
			for _, d := range docs {
				if e := end.of(d); e != nil {
					values = plain.AddNew(values, e.Facts()[i].Value)
				}
			}
			slices.Sort(values)
			return strings.Join(values, " and ")
		}
		for i, f := range (&report.Environment{}).Facts() {
			a, b := all(old, i), all(new, i)
			d, several := Difference{What: end.name + " " + f.Name, Old: a, New: b}, strings.Contains(a, " and ") && f.Name != "CPU"
			switch {
			case f.Means == "unlike" && (a != b || several):
				unlike = append(unlike, d)
			case f.Means == "changed" && a != b:
				changed = append(changed, d)
			}
		}
	}
	return unlike, changed
}

// SetUp says on what a document was measured, by all that keeps results from being compared: equal texts are alike.
// "CPU x, device mlx5_0, link rate 100 Gb/s".
func SetUp(d *report.Document) string {
	var parts []string
	if d.Label != "" {
		parts = append(parts, d.Label)
	}
	var other []report.Fact
	if d.Server != nil {
		other = d.Server.Facts()
	}
	for i, here := range d.Client.Facts() {
		if here.Means != "unlike" {
			continue
		}
		if len(other) > 0 && other[i].Value != here.Value {
			parts = append(parts, here.Name+" "+cmp.Or(here.Value, "none")+" to "+cmp.Or(other[i].Value, "none"))
		} else if here.Known {
			parts = append(parts, here.Name+" "+here.Value)
		}
	}
	return strings.Join(parts, ", ")
}

// labels of documents, each once: software devices and emulated networks are named there.
func labels(docs []*report.Document) string {
	var out []string
	for _, d := range docs {
		out = plain.AddNew(out, d.Label)
	}
	slices.Sort(out)
	return strings.Join(out, " and ")
}
