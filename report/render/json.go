package render

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
)

// documentsJSON writes one document as [report.Save] does, and several as a list.
func documentsJSON(w io.Writer, docs []*report.Document) error {
	var texts []string
	for _, d := range docs {
		b, err := report.Marshal(d)
		if err != nil {
			return err
		}
		texts = append(texts, string(b))
	}
	all := strings.Join(texts, ",\n")
	if len(docs) != 1 {
		all = "[\n" + all + "]\n"
	}
	return write(w, all)
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
