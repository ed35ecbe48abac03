package compare

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
)

// checkBy refuses what is no field of a plan.
func checkBy(by string) error {
	names := slices.Sorted(slices.Values(report.PlanFields()))
	if by == "" || slices.Contains(names, by) {
		return nil
	}
	for _, f := range (&report.Environment{}).Facts() {
		if strings.ReplaceAll(strings.ToLower(f.Name), " ", "_") == by {
			return fmt.Errorf("--by %s: leave out --by: 'compare OLD NEW%s' compares results with different %[1]s", by,
				plain.When(f.Means == "unlike", " --unlike"))
		}
	}
	near := by
	if by == "window" { // noncontig's word
		near = "tx_depth"
	} // and size is size_bytes
	if at := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, by+"_") }); at >= 0 {
		near = names[at]
	}
	return fmt.Errorf("no field %q to compare by%s; there are %s", by, plain.Suggest(near, names),
		strings.Join(names, ", "))
}

// Split divides the records of documents by the values of one field of the plan, in order of first appearance: the
// sides of 'compare FILE --by qps'.
func Split(docs []*report.Document, by string) (sides [][]*report.Document, err error) {
	if err := checkBy(by); err != nil {
		return nil, err
	}
	value := func(r report.Record) string {
		_, v, _ := r.Without(by)
		return v
	}
	var parts []*report.Document
	for _, d := range docs {
		for _, records := range plain.Grouped(d.Measured(), value) {
			part := *d
			part.Checks, part.Records, part.Noncontig = nil, records, nil
			parts = append(parts, &part)
		}
	}
	sides = plain.Grouped(parts, func(d *report.Document) string { return value(d.Records[0]) })
	switch {
	case len(sides) == 0:
		return nil, fmt.Errorf("--by %s: no record here has it", by)
	case len(sides) == 1:
		return nil, fmt.Errorf("--by %s: all records have %s %s; add a result with another value: "+
			"'compare FILE,OTHER --by %s'", by, by, cmp.Or(value(parts[0].Records[0]), "none"), by)
	}
	return sides, nil
}
