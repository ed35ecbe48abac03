//go:build linux && cgo

package cloop

// #include <stdlib.h>
import "C"

import "unsafe"

// cacheLine aligns what the loops walk.
const cacheLine = 64

// Slice makes n zeroed elements in C memory.
func Slice[T any](n int) []T {
	if n == 0 {
		return nil
	}
	var t T
	size := (C.size_t(n)*C.size_t(unsafe.Sizeof(t)) + cacheLine - 1) &^ (cacheLine - 1)
	p := C.aligned_alloc(cacheLine, size)
	if p == nil {
		panic("out of memory")
	}
	clear(unsafe.Slice((*byte)(p), size))
	return unsafe.Slice((*T)(p), n)
}

// Free frees what Slice made.
func Free[T any](s []T) { C.free(unsafe.Pointer(unsafe.SliceData(s))) }

// Memory is C memory that is freed at once.
type Memory []unsafe.Pointer

// Allocate makes a slice that lives as long as the memory.
func Allocate[T any](m *Memory, n int) []T {
	s := Slice[T](n)
	if n > 0 {
		*m = append(*m, unsafe.Pointer(unsafe.SliceData(s)))
	}
	return s
}

// Free frees all of it.
func (m *Memory) Free() {
	for _, p := range *m {
		C.free(p)
	}
	*m = nil
}
