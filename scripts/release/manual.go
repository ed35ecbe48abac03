package main

import (
	"bytes"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/gobw/gobw/internal/cli"
)

// shells have a completion script each, in the directory of a package where they look for it.
var shells = []struct {
	dir    string
	name   func(program string) string
	script func(*cobra.Command, *bytes.Buffer) error
}{
	{
		"usr/share/bash-completion/completions", func(p string) string { return p },
		func(c *cobra.Command, b *bytes.Buffer) error { return c.GenBashCompletionV2(b, true) },
	},
	{
		"usr/share/zsh/vendor-completions", func(p string) string { return "_" + p },
		func(c *cobra.Command, b *bytes.Buffer) error { return c.GenZshCompletion(b) },
	},
	{
		"usr/share/fish/vendor_completions.d", func(p string) string { return p + ".fish" },
		func(c *cobra.Command, b *bytes.Buffer) error { return c.GenFishCompletion(b, true) },
	},
}

// writeManual writes the man pages and the completions of all commands below root, as they lie in a package.
func writeManual(root, version string, when time.Time) error {
	man := filepath.Join(root, "usr/share/man/man1")
	if err := os.MkdirAll(man, 0o755); err != nil {
		return err
	}
	for _, p := range programs {
		c := cli.Command(p)
		c.DisableAutoGenTag = true
		header := &doc.GenManHeader{Section: "1", Source: p + " " + version, Manual: "RDMA benchmarks", Date: &when}
		if err := doc.GenManTree(c, header, man); err != nil {
			return err
		}
		for _, s := range shells {
			var b bytes.Buffer
			if err := s.script(cli.Command(p), &b); err != nil {
				return err
			}
			dir := filepath.Join(root, s.dir)
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir, s.name(p)), b.Bytes(), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}
