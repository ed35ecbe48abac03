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

// Differences are those between set-ups: unlike ones forbid a comparison, changed ones may be its purpose.
func Differences(old, new []*report.Document) (unlike, changed []Difference) {
	add := func(what, means string, mayBeSeveral bool, of func(d *report.Document) (value string, has bool)) {
		all := func(docs []*report.Document) string { // each value once
			var values []string
			for _, d := range docs {
				if v, has := of(d); has {
					values = plain.AddNew(values, v)
				}
			}
			slices.Sort(values)
			return strings.Join(values, " and ")
		}
		d := Difference{What: what, Old: all(old), New: all(new)}
		switch differ := d.Old != d.New; {
		case means == "unlike" && (differ || !mayBeSeveral && strings.Contains(d.Old, " and ")):
			unlike = append(unlike, d)
		case means == "changed" && differ:
			changed = append(changed, d)
		}
	}
	add("label", "unlike", true, func(d *report.Document) (string, bool) { return d.Label, true })
	for _, end := range []string{"client", "server"} {
		for i, f := range (&report.Environment{}).Facts() {
			add(end+" "+f.Name, f.Means, f.Name == "CPU", func(d *report.Document) (string, bool) {
				e := map[string]*report.Environment{"client": &d.Client, "server": d.Server}[end]
				if e == nil {
					return "", false
				}
				return e.Facts()[i].Value, true
			})
		}
	}
	return unlike, changed
}

// SetUp describes a document's set-up by all facts that forbid a comparison. Results with the same text can be
// compared. "CPU x, device mlx5_0, link rate 100 Gb/s".
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
