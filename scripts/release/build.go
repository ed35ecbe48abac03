package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// target is a platform that programs are built for.
type target struct {
	OS, Arch string
	CC       string // C compiler: libibverbs devices are inside; empty: roce0 only
}

func (t target) String() string { return t.OS + "-" + t.Arch }

// exe is a program's file name on the platform.
func (t target) exe(program string) string {
	if t.OS == "windows" {
		return program + ".exe"
	}
	return program
}

var (
	targets = []target{
		{OS: "linux", Arch: "amd64", CC: "x86_64-linux-gnu-gcc"},
		{OS: "linux", Arch: "arm64", CC: "aarch64-linux-gnu-gcc"},
		{OS: "darwin", Arch: "arm64"},
		{OS: "windows", Arch: "amd64"},
	}
	programs = []string{"gobw", "golat"}
)

// build makes both programs of a target in dir.
func build(source, dir string, t target) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	env := append(os.Environ(), "GOOS="+t.OS, "GOARCH="+t.Arch, "GOFLAGS=-mod=readonly", "CGO_ENABLED=0", "GOWORK=off")
	link := "-s -w -buildid="
	if t.CC != "" {
		env = append(env, "CGO_ENABLED=1", "CC="+t.CC, "CGO_CFLAGS=-O2", "CGO_LDFLAGS=")
	}
	for _, p := range programs {
		out := filepath.Join(dir, t.exe(p))
		if err := goBuild(source, env, link, out, p); err != nil {
			return err
		}
		if t.CC == "" {
			continue
		}
		if err := linkForOldLibraries(source, env, link, out, p, t); err != nil {
			return err
		}
		if err := checkNeeds(out, oldestLibrary); err != nil {
			return err
		}
	}
	if t.CC == "" {
		return nil
	}
	return buildLibrary(source, dir, env, t)
}

// libraries are what 'gobw run' gives to programs.
var libraries = []string{"libibverbs.so.1", "libgobw-roce0.so"}

// buildLibrary makes the libraries, the second time against stand-ins for the C library.
func buildLibrary(source, dir string, env []string, t target) error {
	compile := func(more ...string) error {
		c := exec.Command("sh", "verbs/libibverbs/build", dir)
		c.Dir, c.Env = source, append(env, more...)
		return run(c)
	}
	if err := compile(); err != nil {
		return err
	}
	stubs, err := os.MkdirTemp("", "release-stubs-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(stubs) }()
	var paths []string
	for _, name := range libraries {
		paths = append(paths, filepath.Join(dir, name))
	}
	if err := makeStubs(stubs, t.CC, paths...); err != nil {
		return fmt.Errorf("stand-ins for the C library of %v: %w", t, err)
	}
	const threads = " -Wl,--no-as-needed -lpthread -ldl -Wl,--as-needed"
	flags := "-L" + stubs + " -Wl,--build-id=none"
	if err := compile("LDFLAGS="+flags, "GOLDFLAGS=-buildid= -extldflags '"+flags+threads+"'"); err != nil {
		return err
	}
	var errs []error
	for _, path := range paths {
		errs = append(errs, checkNeeds(path, oldestLibrary))
	}
	return errors.Join(errs...)
}

func goBuild(source string, env []string, link, out, program string) error {
	// netgo and osusergo leave the C library's resolver out; nothing else of the programs' behaviour depends on them.
	c := exec.Command("go", "build", "-trimpath", "-buildvcs=true", "-tags", "netgo,osusergo", "-ldflags", link, "-o",
		out, "./cmd/"+program)
	c.Dir, c.Env = source, env
	return run(c)
}

// linkForOldLibraries links a program again, against stand-ins for the C library that offer each symbol it needs at a
// version that oldestLibrary has.
func linkForOldLibraries(source string, env []string, link, out, program string, t target) error {
	stubs, err := os.MkdirTemp("", "release-stubs-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(stubs) }()
	if err := makeStubs(stubs, t.CC, out); err != nil {
		return fmt.Errorf("stand-ins for the C library of %v: %w", t, err)
	}
	flags := "-L" + stubs + " -Wl,--build-id=none -Wl,--no-as-needed -lpthread -ldl -Wl,--as-needed"
	return goBuild(source, env, link+" -linkmode=external -extldflags '"+flags+"'", out, program)
}

// run executes a command and puts what it said into the error.
func run(c *exec.Cmd) error {
	out, err := c.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(c.Args, " "), err, out)
	}
	return nil
}
