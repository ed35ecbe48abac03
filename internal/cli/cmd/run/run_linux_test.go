package run

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gobw/gobw/internal/testrun"
)

// TestFind accepts dynamic programs and scripts, and refuses by name what would not load the library.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if path, err := find(write("script", "#!/bin/sh\n", 0o755)); err != nil {
		t.Errorf("a script: %s, %v", path, err)
	}
	if _, err := find("sh"); err != nil {
		t.Errorf("sh: %v", err)
	}
	for name, want := range map[string]string{
		"no-such-program": "there is no such program in PATH", "./none": "./none in /", dir: "is a folder",
		write("text", "", 0o644): "is not executable: chmod +x ",
	} {
		if _, err := find(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if err := execute(write("torn", "#!/nowhere/sh\n", 0o755), nil, nil); !strings.Contains(err.Error(), "interpreter") {
		t.Error(err)
	}
	header := make([]byte, 64) // of a program without segments: it names no dynamic linker
	copy(header, "\x7fELF\x02\x01\x01")
	header[16], header[18], header[20], header[52] = byte(elf.ET_EXEC), byte(elf.EM_RISCV), 1, 64
	if _, err := find(write("other", string(header), 0o755)); err == nil ||
		!strings.Contains(err.Error(), "is a program for EM_RISCV") {
		t.Errorf("another machine's program: %v", err)
	}
}

// TestStatic refuses a static program.
func TestStatic(t *testing.T) {
	testrun.Need(t, "go")
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("go", "build", "-o", filepath.Join(dir, "static"), source)
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if _, err := find(filepath.Join(dir, "static")); err == nil || !strings.Contains(err.Error(), "is linked statically") {
		t.Errorf("a static program: %v", err)
	}
}

// TestNoCache: where the library cannot be kept, the user is told what to set.
func TestNoCache(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", "/dev/null")
	if _, err := cacheDirectory(); err == nil || !strings.Contains(err.Error(), "set XDG_CACHE_HOME") {
		t.Error(err)
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	if dir, err := cacheDirectory(); err != nil {
		t.Error(dir, err)
	}
}

// TestEnvironment has the library loaded before what was to be loaded already, and says what the device is like.
func TestEnvironment(t *testing.T) {
	t.Setenv("LD_PRELOAD", "/lib/other.so")
	f := flags{device: "roce0@127.0.0.7", emulate: "loss=1%", pcap: "/tmp/t.pcap"}
	c, err := f.config([]string{"true"})
	if err != nil {
		t.Fatal(err)
	}
	want := "LD_PRELOAD=/a/lib.so:/lib/other.so GOBW_ROCE_ADDRESS=127.0.0.7 GOBW_ROCE_EMULATE=loss=1% " +
		"GOBW_ROCE_PCAP=/tmp/t.pcap"
	if got := strings.Join(c.environment("/a/lib.so"), " "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, wrong := range []flags{{device: "mlx5_0"}, {emulate: "loss=x"}, {print: true}} {
		if _, err := wrong.config([]string{"true"}); err == nil {
			t.Errorf("%+v was accepted", wrong)
		}
	}
}
