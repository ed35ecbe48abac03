package roce

import (
	"fmt"
	"io"
	"net/netip"

	"github.com/gobw/gobw/verbs/roce/netem"
)

// DeviceName is the name of the only device of this provider.
const DeviceName = "roce0"

// Port is the UDP port of RoCEv2 (IANA; IBTA A17.4.3).
const Port = 4791

// Options configure the device. The zero value works.
type Options struct {
	// Address is the local IP address of the default GID; invalid: chosen by Bind, or else 127.0.0.1. Where port 4791 is
	// taken on a loopback address, the next free one of 127.0.0.0/8 is used.
	Address netip.Addr
	// Network is emulated on everything received.
	Network netem.Options
	// Pcap, where set, is sent every packet that leaves or arrives, as a capture file.
	Pcap io.Writer
	// PcapBytes is the size at which the capture ends; 0: no end.
	PcapBytes int64

	noOffload bool // tests
}

func (o Options) validate() error {
	if o.PcapBytes < 0 {
		return fmt.Errorf("capture of %d bytes: want at least 0", o.PcapBytes)
	}
	return o.Network.Validate()
}
