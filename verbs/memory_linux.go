package verbs

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func allocPages(bytes int, o MemoryOptions) ([]byte, func() error, error) {
	flags := syscall.MAP_PRIVATE | syscall.MAP_ANONYMOUS
	unit := 4096
	if o.HugePages {
		flags |= syscall.MAP_HUGETLB
		unit = 2 << 20
	}
	mask := [16]uint64{}
	if o.NUMANode > 64*len(mask) {
		return nil, nil, fmt.Errorf("NUMA node %d: want 0 to %d", o.NUMANode-1, 64*len(mask)-1)
	}
	size := (bytes + unit - 1) / unit * unit
	if size < bytes {
		return nil, nil, fmt.Errorf("%d bytes overflow the address space", bytes)
	}
	b, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, flags)
	if err != nil {
		if o.HugePages {
			return nil, nil, fmt.Errorf("huge pages: %w; reserve them with 'sysctl vm.nr_hugepages=%d'", err, size/unit)
		}
		return nil, nil, err
	}
	if o.NUMANode > 0 {
		mask[(o.NUMANode-1)/64] = 1 << ((o.NUMANode - 1) % 64)
		_, _, errno := syscall.Syscall6(unix.SYS_MBIND, uintptr(unsafe.Pointer(&b[0])), uintptr(size), unix.MPOL_BIND,
			uintptr(unsafe.Pointer(&mask)), uintptr(len(mask)*64), 0)
		if errno != 0 {
			_ = syscall.Munmap(b)
			return nil, nil, fmt.Errorf("bind to NUMA node %d: %w", o.NUMANode-1, errno)
		}
	}
	return b, func() error { return syscall.Munmap(b) }, nil
}
