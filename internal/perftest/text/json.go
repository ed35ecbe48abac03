package text

import (
	"fmt"
	"os"

	"github.com/gobw/gobw/internal/perftest/flags"
	"github.com/gobw/gobw/report"
)

// Document is --out_json: the keys, the order and the digits of perftest 6.29, which parsers hold it to.
// (Before 6.20 perftest's file is no JSON.)
type Document struct {
	v    flags.Invocation
	info string
}

// NewDocument makes the document's description of the test.
func NewDocument(f Facts, v flags.Invocation) *Document {
	return &Document{v, fill("document", f.page(&v))}
}

// Write replaces the file. It is called after each row, so that the last one is left, as by perftest.
func (d *Document) Write(path string, r Row) error {
	text := d.info + fill("results", columnsOf(&d.v, r))
	err := report.CheckOwner(path)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	if err != nil {
		return fmt.Errorf("--out_json: %w", err)
	}
	return nil
}
