package render

import (
	"encoding/csv"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
)

// serverOf is the other end; without one nothing is known of it.
func serverOf(d *report.Document) report.Environment {
	if d.Server == nil {
		return report.Environment{}
	}
	return *d.Server
}

// documentsCSV writes a header and a line for each record: what its document says, then the record's own figures and those of
// its parts that are tagged "csv", under the names that they have in JSON. A cell is empty where there is no figure.
func documentsCSV(w io.Writer, docs []*report.Document) error {
	if isNoncontig(docs) {
		return noncontigCSV(w, docs)
	}
	header := []string{"started", "tool", "version", "label", "complete", "client_host", "client_device", "server_host", "server_device"}
	cells(reflect.ValueOf(report.Record{Latency: &report.Latency{}}), func(name, _ string) { header = append(header, name) })
	lines := [][]string{header}
	for _, d := range docs {
		server := serverOf(d)
		head := plain.Each([]string{
			d.Started.UTC().Format(time.RFC3339), d.Tool, d.Version, d.Label, strconv.FormatBool(d.Complete), d.Client.Host, d.Client.Device, server.Host, server.Device,
		}, plain.CSV)
		for i := range d.Records {
			line := append([]string{}, head...)
			cells(reflect.ValueOf(d.Records[i]), func(_, value string) { line = append(line, value) })
			lines = append(lines, line)
		}
	}
	return writeCSV(w, lines)
}

// cells are the plain values of a struct, and of its parts that are tagged "csv", with their names in JSON.
func cells(v reflect.Value, cell func(name, value string)) {
	for i := range v.NumField() {
		f, field := v.Type().Field(i), v.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		missing := strings.HasPrefix(options, "omit") && field.IsZero()
		if _, part := f.Tag.Lookup("csv"); part {
			put, of := cell, reflect.Indirect(field)
			if !of.IsValid() {
				of = reflect.Zero(f.Type.Elem())
			}
			if missing {
				put = func(name, _ string) { cell(name, "") }
			}
			cells(of, put)
			continue
		}
		if missing && field.Kind() == reflect.Float64 {
			cell(name, "")
			continue
		}
		switch value := field.Interface().(type) {
		case float64:
			cell(name, strconv.FormatFloat(value, 'g', -1, 64))
		case *float64:
			if value == nil {
				cell(name, "")
			} else {
				cell(name, strconv.FormatFloat(*value, 'g', -1, 64))
			}
		case []string:
			cell(name, plain.CSV(strings.Join(value, "; ")))
		case string:
			cell(name, plain.CSV(value))
		case bool, int, uint64:
			cell(name, fmt.Sprint(value))
		}
	}
}

func writeCSV(w io.Writer, lines [][]string) error {
	if err := csv.NewWriter(w).WriteAll(lines); err != nil {
		return fmt.Errorf("csv: %w", err)
	}
	return nil
}
