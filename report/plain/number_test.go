package plain

import "testing"

func TestBytes(t *testing.T) {
	for bytes, want := range map[float64]string{
		0: "0 B", 512: "512 B", 4096: "4 KiB", 1.5 * (1 << 20): "1.5 MiB", 1070000000: "1020 MiB", 1023.9 * 1024: "1 MiB",
		1023: "1023 B", 1023.4 * 1024: "1023 KiB", 999.7 * 1024: "1000 KiB", 1023.9 * (1 << 30): "1024 GiB",
	} {
		if got := Bytes(bytes); got != want {
			t.Errorf("%v bytes are %q, want %q", bytes, got, want)
		}
	}
}
