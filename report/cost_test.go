package report

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestCostOfFiles: a few bytes for each element of a list do not take all memory, whatever list it is.
func TestCostOfFiles(t *testing.T) {
	const n = 1 << 20
	result := func(list string) string { return `{"schema":"` + SchemaVersion + `",` + list + `}` }
	many := func(element string) string { return "[" + strings.Repeat(element+",", n) + element + "]" }
	list := `["` + strings.Repeat(`x","`, mostWords) + `"]`
	for name, text := range map[string]string{
		"records":              result(`"records":` + many("{}")),
		"RECORDS":              result(`"RECORDS":` + many("{}")),
		"checks":               result(`"checks":` + many("{}")),
		"of a grid":            result(`"noncontig":{"cells":` + many("{}") + `}`),
		"of a record":          result(`"records":[{"per_thread":` + many("{}") + `}]`),
		"warnings of a record": result(`"records":[{"kind":"bandwidth","warnings":` + list + `}]`),
		"warnings":             result(`"warnings":` + list),
		"an operation": result(`"records":[{"kind":"bandwidth","operation":"` + strings.Repeat("x", mostWords) +
			`"}]`),
		"a list":                many("{}"),
		"tests":                 `{"schema":"` + QualificationSchema + `","tests":` + many(`{"document":{}}`) + `}`,
		"records that are null": result(`"records":` + many("null")),
		"records of numbers":    result(`"records":` + many("1")),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Parse(name, []byte(text))
			runtime.ReadMemStats(&after)
			most := uint64(costPerByte*len(text) + 2*costFree)
			if took := after.TotalAlloc - before.TotalAlloc; took > 2*most { // what was freed again is counted, too
				t.Errorf("%d MiB for %d KiB: %v", took>>20, len(text)>>10, err)
			}
			if err == nil {
				t.Error("taken for a result")
			}
		})
	}
}

// TestCostOfResults: no result of ours is refused for what it takes.
func TestCostOfResults(t *testing.T) {
	err := filepath.WalkDir("..", func(path string, e fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".json" || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err == nil {
			err = checkCost(b, &Document{})
		}
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	d := &Document{Records: make([]Record, 20_000)}
	for i := range d.Records {
		d.Records[i].Operation = "write"
	}
	b, err := Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkCost(b, &Document{}); err != nil {
		t.Errorf("%d records in %d KiB: %v", len(d.Records), len(b)>>10, err)
	}
}
