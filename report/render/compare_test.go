package render

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/compare"
)

func TestCompareRender(t *testing.T) {
	old := saved("repeated")
	slower := repeated(0.9)
	slower.Records = slower.Records[:len(slower.Records)-6]
	slower.Client.Version = "v0.2.0"
	extra := saved("sample").Records[6]
	old.Records = append(old.Records, extra)
	slower.Started = slower.Started.Add(time.Hour)
	c, err := compare.Documents([]*report.Document{old}, []*report.Document{slower}, compare.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for format, file := range map[string]string{"table": "compare.txt", "markdown": "compare.md", "json": "compare.json"} {
		var b bytes.Buffer
		if err := Comparison(&b, format, c); err != nil {
			t.Fatal(err)
		}
		golden(t, file, b.Bytes())
	}
}

// Points with disturbed runs have different verdicts if these are accepted: each is counted, and the first does not
// stand for all.
func TestAcceptedVerdictsAreCounted(t *testing.T) {
	old, other := saved("repeated"), repeated(0.7)
	for i := range other.Records {
		other.Records[i].Warnings = []string{"disturbed: other programs took 12 % of the measuring CPU"}
		if other.Records[i].Operation == "send" { // which then is as before
			other.Records[i] = old.Records[i]
			other.Records[i].Warnings = []string{"disturbed: other programs took 12 % of the measuring CPU"}
		}
	}
	c, err := compare.Documents([]*report.Document{old}, []*report.Document{other}, compare.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := "; with --accept disturbed 1 is 'worse', 1 is 'same'"
	if lines := strings.Join(comparisonClosing(c), "\n"); !strings.Contains(lines, want) &&
		!strings.Contains(lines, "1 is 'same', 1 is 'worse'") {
		t.Errorf("got %q, want %q in it", lines, want)
	}
}
