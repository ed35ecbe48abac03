package pattern

import (
	"slices"
	"unsafe"

	"golang.org/x/sys/cpu"
)

// wideISA is the instruction set of wide copies. AVX-512 is used from Ice Lake and
// Zen 4 on, where it costs no clock rate.
func wideISA() string {
	switch {
	case cpu.X86.HasAVX512VBMI2 && cpu.X86.HasAVX512VL:
		return "avx512"
	case cpu.X86.HasAVX2:
		return "avx2"
	default:
		return "sse2"
	}
}

// instructionSets are all that this processor has, for tests of each kernel.
func instructionSets() []string {
	all := []string{"sse2", "avx2", "avx512"}
	return all[:slices.Index(all, wideISA())+1]
}

// kernelFor is the kernel in Go for an operation by an instruction set.
func kernelFor(isa string, op operation, flags uint32) func(unsafe.Pointer) {
	switch {
	case op == opList && isa == "sse2":
		return rows(copyLists)
	case op == opList:
		return listKernel(isa, flags)
	case op < op17to31 || isa == "sse2" && op < op64:
		return rows(copySmall)
	case isa == "sse2":
		return rows(copyWide)
	case op < op64:
		return rows(copyMidAVX2)
	case isa == "avx2" || op > op64:
		return rows(copyWideAVX2)
	default:
		return rows(copyLinesAVX512)
	}
}

// listKernel is the kernel of lists of blocks.
func listKernel(isa string, flags uint32) func(unsafe.Pointer) {
	kernel := copyListAVX2
	wide, stream, ahead, near := isa == "avx512", flags&flagStream != 0, flags&flagAhead != 0, flags&flagNear != 0
	even := wide && flags&flagEven != 0
	switch {
	case even && stream && ahead && flags&flagUnpack == 0:
		kernel = copyEvenStreamAheadAVX512
	case even && stream:
		kernel = copyEvenStreamAVX512
	case even && ahead:
		kernel = copyEvenAheadAVX512
	case even && near:
		kernel = copyEvenNearAVX512
	case even:
		kernel = copyEvenAVX512
	case wide && stream && ahead && flags&flagUnpack == 0:
		kernel = copyListStreamAheadAVX512
	case wide && stream:
		kernel = copyListStreamAVX512
	case ahead:
		kernel = copyListAheadAVX2
	}
	return rows(func(a *copyArgs, dst, src unsafe.Pointer) {
		if a.flags&flagUnpack != 0 {
			kernel(a, dst, src)
		} else {
			kernel(a, src, dst)
		}
	})
}

//go:noescape
func copyListStreamAVX512(a *copyArgs, strided, packed unsafe.Pointer)

//go:noescape
func copyListStreamAheadAVX512(a *copyArgs, strided, packed unsafe.Pointer)

//go:noescape
func copyEvenAVX512(a *copyArgs, strided, packed unsafe.Pointer)

//go:noescape
func copyEvenNearAVX512(a *copyArgs, strided, packed unsafe.Pointer)

//go:noescape
func copyEvenAheadAVX512(a *copyArgs, strided, packed unsafe.Pointer)

//go:noescape
func copyEvenStreamAVX512(a *copyArgs, strided, packed unsafe.Pointer)

//go:noescape
func copyEvenStreamAheadAVX512(a *copyArgs, strided, packed unsafe.Pointer)

//go:noescape
func copyListAVX2(a *copyArgs, strided, packed unsafe.Pointer)

//go:noescape
func copyListAheadAVX2(a *copyArgs, strided, packed unsafe.Pointer)

//go:noescape
func copyMidAVX2(a *copyArgs, dst, src unsafe.Pointer)

//go:noescape
func copyLinesAVX512(a *copyArgs, dst, src unsafe.Pointer)

//go:noescape
func copyWideAVX2(a *copyArgs, dst, src unsafe.Pointer)

// touchAhead asks for n cache lines, step bytes apart.
//
//go:noescape
func touchAhead(p unsafe.Pointer, n uint64, step int64)
