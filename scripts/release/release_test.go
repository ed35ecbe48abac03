package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// oldSuite is the oldest Debian whose packages can still be fetched everywhere: C library 2.31, before the threads
// moved into libc with 2.34. That nothing newer than 2.28 is needed is read from the programs themselves.
const oldSuite = "bullseye"

// TestInstall builds the Linux packages from a clone, installs, runs and removes them in a fresh root of an old Debian,
// with dpkg and with rpm, and looks at what is left.
func TestInstall(t *testing.T) {
	need(t, "debootstrap", "dpkg", "rpm", "unshare", "x86_64-linux-gnu-gcc")
	dist := filepath.Join(t.TempDir(), "dist")
	if err := makeRelease(clone(t), dist, "linux-amd64"); err != nil {
		t.Fatal(err)
	}
	checkSums(t, dist)
	checkSBOM(t, dist)
	root := freshRoot(t)
	for _, format := range []struct {
		name, suffix   string
		install, erase []string
	}{
		{"deb", "deb", []string{"chroot", root, "dpkg", "-i"}, []string{"chroot", root, "dpkg", "--purge"}},
		{"rpm", "rpm", []string{"rpm", "--root", root, "--nodeps", "-i"}, []string{"rpm", "--root", root, "--nodeps", "-e"}},
	} {
		t.Run(format.name, func(t *testing.T) {
			before := listing(t, root)
			var inRoot []string
			for _, name := range []string{"gobw[_\\-][0-9]*.", "gobw-perftest-links[_\\-]*."} {
				matches, err := filepath.Glob(filepath.Join(dist, name+format.suffix))
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range matches {
					to := filepath.Join(root, "tmp", filepath.Base(m))
					if err := copyFile(m, to); err != nil {
						t.Fatal(err)
					}
					if format.name == "deb" {
						to = strings.TrimPrefix(to, root)
					}
					inRoot = append(inRoot, to)
				}
			}
			if len(inRoot) != 2 {
				t.Fatalf("packages %q: want gobw and its links", inRoot)
			}
			command(t, append(slices.Clone(format.install), inRoot...)...)
			for _, c := range []struct{ line, want string }{
				{"gobw version", "gobw v0."},
				{"golat version", "golat v0."},
				{"gobw write --loopback -s 64 -n 1000", "software device, not a NIC"},
				{"ib_write_bw --version || test $? = 1", "Version"}, // as perftest does
				{"test -s /usr/share/man/man1/gobw-write.1 -o -s /usr/share/man/man1/gobw-write.1.gz && echo manual", "manual"},
				{"bash -c '. /usr/share/bash-completion/completions/gobw && type __start_gobw'", "function"},
			} {
				out := inside(t, root, c.line)
				if !strings.Contains(out, c.want) {
					t.Errorf("%s: no %q in\n%s", c.line, c.want, out)
				}
			}
			command(t, append(slices.Clone(format.erase), "gobw-perftest-links", "gobw")...)
			for _, p := range inRoot {
				if err := os.Remove(filepath.Join(root, "tmp", filepath.Base(p))); err != nil {
					t.Error(err)
				}
			}
			for _, name := range listing(t, root) {
				if _, was := slices.BinarySearch(before, name); !was {
					t.Errorf("left behind: %s", name)
				}
			}
		})
	}
}

// TestReproducible builds twice, from two clones in two places, each with a cache of its own, and compares every byte
// of everything. It takes minutes: set GOBW_RELEASE.
func TestReproducible(t *testing.T) {
	if os.Getenv("GOBW_RELEASE") == "" {
		t.Skip("takes minutes: set GOBW_RELEASE=1")
	}
	var sums [2]string
	for i := range sums {
		t.Setenv("GOCACHE", t.TempDir())
		dist := filepath.Join(t.TempDir(), "dist")
		if err := makeRelease(clone(t), dist, ""); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dist, "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		sums[i] = string(text)
	}
	if sums[0] != sums[1] {
		t.Errorf("two builds of one commit differ:\n%s\nand\n%s", sums[0], sums[1])
	}
}

