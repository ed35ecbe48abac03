package output

import (
	"errors"
	"os"
	"slices"
	"testing"
)

// TestFiles: a comma parts names, unless a file or a directory has it in its name.
func TestFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"RC,UC.json", "a.json"} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir("nights, all", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ words, want []string }{
		{[]string{"a.json"}, []string{"a.json"}},
		{[]string{"a.json,b.json", "c.json"}, []string{"a.json", "b.json", "c.json"}},
		{[]string{"RC,UC.json", "a.json,b.json"}, []string{"RC,UC.json", "a.json", "b.json"}},
		{[]string{"RC,UD.json"}, []string{"RC", "UD.json"}},
		{[]string{"nights, all"}, []string{"nights, all"}},
		{[]string{"a.json,", "b.json"}, []string{"a.json", "b.json"}},
	} {
		if got := Files(tt.words...); !slices.Equal(got, tt.want) {
			t.Errorf("%q: %q, want %q", tt.words, got, tt.want)
		}
	}
}

// TestResultFiles: a pipe among the results of a directory is not waited for.
func TestResultFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	err := errors.Join(os.WriteFile("a.json", nil, 0o600), os.Mkdir("b.json", 0o700), os.Symlink(os.DevNull, "pipe.json"),
		os.Symlink("a.json", "link.json"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"a.json", "link.json"}
	if got, directory, err := ResultFiles("."); err != nil || !directory || !slices.Equal(got, want) {
		t.Errorf("%q, a directory: %v, %v", got, directory, err)
	}
}
