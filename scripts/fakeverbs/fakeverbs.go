// Package fakeverbs compiles the libibverbs of verbs/ibv/testdata/fakeverbs for tests: a device without hardware, whose
// cost, latency and faults a test plants. Its fake.h explains the FAKEVERBS_ variables.
package fakeverbs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// ErrAbsent is what [Build] returns where the sources or a C compiler are missing.
var ErrAbsent = errors.New("no C compiler, or the sources of the test are not here")

// Build compiles the library into a folder and returns its path, DIR/libibverbs.so.1. A program started with
// LD_LIBRARY_PATH=DIR finds the device fake0. Both ends of a test, two processes, need the same FAKEVERBS_ARENA:
//
//	dir := t.TempDir()
//	fakeverbs.Build(dir)
//	c := exec.Command("gobw", "write", "--loopback", "-d", "fake0", "-s", "512")
//	c.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir, "FAKEVERBS_ARENA="+dir+"/arena", "FAKEVERBS_REQUEST_NS=1000")
//
// By hand: scripts/fake [NAME=VALUE ...] COMMAND. Flags are for the C compiler; symbols absent are left out.
func Build(dir string, flags []string, absent ...string) (string, error) {
	source, err := sources()
	if err != nil {
		return "", err
	}
	rows, err := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(source)), "symbols.h"))
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrAbsent, err)
	}
	compiler, err := exec.LookPath(cmp.Or(os.Getenv("CC"), "cc"))
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrAbsent, err)
	}
	files, err := filepath.Glob(filepath.Join(source, "*.c"))
	if err != nil {
		return "", err
	}
	library := filepath.Join(dir, "libibverbs.so.1")
	script := library + ".map"
	if err := os.WriteFile(script, []byte(versionScript(string(rows), absent)), 0o600); err != nil {
		return "", err
	}
	args := slices.Concat([]string{
		"-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-pthread", "-shared", "-o", library,
		"-Wl,--version-script=" + script,
	}, flags, files)
	if out, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return library, nil
}

// sources is the folder of the C files. A test runs in the folder of its package, somewhere below the module's.
func sources() (string, error) {
	at, err := os.Getwd()
	for ; err == nil && at != filepath.Dir(at); at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		dir := filepath.Join(at, "verbs", "ibv", "testdata", "fakeverbs")
		if _, err := os.Stat(dir); err == nil {
			return dir, nil
		}
	}
	return "", ErrAbsent
}

//nolint:gochecknoglobals // compiled once
var row = regexp.MustCompile(`(?sm)^(VERB|SYMBOL)\((?:"(\w+)")?[^"]*?(\w+), "(IBVERBS_[\d.]+)"`)

// versionScript exports the symbols of the rows of symbols.h in their versions; the rest is not there.
func versionScript(rows string, absent []string) string {
	byVersion := make(map[string][]string)
	for _, m := range row.FindAllStringSubmatch(rows, -1) {
		name := cmp.Or(m[2], "ibv_"+m[3])
		if !slices.Contains(absent, name) {
			byVersion[m[4]] = append(byVersion[m[4]], name)
		}
	}
	versions := slices.SortedFunc(func(yield func(string) bool) {
		for v := range byVersion {
			if !yield(v) {
				return
			}
		}
	}, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	var b strings.Builder
	for i, v := range versions {
		local := ""
		if i == 0 {
			local = " local: *;"
		}
		fmt.Fprintf(&b, "%s { global: %s;%s };\n", v, strings.Join(byVersion[v], "; "), local)
	}
	return b.String()
}
