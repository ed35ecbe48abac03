package roce

import (
	"fmt"
	"math/rand/v2"
	"unsafe"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/internal/handle"
)

// protectionDomain is a verbs.ProtectionDomain.
type protectionDomain struct{ object }

func (d *device) AllocPD() (verbs.ProtectionDomain, error) {
	pd := &protectionDomain{object{e: d.e}}
	return made[verbs.ProtectionDomain](d, pd, "allocate protection domain", d.open(&pd.Handle, kindPD, maxPD))
}

func (pd *protectionDomain) Close() error {
	return pd.close("close protection domain", func() {})
}

// region is what a key stands for: a memory region or a bound memory window.
type region struct {
	key    uint32
	pd     *protectionDomain
	base   uint64 // first address in work requests
	size   uint64
	at     unsafe.Pointer
	access verbs.Access
	mr     *memoryRegion // a window's parent; nil: not bound
	window bool
	qp     *queuePair // a bound window belongs to one queue pair
}

// keyTable maps keys to regions. The upper 24 bits of a key are the index XOR mask, the low 8 bits are the consumer's
// part. Mask and the first consumer's part are random, so that nobody can guess a key (32 bits).
type keyTable struct {
	regions []*region
	free    []uint32
	mask    uint32
	low     uint8
}

// restingKeys indices are not used again before others are: a program that registers for each message comes to a stale
// key again after 2^18 regions, not after 256.
const restingKeys = 1024

func (t *keyTable) add(r *region) {
	var i uint32
	if len(t.free) > restingKeys {
		i = t.free[0]
		t.free = t.free[1:]
	} else {
		if len(t.regions) == 0 {
			t.regions = append(t.regions, nil)
			const most = maxMR + maxMW + restingKeys
			t.mask = 1 + most + rand.Uint32N(1<<24-1-most) // above all indices, so that no key is 0
			t.low = uint8(rand.Uint32())
		}
		i = uint32(len(t.regions))
		t.regions = append(t.regions, nil)
	}
	t.low = t.low*37 + 101 // so that a stale key does not name its successor
	r.key = (i^t.mask)<<8 | uint32(t.low)
	t.regions[i] = r
}

func (t *keyTable) remove(r *region) {
	i := r.key>>8 ^ t.mask
	t.regions[i] = nil
	t.free = append(t.free, i)
}

func (t *keyTable) find(key uint32) *region {
	i := key>>8 ^ t.mask
	if i >= uint32(len(t.regions)) {
		return nil
	}
	if r := t.regions[i]; r != nil && r.key == key {
		return r
	}
	return nil
}

// covers tells whether [addr, addr+n) lies in the region, without overflow.
func (r *region) covers(addr, n uint64) bool {
	return addr >= r.base && n <= r.size && addr-r.base <= r.size-n
}

// local resolves a scatter/gather entry of ours. need is 0 for reading.
func (e *engine) local(pd *protectionDomain, addr uint64, n uint32, lkey uint32, need verbs.Access) unsafe.Pointer {
	r := e.keys.find(lkey)
	if r == nil || r.pd != pd || r.window || r.access&need != need || !r.covers(addr, uint64(n)) {
		return nil
	}
	return unsafe.Add(r.at, addr-r.base)
}

// remote resolves what a peer names.
func (e *engine) remote(q *queuePair, addr uint64, n uint64, rkey uint32, need verbs.Access) unsafe.Pointer {
	r := e.keys.find(rkey)
	if r == nil || r.pd != q.pd || r.access&need == 0 || !r.covers(addr, n) {
		return nil
	}
	if unbound := r.mr == nil; r.window && (unbound || r.qp != nil && r.qp != q) {
		return nil
	}
	return unsafe.Add(r.at, addr-r.base)
}

// memoryRegion is a verbs.MemoryRegion.
type memoryRegion struct {
	object
	region
	buffer *verbs.Buffer
}

const remoteAccess = verbs.AccessRemoteRead | verbs.AccessRemoteWrite | verbs.AccessRemoteAtomic

// RegisterMemory makes memory known under its own addresses.
func (pd *protectionDomain) RegisterMemory(b *verbs.Buffer, offset, n int,
	access verbs.Access,
) (verbs.MemoryRegion, error) {
	return pd.RegisterMemoryAt(b, offset, n, b.Addr()+uint64(offset), access)
}

// RegisterDMABuf is not for a device whose processor is the host's.
func (pd *protectionDomain) RegisterDMABuf(int, uint64, int, uint64, verbs.Access) (verbs.MemoryRegion, error) {
	return nil, pd.fail("register dma-buf", verbs.ErrUnsupported)
}

