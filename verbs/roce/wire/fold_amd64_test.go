package wire

import "testing"

// TestWithoutFolding runs the tests of the ICRC as processors do that multiply less without carries.
func TestWithoutFolding(t *testing.T) {
	some, wide := folds, foldsWide
	defer func() { folds, foldsWide = some, wide }()
	for folds, foldsWide = range map[bool]bool{some: false, false: false} {
		t.Run("compute", TestFoldedICRC)
		t.Run("copy", TestCopyICRC)
	}
}
