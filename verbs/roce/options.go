package roce

import (
	"errors"
	"fmt"
	"io"
	"net/netip"

	"github.com/gobw/gobw/verbs/roce/netem"
)

// DeviceName is the name of the only device of this provider.
const DeviceName = "roce0"

// Port is the UDP port of RoCEv2 (IANA; IBTA A17.4.3).
const Port = 4791

// Offload chooses the kernel's segmentation (UDP_SEGMENT) and coalescing (UDP_GRO) of batches.
type Offload uint8

// Offloads.
const (
	// OffloadAuto segments on interfaces without hardware behind them (loopback, veth, tap, bridges): what a NIC's own
	// segmentation makes of the IP identification is not known.
	OffloadAuto Offload = iota
	OffloadOn
	OffloadOff
)

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
	// ReceiveBuffer is the socket's receive buffer in bytes; 0: 8 MiB, as far as the kernel lets us.
	ReceiveBuffer int
	// Offload of batches to the kernel.
	Offload Offload
	// Window is the most that is in flight to one peer address, in bytes; 0: 256 KiB.
	Window int
}

func (o Options) validate() error {
	var errs []error
	if o.ReceiveBuffer < 0 {
		errs = append(errs, fmt.Errorf("receive buffer %d bytes: want at least 0", o.ReceiveBuffer))
	}
	if o.Window != 0 && o.Window < minWindow {
		errs = append(errs, fmt.Errorf("window %d bytes: want at least %d", o.Window, minWindow))
	}
	if o.PcapBytes < 0 {
		errs = append(errs, fmt.Errorf("capture of %d bytes: want at least 0", o.PcapBytes))
	}
	if o.Offload > OffloadOff {
		errs = append(errs, fmt.Errorf("offload %d: want auto, on or off", o.Offload))
	}
	errs = append(errs, o.Network.Validate())
	return errors.Join(errs...)
}
