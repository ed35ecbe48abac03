package plain

import (
	"slices"
	"testing"
)

func TestSplitWords(t *testing.T) {
	for _, tt := range []struct {
		line string
		want []string
	}{
		{"write host -q 4", []string{"write", "host", "-q", "4"}},
		{`  write  'a b' "c'd" e\ f '' `, []string{"write", "a b", "c'd", "e f", ""}},
		{`gobw  write -s '64 K' --label="a b"c ''`, []string{"gobw", "write", "-s", "64 K", "--label=a bc", ""}},
		{"", nil},
	} {
		got, err := SplitWords(tt.line)
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%q: %q, %v; want %q", tt.line, got, err, tt.want)
		}
	}
	for _, line := range []string{"write 'host", `write "host`, `write host\`} {
		if _, err := SplitWords(line); err == nil {
			t.Errorf("%q: no error", line)
		}
	}
}

func TestJoinWordsIsTheWayBack(t *testing.T) {
	words := []string{"gobw", "search", "best", "write --loopback -s 4K", "it's", "", `a\b`, "--save", "x.json"}
	got, err := SplitWords(JoinWords(words))
	if err != nil || !slices.Equal(got, words) {
		t.Errorf("%q, %v; want %q", got, err, words)
	}
}

// A command that a line ends with can be copied: a flag and its value are not parted.
func TestWrapKeepsAFlagAndItsValue(t *testing.T) {
	want := []string{"noisy: the rate changed · -D 10", "    --runs 6"}
	if got := Wrap("noisy: the rate changed · -D 10 --runs 6", 38); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
