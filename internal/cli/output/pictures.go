package output

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plot"
	"github.com/gobw/gobw/report/render"
)

// PictureFlags say where pictures go, and in which format.
type PictureFlags struct {
	directory, format string
	scale             float64
}

// Pictures is where pictures go, and how they are drawn.
type Pictures struct {
	Directory string // empty: nowhere
	ending    string
	draw      func(io.Writer, plot.Figure) error
}

// Bind adds the flags to a command.
func (f *PictureFlags) Bind(fs *pflag.FlagSet, what string) {
	fs.StringVar(&f.directory, "pictures", "", what)
	fs.StringVar(&f.format, "picture-format", "svg", "svg, png or pdf")
	fs.Float64Var(&f.scale, "scale", 2, "pixels per unit of a PNG; 2 is sharp on any screen")
}

// Asked tells whether pictures are wanted.
func (f *PictureFlags) Asked() bool { return f.directory != "" }

// Config checks the flags and names all mistakes at once.
func (f *PictureFlags) Config() (Pictures, error) {
	draw := map[string]func(io.Writer, plot.Figure) error{
		"svg": plot.WriteSVG,
		"png": func(w io.Writer, p plot.Figure) error { return plot.WritePNG(w, p, f.scale) },
		"pdf": plot.WritePDF,
	}
	p := Pictures{Directory: f.directory, ending: "." + f.format, draw: draw[f.format]}
	var wrong cmdline.Faults
	wrong.If(p.draw == nil, "--picture-format %q: want svg, png or pdf", f.format)
	wrong.If(!(f.scale >= 0.25 && f.scale <= 10), "--scale %g: want 0.25 to 10", f.scale)
	return p, errors.Join(wrong...)
}

// Write writes each picture into a file of its own and names the files on standard error.
func (p Pictures) Write(out Streams, pictures []render.Picture) error {
	if err := os.MkdirAll(p.Directory, 0o755); err != nil {
		return exit.SetupError{Err: err}
	}
	for _, pic := range pictures {
		path := filepath.Join(p.Directory, pic.Name+p.ending)
		if err := report.WriteFile(path, func(w io.Writer) error { return p.draw(w, pic.Figure) }); err != nil {
			return err
		}
		fmt.Fprintln(out.Err, path)
	}
	return nil
}
