//go:build linux && cgo

package ibv

// #include "shim.h"
import "C"

import (
	"context"
	"os"
	"sync"
	"syscall"
	"time"
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
	file, err := pollable(d.context.async_fd, "async events")
	if err != nil {
		return nil, d.fail("watch asynchronous events", err)
	}
	r := &eventReader{d: d, file: file, events: make(chan verbs.AsyncEvent, eventBacklog)}
	r.done.Go(r.run)
	return r, nil
}

// pollable wraps a duplicate of a descriptor for Go's poller. Both are non-blocking then: that is a property of the open file.
func pollable(fd C.int, name string) (*os.File, error) {
	dup, err := syscall.Dup(int(fd))
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
	whenReadable(r.file, func() bool {
		var got C.struct_vb_async_event
		if C.vb_get_async_event(r.d.v, r.d.context, &got) != 0 {
			return false
		}
		e := verbs.AsyncEvent{Type: verbs.EventType(got.event_type)}
		switch e.Type {
		case verbs.EventPortActive, verbs.EventPortError, verbs.EventLIDChange, verbs.EventPKeyChange, verbs.EventSMChange,
			verbs.EventClientReregister, verbs.EventGIDChange:
			e.Port = int(*(*C.int)(unsafe.Pointer(&got.element)))
		default:
			o, _ := r.d.objects.Load(*(*uintptr)(unsafe.Pointer(&got.element)))
			e.QP, _ = o.(verbs.QueuePair)
			e.CQ, _ = o.(verbs.CompletionQueue)
			e.SRQ, _ = o.(verbs.SharedReceiveQueue)
		}
		C.vb_ack_async_event(r.d.v, &got)  // after this the object may be gone
		if len(r.events) == eventBacklog { // full: drop the oldest
			select {
			case <-r.events:
			default:
			}
		}
		r.events <- e
		return true
	})
}

// whenReadable calls next whenever a file has become readable, and again until there is nothing more; it returns when the file is closed.
func whenReadable(file *os.File, next func() bool) {
	raw, err := file.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Read(func(uintptr) bool {
		for next() {
		}
		return false
	})
}

// wait calls next whenever a file has become readable, until it returns true, the handle is closed or the context ends.
func (o *object) wait(ctx context.Context, verb string, file *os.File, next func() bool) error {
	return o.inside(verb, func() error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		_ = file.SetReadDeadline(time.Time{})
		ended := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			_ = file.SetReadDeadline(time.Unix(1, 0))
			close(ended)
		})
		defer func() {
			if !stop() {
				<-ended // its deadline shall not be the next call's
			}
		}()
		found := false
		raw, err := file.SyscallConn()
		if err == nil {
			err = raw.Read(func(uintptr) bool {
				found = next()
				return found
			})
		}
		switch {
		case found:
			return nil
		case o.Closed():
			return verbs.ErrClosed
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		return err
	})
}

func (r *eventReader) close() {
	_ = r.file.Close()
	r.done.Wait()
}
