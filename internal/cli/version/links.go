package version

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/perftestcli"
)

// installLinks links perftest's names to this program.
func installLinks(out output.Streams, dir string) error {
	self, err := os.Executable()
	if err != nil {
		return exit.With(exit.Setup, fmt.Errorf("find this program: %w", err))
	}
	return link(out, self, dir)
}

// link makes or renews one link per tool.
func link(out output.Streams, self, dir string) error {
	_, before := os.Stat(dir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return exit.With(exit.Setup, err)
	}
	if before != nil {
		fmt.Fprintf(out.Err, "made the directory %s\n", dir)
	}
	var errs []error
	for _, t := range perftestcli.Tools() {
		path := filepath.Join(dir, t.Name)
		if target, err := os.Readlink(path); err == nil && isOurs(target) {
			if err := os.Remove(path); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		err := os.Symlink(self, path)
		if errors.Is(err, os.ErrExist) {
			err = fmt.Errorf("%s exists and is not a link to this program: remove it, or name another directory", path)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if _, err := fmt.Fprintln(out.Out, path); err != nil {
			return err
		}
	}
	return exit.With(exit.Setup, errors.Join(errs...))
}

// isOurs tells whether a link leads to one of our programs: then it may be renewed.
func isOurs(target string) bool {
	name := filepath.Base(target)
	return strings.HasPrefix(name, "gobw") || strings.HasPrefix(name, "golat")
}
