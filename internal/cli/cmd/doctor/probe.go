package doctor

import (
	"errors"
	"net"
	"syscall"
)

// udpPortTaken tells why UDP 4791 cannot be bound, or "". It tries an address that nobody else uses, for an instant: only a
// socket on the wildcard address, as the kernel's rdma_rxe has, is in the way there, and not another software device.
func udpPortTaken() string {
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 255, 47, 91), Port: 4791})
	if err == nil {
		_ = c.Close()
		return ""
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return "the kernel's rdma_rxe, or a process on the wildcard address, is bound to it"
	}
	return "" // no such address here (loopback down, not Linux): nothing learned
}
