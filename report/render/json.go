package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
)

// documentsJSON writes one document as [report.Save] does, and several as a list.
func documentsJSON(w io.Writer, docs []*report.Document) error {
	out := &bytes.Buffer{}
	for i, d := range docs {
		b, err := report.Marshal(d)
		if err != nil {
			return err
		}
		if i > 0 {
			out.WriteString(",\n")
		}
		out.Write(b)
	}
	if len(docs) != 1 {
		return write(w, "[\n"+out.String()+"]\n")
	}
	return write(w, out.String())
}

func write(w io.Writer, text string) error {
	_, err := io.WriteString(w, text)
	return err
}

// writeJSON writes what is no document; what would steer a terminal is taken out of its texts.
func writeJSON(w io.Writer, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode JSON: %w", err)
	}
	return write(w, plain.Terminal(string(b)+"\n"))
}
