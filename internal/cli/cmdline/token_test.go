package cmdline

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTokenThatAllRead: a secret that every user of the host can read is refused, with the command that mends it.
func TestTokenThatAllRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret.txt")
	if err := os.WriteFile(path, []byte(strings.Repeat("0123456789abcdef", 4)), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, refused := range map[os.FileMode]bool{0o600: false, 0o640: false, 0o644: true, 0o604: true} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadToken(path, ""); (err != nil) != refused ||
			refused && !strings.Contains(err.Error(), "chmod 600 "+path) {
			t.Errorf("%v: %v", mode, err)
		}
	}
}
