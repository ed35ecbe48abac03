package connect

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// withZone completes the address of a peer: a link-local one means nothing without the interface it is on. Where one
// interface can be meant it is taken.
func withZone(address string, interfaces func() []string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	a, err := netip.ParseAddr(host)
	if err != nil || !a.Is6() || !a.IsLinkLocalUnicast() || a.Zone() != "" {
		return address, nil //nolint:nilerr // a name
	}
	names := interfaces()
	if len(names) != 1 {
		example := append(names, "eth0")[0]
		return "",
			fmt.Errorf("%s is a link-local address: name the interface of this host that leads there: %[1]s%%%s (there are: %s)",
				host, example, strings.Join(names, ", "))
	}
	return net.JoinHostPort(host+"%"+names[0], port), nil
}

// zones are the interfaces of this host that have a link-local address.
func zones() (names []string) {
	all, _ := net.Interfaces() // none can be told then
	for _, i := range all {
		addresses, _ := i.Addrs()
		for _, a := range addresses {
			n, is := a.(*net.IPNet)
			if is && n.IP.To4() == nil && n.IP.IsLinkLocalUnicast() && i.Flags&net.FlagUp != 0 {
				names = append(names, i.Name)
				break
			}
		}
	}
	return names
}
