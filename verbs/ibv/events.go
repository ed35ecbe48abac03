//go:build linux && cgo

package ibv

// #include "shim.h"
import "C"

import (
	"os"
	"sync"
	"syscall"
	"unsafe"

	"github.com/gobw/gobw/verbs"
)

// eventBacklog is how many asynchronous events wait for a reader before the oldest is dropped.
const eventBacklog = 64

// eventReader reads a device's asynchronous events and acknowledges them at once, so that destroying what they are
// about never waits. Its goroutine sleeps in Go's poller.
type eventReader struct {
	d      *device
	file   *os.File // a duplicate of the device's descriptor
	events chan verbs.AsyncEvent
	done   sync.WaitGroup
}

func readEvents(d *device) (*eventReader, error) {
	file, err := pollable(int(d.context.async_fd), "async events")
	if err != nil {
		return nil, d.fail("watch asynchronous events", err)
	}
	r := &eventReader{d: d, file: file, events: make(chan verbs.AsyncEvent, eventBacklog)}
	r.done.Go(r.run)
	return r, nil
}

// pollable wraps a duplicate of a non-blocking descriptor for Go's poller.
func pollable(fd int, name string) (*os.File, error) {
	dup, err := syscall.Dup(fd)
	if err != nil {
		return nil, err
	}
	syscall.CloseOnExec(dup)
	if err := syscall.SetNonblock(dup, true); err != nil {
		_ = syscall.Close(dup)
		return nil, err
	}
	return os.NewFile(uintptr(dup), name), nil
}

func (r *eventReader) run() {
	defer close(r.events)
	raw, err := r.file.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Read(func(uintptr) bool { // ends when the file is closed
		for {
			var got C.struct_vb_async_event
			var port C.int
			var object unsafe.Pointer
			if C.vb_get_async_event(r.d.v, r.d.context, &got, &port, &object) != 0 {
				return false
			}
			e := verbs.AsyncEvent{Type: verbs.EventType(got.event_type), Port: int(port)}
			o, _ := r.d.objects.Load(object)
			e.QP, _ = o.(verbs.QueuePair)
			e.CQ, _ = o.(verbs.CompletionQueue)
			e.SRQ, _ = o.(verbs.SharedReceiveQueue)
			C.vb_ack_async_event(r.d.v, &got) // after this the object may be gone
			select {
			case r.events <- e:
			default:
				select { // full: drop the oldest
				case <-r.events:
				default:
				}
				r.events <- e
			}
		}
	})
}

func (r *eventReader) close() {
	_ = r.file.Close()
	r.done.Wait()
}
