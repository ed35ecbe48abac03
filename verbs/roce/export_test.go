package roce

// WithoutOffload has the device send and receive packet by packet.
func WithoutOffload(o Options) Options {
	o.noOffload = true
	return o
}
