package compare

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
)

// fieldNames are all fields that --by knows: of plans, and of set-ups.
func fieldNames() []string {
	out := append(report.PlanFields(), plain.Each((&report.Environment{}).Facts(), func(f report.Fact) string { return fieldOf(f.Name) })...)
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
	return fmt.Errorf("no field %q to compare by%s; there are %s", by, plain.Suggest(near, fieldNames()), strings.Join(fieldNames(), ", "))
}

// Split parts the records of documents by the values of one field of their plans, in the order of first
// appearance: what 'compare FILE --by qps' compares.
func Split(docs []*report.Document, by string) (sides [][]*report.Document, err error) {
	if err := checkBy(by); err != nil {
		return nil, err
	}
	var values []string
	of := map[string][]*report.Document{}
	for _, d := range docs {
		parts := map[string]*report.Document{}
		part := func(value string) *report.Document {
			if parts[value] == nil {
				p := *d
				p.Checks, p.Records, p.Noncontig = nil, nil, nil
				parts[value] = &p
				values, of[value] = plain.AddNew(values, value), append(of[value], &p)
			}
			return parts[value]
		}
		for _, r := range d.Measured() {
			if _, value, ok := r.Without(by); ok {
				p := part(value)
				p.Records = append(p.Records, r)
			}
		}
	}
	switch len(values) {
	case 0:
		return nil, fmt.Errorf("--by %s: no record here has it", by)
	case 1:
		return nil, fmt.Errorf("--by %s: all records have %s %s; add a result with another value: compare FILE,OTHER --by %s", by, by, cmp.Or(values[0], "none"), by)
	}
	return plain.Each(values, func(value string) []*report.Document { return of[value] }), nil
}
