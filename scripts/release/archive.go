package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"os"
	"path"
	"time"
)

// entry is a file of an archive.
type entry struct {
	name string // in the archive
	file string // on disk
	mode int64
}

// writeArchive packs entries below a directory of its own, all of one time and of nobody in particular.
func writeArchive(stem string, entries []entry, when time.Time) error {
	f, err := os.Create(stem + ".tar.gz")
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	z := gzip.NewWriter(f)
	t := tar.NewWriter(z)
	for _, e := range entries {
		content, err := os.ReadFile(e.file)
		if err != nil {
			return err
		}
		h := &tar.Header{
			Name: path.Join(path.Base(stem), e.name), Mode: e.mode, ModTime: when, Format: tar.FormatPAX, Typeflag: tar.TypeReg,
			Size: int64(len(content)),
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(content); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), z.Close(), f.Close())
}
