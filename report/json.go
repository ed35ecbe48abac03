package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
)

// JSON writes the document as [Save] does.
func JSON(w io.Writer, d *Document) error {
	b, err := marshal(d)
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

// allJSON writes one document as itself and several as a list.
func allJSON(w io.Writer, docs []*Document) error {
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
	*Record
}

// JSONLines writes each record as one line of JSON.
func JSONLines(w io.Writer, d *Document) error {
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

// marshal encodes a document with indents; a figure that is not a number is named.
func marshal(d *Document) ([]byte, error) {
	if d.Schema == "" {
		c := *d
		c.Schema = SchemaVersion
		d = &c
	}
	b, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		if where := notFinite(reflect.ValueOf(d), "document"); where != "" {
			return nil, fmt.Errorf("%s is not a finite number, so the document cannot be written as JSON", where)
		}
		return nil, fmt.Errorf("encode document: %w", err)
	}
	return append(b, '\n'), nil
}

// notFinite finds the first NaN or infinity below v.
func notFinite(v reflect.Value, path string) string {
	switch v.Kind() { //nolint:exhaustive // other kinds hold no floats
	case reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return path
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return notFinite(v.Elem(), path)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() {
				continue
			}
			tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if s := notFinite(v.Field(i), path+"."+tag); s != "" {
				return s
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if s := notFinite(v.Index(i), fmt.Sprintf("%s[%d]", path, i)); s != "" {
				return s
			}
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			if s := notFinite(v.MapIndex(k), path+"."+k.String()); s != "" {
				return s
			}
		}
	}
	return ""
}
