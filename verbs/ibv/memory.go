//go:build linux && cgo

package ibv

// #include <stdlib.h>
import "C"

import "unsafe"

// cacheLine aligns what the loops walk.
const cacheLine = 64

// memory is C memory that is freed at once.
type memory []unsafe.Pointer

// allocate makes n zeroed elements that live as long as the memory.
func allocate[T any](m *memory, n int) []T {
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
	*m = append(*m, p)
	return unsafe.Slice((*T)(p), n)
}

// free frees all of it.
func (m *memory) free() {
	for _, p := range *m {
		C.free(p)
	}
	*m = nil
}
