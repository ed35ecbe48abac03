package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// release is one version being built.
type release struct {
	source, dir string
	version     string    // as Go says it: v1.2.3, or a pseudo-version
	when        time.Time // the commit's: no clock of the building machine is in a file
}

func main() {
	dir := flag.String("o", "dist", "directory to write to; must not exist")
	source := flag.String("source", "../..", "the checkout to build, without changes that are not committed")
	only := flag.String("only", "", "platforms to build, such as linux-amd64,darwin-arm64 (all)")
	version := flag.String("version", "",
		"build this version, such as 0.1.0, from a clone of the commit that has its tag (the tags of the checkout)")
	sign := flag.String("sign", "", "sign SHA256SUMS: minisign:KEYFILE, or cosign:KEY")
	flag.Parse()
	if err := makeVersion(*source, *dir, *only, *version, *sign); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// makeVersion makes a release, of a version that need not have its tag yet, and signs it.
func makeVersion(source, dir, only, version, sign string) error {
	signer, err := signerOf(sign)
	if err != nil {
		return err
	}
	if version != "" {
		clone, err := os.MkdirTemp("", "release-clone-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(clone) }()
		if err := tag(source, clone, version); err != nil {
			return err
		}
		source = clone
	}
	if dir, err = filepath.Abs(dir); err != nil { // the Go tool runs in the source
		return err
	}
	if err := makeRelease(source, dir, only); err != nil {
		return err
	}
	if signer == nil {
		fmt.Fprintln(os.Stderr, "release: not signed: -sign minisign:KEYFILE or cosign:KEY signs SHA256SUMS")
		return nil
	}
	return run(signer(filepath.Join(dir, "SHA256SUMS")))
}

// signerOf is the command that signs a file; nil: there is no key.
func signerOf(sign string) (func(file string) *exec.Cmd, error) {
	tool, key, _ := strings.Cut(sign, ":")
	switch {
	case sign == "":
		return nil, nil
	case key == "":
	case tool == "minisign":
		return func(file string) *exec.Cmd {
			c := exec.Command("minisign", "-S", "-s", key, "-m", file)
			c.Stdin = os.Stdin // for the password of the key
			return c
		}, nil
	case tool == "cosign":
		return func(file string) *exec.Cmd { // nothing goes to a public log, and no network is needed
			return exec.Command("cosign", "sign-blob", "--yes", "--tlog-upload=false", "--key", key,
				"--output-signature", file+".sig", file)
		}, nil
	}
	return nil, fmt.Errorf("-sign %q: want minisign:KEYFILE or cosign:KEY", sign)
}

// tag clones the commit of a checkout, and gives the clone the version's tag.
func tag(source, clone, version string) error {
	if !regexp.MustCompile(`^\d+\.\d+\.\d+$`).MatchString(version) {
		return fmt.Errorf("-version %q: want three numbers, such as 0.1.0", version)
	}
	git := func(dir string, words ...string) ([]byte, error) {
		c := exec.Command("git", words...)
		c.Dir = dir
		return c.Output()
	}
	changed, err := git(source, "status", "--porcelain", "--untracked-files=no")
	if err != nil || len(changed) > 0 {
		return errors.Join(err, fmt.Errorf("%s has changes that are not committed:\n%s", source, changed))
	}
	text, err := os.ReadFile(filepath.Join(source, "CHANGELOG.md"))
	if err != nil || !strings.Contains(string(text), "\n## "+version) {
		return errors.Join(err, fmt.Errorf("CHANGELOG.md has no section '## %s'", version))
	}
	if _, err := git(source, "clone", "--quiet", "--no-local", "--depth", "1", ".", clone); err != nil {
		return fmt.Errorf("clone %s: %w", source, err)
	}
	_, err = git(clone, "tag", "v"+version)
	return err
}

// makeRelease builds everything into dir.
func makeRelease(source, dir, only string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	when, err := commitTime(source)
	if err != nil {
		return err
	}
	r := release{source: source, dir: dir, when: when}
	chosen, err := choose(only)
	if err != nil {
		return err
	}
	for _, t := range chosen {
		fmt.Fprintln(os.Stderr, "release: building", t)
		if err := build(source, r.built(t), t); err != nil {
			return err
		}
		info, err := buildinfo.ReadFile(filepath.Join(r.built(t), t.exe(programs[0])))
		if err != nil {
			return err
		}
		if r.version = info.Main.Version; r.version == "" || r.version == "(devel)" {
			return fmt.Errorf("the Go tool recorded no version in %v's programs: build from a clone (git clone), with its tags",
				t)
		}
		if err := r.wrap(t); err != nil {
			return fmt.Errorf("%v: %w", t, err)
		}
	}
	return writeSums(dir)
}

// built is where the programs of a target lie.
func (r release) built(t target) string { return filepath.Join(r.dir, t.String()) }

// packageVersion is the version as packages spell it.
func (r release) packageVersion() string {
	return strings.NewReplacer("-", "~", "+", ".").Replace(strings.TrimPrefix(r.version, "v"))
}

// wrap writes a target's archive, bills of materials and packages.
func (r release) wrap(t target) error {
	root, err := os.MkdirTemp("", "release-root-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(root) }()
	if err := writeManual(root, r.version, r.when); err != nil {
		return err
	}
	entries := []entry{
		{name: "LICENSE", file: filepath.Join(r.source, "LICENSE"), mode: 0o644},
		{name: "README.md", file: filepath.Join(r.source, "README.md"), mode: 0o644},
	}
	for _, p := range programs {
		program := filepath.Join(r.built(t), t.exe(p))
		sbom := filepath.Join(r.dir, p+"-"+t.String()+".spdx.json")
		if err := writeSBOM(r, program, sbom); err != nil {
			return err
		}
		entries = append(entries, entry{name: t.exe(p), file: program, mode: 0o755},
			entry{name: p + ".spdx.json", file: sbom, mode: 0o644})
	}
	if t.CC != "" {
		for _, name := range libraries {
			entries = append(entries, entry{name: "lib/gobw/" + name, file: filepath.Join(r.built(t), name), mode: 0o644})
		}
	}
	stem := filepath.Join(r.dir, "gobw-"+strings.TrimPrefix(r.version, "v")+"-"+t.String())
	if err := writeArchive(stem, entries, r.when); err != nil {
		return err
	}
	if t.OS != "linux" {
		return nil
	}
	for name, file := range map[string]string{
		"usr/bin/gobw": filepath.Join(r.built(t), "gobw"), "usr/bin/golat": filepath.Join(r.built(t), "golat"),
		"usr/lib/gobw/libibverbs.so.1":              filepath.Join(r.built(t), "libibverbs.so.1"),
		"usr/lib/gobw/libgobw-roce0.so":             filepath.Join(r.built(t), "libgobw-roce0.so"),
		"usr/share/doc/gobw/copyright":              filepath.Join(r.source, "LICENSE"),
		"usr/share/doc/gobw/gobw.spdx.json":         filepath.Join(r.dir, "gobw-"+t.String()+".spdx.json"),
		"usr/lib/systemd/system/gobw-serve.service": filepath.Join(r.source, "examples/systemd/gobw-serve.service"),
	} {
		if err := copyFile(file, filepath.Join(root, name)); err != nil {
			return err
		}
	}
	return writePackages(r, t, root)
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, content, 0o644))
}

// choose picks targets by name.
func choose(only string) ([]target, error) {
	if only == "" {
		return targets, nil
	}
	var chosen []target
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(targets, func(t target) bool { return t.String() == name })
		if i < 0 {
			return nil, fmt.Errorf("-only %q: want some of %v", name, targets)
		}
		chosen = append(chosen, targets[i])
	}
	return chosen, nil
}

// commitTime is the time of the commit that source stands at.
func commitTime(source string) (time.Time, error) {
	c := exec.Command("git", "log", "-1", "--format=%ct")
	c.Dir = source
	out, err := c.Output()
	if err != nil {
		return time.Time{}, fmt.Errorf("ask git for the commit's time: %w", err)
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	return time.Unix(seconds, 0).UTC(), err
}

// writeSums writes the SHA-256 of every file of the release.
func writeSums(dir string) error {
	var b strings.Builder
	err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		relative, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(name)
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(content), filepath.ToSlash(relative))
		return err
	})
	return errors.Join(err, os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(b.String()), 0o644))
}
