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
	return fmt.Errorf("no field %q%s to compare by; there are %s", by, plain.Suggest(by, fieldNames()), strings.Join(fieldNames(), ", "))
}

// Split parts the records and grids of documents by the values of one field of their plans, in the order of first
// appearance: what 'compare FILE --by qps' compares.
func Split(docs []*report.Document, by string) (sides [][]*report.Document, err error) {
	var values []string
	if err := checkBy(by); err != nil {
		return nil, err
	}
	side := func(value string) int {
		at := slices.Index(values, value)
		if at < 0 {
			at = len(values)
			values, sides = append(values, value), append(sides, nil)
		}
		return at
	}
	for _, d := range docs {
		parts := map[int]*report.Document{}
		part := func(value string) *report.Document {
			at := side(value)
			if parts[at] == nil {
				c := *d
				c.Records, c.Noncontig, c.Checks = nil, nil, nil
				parts[at] = &c
				sides[at] = append(sides[at], &c)
			}
			return parts[at]
		}
		for i := range d.Records {
			if _, value, ok := d.Records[i].Without(by); ok {
				p := part(value)
				p.Records = append(p.Records, d.Records[i])
			}
		}
		for i := 0; d.Noncontig != nil && i < len(d.Noncontig.Points); i++ {
			if _, value, ok := d.Noncontig.Plan(&d.Noncontig.Points[i]).Without(by); ok {
				p := part(value)
				if p.Noncontig == nil {
					p.Noncontig = &noncontig.Grid{Setup: d.Noncontig.Setup}
				}
				p.Noncontig.Points = append(p.Noncontig.Points, d.Noncontig.Points[i])
			}
		}
	}
	switch len(values) {
	case 0:
		return nil, fmt.Errorf("--by %s: no record here has it", by)
	case 1:
		return nil, fmt.Errorf("--by %s: all records have %s %s", by, by, cmp.Or(values[0], "none"))
	}
	return sides, nil
}
