package render

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/noncontig"
	"github.com/gobw/gobw/report/plain"
)

// documentsCSV writes a header and a line for each record; of a non-contiguous grid for each run. A line has the fields
// of its document, then the plain fields of the record, under their names in JSON. A cell without a figure is empty.
func documentsCSV(w io.Writer, docs []*report.Document) error {
	var header []string
	put := func(name, _ string) { header = append(header, name) }
	grids := len(docs) > 0 &&
		!slices.ContainsFunc(docs, func(d *report.Document) bool { return d.Noncontig == nil || len(d.Records) > 0 })
	if grids {
		fields(put, origin{}, noncontig.Setup{}, noncontig.Point{}, noncontig.Run{}, answer{})
	} else {
		fields(put, origin{}, report.Record{Latency: &report.Latency{}})
	}
	out := csv.NewWriter(w)
	err := out.Write(header)
	for _, d := range docs {
		line := func(parts ...any) {
			var cells []string
			fields(func(_, value string) { cells = append(cells, value) }, append([]any{originOf(d)}, parts...)...)
			err = errors.Join(err, out.Write(cells))
		}
		if !grids {
			for _, r := range d.Measured() {
				line(r)
			}
			continue
		}
		for _, p := range d.Noncontig.Points {
			setup, of := d.Noncontig.Setup, answerOf(d.Noncontig, &p)
			_, own, _ := strings.Cut(setup.ListBytes, p.Strategy+" ") // of all strategies
			setup.ListBytes, _, _ = strings.Cut(own, ",")
			for _, r := range p.Runs {
				line(setup, p, r, of)
			}
		}
	}
	if out.Flush(); err != nil || out.Error() != nil {
		return fmt.Errorf("csv: %w", errors.Join(err, out.Error()))
	}
	return nil
}

// answer is the verdict of a grid on a layout: scatter/gather by the device against the copy by the CPU.
type answer struct {
	Ratio   *float64 `json:"ratio"`
	Verdict string   `json:"ratio_verdict"`
}

func answerOf(g *noncontig.Grid, p *noncontig.Point) answer {
	at := slices.IndexFunc(g.Cells, func(c noncontig.Cell) bool {
		return c.Question != nil && c.Layout == p.Layout && c.Shape == p.Shape && c.Stride == p.Stride &&
			(c.Count > 0) == (p.Held == "num")
	})
	if at < 0 {
		return answer{}
	}
	q := g.Cells[at].Question
	return answer{&q.Speedup, string(q.Word)}
}

// origin is the part of the document that every line repeats.
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
	return origin{
		d.Started.UTC().Format(time.RFC3339), d.Tool, d.Version, d.Label, d.Complete, d.Client.Host, d.Client.Device,
		server.Host, server.Device,
	}
}

// fields are those of several structs, one after the other.
func fields(put func(name, value string), parts ...any) {
	for _, p := range parts {
		cells(reflect.ValueOf(p), put)
	}
}

// cells are the plain values of a struct, and of its parts that are tagged "csv", with their names in JSON.
func cells(v reflect.Value, cell func(name, value string)) {
	for i := range v.NumField() {
		f, field := v.Type().Field(i), v.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
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
		case bool, int, int64, uint64:
			cell(name, fmt.Sprint(value))
		}
	}
}
