//go:build !linux

package report

import (
	"errors"
	"os"
)

// unnamed is Linux's alone.
func unnamed(string) (f *os.File, name func(path string) error, err error) {
	return nil, nil, errors.ErrUnsupported
}
