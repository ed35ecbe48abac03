package opendevice

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce"
)

// Place splits NAME@PLACE: the device's name, and the addresses of the place.
func Place(named string) (string, []netip.Addr, error) {
	name, at, err := cutPlace(named)
	return name, at.among, err
}

// place is where a software device is to be. NAME@ADDRESS has one address. NAME@INTERFACE has those of the interface;
// the one is taken whose family both ends use. Without an @ the local address of the control connection is taken.
type place struct {
	text    string
	literal bool
	among   []netip.Addr
}

// cutPlace takes the place off a device's name.
func cutPlace(named string) (string, place, error) {
	name, text, placed := strings.Cut(named, "@")
	if !placed {
		return name, place{}, nil
	}
	if a, err := netip.ParseAddr(text); err == nil {
		return name, place{text, true, []netip.Addr{a.Unmap()}}, nil
	}
	i, err := net.InterfaceByName(text)
	if err != nil {
		return name, place{}, fmt.Errorf("--device (-d) %s: %q is neither an address nor an interface of this machine (see "+
			"'ip address')", named, text)
	}
	all, err := i.Addrs()
	if err != nil {
		return name, place{}, fmt.Errorf("--device (-d) %s: %w", named, err)
	}
	p := place{text: text}
	for _, a := range all {
		prefix, err := netip.ParsePrefix(a.String())
		if err == nil && !prefix.Addr().IsLinkLocalUnicast() {
			p.among = append(p.among, prefix.Addr().Unmap())
		}
	}
	if len(p.among) == 0 {
		return name, place{}, fmt.Errorf("--device (-d) %s: interface %s has only link-local addresses", named, text)
	}
	return name, p, nil
}

// SoftwareAddress is the address of a software device that was named, IPv4 if there are several; invalid: the name has
// no place.
func SoftwareAddress(named string) (netip.Addr, error) {
	name, p, err := cutPlace(named)
	switch {
	case err != nil:
		return netip.Addr{}, err
	case name != roce.DeviceName:
		return netip.Addr{}, fmt.Errorf("--device (-d) %s: want roce0, roce0@ADDRESS or roce0@INTERFACE", named)
	case len(p.among) == 0:
		return netip.Addr{}, nil
	}
	if i := slices.IndexFunc(p.among, netip.Addr.Is4); i >= 0 {
		return p.among[i], nil
	}
	return p.among[0], nil
}

// towards is the address of the place that has the family of the control connection's local address, or of any family
// if that is invalid.
func (p place) towards(local netip.Addr) (netip.Addr, error) {
	if len(p.among) == 0 {
		return local, nil
	}
	if p.literal {
		return p.among[0], nil
	}
	for _, a := range p.among {
		if !local.IsValid() || a.Is4() == local.Unmap().Is4() {
			return a, nil
		}
	}
	return netip.Addr{}, exit.With(exit.Setup,
		fmt.Errorf("roce0@%s has the address %s, but the ends are connected by %s: both must be IPv4, or both IPv6", p.text,
			p.among[0], local))
}

// Bind makes an address the software devices' default GID: the one that was named with each (roce0@ADDRESS,
// roce0@INTERFACE), else the local address of the control connection. It returns where the first is.
func (d *Device) Bind(local netip.Addr) (netip.Addr, error) {
	at, err := d.bind(local)
	errs := []error{err}
	for _, o := range d.others {
		_, err := o.bind(local)
		errs = append(errs, err)
	}
	return at, errors.Join(errs...)
}

// Meet makes the address at which the ends of a session meet the default GID of the software devices.
func (d *Device) Meet(s control.Session) error {
	local, _ := control.Meet(s)
	_, err := d.Bind(local)
	return err
}

// DataPolicy lets the devices send data to the peer of a session.
func (d *Device) DataPolicy(s control.Session) plan.DataPolicy {
	bound := d.Info().Rebinds
	peer := s.RemoteAddr().Addr()
	if bound {
		_, peer = control.Meet(s)
	}
	return plan.DataPolicy{Peer: peer, Bound: bound}
}

func (d *Device) bind(local netip.Addr) (netip.Addr, error) {
	if !d.Info().Rebinds {
		return local, nil
	}
	at, err := d.place.towards(local)
	if err != nil || !at.IsValid() || at == d.at {
		return at, err
	}
	bind := d.Device.Bind
	if d.look {
		bind = d.Device.Name
	}
	if err := bind(at); err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			holder := PortHolder(Machine())
			err = &verbs.Error{
				Verb: "bind", Device: roce.DeviceName, Fix: holder.Remedy(),
				Err: fmt.Errorf("UDP %v port %d: %s: %w", at, roce.Port, holder.What(), syscall.EADDRINUSE),
			}
		}
		return at, exit.With(exit.Setup, err)
	}
	d.at = at
	return at, nil
}
