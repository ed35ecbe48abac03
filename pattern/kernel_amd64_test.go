package pattern

import (
	"bytes"
	"testing"
	"unsafe"

	"golang.org/x/sys/cpu"
)

// TestWideVariants holds every way to copy wide blocks against the portable one.
func TestWideVariants(t *testing.T) {
	variants := map[string]func(a *copyArgs, dst, src unsafe.Pointer){"portable": copyWide}
	if cpu.X86.HasAVX2 {
		variants["avx2"] = copyWideAVX2
	}
	if cpu.X86.HasAVX512VBMI2 && cpu.X86.HasAVX512VL {
		variants["avx512"] = copyLinesAVX512
	}
	src := buffer(t, 1<<16)
	for i := range src {
		src[i] = byte(i * 31 >> 3)
	}
	for name, run := range variants {
		for _, block := range []int{64, 65, 100, 127, 128, 192, 255, 256, 257, 320, 1000, 1024} {
			if name == "avx512" && block != 64 {
				continue
			}
			for flags := range uint32(16) {
				if flags&flagStream != 0 && block%64 != 0 {
					continue
				}
				for _, n := range []int{0, 1, 3, 4, 5, 9} {
					got, want := buffer(t, 1<<15), make([]byte, 1<<15)
					const stride = 1280
					for i := range n {
						copy(want[i*block:(i+1)*block], src[i*stride:])
					}
					if flags&flagUnpack != 0 {
						continue // held by TestKernels: here the strided side is the source
					}
					a := &copyArgs{block: uint64(block), n0: uint64(n), dst0: int64(block), src0: stride, ahead: stride, flags: flags}
					run(a, ptr(got), ptr(src))
					if !bytes.Equal(got, want) {
						t.Fatalf("%s: block %d, %d blocks, flags %d: differs at %d", name, block, n, flags, firstDifference(got, want))
					}
				}
			}
		}
	}
}
