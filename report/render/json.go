package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"

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

// origin is what a line needs of its document to stand alone.
type origin struct {
	Started      string `json:"started"`
	Tool         string `json:"tool"`
	Version      string `json:"version"`
	Label        string `json:"label,omitempty"`
	Complete     bool   `json:"complete"`
	ClientHost   string `json:"client_host"`
	ClientDevice string `json:"client_device"`
	ServerHost   string `json:"server_host,omitempty"`
	ServerDevice string `json:"server_device,omitempty"`
}

func originOf(d *report.Document) origin {
	server := report.Environment{}
	if d.Server != nil {
		server = *d.Server
	}
	return origin{d.Started.UTC().Format(time.RFC3339), d.Tool, d.Version, d.Label, d.Complete, d.Client.Host, d.Client.Device, server.Host, server.Device}
}

// documentsJSONLines writes each record as one line of JSON.
func documentsJSONLines(w io.Writer, docs []*report.Document) error {
	out := json.NewEncoder(w)
	for _, d := range docs {
		for i, r := range d.Measured() {
			err := out.Encode(struct {
				Schema string `json:"schema"`
				origin
				*report.Record
			}{d.Schema, originOf(d), &r})
			if err != nil {
				return fmt.Errorf("record %d: %w", i, err)
			}
		}
	}
	return nil
}
