package wire

import (
	"encoding/binary"
	"hash/crc32"
	"unsafe"

	"golang.org/x/sys/cpu"
)

//nolint:gochecknoglobals // never changed but by tests
var (
	// folds tells whether the processor multiplies without carries, and foldWidth how many bytes it multiplies so in one
	// wide register: 64, 32, or 0 where it has none.
	folds     = cpu.X86.HasPCLMULQDQ && cpu.X86.HasSSE41 && cpu.X86.HasSSSE3
	foldWidth = widest()
)

func widest() int {
	switch wide := folds && cpu.X86.HasAVX2 && multipliesWide(); {
	case wide && cpu.X86.HasAVX512F && cpu.X86.HasAVX512VL:
		return 64
	case wide:
		return 32
	}
	return 0
}

const (
	// foldBytes is the least that is folded.
	foldBytes = 16
	// apartBytes is the least that hash/crc32, which folds four times 16 bytes at once, is quicker for.
	apartBytes = 256
)

// UpdateICRC carries a CRC over more bytes of a packet.
func UpdateICRC(crc uint32, p []byte) uint32 {
	n := len(p)
	switch {
	case !folds || n < 4:
		return crc32.Update(crc, crc32.IEEETable, p)
	case n < foldBytes: // behind zeros, which leave a register of zeros as it is
		var padded [foldBytes]byte
		front := padded[foldBytes-n:]
		copy(front, p)
		binary.LittleEndian.PutUint32(front, binary.LittleEndian.Uint32(front)^^crc)
		return ^fold(0, &padded[0], foldBytes, nil, 0)
	case foldWidth > 0 && n >= 4*foldWidth:
		return ^fold(^crc, unsafe.SliceData(p), n, nil, foldWidth)
	case foldWidth == 0 && n >= apartBytes+foldBytes:
		whole := (n - foldBytes) &^ 15
		crc, p = crc32.Update(crc, crc32.IEEETable, p[:whole]), p[whole:]
	}
	return ^fold(^crc, unsafe.SliceData(p), len(p), nil, 0)
}

// CopyICRC copies p to to and carries a CRC over what it copied: p may change meanwhile.
func CopyICRC(crc uint32, to, p []byte) uint32 {
	to = to[:len(p)]
	if foldWidth == 0 || len(p) < 4*foldWidth {
		copy(to, p)
		return UpdateICRC(crc, to)
	}
	whole := len(p) &^ 63
	copy(to[whole:], p[whole:])
	return ^fold(^crc, unsafe.SliceData(p), len(p), unsafe.SliceData(to), foldWidth)
}

//go:noescape
func fold(register uint32, p *byte, n int, to *byte, width int) uint32

func multipliesWide() bool
