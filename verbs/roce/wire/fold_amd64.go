package wire

import (
	"encoding/binary"
	"hash/crc32"
	"unsafe"

	"golang.org/x/sys/cpu"
)

//nolint:gochecknoglobals // never changed but by tests
var (
	// folds tells whether the processor multiplies without carries, and foldsWide whether it multiplies 512 bits so.
	folds     = cpu.X86.HasPCLMULQDQ && cpu.X86.HasSSE41 && cpu.X86.HasSSSE3
	foldsWide = folds && cpu.X86.HasAVX512F && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512VPCLMULQDQ
)

const (
	// foldBytes is the least that is folded, and wideBytes the least that folding by 512 bits pays off for.
	foldBytes = 16
	wideBytes = 256
	// apartBytes is the least that hash/crc32, which folds four times 16 bytes at once, is quicker for.
	apartBytes = 256
)

// fold carries a CRC over the front of p, and returns the rest.
func fold(crc uint32, p []byte) (uint32, []byte) {
	if foldsWide && len(p) >= wideBytes {
		whole := len(p) &^ 63
		var out [foldBytes]byte
		fold512(^crc, unsafe.SliceData(p), whole, &out)
		crc, p = ^fold128(0, &out[0], len(out)), p[whole:]
	}
	if whole := (len(p) - foldBytes) &^ 15; whole >= apartBytes {
		crc, p = crc32.Update(crc, crc32.IEEETable, p[:whole]), p[whole:]
	}
	switch {
	case !folds || len(p) < 4:
		return crc, p
	case len(p) < foldBytes: // behind zeros, which leave a register of zeros as it is
		var padded [foldBytes]byte
		front := padded[foldBytes-len(p):]
		copy(front, p)
		binary.LittleEndian.PutUint32(front, binary.LittleEndian.Uint32(front)^^crc)
		return ^fold128(0, &padded[0], len(padded)), nil
	}
	return ^fold128(^crc, unsafe.SliceData(p), len(p)), nil
}

// foldCopy is fold that copies the front of p to to, which is as long as p at least.
func foldCopy(crc uint32, to, p []byte) (uint32, []byte) {
	if !foldsWide || len(p) < wideBytes {
		return crc, p
	}
	whole := len(p) &^ 63
	_ = to[whole-1]
	var out [foldBytes]byte
	foldCopy512(^crc, unsafe.SliceData(p), whole, &out, unsafe.SliceData(to))
	return ^fold128(0, &out[0], len(out)), p[whole:]
}

//go:noescape
func foldCopy512(register uint32, p *byte, n int, out *[foldBytes]byte, to *byte)

//go:noescape
func fold512(register uint32, p *byte, n int, out *[foldBytes]byte)

//go:noescape
func fold128(register uint32, p *byte, n int) uint32
