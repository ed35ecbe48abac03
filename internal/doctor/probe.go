package doctor

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
)

// udpPortTaken tries to bind UDP 4791 on every address for an instant; it returns why that cannot be, or "".
func udpPortTaken() string {
	c, err := net.ListenUDP("udp4", &net.UDPAddr{Port: 4791})
	if err == nil {
		_ = c.Close()
		return ""
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return "another process or the kernel's rdma_rxe is bound to it"
	}
	return err.Error()
}

// deniedDeviceFiles lists uverbs files that exist and cannot be opened for want of permission.
func deniedDeviceFiles(root fs.FS) []string {
	entries, err := fs.ReadDir(root, "dev/infiniband")
	if err != nil {
		return nil
	}
	var denied []string
	for _, e := range entries {
		name := "/dev/infiniband/" + e.Name()
		if !strings.HasPrefix(e.Name(), "uverbs") && e.Name() != "rdma_cm" {
			continue
		}
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
