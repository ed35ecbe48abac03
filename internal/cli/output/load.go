package output

import (
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

// Load reads files of results, and all .json files of directories, in the order of their names. Documents
// without a description take the file's name, so that several can be told apart.
func Load(paths []string) ([]*report.Document, error) {
	var docs []*report.Document
	var errs []error
	for _, path := range paths {
		files := []string{path}
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			if files, err = filepath.Glob(filepath.Join(path, "*.json")); err != nil || len(files) == 0 {
				errs = append(errs, &report.FileError{File: path, Err: errors.New("the directory holds no .json file"), Remedy: "name a file of results"})
				continue
			}
			slices.Sort(files)
		}
		for _, file := range files {
			found, err := report.LoadAll(file)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			for i, d := range found {
				if d.Description == "" && (len(paths) > 1 || len(files) > 1) {
					d.Description = strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
					if len(found) > 1 {
						d.Description += fmt.Sprintf(" %d", i+1)
					}
				}
				docs = append(docs, d)
			}
		}
	}
	err := errors.Join(errs...)
	if errors.Is(err, fs.ErrPermission) {
		return nil, exit.SetupError{Err: err}
	}
	if err != nil {
		return nil, exit.UsageError{Err: err}
	}
	return docs, nil
}
