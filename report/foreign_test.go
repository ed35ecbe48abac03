//go:build linux

package report

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const nobody = 65534

// TestSaveThroughLinks: a save follows a symbolic link of this user to the file that it replaces, and neither a link
// nor a pipe that another user has put there.
func TestSaveThroughLinks(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	save := func(name string) error {
		done := make(chan error, 1)
		go func() {
			err := CheckWritable(in(name))
			if err == nil {
				err = WriteFile(in(name), func(w io.Writer) error { _, err := io.WriteString(w, "new"); return err })
			}
			done <- err
		}()
		select {
		case err := <-done:
			return err
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: the save hangs", name)
			return nil
		}
	}
	for _, link := range [][2]string{{"kept", "own"}, {"own", "again"}, {"loop", "loop"}, {"missing", "dangling"}} {
		if err := os.Symlink(link[0], in(link[1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(in("kept"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := save("again"); err != nil {
		t.Error(err)
	}
	b, _ := os.ReadFile(in("kept"))
	if info, err := os.Lstat(in("own")); string(b) != "new" || err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("%q; the link: %v, %v", b, info.Mode(), err)
	}
	if err := save("dangling"); err != nil {
		t.Error(err)
	}
	if err := save("loop"); err == nil {
		t.Error("a link to itself was followed")
	}
	if err := syscall.Mkfifo(in("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := save("pipe"); err == nil || !strings.Contains(err.Error(), "nobody reads") {
		t.Errorf("a pipe without a reader: %v", err)
	}
	if os.Geteuid() != 0 {
		t.Log("not root: no file of another user")
		return
	}
	if err := os.Symlink("kept", in("foreign")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"foreign", "pipe"} {
		if err := os.Lchown(in(name), nobody, nobody); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(in("kept"), []byte("root's"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := save(name); err == nil || !strings.Contains(err.Error(), "belongs to user 65534 (remove it") {
			t.Errorf("%s: %v", name, err)
		}
		if b, _ := os.ReadFile(in("kept")); string(b) != "root's" {
			t.Errorf("%s: the file has %q", name, b)
		}
		if err := CheckOwner(in(name)); err == nil || !strings.Contains(err.Error(), "belongs to user 65534") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCheckOwner: a file that exists may be written to in place, also where its folder takes no other.
func TestCheckOwner(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := errors.Join(os.WriteFile("kept", nil, 0o600), os.Symlink("kept", "own"), os.Chmod(".", 0o500)); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Chmod(".", 0o700) }()
	for _, name := range []string{"kept", "own", "none"} {
		if err := CheckOwner(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestReadBeside: a plan's folder, and what is below, can be read, and nothing else by whatever way.
func TestReadBeside(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := os.Mkdir(in("plans"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"secret", "plans/blocks"} {
		if err := os.WriteFile(in(name), []byte("0,64"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for target, name := range map[string]string{"../secret": "plans/link", "blocks": "plans/own"} {
		if err := os.Symlink(target, in(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(in("plans/pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"blocks": "", "own": "", "../secret": "folder of the plan", "link": "folder of the plan",
		in("secret"): "folder of the plan",
		"/dev/zero":  "folder of the plan", "missing": "no such file",
	} {
		b, err := ReadBeside(in("plans"), name, 100)
		if want == "" && (err != nil || string(b) != "0,64") ||
			want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if b, err := ReadBeside(in("plans"), "pipe", 100); err == nil && len(b) > 0 {
		t.Errorf("a pipe: %q", b)
	}
	if _, err := ReadBeside(in("plans"), "blocks", 3); err == nil {
		t.Error("four bytes where three are the most")
	}
	if _, err := ReadFile("/dev/zero", MostBytes); err == nil || !strings.Contains(err.Error(), "more than 64 MiB") {
		t.Errorf("/dev/zero: %v", err)
	}
}
