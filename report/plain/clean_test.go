package plain

import "testing"

// TestCSV: what a spreadsheet takes for a formula is text, also full-width and behind what is not seen.
func TestCSV(t *testing.T) {
	for text, want := range map[string]string{
		"plain": "plain", "": "", "-1": "'-1", "=1+1": "'=1+1", "＝1+1": "'＝1+1", " =1": "' =1", "\u00a0=1": "'\u00a0=1",
		"\u200b@x": "'\u200b@x",
		"a\u061cb": "a?b",
	} {
		if got := CSV(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
