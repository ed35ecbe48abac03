package control

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// HostPort completes what a user typed for a host: a name or an address, alone or in
// brackets, with a port or without one.
func HostPort(typed string, port int) string {
	if _, _, err := net.SplitHostPort(typed); err == nil {
		return typed
	}
	return net.JoinHostPort(Host(typed), strconv.Itoa(port))
}

// Host is a host without the brackets of an IPv6 address.
func Host(typed string) string {
	if inner, is := strings.CutPrefix(typed, "["); is {
		return strings.TrimSuffix(inner, "]")
	}
	return typed
}

// Meet returns where the devices of two ends meet that have a socket on an address: at the addresses of the control
// connection. Both ends have the same one where they are on one host. Only one of them can have the port there, so they
// meet on loopback, which has more addresses.
func Meet(s interface {
	LocalAddr() netip.Addr
	RemoteAddr() netip.AddrPort
},
) (local, remote netip.Addr) {
	local, remote = s.LocalAddr(), s.RemoteAddr().Addr()
	if local == remote && local.IsValid() {
		local = netip.AddrFrom4([4]byte{127, 0, 0, 1})
		return local, local
	}
	return local, remote
}
