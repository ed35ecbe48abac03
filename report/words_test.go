package report

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// TestManyWarnings: a result with more warnings than a file may have is written with the first of them, and read again.
func TestManyWarnings(t *testing.T) {
	several := func(n int, text string) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprintf("%d %s", i, text))
		}
		return list
	}
	for name, list := range map[string][]string{
		"one of 70 KB":        {"a layout: " + strings.Repeat("é", 35_000)},
		"thousands":           several(5000, "a warning of some length"),
		"one, often":          strings.Fields(strings.Repeat("again ", 20_000)),
		"no text":             several(20, strings.Repeat("\xff", 2000)),
		"as many as just fit": several(1, strings.Repeat("x", mostWords-3)),
		"nothing":             several(mostWords+10, ""),
	} {
		t.Run(name, func(t *testing.T) {
			d := &Document{Warnings: list, Records: make([]Record, 2)}
			for i := range d.Records {
				d.Records[i].Kind, d.Records[i].Operation = bandwidthKind, "write"
			}
			d.Records[0].Warnings = list
			path := filepath.Join(t.TempDir(), "x.json")
			if err := Save(path, d); err != nil {
				t.Fatal(err)
			}
			read, err := Load(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, got := range [][]string{read.Warnings, read.Records[0].Warnings} {
				if len(got) == 0 || got[0][:2] != list[0][:2] {
					t.Errorf("%d warnings of %d, the first is %.20q", len(got), len(list), append(got, "")[0])
				}
			}
			if len(d.Warnings) != len(list) || len(d.Records[0].Warnings) != len(list) {
				t.Error("the document itself has changed")
			}
		})
	}
	few := &Document{Warnings: []string{"a", "a"}}
	if got := few.Fitting().Warnings; len(got) != 2 {
		t.Errorf("few warnings became %q", got)
	}
}
