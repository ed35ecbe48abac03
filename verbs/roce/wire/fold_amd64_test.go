package wire

import (
	"strconv"
	"testing"
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
