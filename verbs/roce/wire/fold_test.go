package wire

import (
	"bytes"
	"hash/crc32"
	"math/rand/v2"
	"strconv"
	"testing"
)

// TestFoldedICRC compares every length and alignment around the sizes of packets with hash/crc32.
func TestFoldedICRC(t *testing.T) {
	b := make([]byte, 9000)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(b)
	for n := range 4300 {
		start := n % 67
		crc := uint32(n) * 2654435761
		got, want := UpdateICRC(crc, b[start:start+n]), crc32.Update(crc, crc32.IEEETable, b[start:start+n])
		if got != want {
			t.Fatalf("%d bytes from %d on: %08x, want %08x", n, start, got, want)
		}
	}
	if got, want := UpdateICRC(7, b), crc32.Update(7, crc32.IEEETable, b); got != want {
		t.Errorf("%d bytes: %08x, want %08x", len(b), got, want)
	}
}

// TestCopyICRC copies every length and alignment around the sizes of packets, and nothing beyond.
func TestCopyICRC(t *testing.T) {
	b := make([]byte, 9000)
	r := rand.NewChaCha8([32]byte{2})
	_, _ = r.Read(b)
	to := make([]byte, 9000)
	for n := range 4300 {
		start, at := n%67, n%71
		for i := range to {
			to[i] = 0xee
		}
		crc := uint32(n) * 2654435761
		got, want := CopyICRC(crc, to[at:], b[start:start+n]), crc32.Update(crc, crc32.IEEETable, b[start:start+n])
		if got != want {
			t.Fatalf("%d bytes from %d on: %08x, want %08x", n, start, got, want)
		}
		if !bytes.Equal(to[at:at+n], b[start:start+n]) {
			t.Fatalf("%d bytes from %d on: the copy differs", n, start)
		}
		for i, v := range to {
			if (i < at || i >= at+n) && v != 0xee {
				t.Fatalf("%d bytes to %d: byte %d was written", n, at, i)
			}
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
