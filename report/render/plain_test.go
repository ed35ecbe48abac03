package render

import (
	"slices"
	"testing"

	"github.com/gobw/gobw/report/plain"
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
		got, err := plain.SplitWords(tt.line)
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%q: %q, %v; want %q", tt.line, got, err, tt.want)
		}
	}
	for _, line := range []string{"write 'host", `write "host`, `write host\`} {
		if _, err := plain.SplitWords(line); err == nil {
			t.Errorf("%q: no error", line)
		}
	}
}

func TestJoinWordsIsTheWayBack(t *testing.T) {
	words := []string{"gobw", "search", "best", "write --loopback -s 4K", "it's", "", `a\b`, "--save", "x.json"}
	got, err := plain.SplitWords(plain.JoinWords(words))
	if err != nil || !slices.Equal(got, words) {
		t.Errorf("%q, %v; want %q", got, err, words)
	}
}

// A command that a line ends with can be copied: a flag and its value are not parted.
func TestWrapKeepsAFlagAndItsValue(t *testing.T) {
	want := []string{"noisy: the rate changed · -D 10", "    --runs 6"}
	if got := plain.Wrap("noisy: the rate changed · -D 10 --runs 6", 38); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	want = []string{"between -62.7 % and", "    +4.1 %; type", "    'gobw compare'"}
	if got := plain.Wrap("between -62.7 % and +4.1 %; type 'gobw compare'", 23); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestNoncontigBytes(t *testing.T) {
	for v, want := range map[float64]string{
		64: "64 B", 490.3: "490 B", 1024: "1 KiB", 1536: "1.5 KiB", 1 << 20: "1 MiB", 1300: "1.27 KiB",
	} {
		if got := plain.Bytes(v); got != want {
			t.Errorf("%v: got %s, want %s", v, got, want)
		}
	}
}
