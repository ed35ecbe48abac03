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

// fact is one thing about an end of a run.
type fact struct {
	what   string
	refuse bool // to compare where it differs
	get    func(e *report.Environment) string
}

func facts() []fact {
	return []fact{
		{"CPU", true, func(e *report.Environment) string { return e.CPU }},
		{"architecture", true, func(e *report.Environment) string { return e.Arch }},
		{"number of CPUs", true, func(e *report.Environment) string { return fmt.Sprint(e.CPUs) }},
		{"device", true, func(e *report.Environment) string { return e.Device }},
		{"provider", true, func(e *report.Environment) string { return e.Provider }},
		{"link rate", true, func(e *report.Environment) string { return plain.Number(e.LinkBitsPerS/1e9) + " Gb/s" }},
		{"link layer", true, func(e *report.Environment) string { return e.LinkLayer }},
		{"PCIe width", true, func(e *report.Environment) string { return fmt.Sprint(e.PCILinkWidth) }},
		{"emulated network", true, func(e *report.Environment) string { return e.Fabric }},
		{"host", false, func(e *report.Environment) string { return e.Host }},
		{"system", false, func(e *report.Environment) string { return e.OS }},
		{"governor", false, func(e *report.Environment) string { return e.Governor }},
		{"pinned CPU", false, func(e *report.Environment) string { return fmt.Sprint(e.PinnedCPU) }},
		{"priority", false, func(e *report.Environment) string { return cmp.Or(e.Priority, "normal") }},
		{"driver", false, func(e *report.Environment) string { return e.Driver }},
		{"firmware", false, func(e *report.Environment) string { return e.Firmware }},
		{"gobw", false, func(e *report.Environment) string { return e.Version }},
		{"Go", false, func(e *report.Environment) string { return e.GoVersion }},
	}
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
		all := func(docs []*report.Document, f fact) string {
			var values []string
			for _, d := range docs {
				if e := end.of(d); e != nil {
					values = plain.AddNew(values, f.get(e))
				}
			}
			slices.Sort(values)
			return strings.Join(values, " and ")
		}
		for _, f := range facts() {
			a, b := all(old, f), all(new, f)
			if a == b && (!f.refuse || !strings.Contains(a, " and ") || f.what == "CPU") {
				continue
			}
			d := Difference{What: end.name + " " + f.what, Old: a, New: b}
			if f.refuse {
				unlike = append(unlike, d)
			} else {
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
	for _, f := range facts() {
		if !f.refuse {
			continue
		}
		here, there := f.get(&d.Client), ""
		if d.Server != nil {
			there = f.get(d.Server)
		}
		switch none := f.get(&report.Environment{}); {
		case d.Server == nil || here == there:
			if here != none {
				parts = append(parts, f.what+" "+here)
			}
		default:
			parts = append(parts, f.what+" "+cmp.Or(here, "none")+" to "+cmp.Or(there, "none"))
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
