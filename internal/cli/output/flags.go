package output

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/report/render"
)

// Flags say what becomes of the result.
type Flags struct {
	format      string
	save        string
	openMetrics string
	quiet       bool
}

// Bind adds the flags to a command.
func (f *Flags) Bind(fs *pflag.FlagSet) {
	fs.StringVar(&f.format, "format", "table", strings.Join(FormatNames(), ", "))
	fs.StringVar(&f.save, "save", "", "save the result; the name's ending tells the format (.json)")
	fs.StringVar(&f.openMetrics, "openmetrics", "", "write the figures for node_exporter's textfile collector, in one step: x.prom")
	fs.BoolVar(&f.quiet, "quiet", false, "no progress, no notes")
}

// Config is what becomes of the result.
type Config struct {
	Format render.Format
	Save   string
	saveAs render.Format
	// OpenMetrics is a file for the figures as gauges, or empty. It is replaced in one step: a collector sees all or nothing.
	OpenMetrics string
	Quiet       bool
}

// Config checks the flags and names all mistakes at once.
func (f *Flags) Config() (Config, error) {
	c := Config{Save: f.save, OpenMetrics: f.openMetrics, Quiet: f.quiet}
	var wrong cmdline.Faults
	var err error
	c.Format, err = FormatNamed(f.format)
	wrong.Note(cmdline.Prefixed("--format", err))
	if f.save != "" {
		c.saveAs, err = FormatOfFile(f.save)
		wrong.Note(cmdline.Prefixed("--save "+f.save, err))
	}
	return c, errors.Join(wrong...)
}

// Checkpoints tells whether what was measured so far can be saved and gone on with: in a document.
func (c Config) Checkpoints() bool { return c.saveAs.Name == "json" }

// FormatAmong is the one of these formats that --format names or, where it names none, in which a name like that of --save ends; a
// table without either.
func FormatAmong(formats []string, format, save string) (string, error) {
	short := map[string]string{"txt": "table", "md": "markdown", "tex": "latex", "html": "html", "json": "json", "prom": "openmetrics"}
	ending := strings.TrimPrefix(strings.ToLower(filepath.Ext(save)), ".")
	chosen := cmp.Or(short[format], format, short[ending])
	if format == "" && ending == "" {
		chosen = "table"
	}
	switch {
	case slices.Contains(formats, chosen):
		return chosen, nil
	case format == "":
		var endings []string
		for e, f := range short {
			if slices.Contains(formats, f) {
				endings = append(endings, "."+e)
			}
		}
		slices.Sort(endings)
		return "", fmt.Errorf("--save %s: no format ends so; want %s, or give --format", save, strings.Join(endings, ", "))
	}
	return "", fmt.Errorf("--format %q: want %s", format, strings.Join(formats, ", "))
}

// FormatOfFile finds the format of a file's ending; none means JSON.
func FormatOfFile(path string) (render.Format, error) {
	ending := filepath.Ext(path)
	switch {
	case path == "-":
		return render.Format{}, errors.New("standard output has --format")
	case ending == "":
		ending = ".json"
	}
	var known []string
	for _, f := range Formats() {
		if f.Extension == ending {
			return f, nil
		}
		known = append(known, f.Extension)
	}
	if slices.Contains([]string{".png", ".svg", ".pdf"}, ending) {
		return render.Format{}, fmt.Errorf("pictures come from a saved result: 'gobw report FILE.json --pictures DIR --picture-format %s'; a .html has them all", ending[1:])
	}
	return render.Format{}, fmt.Errorf("no format ends in %q; there are %s", ending, strings.Join(known, ", "))
}
