//go:build !linux

package run

import "errors"

var errNotLinux = errors.New("run: it needs Linux, whose programs can be given another library")

func find(string) (string, error) { return "", errNotLinux }

func execute(string, []string, []string) error { return errNotLinux }
