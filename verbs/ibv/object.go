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
	d   *device
	qpn uint32 // of a queue pair
}

// On is the device of the handle.
func (o *object) On() *device { return o.d }

// fail explains a refused call; nil stays nil.
func (o *object) fail(verb string, err error) error {
	if _, explained := errors.AsType[*verbs.Error](err); err == nil || explained {
		return err
	}
	return explain(verbs.Error{Verb: verb, Device: o.d.info.Name, QP: o.qpn, Err: err}, 0)
}

// inside makes a call for which the handle must be open.
func (o *object) inside(verb string, call func() error) error {
	if err := o.Enter(); err != nil {
		return o.fail(verb, err)
	}
	defer o.Leave()
	return o.fail(verb, call())
}

// destroy closes the handle by a call of libibverbs, and then does what there is to do afterwards.
func (o *object) destroy(verb string, call func() C.int, after ...func()) error {
	return o.fail(verb, o.Close(nil, func() error {
		if err := errnoError(call()); err != nil {
			return err
		}
		for _, f := range after {
			f()
		}
		return nil
	}))
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
