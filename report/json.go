package report

import (
	"encoding/json"
	"fmt"
)

// Marshal encodes a document with indents.
func Marshal(d *Document) ([]byte, error) {
	if d.Schema == "" {
		c := *d
		c.Schema = SchemaVersion
		d = &c
	}
	b, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode document: %w", err)
	}
	return append(b, '\n'), nil
}
