package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"io"
	"os"
	"path"
	"time"
)

// entry is a file of an archive.
type entry struct {
	name string // in the archive
	file string // on disk
	mode int64
	link string // a symbolic link to this, and no file
}

// writeTar writes entries, all of one time and of nobody in particular.
func writeTar(w io.Writer, entries []entry, when time.Time) error {
	t := tar.NewWriter(w)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: e.mode, ModTime: when, Format: tar.FormatPAX, Typeflag: tar.TypeReg}
		if e.link != "" {
			h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, e.link, 0o777
			if err := t.WriteHeader(h); err != nil {
				return err
			}
			continue
		}
		content, err := os.ReadFile(e.file)
		if err != nil {
			return err
		}
		h.Size = int64(len(content))
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(content); err != nil {
			return err
		}
	}
	return t.Close()
}

// writeArchive packs entries below a directory of its own: .zip for Windows, .tar.gz elsewhere.
func writeArchive(stem string, t target, entries []entry, when time.Time) error {
	suffix := ".tar.gz"
	if t.OS == "windows" {
		suffix = ".zip"
	}
	f, err := os.Create(stem + suffix)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	for i := range entries {
		entries[i].name = path.Join(path.Base(stem), entries[i].name)
	}
	if t.OS == "windows" {
		err = writeZip(f, entries, when)
	} else {
		z := gzip.NewWriter(f)
		if err = writeTar(z, entries, when); err == nil {
			err = z.Close()
		}
	}
	if err != nil {
		return err
	}
	return f.Close()
}

func writeZip(w io.Writer, entries []entry, when time.Time) error {
	z := zip.NewWriter(w)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: when}
		h.SetMode(os.FileMode(e.mode))
		f, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(e.file)
		if err != nil {
			return err
		}
		if _, err := f.Write(content); err != nil {
			return err
		}
	}
	return z.Close()
}
