package verbstest

import (
	"net/netip"
	"os"
	"sync/atomic"
)

var addresses atomic.Uint32 //nolint:gochecknoglobals // what is taken is a property of the process

// Address is a loopback address that no other test has, of this process or of another that runs beside it: a device
// finds its UDP port free there, and nobody's late packets arrive.
func Address() netip.Addr {
	id, n := os.Getpid(), addresses.Add(1)-1
	return netip.AddrFrom4([4]byte{127, 64 | byte(id>>8&63), byte(id), byte(1 + n%254)})
}
