package wire

import (
	"hash/crc32"
	"strconv"
	"testing"

	"golang.org/x/sys/cpu"

	"github.com/gobw/gobw/verbs/roce/wire/internal/dirty"
)

// TestWithoutFolding runs the test of the ICRC as processors do that multiply less without carries.
func TestWithoutFolding(t *testing.T) {
	some, width := folds, foldWidth
	defer func() { folds, foldWidth = some, width }()
	t.Logf("this processor folds %d bytes at once", width)
	for _, foldWidth = range []int{32, 0} {
		if foldWidth < width {
			t.Run(strconv.Itoa(foldWidth), TestFoldedICRC)
		}
	}
	folds = false
	t.Run("table", TestFoldedICRC)
}

// TestDirtyRegisters has vector registers full of ones at the call, as a thread of a program may: the C ABI does not
// say what is in their upper halves.
func TestDirtyRegisters(t *testing.T) {
	if !cpu.X86.HasAVX2 {
		t.Skip("no AVX2")
	}
	p := make([]byte, 4096)
	for _, n := range []int{16, 31, 128, 256, 300, 4096} {
		dirty.Vectors()
		got := UpdateICRC(0, p[:n])
		if want := crc32.ChecksumIEEE(p[:n]); got != want {
			t.Errorf("%d bytes: %#x, want %#x", n, got, want)
		}
	}
}
