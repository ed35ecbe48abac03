package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/output"
)

// TestForeignLinks: what root writes does not follow the symbolic link of another user, whatever flag names it.
func TestForeignLinks(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root: no file of another user")
	}
	const nobody = 65534
	t.Chdir(t.TempDir())
	if err := os.Symlink("kept", "link"); err != nil {
		t.Fatal(err)
	}
	if err := os.Lchown("link", nobody, nobody); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"gobw write --loopback -d roce0 -n 100 --quiet --save link",
		"gobw write --loopback -d roce0 -n 100 --quiet --pcap link",
		"gobw run --pcap link -- true",
	} {
		if err := os.WriteFile("kept", []byte("root's"), 0o600); err != nil {
			t.Fatal(err)
		}
		var out locked
		code := Main(strings.Fields(line), output.Streams{Out: &out, Err: &out})
		if b, _ := os.ReadFile("kept"); code == exit.Passed || string(b) != "root's" {
			t.Errorf("%s: exit %d, the file has %.20q\n%s", line, code, b, out.String())
		} else if !strings.Contains(out.String(), "belongs to user") {
			t.Errorf("%s: %s", line, out.String())
		}
	}
}
