//go:build !amd64

package pattern

import "unsafe"

func wideISA() string { return "portable" }

// instructionSets are all that this processor has, for tests of each kernel.
func instructionSets() []string { return []string{wideISA()} }

// kernelFor is the kernel in Go for an operation.
func kernelFor(_ string, op operation, _ uint32) func(unsafe.Pointer) {
	switch {
	case op == opList:
		return rows(copyLists)
	case op < op64:
		return rows(copySmall)
	default:
		return rows(copyWide)
	}
}

func touchAhead(unsafe.Pointer, uint64, int64) {}
