//go:build cgo

package cli

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/testrun"
)

// TestAddressSpace: where Go's runtime would dump its state, or only at times, a sentence says what is missing.
func TestAddressSpace(t *testing.T) {
	testrun.Need(t, "sh")
	for _, kib := range []string{"100000", "900000", "2000000"} {
		out, err := exec.Command("sh", "-c", "ulimit -v "+kib+" && exec \"$0\" -test.run '^$'", os.Args[0]).CombinedOutput()
		failed := new(exec.ExitError)
		if !errors.As(err, &failed) || failed.ExitCode() != exit.Setup || strings.Count(string(out), "\n") != 1 ||
			!strings.HasPrefix(string(out), "gobw: it needs 2 GiB of address space") {
			t.Errorf("%s KiB: %v\n%s", kib, err, out)
		}
	}
}
