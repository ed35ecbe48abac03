package pattern

import "unsafe"

// Words of memory that are moved at once.
type (
	bytes16 = [16]byte
	bytes32 = [32]byte
	bytes64 = [64]byte
)

// rows does what a copyArgs says with a kernel that copies one row.
func rows(row func(a *copyArgs, dst, src unsafe.Pointer)) func(unsafe.Pointer) {
	return func(arg unsafe.Pointer) {
		a := (*copyArgs)(arg)
		for i := range a.n1 {
			row(a, unsafe.Add(a.dst, int64(i)*a.dst1), unsafe.Add(a.src, int64(i)*a.src1))
		}
	}
}

// move copies n blocks of one machine type.
func move[T uint8 | uint16 | uint32 | uint64 | bytes16 | bytes32](d, s unsafe.Pointer, n uint64, ds, ss int64) {
	for ; n >= 4; n -= 4 {
		*(*T)(d) = *(*T)(s)
		*(*T)(unsafe.Add(d, ds)) = *(*T)(unsafe.Add(s, ss))
		d, s = unsafe.Add(d, 2*ds), unsafe.Add(s, 2*ss)
		*(*T)(d) = *(*T)(s)
		*(*T)(unsafe.Add(d, ds)) = *(*T)(unsafe.Add(s, ss))
		d, s = unsafe.Add(d, 2*ds), unsafe.Add(s, 2*ss)
	}
	for ; n > 0; n-- {
		*(*T)(d) = *(*T)(s)
		d, s = unsafe.Add(d, ds), unsafe.Add(s, ss)
	}
}

// move2 copies n blocks whose head and tail, of one machine type, overlap or meet.
func move2[T uint16 | uint32 | uint64 | bytes16 | bytes32](d, s unsafe.Pointer, n uint64, ds, ss int64, tail uintptr) {
	for ; n > 0; n-- {
		a, b := *(*T)(s), *(*T)(unsafe.Add(s, tail))
		*(*T)(d) = a
		*(*T)(unsafe.Add(d, tail)) = b
		d, s = unsafe.Add(d, ds), unsafe.Add(s, ss)
	}
}

func copySmall(a *copyArgs, d, s unsafe.Pointer) {
	n, ds, ss, block := a.n0, a.dst0, a.src0, uintptr(a.block)
	if a.flags&flagAhead != 0 {
		copySmallAhead(a, d, s)
		return
	}
	switch a.op {
	case op1:
		move[uint8](d, s, n, ds, ss)
	case op2:
		move[uint16](d, s, n, ds, ss)
	case op3:
		move2[uint16](d, s, n, ds, ss, block-2)
	case op4:
		move[uint32](d, s, n, ds, ss)
	case op5to7:
		move2[uint32](d, s, n, ds, ss, block-4)
	case op8:
		move[uint64](d, s, n, ds, ss)
	case op9to15:
		move2[uint64](d, s, n, ds, ss, block-8)
	case op16:
		move[bytes16](d, s, n, ds, ss)
	case op17to31:
		move2[bytes16](d, s, n, ds, ss, block-16)
	case op32:
		move[bytes32](d, s, n, ds, ss)
	default:
		move2[bytes32](d, s, n, ds, ss, block-32)
	}
}

// copySmallAhead goes in runs of blocks: it asks for the memory of the next run, then copies this one.
func copySmallAhead(a *copyArgs, d, s unsafe.Pointer) {
	const run = 32
	b := *a
	b.flags &^= flagAhead
	for left := a.n0; left > 0; {
		b.n0 = min(left, run)
		left -= b.n0
		if a.flags&flagUnpack != 0 {
			touchAhead(unsafe.Add(d, int64(run)*a.dst0), min(left, run), a.dst0)
		} else {
			touchAhead(unsafe.Add(s, int64(run)*a.src0), min(left, run), a.src0)
		}
		copySmall(&b, d, s)
		d, s = unsafe.Add(d, int64(b.n0)*a.dst0), unsafe.Add(s, int64(b.n0)*a.src0)
	}
}

func copyLists(a *copyArgs, dst, src unsafe.Pointer) {
	list := unsafe.Slice((*listEntry)(a.list), a.entries)
	for range a.n0 {
		d, s := dst, src
		if a.flags&flagUnpack != 0 {
			for i := range list {
				e := &list[i]
				copyAny(unsafe.Add(d, e.offset), s, e.length)
				s = unsafe.Add(s, e.length)
			}
		} else {
			for i := range list {
				e := &list[i]
				copyAny(d, unsafe.Add(s, e.offset), e.length)
				d = unsafe.Add(d, e.length)
			}
		}
		dst, src = unsafe.Add(dst, a.dst0), unsafe.Add(src, a.src0)
	}
}

// copyAny copies one block of any length.
func copyAny(d, s unsafe.Pointer, n uint64) {
	switch {
	case n > 64:
		copy(unsafe.Slice((*byte)(d), n), unsafe.Slice((*byte)(s), n))
	case n >= 32:
		both[bytes32](d, s, n-32)
	case n >= 16:
		both[bytes16](d, s, n-16)
	case n >= 8:
		both[uint64](d, s, n-8)
	case n >= 4:
		both[uint32](d, s, n-4)
	case n >= 2:
		both[uint16](d, s, n-2)
	case n == 1:
		*(*byte)(d) = *(*byte)(s)
	}
}

func both[T uint16 | uint32 | uint64 | bytes16 | bytes32](d, s unsafe.Pointer, tail uint64) {
	a, b := *(*T)(s), *(*T)(unsafe.Add(s, tail))
	*(*T)(d) = a
	*(*T)(unsafe.Add(d, tail)) = b
}

func copyWide(a *copyArgs, d, s unsafe.Pointer) {
	for range a.n0 {
		if a.block == 64 {
			*(*bytes64)(d) = *(*bytes64)(s)
		} else {
			copy(unsafe.Slice((*byte)(d), a.block), unsafe.Slice((*byte)(s), a.block))
		}
		d, s = unsafe.Add(d, a.dst0), unsafe.Add(s, a.src0)
	}
}
