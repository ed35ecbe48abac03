package pattern

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// operation chooses the inner loop of a copy; the numbers are those of internal/yardstick.
type operation uint32

const (
	op1 operation = iota
	op2
	op3
	op4
	op5to7
	op8
	op9to15
	op16
	op17to31
	op32
	op33to63
	op64
	opWide
	opList
)

const (
	flagUnpack uint32 = 1 << iota
	flagAhead         // ask for cache lines ahead of the copy
	flagStream        // store past the cache
	flagNear          // lines come from the second-level cache
	flagEven          // a list of blocks of 64 bytes, or of 128
)

// copyArgs is the argument of a kernel: n1 rows of n0 blocks. It lies outside the Go heap; internal/yardstick has its
// twin in C.
type copyArgs struct {
	dst, src   unsafe.Pointer
	block      uint64
	n0         uint64
	dst0, src0 int64
	n1         uint64
	dst1, src1 int64
	list       unsafe.Pointer // opList: *listEntry
	entries    uint64
	ahead      int64
	op         operation
	flags      uint32
}

// listEntry is a block of a list as kernels read it.
type listEntry struct{ offset, length uint64 }

// listKey names a list: segments share its beginning.
type listKey struct {
	first *Block
	n     int
}

const (
	argsBytes = 128 // of a copyArgs, padded to two cache lines
	// aheadEntries is how many list entries ahead a kernel asks for memory; every list is padded by as many.
	aheadEntries = 16
	// aheadBytes is how far ahead of a copy, counted in payload, cache lines are asked for: about the bandwidth-delay
	// product of memory. The kernels know it, too.
	aheadBytes = 2048
)

// KernelOptions tell kernels what memory they will meet. The zero value means one small layout that stays in cache.
type KernelOptions struct {
	// Footprint is how many bytes of strided memory the caller walks before it comes back to the same place; 0: the
	// layout's own extent. Beyond the second-level cache, kernels ask for memory ahead.
	Footprint int64
	// PackedFootprint is the same for packed memory; 0: the packed size. Beyond the last-level cache, stores of whole
	// lines bypass the cache.
	PackedFootprint int64
	// Caches are the sizes of this machine's caches; zero: those that [HostCaches] finds.
	Caches Caches
}

// Kernels makes pack and unpack work for jobs and owns the arguments, which live outside the Go heap. It belongs to one
// goroutine; its work may run on any, until Close.
type Kernels struct {
	options KernelOptions
	chunks  []*verbs.Buffer
	free    []byte
	lists   map[listKey]unsafe.Pointer
}

// NewKernels prepares an empty set of kernels.
func NewKernels(o KernelOptions) *Kernels {
	if o.Caches == (Caches{}) {
		o.Caches = HostCaches()
	}
	return &Kernels{options: o, lists: map[listKey]unsafe.Pointer{}}
}

// Close frees the arguments of all work made here. No job may use it any more.
func (k *Kernels) Close() error {
	var errs []error
	for _, c := range k.chunks {
		errs = append(errs, c.Close())
	}
	k.chunks, k.free, k.lists = nil, nil, nil
	return errors.Join(errs...)
}

// Pack is the work of copying the blocks of l in strided (which starts at the layout's base) into packed. Both must lie
// outside the Go heap, as [verbs.Alloc] makes them.
func (k *Kernels) Pack(l Layout, strided, packed []byte) (job.Work, error) {
	return k.work("pack", l, strided, packed)
}

// Unpack is the work of copying packed into the blocks of l in strided; bytes between the blocks stay as they are.
func (k *Kernels) Unpack(l Layout, strided, packed []byte) (job.Work, error) {
	return k.work("unpack", l, strided, packed)
}

func (k *Kernels) work(verb string, l Layout, strided, packed []byte) (job.Work, error) {
	switch {
	case len(l.blocks) == 0:
		return job.Work{}, fmt.Errorf("%s: %w", verb, ErrEmpty)
	case int64(len(strided)) < l.extent:
		return job.Work{}, fmt.Errorf("%s %s: %d bytes of strided memory, the layout spans %d", verb, shorten(l.text),
			len(strided), l.extent)
	case int64(len(packed)) < l.size:
		return job.Work{}, fmt.Errorf("%s %s: %d bytes of packed memory, the layout holds %d", verb, shorten(l.text),
			len(packed), l.size)
	}
	args, err := k.args()
	if err != nil {
		return job.Work{}, fmt.Errorf("%s: %w", verb, err)
	}
	*args = copyArgs{
		block: uint64(l.blocks[0].Length), op: operationFor(l.blocks[0].Length),
		n0: uint64(l.inner.count), n1: uint64(l.outer.count),
	}
	first := l.base + l.blocks[0].Offset
	per := l.size / l.inner.count / l.outer.count
	if len(l.blocks) > 1 {
		args.op, first = opList, l.base
		args.entries = uint64(len(l.blocks))
		if args.list, err = k.list(l); err != nil {
			return job.Work{}, err
		}
		if even(l.blocks) {
			args.flags |= flagEven
		}
	}
	inner, outer := l.inner, l.outer
	if inner.count == 1 { // a single loop is the inner one
		inner, outer = outer, inner
		args.n0, args.n1 = args.n1, args.n0
	}
	if outer.count > 1 && inner.count*inner.step == outer.step {
		inner.count, outer.count = inner.count*outer.count, 1
		args.n0, args.n1 = args.n0*args.n1, 1
	}
	far, near := unsafe.Pointer(&strided[first]), unsafe.Pointer(&packed[0])
	row := per * inner.count
	if verb == "pack" {
		args.src, args.src0, args.src1 = far, inner.step, outer.step
		args.dst, args.dst0, args.dst1 = near, per, row
	} else {
		args.flags |= flagUnpack
		args.dst, args.dst0, args.dst1 = far, inner.step, outer.step
		args.src, args.src0, args.src1 = near, per, row
	}
	k.tune(args, l, inner.step)
	return job.Work{Go: kernelFor(wideISA(), args.op, args.flags), Arg: unsafe.Pointer(args)}, nil
}

