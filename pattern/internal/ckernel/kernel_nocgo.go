//go:build !cgo || !(amd64 || arm64)

package ckernel

import "unsafe"

// Kernel has no address in a build without cgo.
func Kernel() (address uintptr, isa string) { return 0, "" }

// Kernels is empty in a build without cgo.
func Kernels() map[string]uintptr { return nil }

// Args is an array of kernel arguments outside the Go heap: Count of them, Stride bytes apart.
type Args struct {
	First  unsafe.Pointer
	Count  int
	Stride int
}

// Run does nothing in a build without cgo.
func Run(uintptr, Args, int) {}

// ReadLines does nothing in a build without cgo.
func ReadLines(Args, int) {}

// MemcpyBlocks does nothing in a build without cgo.
func MemcpyBlocks(Args, int) {}

// StoreLines does nothing in a build without cgo.
func StoreLines(Args, int, bool) {} //nolint:revive // as the one with cgo
