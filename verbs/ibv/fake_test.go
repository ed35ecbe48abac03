//go:build linux && cgo

package ibv

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gobw/gobw/verbs"
)

// fakeLibraries are those linked so far, in a folder that goes when the tests end.
var fakeLibraries struct { //nolint:gochecknoglobals // compiled once for all tests
	sync.Mutex
	compiler, dir string
	objects       []string
	names         map[string]string // by the symbols absent
}

func TestMain(m *testing.M) {
	m.Run()
	_ = os.RemoveAll(fakeLibraries.dir)
}

// fakeVerbs is a provider that loads the libibverbs of testdata without the symbols named. Settings are the FAKEVERBS_
// variables that its source explains, without that front.
func fakeVerbs(t testing.TB, settings map[string]string, absent ...string) *Provider {
	t.Helper()
	p := New()
	p.lib.name, p.sysfs = fakeLibrary(t, absent), t.TempDir()
	for name, v := range settings {
		t.Setenv("FAKEVERBS_"+name, v)
	}
	return p
}

// fakeLibrary links the library, unless that has been done.
func fakeLibrary(t testing.TB, absent []string) string {
	t.Helper()
	l := &fakeLibraries
	l.Lock()
	defer l.Unlock()
	key := strings.Join(absent, " ")
	if name := l.names[key]; name != "" {
		return name
	}
	if l.dir == "" {
		compileFake(t)
	}
	library := filepath.Join(l.dir, fmt.Sprintf("%d-libibverbs.so.1", len(l.names)))
	script := library + ".map"
	if err := os.WriteFile(script, []byte(versionScript(absent)), 0o600); err != nil {
		t.Fatal(err)
	}
	args := slices.Concat([]string{"-shared", "-pthread", "-o", library, "-Wl,--version-script=" + script}, sanitizer(), l.objects)
	if out, err := exec.Command(l.compiler, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	l.names[key] = library
	return library
}

// sanitizer is what TestHandlesUnderAddressSanitizer compiles the library with.
func sanitizer() []string { return strings.Fields(os.Getenv("FAKEVERBS_SANITIZE")) }

// TestHandlesUnderAddressSanitizer runs the suite's tests of handles with this package, its C code and the library compiled for the
// address sanitizer, which sees every use of memory that was freed.
func TestHandlesUnderAddressSanitizer(t *testing.T) {
	const flag = "-fsanitize=address"
	switch {
	case testing.Short():
		t.Skip("compiles the standard library anew")
	case len(sanitizer()) > 0:
		t.Skip("this is what it runs")
	case os.Getenv("GOBW_IBV_DEVICE") != "":
		t.Skip("a device is under test, in the kernel lab on an emulated CPU: compiling takes longer there than all else")
	}
	if out, err := exec.Command(compiler(t, filepath.Join("testdata", "abi.c")), flag, "-shared", "-x", "c", os.DevNull, "-o", filepath.Join(t.TempDir(), "probe.so")).CombinedOutput(); err != nil {
		t.Skipf("the C compiler has no address sanitizer: %v\n%s", err, out)
	}
	c := exec.Command("go", "test", "-asan", "-count=1", "-run", "^TestConformanceWithoutHardware$/.*/^(handles|events|windows)$", ".")
	c.Env = append(os.Environ(), "FAKEVERBS_SANITIZE="+flag, "ASAN_OPTIONS=detect_leaks=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// compileFake compiles the library's sources.
func compileFake(t testing.TB) {
	t.Helper()
	l := &fakeLibraries
	sources, err := filepath.Glob(filepath.Join("testdata", "fakeverbs", "*.c"))
	if err != nil || len(sources) == 0 {
		t.Skipf("the test's sources are not here (%v): run it with go test, not as a binary elsewhere", err)
	}
	l.compiler = compiler(t, sources[0])
	dir, err := os.MkdirTemp("", "fakeverbs") //nolint:usetesting // outlives the test that is first
	if err != nil {
		t.Fatal(err)
	}
	l.dir, l.names = dir, make(map[string]string)
	optimize := "-O1" // by which the compiler warns of more, and takes twice as long
	if testing.Short() {
		optimize = "-O0"
	}
	args := append([]string{"-std=gnu11", optimize, "-Wall", "-Wextra", "-Werror", "-fPIC", "-pthread", "-c"}, sanitizer()...)
	for _, file := range sources {
		whole, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, whole)
		l.objects = append(l.objects, filepath.Join(dir, strings.TrimSuffix(filepath.Base(file), ".c")+".o"))
	}
	c := exec.Command(l.compiler, args...)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// versionScript exports what we call, in the versions that we ask for; the rest is not there.
func versionScript(absent []string) string {
	byVersion := make(map[string][]string)
	lib := libibverbs()
	for _, s := range lib.symbols() {
		if !slices.Contains(absent, s.Name) {
			byVersion[s.Version] = append(byVersion[s.Version], s.Name)
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

// openFake opens the fake device.
func openFake(t testing.TB, p *Provider) verbs.Device {
	t.Helper()
	d, err := p.Open("fake0")
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, d)
	return d
}
