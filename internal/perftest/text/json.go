package text

import (
	"fmt"
	"math"
	"os"
	"strings"

	"github.com/gobw/gobw/internal/perftest/flags"
)

// Document is --out_json: the keys, the order and the digits of perftest 6.29, which parsers hold it to. (Before 6.20 perftest's
// file is no JSON.)
type Document struct {
	v    flags.Invocation
	info string
}

// NewDocument makes the document's description of the test.
func NewDocument(f Facts, v flags.Invocation) *Document {
	return &Document{v, f.page(&v).fill("document")}
}

// results are the lines of a row.
func (d *Document) results(r Row) []string {
	var out []string
	cells := []cell{alone(&d.v, r)}
	if d.v.Output == "" {
		out = []string{fmt.Sprintf("\"MsgSize\": %d", r.Size), fmt.Sprintf("\"n_iterations\": %d", r.Iterations)}
		cells = columnsOf(&d.v, r).cells
		if d.v.Plan.CPU {
			cells = append(cells, cell{"CPU_util", 2, r.CPU})
		}
	}
	for _, c := range cells {
		if math.IsNaN(c.value) || math.IsInf(c.value, 0) {
			c.value = 0
		}
		out = append(out, fmt.Sprintf("%q: %.*f", c.key, c.digits, c.value))
	}
	return out
}

// Write replaces the file. It is called after each row, so that the last one is left, as by perftest.
func (d *Document) Write(path string, r Row) error {
	text := d.info + strings.Join(d.results(r), ",\n") + "\n}\n}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return fmt.Errorf("--out_json: %w", err)
	}
	return nil
}
