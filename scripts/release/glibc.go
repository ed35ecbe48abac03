package main

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// oldestLibrary is the oldest C library that the programs start with: RHEL 8's.
const oldestLibrary = "GLIBC_2.28"

// stub is a symbol of a stand-in library.
type stub struct {
	name, version string
	object        bool
	size          uint64
}

// makeStubs makes stand-ins for libc, libpthread and libdl in dir that define what programs import, each symbol at the
// newest version of the real library that is not beyond oldestLibrary. Until 2.34 threads and dlopen had libraries of
// their own: the stand-ins for these are empty, and only make the program name them.
func makeStubs(dir, cc string, programs ...string) error {
	stubs, err := stubsFor(cc, programs...)
	if err != nil {
		return err
	}
	source, script := stubSource(stubs)
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "libc.s"), []byte(source), 0o644),
		os.WriteFile(filepath.Join(dir, "libc.map"), []byte(script), 0o644),
		os.WriteFile(filepath.Join(dir, "empty.s"), []byte(".section .note.GNU-stack,\"\",%progbits\n"), 0o644),
	); err != nil {
		return err
	}
	for _, lib := range []struct{ file, soname, source string }{
		{"libc.so", "libc.so.6", "libc.s"},
		{"libpthread.so", "libpthread.so.0", "empty.s"},
		{"libdl.so", "libdl.so.2", "empty.s"},
	} {
		c := exec.Command(cc, "-shared", "-nostdlib", "-Wl,-soname,"+lib.soname, "-o", lib.file, lib.source)
		if lib.source == "libc.s" {
			c.Args = append(c.Args, "-Wl,--version-script,libc.map")
		}
		c.Dir = dir
		if err := run(c); err != nil {
			return err
		}
	}
	return nil
}

// stubsFor lists what programs import from the C library, at versions old enough.
func stubsFor(cc string, programs ...string) ([]stub, error) {
	path, err := exec.Command(cc, "-print-file-name=libc.so.6").Output()
	if err != nil {
		return nil, fmt.Errorf("ask %s for its C library: %w", cc, err)
	}
	library, err := elf.Open(strings.TrimSpace(string(path)))
	if err != nil {
		return nil, err
	}
	defer func() { _ = library.Close() }()
	offered, err := library.DynamicSymbols()
	if err != nil {
		return nil, err
	}
	best := map[string]stub{}
	for _, s := range offered {
		if s.Section == elf.SHN_UNDEF || !strings.HasPrefix(s.Version, "GLIBC_2") || beyond(s.Version, oldestLibrary) {
			continue
		}
		if old, is := best[s.Name]; !is || beyond(s.Version, old.version) {
			best[s.Name] = stub{s.Name, s.Version, elf.ST_TYPE(s.Info) == elf.STT_OBJECT, s.Size}
		}
	}
	var wanted []elf.ImportedSymbol
	for _, program := range programs {
		f, err := elf.Open(program)
		if err != nil {
			return nil, err
		}
		imported, err := f.ImportedSymbols()
		_ = f.Close()
		if err != nil {
			return nil, err
		}
		wanted = append(wanted, imported...)
	}
	var stubs []stub
	var errs []error
	for _, w := range wanted {
		s, is := best[w.Name]
		switch {
		case is:
			stubs = append(stubs, s)
		case strings.HasPrefix(w.Library, "ld-linux"): // the dynamic linker's own, which is always there
		case w.Version != "":
			errs = append(errs, fmt.Errorf("%s@%s: no version of it is as old as %s", w.Name, w.Version, oldestLibrary))
		}
	}
	slices.SortFunc(stubs, func(a, b stub) int {
		return cmp.Or(slices.Compare(numbers(a.version), numbers(b.version)), strings.Compare(a.name, b.name))
	})
	return slices.CompactFunc(stubs, func(a, b stub) bool { return a.name == b.name }), errors.Join(errs...)
}

// stubSource is the stand-in's assembly and its version script.
func stubSource(stubs []stub) (source, script string) {
	var s, m strings.Builder
	version, previous := "", ""
	for _, x := range stubs {
		section, kind, size := ".text", "function", uint64(1)
		if x.object {
			section, kind, size = ".data", "object", max(x.size, 1)
		}
		fmt.Fprintf(&s, "%s\n.globl %s\n.type %s, %%%s\n.size %s, %d\n.balign 32\n%s: .zero %d\n", section, x.name, x.name,
			kind, x.name, size, x.name, size)
		if x.version != version {
			if version != "" {
				fmt.Fprintf(&m, "}%s;\n", previous)
				previous = " " + version
			}
			version = x.version
			fmt.Fprintf(&m, "%s {\n", version)
		}
		fmt.Fprintf(&m, "\t%s;\n", x.name)
	}
	fmt.Fprintf(&m, "}%s;\n", previous)
	s.WriteString(".section .note.GNU-stack,\"\",%progbits\n")
	return s.String(), m.String()
}

// checkNeeds refuses a program that a system with oldest could not start.
func checkNeeds(program, oldest string) error {
	f, err := elf.Open(program)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	var errs []error
	libraries, err := f.ImportedLibraries()
	if err != nil {
		return err
	}
	for _, l := range libraries {
		switch {
		case l == "libc.so.6", l == "libpthread.so.0", l == "libdl.so.2":
		case strings.HasPrefix(l, "ld-linux"):
		default:
			errs = append(errs, fmt.Errorf("%s needs the library %s", program, l))
		}
	}
	symbols, err := f.ImportedSymbols()
	if err != nil {
		return err
	}
	for _, s := range symbols {
		if s.Version != "" && beyond(s.Version, oldest) {
			errs = append(errs, fmt.Errorf("%s needs %s@%s, which is newer than %s", program, s.Name, s.Version, oldest))
		}
	}
	return errors.Join(errs...)
}

// beyond tells whether version a is newer than b.
func beyond(a, b string) bool { return slices.Compare(numbers(a), numbers(b)) > 0 }

// numbers are the numbers of a version such as GLIBC_2.28; one without numbers (GLIBC_PRIVATE) is beyond all.
func numbers(version string) []int {
	_, text, _ := strings.Cut(version, "_")
	var ns []int
	for s := range strings.SplitSeq(text, ".") {
		n, err := strconv.Atoi(s)
		if err != nil {
			return []int{1 << 30}
		}
		ns = append(ns, n)
	}
	return ns
}
