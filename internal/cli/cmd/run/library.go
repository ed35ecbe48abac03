package run

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/gobw/gobw/internal/cli/output"
)

// libraryName is what programs ask the dynamic linker for.
const libraryName = "libibverbs.so.1"

// library is the path of our libibverbs: the one installed with this program, or one built from this program's source.
func library(ctx context.Context, out output.Streams) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return "", err
	}
	var installed string
	// an archive has it beside the program, a package beside the program's directory
	for _, base := range []string{".", ".."} {
		installed = filepath.Join(filepath.Dir(self), base, "lib", "gobw", libraryName)
		if _, err := os.Stat(installed); err == nil {
			return installed, nil
		}
	}
	source := findSource(filepath.Dir(self))
	if source == "" {
		return "", fmt.Errorf("%s is not at %s, and there is no checkout of gobw to build it from: install gobw's package, "+
			"or run this in a checkout",
			libraryName, installed)
	}
	return build(ctx, out, self, source)
}

// sourceDirectory is where the library's source lies in a checkout.
const sourceDirectory = "verbs/libibverbs"

// findSource finds the library's source: where this program was compiled, or in a checkout around
// the program or the working directory.
func findSource(program string) string {
	_, here, _, _ := runtime.Caller(0)
	working, _ := os.Getwd()
	for _, from := range []string{filepath.Dir(here), program, working} {
		for dir := from; filepath.IsAbs(dir); dir = filepath.Dir(dir) {
			source := filepath.Join(dir, filepath.FromSlash(sourceDirectory))
			if _, err := os.Stat(filepath.Join(source, "build")); err == nil {
				return source
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return ""
}

// build builds the library for this very program, once: a directory of the cache is named after the program's file.
func build(ctx context.Context, out output.Streams, self, source string) (string, error) {
	all, err := cacheDirectory()
	if err != nil {
		return "", err
	}
	info, err := os.Stat(self)
	if err != nil {
		return "", err
	}
	key := sha256.Sum256(fmt.Appendf(nil, "%s %s %d %v", self, source, info.Size(), info.ModTime()))
	dir := filepath.Join(all, fmt.Sprintf("libibverbs-%x", key[:8]))
	path := filepath.Join(dir, libraryName)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	forget(all)
	if _, err := exec.LookPath("go"); err != nil {
		return "", fmt.Errorf("build %s: the Go tool is not here: %w", libraryName, err)
	}
	fresh, err := os.MkdirTemp(all, "building-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(fresh) }()
	if _, err := fmt.Fprintf(out.Err, "gobw: building %s, once, from %s\n", libraryName, source); err != nil {
		return "", err
	}
	c := exec.CommandContext(ctx, "sh", filepath.Join(source, "build"), fresh)
	if said, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w: %s", libraryName, err, bytes.TrimSpace(said))
	}
	// Another process may have been quicker: then its directory is as good.
	if err := os.Rename(fresh, dir); err != nil && !errors.Is(err, fs.ErrExist) {
		if _, there := os.Stat(path); there != nil {
			return "", err
		}
	}
	return path, nil
}

// cacheDirectory makes the directory for libraries that were built.
func cacheDirectory() (all string, err error) {
	cache, err := os.UserCacheDir()
	if err == nil {
		all = filepath.Join(cache, "gobw")
		err = os.MkdirAll(all, 0o755)
	}
	if err != nil {
		return "", fmt.Errorf("a directory to build %s in: %w: set XDG_CACHE_HOME to one that you may write in",
			libraryName, err)
	}
	return all, nil
}

// forget removes libraries of programs of a month ago.
func forget(all string) {
	old, _ := filepath.Glob(filepath.Join(all, "*-*"))
	for _, dir := range old {
		if info, err := os.Stat(dir); err == nil && time.Since(info.ModTime()) > 30*24*time.Hour {
			_ = os.RemoveAll(dir)
		}
	}
}