// even tells whether blocks are of one length that the kernels of even lists copy.
func even(blocks []Block) bool {
	n := blocks[0].Length
	return (n == 64 || n == 128) && !slices.ContainsFunc(blocks, func(b Block) bool { return b.Length != n })
}

// tune decides, from what was measured (see the benchmarks), how the kernel treats the caches. Where strided memory
// exceeds the second-level cache it is asked for ahead; stores of whole lines bypass the cache where what they fill
// exceeds the last level, which spares reading it first.
func (k *Kernels) tune(a *copyArgs, l Layout, step int64) {
	footprint, packed := k.options.Footprint, k.options.PackedFootprint
	if footprint == 0 {
		footprint = l.extent
	}
	if packed == 0 {
		packed = l.size
	}
	caches := &k.options.Caches
	filled := packed
	if a.flags&flagUnpack != 0 {
		filled = footprint
	}
	if filled > int64(caches.LastLevel) && k.wholeLines(a, l) {
		a.flags |= flagStream
	}
	switch {
	case footprint > int64(caches.L2) && l.Blocks() > 1: // the processor itself sees where one block goes on
		a.flags |= flagAhead
		a.ahead = aheadOf(a, l, step)
	case footprint+packed > int64(caches.L1):
		a.flags |= flagNear
	}
}

// wholeLines tells whether all that a kernel stores is whole cache lines.
func (*Kernels) wholeLines(a *copyArgs, l Layout) bool {
	const line = 64
	switch {
	case uintptr(a.dst)%line != 0 || a.dst0%line != 0 || a.dst1%line != 0:
		return false
	case a.op != opList:
		return a.block%line == 0 && (a.block <= aheadBytes || a.block%256 == 0)
	}
	return !slices.ContainsFunc(l.blocks, func(b Block) bool { return b.Offset%line != 0 || b.Length%line != 0 })
}

// aheadOf is how far off the bytes lie that a copy gets to aheadBytes later: for a block that is longer, from its last
// aheadBytes; for a list, from entry to entry.
func aheadOf(a *copyArgs, l Layout, step int64) int64 {
	block := int64(a.block)
	switch {
	case a.op == opList:
		entries := min(max(int64(aheadBytes/l.MeanBlockBytes()), 1), aheadEntries)
		return entries * int64(unsafe.Sizeof(listEntry{}))
	case block > aheadBytes:
		return step - block + aheadBytes
	default:
		return aheadBytes / block * step
	}
}

// operationFor is the operation of blocks of a length: each is for the lengths up to its own.
func operationFor(block int64) operation {
	lengths := [opWide]int64{1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 63, 64}
	at, _ := slices.BinarySearch(lengths[:], block)
	return operation(at)
}

// args takes the next argument's place from the current chunk.
func (k *Kernels) args() (*copyArgs, error) {
	b, err := k.take(argsBytes)
	if err != nil {
		return nil, err
	}
	return (*copyArgs)(unsafe.Pointer(&b[0])), nil
}

func (k *Kernels) take(bytes int) ([]byte, error) {
	if len(k.free) < bytes {
		buf, err := verbs.Alloc(max(bytes, 256<<10), verbs.MemoryOptions{})
		if err != nil {
			return nil, fmt.Errorf("kernel arguments: %w", err)
		}
		k.chunks = append(k.chunks, buf)
		k.free = buf.Bytes()
	}
	b := k.free[:bytes:bytes]
	k.free = k.free[bytes:]
	return b, nil
}

// list is the layout's blocks as kernels read them, made once for each list.
func (k *Kernels) list(l Layout) (unsafe.Pointer, error) {
	key := listKey{&l.blocks[0], len(l.blocks)}
	if p := k.lists[key]; p != nil {
		return p, nil
	}
	n := len(l.blocks) + aheadEntries
	b, err := k.take((n*int(unsafe.Sizeof(listEntry{})) + 127) &^ 127)
	if err != nil {
		return nil, err
	}
	p := unsafe.Pointer(&b[0])
	entries := unsafe.Slice((*listEntry)(p), n)
	for i := range entries {
		if i < len(l.blocks) {
			entries[i] = listEntry{uint64(l.blocks[i].Offset), uint64(l.blocks[i].Length)}
		} else {
			entries[i] = listEntry{offset: uint64(l.blocks[len(l.blocks)-1].Offset)}
		}
	}
	k.lists[key] = p
	return p, nil
}

// KernelName names what runs a work of this package: "go/avx512".
func KernelName() string { return "go/" + wideISA() }
