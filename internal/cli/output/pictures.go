package output

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plot"
	"github.com/gobw/gobw/report/render"
)

// WritePictures writes each picture into a file of its own in a directory, and names the files on standard error.
func WritePictures(out Streams, directory string, pictures []render.Picture) error {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return exit.With(exit.Setup, err)
	}
	for _, pic := range pictures {
		path := filepath.Join(directory, pic.Name+".svg")
		if err := report.WriteFile(path, func(w io.Writer) error { return plot.WriteSVG(w, pic.Figure) }); err != nil {
			return err
		}
		fmt.Fprintln(out.Err, path)
	}
	return nil
}
