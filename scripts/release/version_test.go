package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestVersionNeedsItsNotes: what cannot be released is refused before anything is built.
func TestVersionNeedsItsNotes(t *testing.T) {
	source := t.TempDir()
	for _, line := range []string{
		"git init -q", "git config user.email a@b", "git config user.name a",
		"printf '# Changelog\\n\\n## 0.1.0\\n' >CHANGELOG.md", "git add .", "git commit -qm x",
	} {
		c := exec.Command("sh", "-c", line)
		c.Dir = source
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	for _, wrong := range []struct{ version, sign, want string }{
		{"v0.1.0", "", "want three numbers"},
		{"0.2.0", "", "no section '## 0.2.0'"},
		{"0.1.0", "gpg:me", "want minisign:KEYFILE or cosign:KEY"},
		{"0.1.0", "minisign:", "want minisign:KEYFILE or cosign:KEY"},
	} {
		if err := makeVersion(source, t.TempDir()+"/dist", "", wrong.version, wrong.sign); err == nil ||
			!strings.Contains(err.Error(), wrong.want) {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
	clone := filepath.Join(t.TempDir(), "clone")
	if err := tag(source, clone, "0.1.0"); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("git", "describe", "--tags")
	c.Dir = clone
	if out, err := c.Output(); err != nil || strings.TrimSpace(string(out)) != "v0.1.0" {
		t.Errorf("the clone is %q, %v", out, err)
	}
	if err := os.WriteFile(filepath.Join(source, "CHANGELOG.md"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := tag(source, clone+"2", "0.1.0"); err == nil || !strings.Contains(err.Error(), "not committed") {
		t.Errorf("a changed checkout: %v", err)
	}
}

// TestSignature: minisign signs the sums, and its public key proves it.
func TestSignature(t *testing.T) {
	if _, err := exec.LookPath("minisign"); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	sums := filepath.Join(dir, "SHA256SUMS")
	if err := os.WriteFile(sums, []byte("sums\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("minisign", "-G", "-W", "-p", dir+"/pub", "-s", dir+"/key").CombinedOutput(); err != nil {
		t.Skipf("minisign makes no key without a password: %v\n%s", err, out)
	}
	signer, err := signerOf("minisign:" + dir + "/key")
	if err != nil {
		t.Fatal(err)
	}
	if err := run(signer(sums)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("minisign", "-V", "-p", dir+"/pub", "-m", sums).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
