package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/testrun"
)

func TestParseSizes(t *testing.T) {
	for _, c := range []struct {
		text string
		want []int // nil: refused
	}{
		{"64", []int{64}},
		{"64,1000,4K", []int{64, 1000, 4096}},
		{"64:256", []int{64, 128, 256}},
		{"64:1M:4", []int{64, 256, 1024, 4096, 16384, 65536, 262144, 1048576}},
		{"4KiB,4kB,2K:8K", []int{4096, 2048, 8192}},
		{"100:250", []int{100, 200}},
		{"1G", []int{1 << 30}},
		{"2147483647", []int{1<<31 - 1}},
		{"2G", nil},
		{"", nil},
		{"0", nil},
		{"-1", nil},
		{"1_0", nil},
		{"64:32", nil},
		{"64:128:1", nil},
		{"1:2:3:4", nil},
		{"9223372036854775807K", nil},
		{"K", nil},
	} {
		got, err := ParseSizes(c.text)
		if (err != nil) != (c.want == nil) || err == nil && !slices.Equal(got, c.want) {
			t.Errorf("ParseSizes(%q) = %v, %v; want %v", c.text, got, err, c.want)
		}
	}
}

func TestMixText(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "64": "64", "64,4096,64x4": "64,4K,64x4", "1536,1Mx1,1G": "1536,1M,1G", "1500x3": "1500x3",
		"1,2,3,4,5,6,7,8": "1,2,3,4,5,6,7,8",
	} {
		var m Mix
		if err := m.UnmarshalText([]byte(text)); err != nil || m.String() != want {
			t.Errorf("%q is %v, %v; want %q", text, m, err, want)
		}
	}
	for _, text := range []string{
		"64,", "x4", "0", "-1", "2G", "64x", "64x0", "64x-1", "64x1025", "64x4x4", "1,2,3,4,5,6,7,8,9",
		strings.Repeat("64,", 1<<16),
	} {
		var m Mix
		if err := m.UnmarshalText([]byte(text)); err == nil || len(err.Error()) > 200 {
			t.Errorf("%q is %v, %v", shorten(text), m, err)
		}
	}
}

func TestParseNumbers(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"10": 10 * time.Second, "0.5": 500 * time.Millisecond, "500ms": 500 * time.Millisecond, "NaN": -1, "-1": -1,
		"1e9": -1, "3000h": -1, "": -1,
	} {
		got, err := ParseSeconds(text)
		if (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("ParseSeconds(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]float64{
		"10G": 1e10, "500Mb/s": 5e8, "25": -1, "1e308T": -1, "NaN": -1, "-1G": -1, "": -1,
	} {
		got, err := ParseRate(text)
		if (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("ParseRate(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for text, want := range map[string][]int{
		"0-3,8": {0, 1, 2, 3, 8}, "5": {5}, "3-1": nil, "a": nil, "": nil, "0-100000": nil, "1,1": {1},
	} {
		got, err := ParseCPUs(text)
		if (err != nil) != (want == nil) || err == nil && !slices.Equal(got, want) {
			t.Errorf("ParseCPUs(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
}

// FuzzParse: the grammars end, refuse or keep to their bounds.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"64:1M:4,3", "0-3,8", "10Gb/s", "500ms", "vector:block=64,num=4,stride=128", "1:9223372036854775807",
		"9223372036854775807:9223372036854775807:2147483647",
	} {
		f.Add(s)
	}
	f.Add(strings.Repeat("0-8191,", 1000))
	testrun.Fuzz(f, func(t *testing.T, s string) {
		testrun.Within(t, 10*settleTime, settleBytes, func() {
			_, _ = ParseSizes(s)
			_, _ = ParseCPUs(s)
		})
		if sizes, err := ParseSizes(s); err == nil {
			for _, n := range sizes {
				if n < 1 || n > MaxMessage {
					t.Errorf("ParseSizes(%q) has %d", s, n)
				}
			}
		}
		if n, err := ParseBytes(s); err == nil && n < 0 {
			t.Errorf("ParseBytes(%q) = %d", s, n)
		}
		if d, err := ParseSeconds(s); err == nil && (d < 0 || d > maxSeconds*time.Second) {
			t.Errorf("ParseSeconds(%q) = %v", s, d)
		}
		if r, err := ParseRate(s); err == nil && !(r >= 1000) {
			t.Errorf("ParseRate(%q) = %v", s, r)
		}
		if list, err := ParseCPUs(s); err == nil && (len(list) == 0 || len(list) > maxCPU+1) {
			t.Errorf("ParseCPUs(%q) = %d CPUs", s, len(list))
		}
	})
}