// RegisterMemoryAt makes memory known under addresses from iova on.
func (pd *protectionDomain) RegisterMemoryAt(
	b *verbs.Buffer, offset, n int, iova uint64, access verbs.Access,
) (verbs.MemoryRegion, error) {
	const verb = "register memory"
	known := remoteAccess | verbs.AccessLocalWrite | verbs.AccessMWBind | verbs.AccessZeroBased | verbs.AccessOnDemand |
		verbs.AccessRelaxedOrdering
	switch {
	case access&^known != 0:
		return nil, pd.fail(verb, fmt.Errorf("access %v: %w", access&^known, verbs.ErrUnsupported))
	case access&(verbs.AccessRemoteWrite|verbs.AccessRemoteAtomic) != 0 && access&verbs.AccessLocalWrite == 0:
		return nil, pd.fail(verb, fmt.Errorf("access %v: REMOTE_WRITE and REMOTE_ATOMIC need LOCAL_WRITE", access))
	}
	part, err := b.Hold(offset, n)
	if err != nil {
		return nil, pd.fail(verb, err)
	}
	if access&verbs.AccessZeroBased != 0 {
		iova = 0
	}
	m := &memoryRegion{object: object{e: pd.e}, buffer: b}
	m.at = unsafe.Pointer(unsafe.SliceData(part))
	m.pd, m.base, m.size, m.access = pd, iova, uint64(n), access
	if b.Borrowed() {
		pd.e.expectFaults()
	}
	if err = pd.openRegion(&m.Handle, &m.region, kindMR, maxMR); err != nil {
		b.Release()
	}
	return made[verbs.MemoryRegion](pd.e.device, m, verb, err)
}

// openRegion makes the handle of a region, and gives it a key.
func (pd *protectionDomain) openRegion(h *handle.Handle, r *region, kind string, most int) error {
	err := pd.e.device.open(h, kind, most, &pd.Handle)
	if err == nil {
		pd.e.lock()
		pd.e.keys.add(r)
		pd.e.unlock()
	}
	return err
}

func (m *memoryRegion) Close() error {
	return m.close("deregister memory", func() {
		m.e.keys.remove(&m.region)
		m.buffer.Release()
	})
}

func (m *memoryRegion) Addr() uint64 { return m.base }
func (m *memoryRegion) Len() int     { return int(m.size) }
func (m *memoryRegion) LKey() uint32 { return m.key }
func (m *memoryRegion) RKey() uint32 { return m.key }

func (m *memoryRegion) SGE(offset, n int) verbs.SGE {
	return verbs.SGE{Addr: m.base + uint64(offset), Length: uint32(n), LKey: m.key}
}

// memoryWindow is a memory window (IBTA 10.6.7.2). One of type 1 serves all queue pairs of its domain, and moves when
// it is bound again. One of type 2 serves the queue pair that bound it, until it is invalidated.
type memoryWindow struct {
	object
	region
	isType1 bool
}

func (pd *protectionDomain) AllocMW() (verbs.MemoryWindow, error) { return pd.allocMW(false) }

// AllocMW1 makes a window of type 1, for programs written for libibverbs. Go programs have type 2, which does more.
func (pd *protectionDomain) AllocMW1() (verbs.MemoryWindow, error) { return pd.allocMW(true) }

func (pd *protectionDomain) allocMW(isType1 bool) (verbs.MemoryWindow, error) {
	w := &memoryWindow{object: object{e: pd.e}, region: region{pd: pd, window: true}, isType1: isType1}
	return made[verbs.MemoryWindow](pd.e.device, w, "allocate memory window",
		pd.openRegion(&w.Handle, &w.region, kindMW, maxMW))
}

func (w *memoryWindow) RKey() uint32 {
	w.e.lock()
	defer w.e.unlock()
	return w.key
}

func (w *memoryWindow) Close() error {
	return w.close("free memory window", func() {
		w.unbind()
		w.e.keys.remove(&w.region)
	})
}

// unbind takes away the window's memory; its key stays its own.
func (r *region) unbind() {
	if r.mr != nil {
		r.mr.Release("bound " + kindMW)
	}
	r.mr, r.qp, r.access, r.base, r.size, r.at = nil, nil, 0, 0, 0, nil
}

// bind executes a BIND_MW work request and reports whether it was legal. Of the key the low byte counts, as on NICs.
func (q *queuePair) bind(b *verbs.MemoryWindowBind) bool {
	w := b.Window.(*memoryWindow)
	m, _ := b.Region.(*memoryRegion)
	switch {
	case w.Closed() || w.pd != q.pd, !w.isType1 && (b.Length == 0 || w.mr != nil):
		return false
	case b.Length == 0:
		w.unbind()
	case m == nil || m.pd != q.pd || m.access&verbs.AccessMWBind == 0 || !m.covers(b.Addr, b.Length),
		b.Access&^(remoteAccess|verbs.AccessLocalWrite|verbs.AccessZeroBased) != 0,
		b.Access&(verbs.AccessRemoteWrite|verbs.AccessRemoteAtomic) != 0 && m.access&verbs.AccessLocalWrite == 0,
		m.Use("bound "+kindMW) != nil:
		return false
	default:
		w.unbind()
		w.mr, w.access, w.size = m, b.Access, b.Length
		if !w.isType1 {
			w.qp = q
		}
		w.at = unsafe.Add(m.at, b.Addr-m.base)
		if w.base = b.Addr; b.Access&verbs.AccessZeroBased != 0 {
			w.base = 0
		}
	}
	w.key = w.key&^0xff | b.RKey&0xff
	return true
}

// invalidate takes away what a window's key stands for. Other keys cannot be invalidated (IBTA 10.6.5).
func (q *queuePair) invalidate(rkey uint32) bool {
	r := q.e.keys.find(rkey)
	if r == nil || !r.window || r.mr == nil || r.qp != q {
		return false
	}
	r.unbind()
	return true
}
