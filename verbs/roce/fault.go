package roce

import (
	"runtime/debug"
	"sync/atomic"

	"github.com/gobw/gobw/verbs/roce/wire"
)

// A program may unmap memory that it has registered, where it is borrowed: see [verbs.Borrow]. A NIC has the pages
// pinned. This device copies as the process it is in, and would end it. So from the first such region on whoever holds
// the engine's lock has faults of memory become panics, and each copy catches its own: the request that names such
// memory ends with an error. To catch them costs each message a tenth of its time.

// catchFaults has faults of this goroutine panic, or what was before.
func (e *engine) catchFaults(yes bool) {
	switch {
	case !e.borrowed:
	case yes:
		e.faultsBefore = debug.SetPanicOnFault(true)
	default:
		debug.SetPanicOnFault(e.faultsBefore)
	}
}

// expectFaults has faults caught from now on.
func (e *engine) expectFaults() {
	e.lock()
	defer e.unlock()
	if !e.borrowed {
		e.borrowed = true
		e.catchFaults(true)
	}
}

// survive is deferred by a copy: where memory has gone, there becomes false.
func survive(there *bool) {
	switch x := recover().(type) {
	case nil:
	case interface{ Addr() uintptr }: // a fault, of the runtime
		*there = false
	default:
		panic(x)
	}
}

// scatter copies b to pieces, which are as long together.
func (e *engine) scatter(pieces [][]byte, b []byte) (there bool) {
	if e.borrowed {
		defer survive(&there)
	}
	for _, to := range pieces {
		b = b[copy(to, b):]
	}
	return true
}

// place copies b to memory; with visibleLast its last byte is published behind the others.
func (e *engine) place(to, b []byte, visibleLast bool) (there bool) {
	if e.borrowed {
		defer survive(&there)
	}
	if !visibleLast {
		copy(to, b)
		return true
	}
	last := len(b) - 1
	copy(to[:last], b[:last])
	publish(&to[last], b[last])
	return true
}

// payload appends pieces to the open packet, which is given up where one is gone.
func (e *engine) payload(pieces [][]byte) (there bool) {
	if e.borrowed {
		defer func() {
			if !there {
				e.out.Abandon()
			}
		}()
		defer survive(&there)
	}
	for _, b := range pieces {
		e.out.Payload(b)
	}
	return true
}

// apply performs an atomic on host memory, atomically towards this machine's processors too.
func apply(word *uint64, o wire.Opcode, h wire.AtomicETH) (old uint64, there bool) {
	defer survive(&there)
	if o == wire.RCFetchAdd {
		return atomic.AddUint64(word, h.SwapAdd) - h.SwapAdd, true
	}
	for {
		old := atomic.LoadUint64(word)
		if old != h.Compare || atomic.CompareAndSwapUint64(word, old, h.SwapAdd) {
			return old, true
		}
	}
}

// mayChange tells whether a word is there to be changed.
func mayChange(word *uint64) (there bool) {
	defer survive(&there)
	atomic.AddUint64(word, 0)
	return true
}
