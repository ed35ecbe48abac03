package qualify

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report/qualify"
)

// TestOwnFlagsReplaceDefaults: a list that is given twice has the values of both, but a test's own stand alone, however
// a flag is spelled.
func TestOwnFlagsReplaceDefaults(t *testing.T) {
	for _, tt := range []struct{ defaults, run, want string }{
		{"-s 64K --runs=3", "gobw write -n 9", "gobw write -s 64K --runs=3 -n 9"},
		{"-s 64K --runs=3", "gobw write -s4K", "gobw write --runs=3 -s4K"},
		{"-s 64K --runs 3", "gobw write --size 4K", "gobw write --runs=3 --size 4K"},
		{"--inline -1 -b", "gobw write --inline 64", "gobw write --bidirectional=true --inline 64"},
		{"-be", "gobw send -b", "gobw send --events=true -b"},
		{"--blocks 64,512", "gobw noncontig --blocks 4K", "gobw noncontig --blocks 4K"},
	} {
		file := filepath.Join(t.TempDir(), "p.yaml")
		text := "defaults:\n  flags: " + tt.defaults + "\ntests:\n  - {name: one, run: " + tt.run + "}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := qualify.LoadPlan(file, qualify.Options{Parse: parse, Typed: flagsOf, Bytes: plan.ParseBytes})
		if err != nil {
			t.Errorf("%s, %s: %v", tt.defaults, tt.run, err)
			continue
		}
		if got := strings.Join(p.Tests[0].Words, " "); got != tt.want {
			t.Errorf("%s, want %s", got, tt.want)
		}
	}
	if _, err := flagsOf([]string{"gobw", "write", "-s", "64K", "-"}); err == nil {
		t.Error("a word that is no flag is taken")
	}
}
