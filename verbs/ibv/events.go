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

// watcher waits in Go's poller for what a library tells by a descriptor.
type watcher struct {
	file *os.File      // a duplicate of the descriptor
	turn chan struct{} // one waits at a time: the file has one deadline
	done sync.WaitGroup
}

// watch makes the duplicate. Both descriptors are non-blocking then: that is a property of the open file.
func (w *watcher) watch(fd C.int, name string) error {
	dup, err := syscall.Dup(int(fd))
	if err != nil {
		return err
	}
	syscall.CloseOnExec(dup)
	if err := syscall.SetNonblock(dup, true); err != nil {
		_ = syscall.Close(dup)
		return err
	}
	w.file, w.turn = os.NewFile(uintptr(dup), name), make(chan struct{}, 1)
	return nil
}

// each calls next, in a goroutine, whenever the descriptor has become readable, and again until there is nothing more.
func (w *watcher) each(next func() bool) {
	w.done.Go(func() {
		_ = w.until(func() bool {
			for next() {
			}
			return false
		})
	})
}

// until calls next whenever the descriptor has become readable, until it returns true or the file is closed or late.
func (w *watcher) until(next func() bool) error {
	raw, err := w.file.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Read(func(uintptr) bool { return next() })
}

// stop ends the waiting.
func (w *watcher) stop() {
	_ = w.file.Close()
	w.done.Wait()
}

// wait calls next whenever a descriptor has become readable, until it returns true, the
// handle is closed or the context ends.
func (o *object) wait(ctx context.Context, verb string, w *watcher, next func() bool) error {
	return o.inside(verb, func() error {
		select {
		case w.turn <- struct{}{}:
			defer func() { <-w.turn }()
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		_ = w.file.SetReadDeadline(time.Time{})
		ended := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			_ = w.file.SetReadDeadline(time.Unix(1, 0))
			close(ended)
		})
		defer func() {
			if !stop() {
				<-ended // its deadline shall not be the next call's
			}
		}()
		found := false
		err := w.until(func() bool {
			found = next()
			return found
		})
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

// readEvents reads the device's asynchronous events and acknowledges them at once, so that
// destroying what they are about never waits.
func (d *device) readEvents() {
	d.each(func() bool {
		var got C.struct_vb_async_event
		if C.vb_get_async_event(d.v, d.context, &got) != 0 {
			return false
		}
		e := verbs.AsyncEvent{Type: verbs.EventType(got.event_type)}
		switch e.Type {
		case verbs.EventPortActive, verbs.EventPortError, verbs.EventLIDChange, verbs.EventPKeyChange, verbs.EventSMChange,
			verbs.EventClientReregister, verbs.EventGIDChange:
			e.Port = int(*(*C.int)(unsafe.Pointer(&got.element)))
		default:
			o, _ := d.objects.Load(*(*uintptr)(unsafe.Pointer(&got.element))) // of some events it is no pointer
			e.QP, _ = o.(verbs.QueuePair)
			e.CQ, _ = o.(verbs.CompletionQueue)
			e.SRQ, _ = o.(verbs.SharedReceiveQueue)
		}
		C.vb_ack_async_event(d.v, &got)    // after this the object may be gone
		if len(d.events) == eventBacklog { // full: drop the oldest
			select {
			case <-d.events:
			default:
			}
		}
		d.events <- e
		return true
	})
}
