package version

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/perftest/flags"
)

// installLinks makes or renews a link to this program for each of perftest's names.
func installLinks(out output.Streams, dir string) error {
	self, err := os.Executable()
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return exit.With(exit.Setup, err)
	}
	var errs []error
	for _, t := range flags.Tools() {
		path := filepath.Join(dir, t.Name)
		if target, err := os.Readlink(path); err == nil && isOurs(target) {
			errs = append(errs, os.Remove(path))
		}
		err := os.Symlink(self, path)
		switch {
		case err == nil:
			_, err = fmt.Fprintln(out.Out, path)
		case errors.Is(err, os.ErrExist):
			err = fmt.Errorf("%s exists and is not a link to this program: remove it, or name another directory", path)
		}
		errs = append(errs, err)
	}
	return exit.With(exit.Setup, errors.Join(errs...))
}

// isOurs tells whether a link leads to one of our programs: then it may be renewed.
func isOurs(target string) bool {
	name := filepath.Base(target)
	return strings.HasPrefix(name, "gobw") || strings.HasPrefix(name, "golat")
}
