package verbs

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"
)

// allocPages commits pages of VirtualAlloc, which Windows zeroes.
func allocPages(bytes int, o MemoryOptions) ([]byte, func() error, error) {
	if o.HugePages || o.NUMANode != 0 {
		return nil, nil, fmt.Errorf("huge pages and NUMA binding: %w", errors.ErrUnsupported)
	}
	addr, err := windows.VirtualAlloc(0, uintptr(bytes), windows.MEM_RESERVE|windows.MEM_COMMIT, windows.PAGE_READWRITE)
	if err != nil {
		return nil, nil, err
	}
	// an address of VirtualAlloc: the collector does not know it
	b := unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))), bytes)
	return b, func() error { return windows.VirtualFree(addr, 0, windows.MEM_RELEASE) }, nil
}