// TestNeeds refuses a program that was linked as usual here, if this system's C library is newer than 2.33.
func TestNeeds(t *testing.T) {
	need(t, "x86_64-linux-gnu-gcc")
	dir := t.TempDir()
	source := filepath.Join(dir, "new.c")
	if err := os.WriteFile(source, []byte("#include <dlfcn.h>\nint main(void) { return dlopen(\"\", 1) != 0; }\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	command(t, "x86_64-linux-gnu-gcc", "-o", filepath.Join(dir, "new"), source)
	if err := checkNeeds(filepath.Join(dir, "new"), "GLIBC_2.1"); err == nil ||
		!strings.Contains(err.Error(), "which is newer than GLIBC_2.1") {
		t.Errorf("error %v: want one that names the symbol", err)
	}
}

func TestVersionOrder(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"GLIBC_2.34", "GLIBC_2.28", true},
		{"GLIBC_2.2.5", "GLIBC_2.28", false},
		{"GLIBC_2.28", "GLIBC_2.28", false},
		{"GLIBC_2.3.4", "GLIBC_2.3", true},
		{"GLIBC_PRIVATE", "GLIBC_2.28", true},
	} {
		if got := beyond(c.a, c.b); got != c.want {
			t.Errorf("beyond(%s, %s) is %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

func TestPackageVersion(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2.3": "1.2.3", "v1.2.3-rc1": "1.2.3~rc1",
		"v0.0.0-20261122010203-abcdef012345":       "0.0.0~20261122010203~abcdef012345",
		"v0.0.0-20261122010203-abcdef012345+dirty": "0.0.0~20261122010203~abcdef012345.dirty",
	} {
		if got := (release{version: version}).packageVersion(); got != want {
			t.Errorf("%s: %s, want %s", version, got, want)
		}
	}
}

// need skips without a tool; in CI everything must be there.
func need(t *testing.T, tools ...string) {
	t.Helper()
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("GOBW_CI") != "" {
				t.Fatal(err)
			}
			t.Skipf("%v: 'make setup' installs it", err)
		}
	}
	if os.Getuid() != 0 {
		t.Skip("roots are made by root")
	}
}

// clone is a checkout with what has been committed here.
func clone(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "source")
	command(t, "git", "clone", "-q", "--no-hardlinks", "../..", dir)
	return dir
}

func freshRoot(t *testing.T) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "root")
	command(t, "debootstrap", "--variant=minbase", oldSuite, root)
	return root
}

// inside runs a line in a root, with a network and a /proc of its own.
func inside(t *testing.T, root, line string) string {
	t.Helper()
	return command(t, "unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-ec",
		`ip link set lo up; mount -t proc proc "$1/proc"; exec timeout -s KILL 60 chroot "$1" sh -c "$2"`, "sh", root, line)
}

func command(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// listing is all files of a root but those that packagers keep for themselves, sorted.
func listing(t *testing.T, root string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(root, func(name string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative := strings.TrimPrefix(name, root)
		switch {
		case relative == "/proc", relative == "/var", relative == "/root/.rpmdb": // Debian's rpm keeps its database there
			return filepath.SkipDir
		case !d.IsDir(): // directories that others may share stay
			names = append(names, relative)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// checkSums holds every file against SHA256SUMS.
func checkSums(t *testing.T, dist string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dist, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) < 8 {
		t.Errorf("%d sums: want one for each of programs, packages, archive and bills of materials", len(lines))
	}
	for _, line := range lines {
		want, name, _ := strings.Cut(line, "  ")
		content, err := os.ReadFile(filepath.Join(dist, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if got := sha256.Sum256(content); hex.EncodeToString(got[:]) != want {
			t.Errorf("%s: sum %x, listed %s", name, got, want)
		}
	}
}

// checkSBOM reads the bill of materials as a stranger would: every element referred to exists, and
// the modules are those of the program.
func checkSBOM(t *testing.T, dist string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dist, "gobw-linux-amd64.spdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var doc spdxDocument
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{doc.ID: true}
	named := map[string]bool{}
	for _, p := range doc.Packages {
		ids[p.ID], named[p.Name] = true, true
	}
	for _, r := range doc.Relationship {
		if !ids[r.From] || !ids[r.To] {
			t.Errorf("relationship %v: an end of it is not in the document", r)
		}
	}
	for _, m := range []string{
		"github.com/spf13/cobra", "github.com/HdrHistogram/hdrhistogram-go", "github.com/olekukonko/tablewriter",
	} {
		if !named[m] {
			t.Errorf("%s is in the program and not in its bill of materials", m)
		}
	}
}
