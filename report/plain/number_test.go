package plain

import (
	"testing"
)

func TestNoncontigBytes(t *testing.T) {
	for v, want := range map[float64]string{64: "64 B", 490.3: "490 B", 1024: "1 KiB", 1536: "1.5 KiB", 1 << 20: "1 MiB", 1300: "1.27 KiB"} {
		if got := Bytes(v); got != want {
			t.Errorf("%v: got %s, want %s", v, got, want)
		}
	}
}
