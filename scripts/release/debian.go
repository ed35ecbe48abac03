package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// lock names the Debian packages of the image's libraries: architecture, name, version, SHA-256 of the file. They are
// what makes an image with libibverbs the same bytes every time; 'release -update-lock' writes it anew.
//
//go:embed image.lock
var lock string

const lockFile = "image.lock"

// libraries are the packages of the image: the C library, libibverbs with its providers, and what these need.
var libraries = []string{"libc6", "libibverbs1", "ibverbs-providers", "librdmacm1", "libnl-3-200", "libnl-route-3-200"}

// locked is a line of the lock.
type locked struct{ arch, name, version, sum string }

func readLock() ([]locked, error) {
	var all []locked
	s := bufio.NewScanner(strings.NewReader(lock))
	for s.Scan() {
		var l locked
		if n, _ := fmt.Sscan(s.Text(), &l.arch, &l.name, &l.version, &l.sum); n != 4 {
			return nil, fmt.Errorf("%s: %q: want architecture, package, version and SHA-256", lockFile, s.Text())
		}
		all = append(all, l)
	}
	return all, s.Err()
}

// fetch downloads the packages of an architecture into dir, with apt's sources of this machine and a state of our own.
func fetch(dir, arch string, packages []string) error {
	apt := func(args ...string) error {
		c := exec.Command("apt-get", append([]string{
			"-qq", "-o", "APT::Architecture=" + arch, "-o", "APT::Architectures=" + arch, "-o", "APT::Sandbox::User=root",
			"-o", "Dir::State=" + filepath.Join(dir, "state"), "-o", "Dir::State::status=/dev/null", "-o", "Dir::Cache=" + filepath.Join(dir, "cache"),
			"-o", "Acquire::Languages=none", "-o", "Dir::Etc::SourceParts=" + filepath.Join(dir, "sources"),
			"-o", "Dir::Etc::SourceList=/dev/null",
		}, args...)...)
		c.Dir = dir
		return run(c)
	}
	for _, d := range []string{"state/lists/partial", "cache/archives/partial", "sources"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	if err := debianSources(filepath.Join(dir, "sources")); err != nil {
		return err
	}
	return errors.Join(apt("update"), apt(append([]string{"download"}, packages...)...))
}

// debianSources copies those of this machine's sources that speak of Debian.
func debianSources(to string) error {
	names, err := filepath.Glob("/etc/apt/sources.list.d/*")
	if err != nil {
		return err
	}
	for _, name := range append(names, "/etc/apt/sources.list") {
		text, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) || err == nil && !bytes.Contains(text, []byte("debian")) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, filepath.Base(name)), text, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fetchLocked downloads the packages that the lock names and holds their sums against it.
func fetchLocked(dir, arch string) ([]string, error) {
	all, err := readLock()
	if err != nil {
		return nil, err
	}
	var names []string
	sums := map[string]locked{}
	for _, l := range all {
		if l.arch == arch {
			names = append(names, l.name+"="+l.version)
			sums[l.name] = l
		}
	}
	if err := fetch(dir, arch, names); err != nil {
		return nil, fmt.Errorf("%w\nwhere Debian has newer versions, 'release -update-lock' takes these", err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		name, _, _ := strings.Cut(filepath.Base(f), "_")
		sum, err := sumOf(f)
		if err != nil {
			return nil, err
		}
		if want := sums[name].sum; sum != want {
			return nil, fmt.Errorf("%s: SHA-256 %s, %s has %s", f, sum, lockFile, want)
		}
	}
	if len(files) != len(names) {
		return nil, fmt.Errorf("%d packages came, %s names %d", len(files), lockFile, len(names))
	}
	return files, nil
}

// updateLock writes the lock for the versions that there are now.
func updateLock() error {
	var b strings.Builder
	for _, t := range targets {
		if t.OS != "linux" {
			continue
		}
		dir, err := os.MkdirTemp("", "release-lock-")
		if err != nil {
			return err
		}
		if err := fetch(dir, t.Arch, libraries); err != nil {
			return err
		}
		files, err := filepath.Glob(filepath.Join(dir, "*.deb"))
		if err != nil {
			return err
		}
		for _, f := range files {
			sum, err := sumOf(f)
			if err != nil {
				return err
			}
			out, err := exec.Command("dpkg-deb", "-f", f, "Version").Output()
			if err != nil {
				return err
			}
			name, _, _ := strings.Cut(filepath.Base(f), "_")
			fmt.Fprintf(&b, "%s %s %s %s\n", t.Arch, name, strings.TrimSpace(string(out)), sum)
		}
		_ = os.RemoveAll(dir)
	}
	return os.WriteFile(lockFile, []byte(b.String()), 0o644)
}

func sumOf(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// notInImage are the parts of a package that no program reads.
var notInImage = []string{"usr/share/", "usr/include/", "etc/ld.so.conf.d/", "usr/lib/x86_64-linux-gnu/gconv/", "usr/lib/aarch64-linux-gnu/gconv/"}

// appendPackage copies the files of a .deb into a layer.
func appendPackage(layer *tar.Writer, deb string, when time.Time) error {
	var out bytes.Buffer
	c := exec.Command("dpkg-deb", "--fsys-tarfile", deb)
	c.Stdout = &out
	if err := c.Run(); err != nil {
		return fmt.Errorf("unpack %s: %w", deb, err)
	}
	in := tar.NewReader(&out)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		h.Name = strings.TrimPrefix(path.Clean(h.Name), "./")
		if h.Typeflag == tar.TypeDir || hasPrefix(h.Name, notInImage) {
			continue
		}
		h.ModTime, h.Uname, h.Gname, h.Format = when, "", "", tar.FormatPAX
		if err := layer.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.Copy(layer, in); err != nil {
			return err
		}
	}
}

func hasPrefix(s string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}
