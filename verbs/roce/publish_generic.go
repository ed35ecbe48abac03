//go:build !amd64 && !arm64

package roce

import "sync/atomic"

// publish stores v after everything stored before has become visible to other processors.
func publish(at *byte, v byte) {
	var fence atomic.Uint32
	fence.Add(1) // a full barrier
	*at = v
}
