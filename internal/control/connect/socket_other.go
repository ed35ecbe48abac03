//go:build !linux

package connect

import (
	"errors"
	"syscall"
)

// bothFamilies leaves the choice of families to package net.
func bothFamilies(string, string, syscall.RawConn) error {
	return errors.New("not needed here")
}

// smallSegments changes nothing.
func smallSegments(int) func(string, string, syscall.RawConn) error { return nil }
