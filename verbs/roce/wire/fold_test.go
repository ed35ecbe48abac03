package wire

import (
	"bytes"
	"hash/crc32"
	"math/rand/v2"
	"strconv"
	"testing"
)

// TestFoldedICRC computes the CRC of every length from every alignment, as it is and while copying, and compares it
// with that of a plain table.
func TestFoldedICRC(t *testing.T) {
	const begin, longest, around = 0xfedc9876, 20000, 64
	everyLength := longest
	if testing.Short() {
		everyLength = 1100
	}
	b, to := make([]byte, longest+around), make([]byte, longest+3*around)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(b)
	untouched := bytes.Repeat([]byte{0xee}, around)
	for start := range around {
		crc := uint32(begin)
		for n, p := 0, b[start:]; n <= longest; n++ {
			if want := crc; n < everyLength || n%around == start {
				if got := UpdateICRC(begin, p[:n]); got != want {
					t.Fatalf("%d bytes from %d on: %08x, want %08x", n, start, got, want)
				}
				at := around + (n+start)%around
				before, behind := to[at-around:at], to[at+n:at+n+around]
				copy(before, untouched)
				copy(behind, untouched)
				if got := CopyICRC(begin, to[at:at+n], p[:n]); got != want {
					t.Fatalf("%d bytes from %d on, copied: %08x, want %08x", n, start, got, want)
				}
				if !bytes.Equal(to[at:at+n], p[:n]) {
					t.Fatalf("%d bytes from %d on: the copy differs", n, start)
				}
				if !bytes.Equal(before, untouched) || !bytes.Equal(behind, untouched) {
					t.Fatalf("%d bytes from %d on: bytes beside the copy were written", n, start)
				}
			}
			crc = ^(crc32.IEEETable[byte(^crc)^p[min(n, len(p)-1)]] ^ ^crc>>8)
		}
	}
}

func BenchmarkCopyICRC(b *testing.B) {
	p, to := make([]byte, 4096), make([]byte, 4096)
	b.SetBytes(int64(len(p)))
	crc := uint32(0)
	for b.Loop() {
		crc = CopyICRC(crc, to, p)
	}
	_ = crc
}

func BenchmarkFoldedICRC(b *testing.B) {
	p := make([]byte, 4096)
	b.SetBytes(int64(len(p)))
	crc := uint32(0)
	for b.Loop() {
		crc = UpdateICRC(crc, p)
	}
	_ = crc
}

// BenchmarkShortICRC takes what the front of a small packet has: 16 bytes are a SEND of up to four, 28 a READ, 32 a
// WRITE.
func BenchmarkShortICRC(b *testing.B) {
	for _, n := range []int{12, 16, 20, 28, 32, 40, 64, 80, 96, 144, 200} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			p := make([]byte, n)
			crc := uint32(0)
			for b.Loop() {
				crc = UpdateICRC(crc, p)
			}
			_ = crc
		})
	}
}
