package render

import (
	"bytes"
	"testing"

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
