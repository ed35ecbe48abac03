package roce

// publish stores v after everything stored before has become visible to other processors: a store-release. Go's atomic
// operations are no full barriers on processors without LSE.
//
//go:noescape
func publish(at *byte, v byte)
