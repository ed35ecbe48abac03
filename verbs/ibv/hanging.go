//go:build linux && cgo

package ibv

// #include "shim.h"
import "C"

import (
	"strings"
	"sync/atomic"
	"unsafe"
)

// Watch looks at the calls into libibverbs and librdmacm that are under way, at regular
// times. The zero value has not looked yet.
type Watch struct {
	serial [C.VB_CALLS]uint32
	looks  [C.VB_CALLS]int
}

// Look returns the call that was under way at the most looks without a break, such as
// "ibv_open_device on mlx5_0", and how many these were.
func (w *Watch) Look() (call string, looks int) {
	for i := range C.vb_calls {
		c := &C.vb_calls[i]
		serial := atomic.LoadUint32((*uint32)(unsafe.Pointer(&c.serial)))
		if serial != w.serial[i] || serial%2 == 0 {
			w.serial[i], w.looks[i] = serial, int(serial%2)
			continue
		}
		if w.looks[i]++; w.looks[i] > looks {
			call, looks = C.GoString(c.name), w.looks[i]
			if device := text(c.device[:]); device != "" {
				call += " on " + device
			}
		}
	}
	return call, looks
}

// text is a string of C in an array of its own, which need not end.
func text(from []C.char) string {
	b := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(from))), len(from))
	s, _, _ := strings.Cut(string(b), "\x00")
	return s
}
