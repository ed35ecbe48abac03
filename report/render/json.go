package render

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/gobw/gobw/report"
)

// JSON writes the document as [Save] does.
func JSON(w io.Writer, d *report.Document) error {
	b, err := report.Marshal(d)
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

// AllJSON writes one document as itself and several as a list.
func AllJSON(w io.Writer, docs []*report.Document) error {
	if len(docs) == 1 {
		return JSON(w, docs[0])
	}
	if _, err := io.WriteString(w, "[\n"); err != nil {
		return err
	}
	for i, d := range docs {
		if i > 0 {
			if _, err := io.WriteString(w, ",\n"); err != nil {
				return err
			}
		}
		if err := JSON(w, d); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, "]\n")
	return err
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

// JSONLines writes each record as one line of JSON.
func JSONLines(w io.Writer, d *report.Document) error {
	for i := range d.Records {
		line := jsonLine{
			Schema: d.Schema, Tool: d.Tool, Version: d.Version, Started: d.Started.UTC().Format("2006-01-02T15:04:05Z"),
			Label: d.Label, ClientHost: d.Client.Host, ClientDevice: d.Client.Device, Record: &d.Records[i],
		}
		if d.Server != nil {
			line.ServerHost, line.ServerDevice = d.Server.Host, d.Server.Device
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
