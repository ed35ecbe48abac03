package roce

import (
	"fmt"
	"net/netip"

	"github.com/gobw/gobw/verbs"
)

// service is how a path's packets are to be treated on their way: the GRH fields and SL of an address vector, which go
// into the IP header and to the kernel's queues (annex A17.4.5.2).
type service struct {
	class     uint8  // traffic class: TOS on IPv4
	level     uint8  // SL: the kernel's packet priority, from which a VLAN's PCP is made
	hops      uint8  // hop limit: TTL on IPv4
	flowLabel uint32 // IPv6 alone has it
}

const defaultHops = 64

func (v service) hopLimit() uint8 {
	if v.hops == 0 {
		return defaultHops
	}
	return v.hops
}

func (v service) validate() error {
	switch {
	case v.level > 15:
		return fmt.Errorf("SL %d: want 0 to 15", v.level)
	case v.flowLabel > verbs.MaxFlowLabel:
		return fmt.Errorf("flow label %#x: want 20 bits", v.flowLabel)
	}
	return nil
}

// pathKey tells paths of a socket apart.
type pathKey struct {
	remote netip.Addr
	service
}
