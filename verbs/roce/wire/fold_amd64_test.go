package wire

import "testing"

// TestWithoutFolding runs the tests of the ICRC as a processor without wide carry-less products does.
func TestWithoutFolding(t *testing.T) {
	if !canFold {
		t.Skip("this processor does not fold: the other tests were without")
	}
	canFold = false
	defer func() { canFold = true }()
	t.Run("compute", TestFoldedICRC)
	t.Run("copy", TestCopyICRC)
}
