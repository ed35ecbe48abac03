package roce

import (
	"fmt"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/internal/handle"
)

// object is what all handles of a device have, and the device itself.
type object struct {
	handle.Handle
	e   *engine
	qpn uint32 // of a queue pair
}

// On is the engine of the handle's device.
func (o *object) On() *engine { return o.e }

// fail words the error of a verb; nil stays nil.
func (o *object) fail(verb string, err error) error {
	if err == nil {
		return nil
	}
	return &verbs.Error{Verb: verb, Device: DeviceName, QP: o.qpn, Err: err}
}

// locked makes a call for which the handle must be open, under the engine's lock.
func (o *object) locked(verb string, call func() error) error {
	o.e.lock()
	defer o.e.unlock()
	if o.Closed() {
		return o.fail(verb, verbs.ErrClosed)
	}
	return o.fail(verb, call())
}

// close closes a handle whose end touches the engine.
func (o *object) close(verb string, destroy func()) error {
	return o.fail(verb, o.Close(nil, func() error {
		o.e.lock()
		defer o.e.unlock()
		destroy()
		return nil
	}))
}

// Kinds of handles, as errors name them.
const (
	kindPD      = "protection domain"
	kindChannel = "completion channel"
	kindCQ      = "completion queue"
	kindMR      = "memory region"
	kindMW      = "memory window"
	kindAH      = "address handle"
	kindSRQ     = "shared receive queue"
	kindQP      = "queue pair"
	kindJob     = "prepared job"
	kindGroup   = "multicast group"
)

// open makes a handle of which the device has so many at most. The parents count it, too.
func (d *device) open(h *handle.Handle, kind string, most int, parents ...*handle.Handle) error {
	return h.Open(kind, func() error {
		if d.Users(kind) > most {
			return fmt.Errorf("%d %ss are the most", most, kind)
		}
		return nil
	}, append(parents, &d.Handle)...)
}

// made is a handle, or why there is none.
func made[T any](d *device, h T, verb string, err error) (T, error) {
	if err != nil {
		var none T
		return none, d.fail(verb, err)
	}
	return h, nil
}
