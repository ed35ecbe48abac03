//go:build linux && cgo

package ibv

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestWhyClosed: a device file without permission is told from one that is not there.
func TestWhyClosed(t *testing.T) {
	sysfs := t.TempDir()
	dir := filepath.Join(sysfs, "class", "infiniband_verbs", "uverbs3")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "ibdev"), []byte("rxe0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		access syscall.Errno
		want   syscall.Errno
	}{
		{"rxe0", syscall.EACCES, syscall.EACCES},
		{"rxe0", syscall.ENOENT, syscall.ENOENT},
		{"mlx5_0", syscall.EACCES, syscall.ENOENT}, // another device's file
	} {
		got := whyClosed(sysfs, tt.name, syscall.ENOENT, func(file string) error {
			if file != "/dev/infiniband/uverbs3" {
				t.Errorf("asked for %s", file)
			}
			return tt.access
		})
		if !errors.Is(got, tt.want) {
			t.Errorf("%s, access %v: %v, want %v", tt.name, tt.access, got, tt.want)
		}
	}
}
