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

// jsonLine is one record with what it needs to stand alone.
type jsonLine struct {
	Schema       string `json:"schema"`
	Tool         string `json:"tool"`
	Version      string `json:"version"`
	Started      string `json:"started"`
	Label        string `json:"label,omitempty"`
	ClientHost   string `json:"client_host"`
	ClientDevice string `json:"client_device"`
	ServerHost   string `json:"server_host,omitempty"`
	ServerDevice string `json:"server_device,omitempty"`
	*report.Record
}

// documentJSONLines writes each record as one line of JSON.
func documentJSONLines(w io.Writer, d *report.Document) error {
	for i := range d.Records {
		line := jsonLine{
			Schema: d.Schema, Tool: d.Tool, Version: d.Version, Started: d.Started.UTC().Format("2006-01-02T15:04:05Z"),
			Label: d.Label, ClientHost: d.Client.Host, ClientDevice: d.Client.Device, ServerHost: serverOf(d).Host, ServerDevice: serverOf(d).Device,
			Record: &d.Records[i],
		}
		b, err := json.Marshal(line)
		if err != nil {
			return fmt.Errorf("record %d: %w", i, err)
		}
		if _, err := w.Write(append(b, '\n')); err != nil {
			return err
		}
	}
	return nil
}
