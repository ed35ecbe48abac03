package compare_test

import (
	"path/filepath"
	"testing"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/compare"
	"github.com/gobw/gobw/report/stats"
)

// Documents of each kind that the version before wrote load with their figures, and compare.
func TestDocumentsOfTheVersionBefore(t *testing.T) {
	for name, points := range map[string]int{"write": 1, "latency": 2, "ud": 1, "qualify": 3, "noncontig": 10} {
		docs, err := report.LoadAll(filepath.Join("../testdata/versions/gobw.result-1-2", name+".json"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		c, err := compare.Documents(docs, docs, compare.Options{Accept: []stats.Cause{stats.Disturbed}})
		if err != nil || len(c.Points) != points || len(c.OnlyOld) > 0 {
			t.Errorf("%s: %v, %+v", name, err, c)
			continue
		}
		for _, p := range c.Points {
			if !(p.Old.Median > 0) || p.Old.Median != p.New.Median || p.Change != 0 {
				t.Errorf("%s, %s: %s: %+v and %+v", name, p.Row, p.Figure, p.Old, p.New)
			}
		}
	}
}
