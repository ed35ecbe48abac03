//go:build !amd64

package pattern

import "unsafe"

func wideISA() string { return "portable" }

func hasStringMove() bool { return false }

// kernelFor is the kernel in Go for an operation on this processor.
func kernelFor(op operation) func(unsafe.Pointer) {
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
