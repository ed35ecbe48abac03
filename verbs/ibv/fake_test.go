//go:build linux && cgo

package ibv

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gobw/gobw/internal/testrun"
	"github.com/gobw/gobw/scripts/fakeverbs"
	"github.com/gobw/gobw/verbs"
)

// fakeLibraries are those compiled so far, in a folder that goes when the tests end.
var fakeLibraries struct { //nolint:gochecknoglobals // compiled once for all tests
	sync.Mutex
	dir   string
	names map[string]string // by the symbols absent
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

// fakeLibrary compiles the library, unless that has been done.
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
		dir, err := os.MkdirTemp("", "fakeverbs") //nolint:usetesting // outlives the test that is first
		if err != nil {
			t.Fatal(err)
		}
		l.dir, l.names = dir, make(map[string]string)
	}
	dir := filepath.Join(l.dir, strconv.Itoa(len(l.names)))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	library, err := fakeverbs.Build(dir, sanitizer(), absent...)
	if errors.Is(err, fakeverbs.ErrAbsent) {
		testrun.Missing(t, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	l.names[key] = library
	return library
}

// sanitizer is what TestHandlesUnderAddressSanitizer compiles the library with.
func sanitizer() []string { return strings.Fields(os.Getenv("FAKEVERBS_SANITIZE")) }

// TestHandlesUnderAddressSanitizer runs the suite's tests of handles with this package, its C code and the library
// compiled for the address sanitizer, which sees every use of memory that was freed.
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
	if out, err := exec.Command(compiler(t, filepath.Join("testdata", "abi.c")), flag, "-shared", "-x", "c", os.DevNull,
		"-o", filepath.Join(t.TempDir(), "probe.so")).CombinedOutput(); err != nil {
		t.Skipf("the C compiler has no address sanitizer: %v\n%s", err, out)
	}
	c := exec.Command("go", "test", "-asan", "-count=1", "-run",
		"^TestConformanceWithoutHardware$/.*/^(handles|events|windows)$", ".")
	c.Env = append(os.Environ(), "FAKEVERBS_SANITIZE="+flag, "ASAN_OPTIONS=detect_leaks=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
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
