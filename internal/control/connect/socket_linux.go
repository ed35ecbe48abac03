package connect

import (
	"errors"
	"syscall"
)

// bothFamilies lets a socket of IPv6 take connections of IPv4, too. Package net decides that by what the loopback
// interface has, and takes IPv4 alone where that lacks 127.0.0.1.
func bothFamilies(_, _ string, c syscall.RawConn) error {
	return setOption(c, syscall.IPPROTO_IPV6, syscall.IPV6_V6ONLY, 0)
}

// smallSegments bounds what a packet of a connection carries, in both directions.
func smallSegments(bytes int) func(string, string, syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		return setOption(c, syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, bytes)
	}
}

func setOption(c syscall.RawConn, level, option, value int) error {
	var set error
	err := c.Control(func(fd uintptr) { set = syscall.SetsockoptInt(int(fd), level, option, value) })
	return errors.Join(err, set)
}
