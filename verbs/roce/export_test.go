package roce

// WithoutOffload has the device send and receive packet by packet.
func WithoutOffload(o Options) Options {
	o.noOffload = true
	return o
}

// held calls f with the lock. A test that fails in f gives it back, so that the device can be closed and the test ends.
func (e *engine) held(f func()) {
	e.lock()
	defer e.unlock()
	f()
}
