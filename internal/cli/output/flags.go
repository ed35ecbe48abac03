package output

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/render"
)

// Flags are --format, --save, --quiet and --resume.
type Flags struct {
	formats []string // of this kind of result
	format  string
	save    []string
	quiet   bool
	resume  bool
	kept    bool // the command has --resume
}

// Bind adds the flags to a command whose results have these formats.
func (f *Flags) Bind(fs *pflag.FlagSet, formats []string) {
	f.formats = formats
	fs.StringVar(&f.format, "format", formats[0], "print as `FORMAT`: "+strings.Join(formats, ", "))
	fs.StringArrayVar(&f.save, "save", nil, "write the result to `FILE`; its ending chooses the format (none: JSON): "+
		strings.Join(render.Endings(formats), " ")+"; may be repeated")
	fs.BoolVar(&f.quiet, "quiet", false, "print only tables and failures")
}

// Resumable adds --resume, in the command's words.
func (f *Flags) Resumable(fs *pflag.FlagSet, text string) {
	f.kept = true
	fs.BoolVar(&f.resume, "resume", false, text)
}

// Config is what becomes of the result.
type Config struct {
	Format string // of standard output
	asked  string // how it was typed: by its name, or by an ending
	Saves  []Save
	Quiet  bool
	Resume bool // the saved result is gone on with
	kept   bool // what is not finished is kept for --resume
}

// Save is a file that a result is written to.
type Save struct {
	Path, Format string
	draft        string // the file for a result that is not finished
}

// Config checks the flags.
func (f *Flags) Config(wrong *cmdline.Faults) Config {
	c := Config{asked: f.format, Quiet: f.quiet, Resume: f.resume, kept: f.kept}
	var err error
	c.Format, err = render.FormatNamed(f.formats, f.format)
	wrong.Note(cmdline.Prefixed("--format", err))
	for i, path := range f.save {
		s := Save{Path: path}
		s.Format, err = render.FormatOfFile(f.formats, path)
		wrong.Note(cmdline.Prefixed("--save "+path, err))
		if s.draft = path; s.Format == "json" && regular(path) && !opened(path) {
			s.draft = strings.TrimSuffix(path, ".json") + ".partial.json"
			for _, file := range []string{s.draft, path} {
				wrong.If(f.kept && !c.Resume && interrupted(file),
					"--save %s: %s has an unfinished result: go on with --resume, or remove that file", path, file)
			}
		}
		for _, other := range f.save[:i] {
			wrong.If(filepath.Clean(other) == filepath.Clean(path) && !strings.HasPrefix(path, "/dev/"),
				"--save %s is given twice", path)
		}
		c.Saves = append(c.Saves, s)
	}
	document := c.Document()
	wrong.If(c.Resume && document == "", "--resume: name the file to continue: --save result.json")
	wrong.If(c.Resume && IsSpecial(document),
		"--resume: %s is a pipe, a device or a folder: name the file to continue: --save result.json", document)
	return c
}

// Refuse refuses formats that this result does not have.
func (c Config) Refuse(others []string) error {
	var wrong cmdline.Faults
	_, err := render.FormatNamed(others, c.asked)
	wrong.Note(cmdline.Prefixed("--format", err))
	for _, s := range c.Saves {
		_, err := render.FormatOfFile(others, s.Path)
		wrong.Note(cmdline.Prefixed("--save "+s.Path, err))
	}
	return errors.Join(wrong...)
}

// regular tells whether there is a file that has content to keep.
func regular(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// opened tells whether a path names a file by a descriptor of a process, as /dev/stdout does: what lies beside that
// file is not beside the path, and a file that takes its place is not what the descriptor has.
func opened(path string) bool {
	path, err := filepath.Abs(path)
	for range 40 { // links, as many as Linux follows
		var folder string
		if err == nil {
			folder, err = filepath.EvalSymlinks(filepath.Dir(path))
		}
		if err != nil || folder == "/dev" || folder == "/dev/fd" || strings.HasPrefix(folder+"/", "/proc/") {
			return err == nil
		}
		if path, err = os.Readlink(filepath.Join(folder, filepath.Base(path))); err == nil && !filepath.IsAbs(path) {
			path = filepath.Join(folder, path)
		}
	}
	return false
}

// Document is the file that holds the whole result; empty where none is saved.
func (c Config) Document() string {
	for _, s := range c.Saves {
		if s.Format == "json" {
			return s.Path
		}
	}
	return ""
}

// CheckWritable tells before a measurement what would keep its files from being written after it.
func (c Config) CheckWritable() error {
	var errs []error
	for _, s := range c.Saves {
		errs = append(errs, report.CheckWritable(s.Path))
	}
	return exit.With(exit.Setup, errors.Join(errs...))
}

// file is a writer that tells the name of its file.
type file struct {
	io.Writer
	name string
}

func (f file) FileName() string { return f.name }

// Deliver saves the result and then prints it. Format empty: it does not print. A closed pipe or a stopped terminal
// costs no file.
func (c Config) Deliver(out Streams, write func(w io.Writer, format string) error) error {
	var errs []error
	for _, s := range c.Saves {
		err := report.WriteFile(s.Path, func(w io.Writer) error { return write(file{w, filepath.Base(s.Path)}, s.Format) })
		if err == nil && s.draft != s.Path {
			_ = os.Remove(s.draft) // it is finished; as a rule there is none
		}
		errs = append(errs, err)
	}
	if to := out.Out; c.Format != "" {
		out.Flush()
		if c.Quiet {
			to = quietly{to}
		}
		err := write(to, c.Format)
		if errors.Is(err, syscall.EPIPE) {
			err = errors.New("nobody reads standard output any more")
		}
		errs = append(errs, cmdline.Prefixed("print the result", err))
	}
	err := errors.Join(errs...)
	if _, is := errors.AsType[render.NoPictureError](err); is {
		return exit.With(exit.Usage, err)
	}
	return err
}
