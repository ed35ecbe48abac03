package connect

import (
	"errors"
	"syscall"
)

// bothFamilies lets a socket of IPv6 take connections of IPv4, too. Package net decides that by what the loopback interface
// has, and takes IPv4 alone where that lacks 127.0.0.1.
func bothFamilies(_, _ string, c syscall.RawConn) error {
	var set error
	err := c.Control(func(fd uintptr) {
		set = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IPV6, syscall.IPV6_V6ONLY, 0)
	})
	return errors.Join(err, set)
}
