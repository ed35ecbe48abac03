//go:build !linux && !windows

package verbs

import "syscall"

func allocPages(bytes int, o MemoryOptions) ([]byte, func() error, error) {
	if o.HugePages || o.NUMANode > 0 {
		return nil, nil, ErrUnsupported
	}
	size := (bytes + 4095) / 4096 * 4096
	b, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		return nil, nil, err
	}
	return b, func() error { return syscall.Munmap(b) }, nil
}
