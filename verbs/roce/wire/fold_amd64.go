package wire

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// foldConstants are, for distances of 256, 64 and 16 bytes, x^(8·distance+32) and x^(8·distance-32) modulo the
// polynomial, reflected and shifted left by one as carry-less products of reflected operands need it (V. Gopal et al.,
// "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", 2009).
var foldConstants = makeFoldConstants() //nolint:gochecknoglobals // a constant table

// canFold tells whether the processor multiplies 512 bits without carries.
//
//nolint:gochecknoglobals // never changes
var canFold = cpu.X86.HasAVX512F && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512VPCLMULQDQ

func makeFoldConstants() (c [6]uint64) {
	for i, distance := range []int{256, 64, 16} {
		c[2*i] = uint64(powerOfX(8*distance+32)) << 1
		c[2*i+1] = uint64(powerOfX(8*distance-32)) << 1
	}
	return c
}

// powerOfX is x^n modulo the polynomial.
func powerOfX(n int) uint32 {
	p, square := uint32(1<<31), uint32(1<<30)
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			p = multiply(p, square)
		}
		square = multiply(square, square)
	}
	return p
}

// foldBytes is the least that folding pays off for.
const foldBytes = 256

// fold carries a CRC over the front of p, as much as is folded fast, and returns the rest.
func fold(crc uint32, p []byte) (uint32, []byte) {
	if !canFold || len(p) < foldBytes {
		return crc, p
	}
	whole := len(p) &^ 63
	var out [16]byte
	fold512(&foldConstants, ^crc, unsafe.SliceData(p), whole, &out)
	return sliceBlock(0, out[:]), p[whole:]
}

// foldCopy is fold that copies the front of p to to, which is as long as p at least.
func foldCopy(crc uint32, to, p []byte) (uint32, []byte) {
	if !canFold || len(p) < foldBytes {
		return crc, p
	}
	whole := len(p) &^ 63
	_ = to[whole-1]
	var out [16]byte
	foldCopy512(&foldConstants, ^crc, unsafe.SliceData(p), whole, &out, unsafe.SliceData(to))
	return sliceBlock(0, out[:]), p[whole:]
}

//go:noescape
func foldCopy512(constants *[6]uint64, register uint32, p *byte, n int, out *[16]byte, to *byte)

//go:noescape
func fold512(constants *[6]uint64, register uint32, p *byte, n int, out *[16]byte)
