//go:build linux && cgo

package ibv

// #include "shim.h"
import "C"

import (
	"cmp"
	"errors"
	"fmt"
	"unsafe"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/internal/handle"
)

// object is what all handles of a device have, and the device itself.
type object struct {
	handle.Handle
	d       *device
	qpn     uint32 // of a queue pair
	kind    string
	memory  memory       // is freed when the handle is closed
	wake    func()       // ends the calls that wait
	destroy func() C.int // destroys what libibverbs made
	after   func()       // is called once that is destroyed
}

// open makes a handle of a kind by create, and says in the words of a verb why it could not. Destroy undoes create.
func (o *object) open(verb, kind string, create func() error, destroy func() C.int, parents ...*handle.Handle) error {
	o.kind, o.destroy = kind, destroy
	return o.fail(verb, o.Open(kind, create, parents...))
}

// made is a handle, or nil and the reason.
func made[H any](h H, err error) (H, error) {
	if err != nil {
		var none H
		return none, err
	}
	return h, nil
}

// announce has the asynchronous events that name the handle by a pointer find it.
func (o *object) announce(pointer unsafe.Pointer, h any) {
	key := uintptr(pointer)
	o.d.objects.Store(key, h)
	o.after = func() { o.d.objects.CompareAndDelete(key, h) }
}

// Close destroys the handle, unless other handles depend on it.
func (o *object) Close() error {
	return o.fail("close "+o.kind, o.Handle.Close(o.wake, func() error {
		if err := errnoError(o.destroy()); err != nil {
			return err
		}
		o.memory.free()
		if o.after != nil {
			o.after()
		}
		return nil
	}))
}

// On is the device of the handle.
func (o *object) On() *device { return o.d }

// failure is a call that failed, and what to do.
func (o *object) failure(verb string, err error, fix string) *verbs.Error {
	return &verbs.Error{Verb: verb, Device: o.d.info.Name, QP: o.qpn, Err: err, Fix: fix}
}

// fail explains a refused call; nil stays nil.
func (o *object) fail(verb string, err error) error {
	if _, explained := errors.AsType[*verbs.Error](err); err == nil || explained {
		return err
	}
	return explain(o.failure(verb, err, ""), 0)
}

// inside makes a call for which the handle must be open.
func (o *object) inside(verb string, call func() error) error {
	if err := o.Enter(); err != nil {
		return o.fail(verb, err)
	}
	defer o.Leave()
	return o.fail(verb, call())
}

// refusal is why libibverbs made nothing, nil where it did. What it makes begins with its context, by which it is used.
func refusal[P comparable](made P, err error) error {
	object := *(***C.struct_vb_context)(unsafe.Pointer(&made))
	switch {
	case object == nil:
		return cmp.Or(err, errNoReason)
	case *object == nil:
		return fmt.Errorf("%w: it made one without a context", errLie)
	}
	return nil
}
