package doctor

import (
	"errors"
	"net"
	"slices"
	"syscall"
)

// loopbackDown tells whether this host has a loopback interface that is down. It asks the kernel: a container may see
// the files of another network namespace.
func loopbackDown() bool {
	all, _ := net.Interfaces() // Without a list nothing is learned.
	return slices.ContainsFunc(all, func(i net.Interface) bool {
		return i.Flags&net.FlagLoopback != 0 && i.Flags&net.FlagUp == 0
	})
}

// udpPortTaken tells whether UDP 4791 cannot be bound. It tries an address that nobody else uses, for an instant: only
// a socket on the wildcard address, as the kernel's rdma_rxe has, is in the way there, and not another software device.
func udpPortTaken() bool {
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 255, 47, 91), Port: 4791})
	if err == nil {
		_ = c.Close()
	}
	return errors.Is(err, syscall.EADDRINUSE) // with another error (loopback down, not Linux) nothing is learned
}
