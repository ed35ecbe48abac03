package wire

import (
	"testing"

	"github.com/gobw/gobw/internal/testrun"
)

func TestHello(t *testing.T) {
	for _, tt := range []struct {
		bytes string
		want  Hello
	}{
		{"6.06\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", Hello{Version: 606}},
		{"6.27\x00gobw/1\x00\x00\x00\x00\x00", Hello{Version: 627, Ours: 1}},
		{"6.29\x00gobw/12\x00\x00\x00\x00", Hello{Version: 629, Ours: 12}},
	} {
		got, err := ParseHello([]byte(tt.bytes))
		if err != nil || got != tt.want {
			t.Errorf("parseHello(%q) = %+v, %v; want %+v", tt.bytes, got, err, tt.want)
		}
		if b := got.Encode(); string(b) != tt.bytes {
			t.Errorf("%+v encodes to %q, want %q", got, b, tt.bytes)
		}
	}
}

func TestParseVersion(t *testing.T) {
	for _, tt := range []struct {
		text string
		want Version
	}{{"6.06", 606}, {"6.1", 610}, {"6.27", 627}, {"5.70", 570}, {"6.2900", 629}} {
		if got, err := ParseVersion(tt.text); err != nil || got != tt.want {
			t.Errorf("parseVersion(%q) = %d, %v; want %d", tt.text, got, err, tt.want)
		}
	}
	for _, text := range []string{"", "6", ".5", "6.", "6.2x", "-6.2", "99999.0"} {
		if got, err := ParseVersion(text); err == nil {
			t.Errorf("parseVersion(%q) = %v, want an error", text, got)
		}
	}
}

func FuzzHello(f *testing.F) {
	f.Add([]byte("6.27\x00gobw/1\x00\x00\x00\x00\x00"))
	testrun.Fuzz(f, func(t *testing.T, b []byte) {
		h, err := ParseHello(b)
		if err != nil {
			return
		}
		again, err := ParseHello(h.Encode())
		if err != nil || again != h {
			t.Errorf("%+v decodes again as %+v, %v", h, again, err)
		}
	})
}
