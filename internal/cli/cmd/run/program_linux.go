package run

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gobw/gobw/internal/child"
)

// find finds a program and refuses one that does not load the libraries it is given.
func find(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return "", notStarted(name, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if s, is := info.Sys().(*syscall.Stat_t); is && changesUser(path, s) {
		return "",
			fmt.Errorf("%s runs as another user (setuid, setgid or with capabilities): Linux gives such a program no library; "+
				"run a copy of it (cp makes one without)", path)
	}
	return path, checkELF(path)
}

// changesUser tells whether the kernel starts the program in secure mode, in which ld.so ignores LD_PRELOAD.
func changesUser(path string, s *syscall.Stat_t) bool {
	switch {
	case s.Mode&syscall.S_ISUID != 0 && int(s.Uid) != os.Getuid(),
		s.Mode&syscall.S_ISGID != 0 && int(s.Gid) != os.Getgid():
		return true
	}
	n, err := unix.Getxattr(path, "security.capability", nil)
	return err == nil && n > 0 && os.Getuid() != 0
}

// checkELF refuses programs that no dynamic linker of glibc starts. A script is
// fine: its interpreter is a program, too.
func checkELF(path string) error {
	f, err := elf.Open(path)
	if format := new(elf.FormatError); errors.As(err, &format) || errors.Is(err, io.EOF) {
		return nil // a script
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	ours := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]
	if f.Machine != ours {
		return fmt.Errorf("%s is a program for %v: the library is for %v", path, f.Machine, ours)
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		linker, err := io.ReadAll(p.Open())
		if err == nil && strings.Contains(string(linker), "ld-musl") {
			return fmt.Errorf("%s is linked with musl: the library needs glibc, so build the program on a glibc system "+
				"(Debian, Fedora, ...)", path)
		}
		return err
	}
	return fmt.Errorf("%s is linked statically, so that it loads no library: link it dynamically (without -static)", path)
}

// execute becomes the program.
func execute(path string, args, env []string) error {
	return notStarted(path, syscall.Exec(path, args, env))
}

func notStarted(name string, err error) error {
	folder, _ := os.Getwd()
	return fmt.Errorf("%s in %s: %s", name, folder, child.NotStarted(name, err))
}
