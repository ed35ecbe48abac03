package doctor

import (
	"errors"
	"io/fs"
	"net"
	"os"
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

// deniedDeviceFiles lists uverbs files that exist and cannot be opened for want of permission.
func deniedDeviceFiles(root fs.FS) []string {
	var denied []string
	for _, file := range append(matching(root, "dev/infiniband/uverbs*"), matching(root, "dev/infiniband/rdma_cm")...) {
		name := "/" + file
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if errors.Is(err, fs.ErrPermission) {
			denied = append(denied, name)
		}
		if err == nil {
			_ = f.Close()
		}
	}
	return denied
}
