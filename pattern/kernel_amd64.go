package pattern

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// wideISA is the instruction set of wide copies. AVX-512 is used from Ice Lake and Zen 4 on, where it costs no clock rate.
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

// hasStringMove tells whether REP MOVSB is fast (ERMS).
func hasStringMove() bool { return cpu.X86.HasERMS }

// kernelFor is the kernel in Go for an operation on this processor.
func kernelFor(op operation) func(unsafe.Pointer) {
	isa := wideISA()
	switch {
	case op == opList:
		return copyListRows
	case op < op17to31 || isa == "sse2" && op < op64:
		return copySmallRows
	case isa == "sse2":
		return copyWideRows
	case op < op64:
		return func(arg unsafe.Pointer) {
			a := (*copyArgs)(arg)
			for i := range a.n1 {
				copyMidAVX2(a, unsafe.Add(a.dst, int64(i)*a.dst1), unsafe.Add(a.src, int64(i)*a.src1))
			}
		}
	case isa == "avx2":
		return func(arg unsafe.Pointer) {
			a := (*copyArgs)(arg)
			for i := range a.n1 {
				copyWideAVX2(a, unsafe.Add(a.dst, int64(i)*a.dst1), unsafe.Add(a.src, int64(i)*a.src1))
			}
		}
	default:
		return func(arg unsafe.Pointer) {
			a := (*copyArgs)(arg)
			for i := range a.n1 {
				copyWideAVX512(a, unsafe.Add(a.dst, int64(i)*a.dst1), unsafe.Add(a.src, int64(i)*a.src1))
			}
		}
	}
}

//go:noescape
func copyMidAVX2(a *copyArgs, dst, src unsafe.Pointer)

//go:noescape
func copyWideAVX512(a *copyArgs, dst, src unsafe.Pointer)

//go:noescape
func copyWideAVX2(a *copyArgs, dst, src unsafe.Pointer)

// touchAhead asks for n cache lines, step bytes apart.
//
//go:noescape
func touchAhead(p unsafe.Pointer, n uint64, step int64)
