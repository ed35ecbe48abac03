package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestImageRuns unpacks the image of linux/amd64, layer by layer, and starts its entry point in it as a container runtime would.
func TestImageRuns(t *testing.T) {
	need(t, "unshare", "x86_64-linux-gnu-gcc", "tar")
	source := clone(t)
	when, err := commitTime(source)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(targets, func(x target) bool { return x.String() == "linux-amd64" })
	r := release{source: source, dir: t.TempDir(), when: when, version: "v0.0.1"}
	if err := build(source, r.built(targets[i]), targets[i]); err != nil {
		t.Fatal(err)
	}
	image, err := r.image(targets[i])
	if err != nil {
		t.Fatal(err)
	}
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for _, l := range layers {
		content, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		unpack := exec.Command("tar", "x", "-C", root)
		unpack.Stdin = content
		if out, err := unpack.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if _, err := io.Copy(io.Discard, content); err != nil {
			t.Fatal(err)
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, "proc"), 0o755); err != nil { // a runtime's, as is what is mounted there
		t.Fatal(err)
	}
	start := func(args ...string) string {
		script := `ip link set lo up; root=$1; shift; mount -t proc proc "$root/proc"; exec timeout -s KILL 60 env -i ` +
			strings.Join(config.Config.Env, " ") + ` /usr/sbin/chroot "$root" "$@"`
		words := append([]string{"unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-ec", script, "sh", root}, config.Config.Entrypoint...)
		return command(t, append(words, args...)...)
	}
	if out := start("version"); !strings.Contains(out, "gobw v0.") {
		t.Errorf("version: %s", out)
	}
	if out := start("write", "--loopback", "-s", "64", "-n", "1000"); !strings.Contains(out, "software device, not a NIC") {
		t.Errorf("write: %s", out)
	}
	if out := start("devices"); strings.Contains(out, "cannot open shared object") {
		t.Errorf("the image's libibverbs does not load: %s", out)
	}
}

// TestGoInstall installs the program from a module proxy, as 'go install .../cmd/gobw@VERSION' does, and asks it for its version.
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
	for name, text := range map[string]string{"list": version + "\n", version + ".mod": string(mod), version + ".info": fmt.Sprintf(`{"Version":%q}`, version)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// A module's zip leaves out the modules below it.
	command(t, "git", "-C", source, "archive", "--format=zip", "--prefix="+module+"@"+version+"/", "-o", filepath.Join(dir, version+".zip"), "HEAD", "--", ".", ":!scripts/release")
	known := strings.TrimSpace(command(t, "go", "env", "GOMODCACHE"))
	install := exec.Command("go", "install", module+"/cmd/gobw@"+version)
	install.Dir = bin
	install.Env = append(os.Environ(), "GOPROXY=file://"+proxy+",file://"+known+"/cache/download", "GOSUMDB=off", "GONOSUMDB=*", "GOFLAGS=-modcacherw", "GOBIN="+bin,
		"GOMODCACHE="+t.TempDir(), "GOTOOLCHAIN=local")
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var said struct{ Program, Version, Go, OS, Arch string }
	if err := json.Unmarshal([]byte(command(t, filepath.Join(bin, "gobw"), "version", "--format", "json")), &said); err != nil {
		t.Fatal(err)
	}
	if said.Program != "gobw" || said.Version != version || said.Go != runtime.Version() || said.OS != runtime.GOOS || said.Arch != runtime.GOARCH {
		t.Errorf("gobw version --format json says %+v, want version %s", said, version)
	}
}
