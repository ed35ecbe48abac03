package verbs

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"unsafe"
)

// MemoryOptions choose where a buffer comes from. The zero value is ordinary pages.
type MemoryOptions struct {
	HugePages bool // 2 MiB pages from the reserved pool
	NUMANode  int  // the number of the node to bind to, plus 1; 0: no binding
	Touch     bool // write every page now, so that no fault happens while measuring
}

// Buffer is memory outside the Go heap that devices may read and write at any time. Its methods may be called by
// several goroutines; what is in it belongs to those who write there.
type Buffer struct {
	b        []byte
	unmap    func() error
	borrowed bool

	mu      sync.Mutex
	regions int // memory regions over it
}

// Alloc maps a page-aligned, zeroed buffer of at least one byte.
func Alloc(bytes int, o MemoryOptions) (*Buffer, error) {
	if bytes <= 0 {
		return nil, fmt.Errorf("allocate buffer: %d bytes: want at least 1", bytes)
	}
	b, unmap, err := allocPages(bytes, o)
	if err != nil {
		return nil, fmt.Errorf("allocate buffer of %d bytes: %w", bytes, err)
	}
	if o.Touch {
		for i := 0; i < len(b); i += 4096 {
			b[i] = 0
		}
	}
	return &Buffer{b: b[:bytes], unmap: unmap}, nil
}

// Borrow makes a buffer of memory that somebody else maps, and unmaps: a shared segment, or memory of a C library. It
// must lie outside the Go heap, and stay mapped while regions over it are open. Where it does not, the software device
// ends requests that touch it with an error; hardware goes on using the old pages.
func Borrow(b []byte) *Buffer {
	return &Buffer{b: b, unmap: func() error { return nil }, borrowed: true}
}

// Borrowed tells whether somebody else may unmap the buffer: it is of [Borrow].
func (b *Buffer) Borrowed() bool { return b.borrowed }

// Bytes is the whole buffer.
func (b *Buffer) Bytes() []byte { return b.b }

// Len is the buffer's size in bytes.
func (b *Buffer) Len() int { return len(b.b) }

// Addr is the virtual address of the first byte, as devices and peers name it.
func (b *Buffer) Addr() uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b.b)))) }

// Hold keeps the buffer until Release, for a memory region over n bytes of it from offset on,
// and returns these. Providers call it.
func (b *Buffer) Hold(offset, n int) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.b == nil:
		return nil, fmt.Errorf("buffer: %w", ErrClosed)
	case n < 0 || n == 0 && !b.borrowed || offset < 0 || offset > len(b.b)-n:
		return nil, fmt.Errorf("%d bytes from %d on of a buffer of %d: want at least 1, inside", n, offset, len(b.b))
	}
	b.regions++
	return b.b[offset : offset+n : offset+n], nil
}

// Release ends a Hold.
func (b *Buffer) Release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.regions--
}

// Close unmaps the buffer. It refuses with [ErrBusy] while memory regions are open over it.
func (b *Buffer) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.b == nil:
		return nil
	case b.regions > 0:
		return fmt.Errorf("close buffer: %w: %d memory regions open", ErrBusy, b.regions)
	}
	b.b = nil
	return b.unmap()
}

// Access says what may be done with a memory region, a memory window, or through a queue pair (ibv_access_flags).
type Access uint32

// Access flags. REMOTE_WRITE and REMOTE_ATOMIC need LOCAL_WRITE at registration (IBTA 10.6.3.1).
const (
	AccessLocalWrite      Access = 1 << 0
	AccessRemoteWrite     Access = 1 << 1
	AccessRemoteRead      Access = 1 << 2
	AccessRemoteAtomic    Access = 1 << 3
	AccessMWBind          Access = 1 << 4
	AccessZeroBased       Access = 1 << 5  // addresses count from 0, the first byte
	AccessOnDemand        Access = 1 << 6  // pages need not be in memory: the device has them brought when it touches them
	AccessRelaxedOrdering Access = 1 << 20 // optional: ignored where the device does not have it
)

func (a Access) String() string {
	return flagString(uint32(a),
		[]string{"LOCAL_WRITE", "REMOTE_WRITE", "REMOTE_READ", "REMOTE_ATOMIC", "MW_BIND", "ZERO_BASED", "ON_DEMAND"})
}

func flagString(v uint32, names []string) string {
	var s []string
	for i, n := range names {
		if v&(1<<i) != 0 && n != "" {
			s = append(s, n)
			v &^= 1 << i
		}
	}
	if v != 0 {
		s = append(s, fmt.Sprintf("%#x", v))
	}
	if len(s) == 0 {
		return "0"
	}
	return strings.Join(s, "|")
}

// ProtectionDomain ties memory regions, queue pairs, address handles and memory windows together: a key of one domain
// is worth nothing in another. Its methods may be called by several goroutines.
type ProtectionDomain interface {
	io.Closer
	// RegisterMemory makes n bytes of a buffer from offset on known to the device. The region keeps the buffer open.
	RegisterMemory(b *Buffer, offset, n int, access Access) (MemoryRegion, error)
	// RegisterMemoryAt is RegisterMemory, but both ends name the memory by addresses from iova on (ibv_reg_mr_iova2).
	RegisterMemoryAt(b *Buffer, offset, n int, iova uint64, access Access) (MemoryRegion, error)
	// RegisterDMABuf registers length bytes of a dma-buf, such as memory of a GPU, from offset on (ibv_reg_dmabuf_mr). The
	// region keeps the dma-buf; fd may be closed. The software device refuses with [ErrUnsupported].
	RegisterDMABuf(fd int, offset uint64, length int, iova uint64, access Access) (MemoryRegion, error)
	// CreateQP makes a queue pair in state RESET.
	CreateQP(o QueuePairOptions) (QueuePair, error)
	// CreateSRQ makes a shared receive queue.
	CreateSRQ(o SharedReceiveQueueOptions) (SharedReceiveQueue, error)
	// CreateAH makes an address handle for UD sends.
	CreateAH(a AddressVector) (AddressHandle, error)
	// AllocMW makes a type 2 memory window, bound by a BIND_MW work request.
	AllocMW() (MemoryWindow, error)
}

// MemoryRegion is registered memory. Close waits for nothing: do it after the last completion that uses it.
type MemoryRegion interface {
	io.Closer
	Addr() uint64
	Len() int
	LKey() uint32 // names it in this end's scatter/gather lists
	RKey() uint32 // names it in the peer's WRITE, READ and atomics
	// SGE is n bytes of it from offset on, as an entry of a scatter/gather list. It does not look whether they lie inside.
	SGE(offset, n int) SGE
}

// MemoryWindow is a type 2 window onto part of a memory region.
type MemoryWindow interface {
	io.Closer
	// RKey is the window's key; its low 8 bits are the consumer's to change at each bind.
	RKey() uint32
}

// AddressHandle is a destination for UD sends.
type AddressHandle interface{ io.Closer }

// MaxFlowLabel is the largest flow label: they have 20 bits (RFC 8200).
const MaxFlowLabel = 1<<20 - 1

// AddressVector is the path to a peer (ibv_ah_attr with its GRH).
type AddressVector struct {
	DGID         GID    // the peer's GID; zero on InfiniBand without GRH
	SGIDIndex    int    // our line of the GID table
	UseGID       bool   // send a GRH: always on RoCE
	DLID         uint16 // InfiniBand only
	SL           uint8
	TrafficClass uint8
	HopLimit     uint8  // 0: 64
	FlowLabel    uint32 // up to [MaxFlowLabel]
	Port         int    // ours, counted from 1; 0 means 1
}
