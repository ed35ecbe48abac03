package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestGoInstall installs the program from a module proxy, as 'go install
// .../cmd/gobw@VERSION' does, and asks it for its version.
func TestGoInstall(t *testing.T) {
	const module, version = "github.com/gobw/gobw", "v0.9.9"
	proxy, bin, source := t.TempDir(), t.TempDir(), clone(t)
	dir := filepath.Join(proxy, filepath.FromSlash(module), "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(source, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"list": version + "\n", version + ".mod": string(mod), version + ".info": fmt.Sprintf(`{"Version":%q}`, version),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// A module's zip leaves out the modules below it.
	command(t, "git", "-C", source, "archive", "--format=zip", "--prefix="+module+"@"+version+"/", "-o",
		filepath.Join(dir, version+".zip"), "HEAD", "--", ".", ":!scripts/release")
	known := strings.TrimSpace(command(t, "go", "env", "GOMODCACHE"))
	install := exec.Command("go", "install", module+"/cmd/gobw@"+version)
	install.Dir = bin
	install.Env = append(os.Environ(), "GOPROXY=file://"+proxy+",file://"+known+"/cache/download", "GOSUMDB=off",
		"GONOSUMDB=*", "GOFLAGS=-modcacherw", "GOBIN="+bin,
		"GOMODCACHE="+t.TempDir(), "GOTOOLCHAIN=local")
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var said struct{ Program, Version, Go, OS, Arch string }
	if err := json.Unmarshal([]byte(command(t, filepath.Join(bin, "gobw"), "version", "--format", "json")),
		&said); err != nil {
		t.Fatal(err)
	}
	if said.Program != "gobw" || said.Version != version || said.Go != runtime.Version() || said.OS != runtime.GOOS ||
		said.Arch != runtime.GOARCH {
		t.Errorf("gobw version --format json says %+v, want version %s", said, version)
	}
}
