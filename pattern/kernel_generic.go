//go:build !amd64

package pattern

import "unsafe"

func wideISA() string { return "portable" }

// kernelFor is the kernel in Go for an operation on this processor.
func kernelFor(op operation, _ uint32) func(unsafe.Pointer) {
	switch {
	case op == opList:
		return copyListRows
	case op < op64:
		return copySmallRows
	default:
		return copyWideRows
	}
}

func touchAhead(unsafe.Pointer, uint64, int64) {}
