// Package installlinks is the command 'install-links'.
package installlinks

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/perftestcli"
)

// NewCommand makes links under perftest's names.
func NewCommand(tool string, out output.Streams) *cobra.Command {
	return &cobra.Command{
		Use: "install-links DIR", Short: "Link perftest's names to this program",
		Long: "Make links in DIR, named ib_write_bw and so on, to this program. Started under\n" +
			"such a name it takes that tool's flags, prints its text and speaks its\n" +
			"protocol. Files that exist and are no such links are left alone.",
		Example: "  " + tool + " install-links ~/bin",
		Args:    cmdline.ArgumentCount(1, 1, "one directory"),
		RunE: func(_ *cobra.Command, args []string) error {
			self, err := os.Executable()
			if err != nil {
				return exit.SetupError{Err: fmt.Errorf("find this program: %w", err)}
			}
			return InstallLinks(out, self, args[0])
		},
	}
}

// InstallLinks makes or renews one link per tool.
func InstallLinks(out output.Streams, self, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return exit.SetupError{Err: err}
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
			err = fmt.Errorf("%s is there and is no link to this program: left alone; remove it, or name another directory", path)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if _, err := fmt.Fprintln(out.Out, path); err != nil {
			return err
		}
	}
	if err := errors.Join(errs...); err != nil {
		return exit.SetupError{Err: err}
	}
	return nil
}

// isOurs tells whether a link leads to one of our programs: then it may be renewed.
func isOurs(target string) bool {
	name := filepath.Base(target)
	return strings.HasPrefix(name, "gobw") || strings.HasPrefix(name, "golat")
}
