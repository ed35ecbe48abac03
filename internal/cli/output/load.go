package output

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/report"
)

// Lost are the files of directories that could not be read. The others are used.
type Lost []*report.FileError

// Note names them.
func (l Lost) Note(out Streams) {
	for _, e := range l {
		fmt.Fprintf(out.Err, "left out: %v\n", e)
	}
}

// Undecided has an error for each broken result, which a gate must not ignore. Files that are no results are ignored.
func (l Lost) Undecided() []error {
	var out []error
	for _, e := range l {
		if !e.Foreign {
			out = append(out, exit.With(exit.Undecided, fmt.Errorf("cannot tell: %s cannot be read: mend or remove it", e.File)))
		}
	}
	return out
}

// Load reads files of results and all .json files of directories, in the order of their names. A named file must be a
// result; files of a directory that are none become Lost. A document without a description gets its file's name.
func Load(paths []string) ([]*report.Document, Lost, error) {
	var docs []*report.Document
	var lost Lost
	var errs []error
	for _, path := range paths {
		files, directory, err := ResultFiles(path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, file := range files {
			found, err := load(file)
			if fe, ok := errors.AsType[*report.FileError](err); ok && directory {
				lost = append(lost, fe)
				continue
			}
			if err != nil {
				errs = append(errs, err)
				continue
			}
			describe(found, file, len(paths) > 1 || len(files) > 1)
			docs = append(docs, found...)
		}
	}
	if len(docs) == 0 {
		for _, e := range lost {
			errs = append(errs, e)
		}
	}
	err := errors.Join(errs...)
	if errors.Is(err, fs.ErrPermission) {
		return nil, nil, exit.With(exit.Setup, err)
	}
	if err != nil {
		return nil, nil, exit.With(exit.Usage, err)
	}
	return docs, lost, nil
}

// Files are the results that words of a command line name: "a.json,b.json" is two, where there is no such file.
func Files(words ...string) (files []string) {
	for _, word := range words {
		parts := strings.FieldsFunc(word, func(r rune) bool { return r == ',' })
		if _, err := os.Stat(word); err == nil || len(parts) == 0 {
			parts = []string{word}
		}
		files = append(files, parts...)
	}
	return files
}

// ResultFiles are the .json files of a directory, whatever characters its name has, or the file itself. What is no file
// there, such as a pipe, is left alone: nobody may ever write to it.
func ResultFiles(path string) (files []string, directory bool, err error) {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return []string{path}, false, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, true, &report.FileError{File: path, Err: err}
	}
	for _, e := range entries {
		name := filepath.Join(path, e.Name())
		if strings.HasSuffix(e.Name(), ".json") && !strings.HasPrefix(e.Name(), ".") && !IsSpecial(name) {
			files = append(files, name)
		}
	}
	if len(files) == 0 {
		return nil, true, &report.FileError{
			File: path, Err: errors.New("the directory has no .json file"), Remedy: "name a file of results",
		}
	}
	slices.Sort(files)
	return files, true, nil
}

// IsSpecial tells a pipe, a device or a folder from a file.
func IsSpecial(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.Mode().IsRegular()
}

// load reads one file.
func load(file string) ([]*report.Document, error) {
	docs, err := report.LoadAll(file)
	if fe, ok := errors.AsType[*report.FileError](err); ok && filepath.Ext(file) == ".json" &&
		errors.Is(err, fs.ErrNotExist) {
		fe.Remedy = "'gobw write HOST --save " + file + "' makes one"
	}
	return docs, err
}

// describe gives documents the file's name where they have none of their own.
func describe(docs []*report.Document, file string, several bool) { //nolint:revive // several files: a fact, not a mode
	if !several {
		return
	}
	name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	for i, d := range docs {
		number := ""
		if len(docs) > 1 {
			number = fmt.Sprintf(" %d", i+1)
		}
		d.Description = cmp.Or(d.Description, name+number)
	}
}
