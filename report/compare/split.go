package compare

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/noncontig"
	"github.com/gobw/gobw/report/plain"
)

// fieldNames are all fields that --by knows: of plans, and of set-ups.
func fieldNames() []string {
	out := slices.Concat(report.PlanFields(), noncontig.PlanFields(), plain.Each((&report.Environment{}).Facts(), func(f report.Fact) string { return fieldOf(f.Name) }))
	slices.Sort(out)
	return slices.Compact(out)
}

func fieldOf(what string) string { return strings.ReplaceAll(strings.ToLower(what), " ", "_") }

func checkBy(by string) error {
	if by == "" || slices.Contains(fieldNames(), by) {
		return nil
	}
	near := by
	if at := slices.IndexFunc(fieldNames(), func(name string) bool { return strings.HasPrefix(name, by+"_") }); at >= 0 { // size: size_bytes
		near = fieldNames()[at]
	}
	return fmt.Errorf("no field %q%s to compare by; there are %s", by, plain.Suggest(near, fieldNames()), strings.Join(fieldNames(), ", "))
}

// Split parts the records and grids of documents by the values of one field of their plans, in the order of first
// appearance: what 'compare FILE --by qps' compares.
func Split(docs []*report.Document, by string) (sides [][]*report.Document, err error) {
	if err := checkBy(by); err != nil {
		return nil, err
	}
	var values []string
	for _, d := range docs {
		for i := range d.Records {
			if _, value, ok := d.Records[i].Without(by); ok {
				values = plain.AddNew(values, value)
			}
		}
		for i := 0; d.Noncontig != nil && i < len(d.Noncontig.Points); i++ {
			if _, value, ok := d.Noncontig.Plan(&d.Noncontig.Points[i]).Without(by); ok {
				values = plain.AddNew(values, value)
			}
		}
	}
	for _, value := range values {
		var side []*report.Document
		other := func(v string, ok bool) bool { return !ok || v != value }
		for _, d := range docs {
			part := *d
			part.Checks = nil
			part.Records = slices.DeleteFunc(slices.Clone(d.Records), func(r report.Record) bool { _, v, ok := r.Without(by); return other(v, ok) })
			if g := d.Noncontig; g != nil {
				part.Noncontig = &noncontig.Grid{Setup: g.Setup, Points: slices.DeleteFunc(slices.Clone(g.Points), func(p noncontig.Point) bool {
					_, v, ok := g.Plan(&p).Without(by)
					return other(v, ok)
				})}
			}
			if len(part.Records) > 0 || part.Noncontig != nil && len(part.Noncontig.Points) > 0 {
				side = append(side, &part)
			}
		}
		sides = append(sides, side)
	}
	switch len(values) {
	case 0:
		return nil, fmt.Errorf("--by %s: no record here has it", by)
	case 1:
		return nil, fmt.Errorf("--by %s: all records have %s %s", by, by, cmp.Or(values[0], "none"))
	}
	return sides, nil
}
