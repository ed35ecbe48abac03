package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // the two formats register themselves
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"

	"github.com/gobw/gobw/internal/perftest/flags"
)

// writePackages makes the .deb and .rpm of a Linux target: the programs, and links under perftest's names apart, since
// these stand where perftest's own programs would.
func writePackages(r release, t target, root string) error {
	gobw := r.describe("gobw", t)
	gobw.Description = "RDMA bandwidth and latency benchmarks\n" +
		"Measures RDMA writes, reads, sends and atomics over RC, UC and UD, speaks\n" +
		"perftest's protocol, and has a software device for hosts without hardware."
	gobw.Depends = []string{"libc6 (>= 2.28)"}
	gobw.Recommends = []string{"libibverbs1"}
	gobw.RPM.Summary = "RDMA bandwidth and latency benchmarks"
	var err error
	if gobw.Contents, err = contents(root); err != nil {
		return err
	}
	links := r.describe("gobw-perftest-links", t)
	links.Description = "perftest's names for gobw\n" +
		"Links such as ib_write_bw that start gobw, which then takes perftest's flags,\n" +
		"prints its text and speaks its protocol."
	links.RPM.Summary = "perftest's names for gobw"
	links.Depends = []string{"gobw"}
	links.Conflicts = []string{"perftest"}
	for _, tool := range flags.Tools() {
		links.Contents = append(links.Contents,
			&files.Content{Type: files.TypeSymlink, Source: "gobw", Destination: "/usr/bin/" + tool.Name})
	}
	for _, info := range []*nfpm.Info{gobw, links} {
		for _, format := range []string{"deb", "rpm"} {
			if err := writePackage(r.dir, format, info, t); err != nil {
				return fmt.Errorf("%s of %s: %w", format, info.Name, err)
			}
		}
	}
	return nil
}

// describe is what all packages say of themselves.
func (r release) describe(name string, t target) *nfpm.Info {
	info := &nfpm.Info{
		Name: name, Arch: t.Arch, Platform: "linux", Version: r.packageVersion(), VersionSchema: "none", Release: "1",
		Section: "net", Priority: "optional", Maintainer: "gobw maintainers <gobw@localhost>", License: "Apache-2.0",
		Homepage: "https://github.com/gobw/gobw", MTime: r.when, DisableGlobbing: true,
	}
	info.RPM.BuildHost = "localhost"
	info.RPM.Group = "System Environment/Base"
	return info
}

func writePackage(dir, format string, described *nfpm.Info, t target) error {
	info := *described
	info.Contents = nil
	for _, c := range described.Contents { // a packager changes what it is given
		copied := *c
		info.Contents = append(info.Contents, &copied)
	}
	if format == "rpm" {
		if described.Name == "gobw" { // what Debian calls libc6 and libibverbs1
			info.Depends, info.Recommends = []string{"glibc >= 2.28"}, []string{"libibverbs"}
		}
		info.Arch = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[t.Arch]
	}
	p, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	if err := nfpm.Validate(&info); err != nil {
		return err
	}
	info.Target = filepath.Join(dir, p.ConventionalFileName(&info))
	f, err := os.Create(info.Target)
	if err != nil {
		return err
	}
	if err := p.Package(nfpm.WithDefaults(&info), f); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

// contents lists a directory's files at the places where they are to lie.
func contents(root string) (files.Contents, error) {
	var list files.Contents
	err := filepath.WalkDir(root, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		mode := os.FileMode(0o644)
		if strings.HasPrefix(relative, "usr/bin/") {
			mode = 0o755
		}
		list = append(list, &files.Content{
			Source: name, Destination: path.Join("/", filepath.ToSlash(relative)),
			FileInfo: &files.ContentFileInfo{Mode: mode, Owner: "root", Group: "root"},
		})
		return nil
	})
	return list, err
}
