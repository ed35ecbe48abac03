// Package opendevice finds and opens the device of this end.
package opendevice

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/gobw/gobw/internal/bench/endpoint"
	"github.com/gobw/gobw/internal/bench/machine"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/ibv"
	"github.com/gobw/gobw/verbs/roce"
	"github.com/gobw/gobw/verbs/roce/netem"
)

// pcapBytes is the size at which a file of packets ends: a forgotten --pcap does not fill the disk.
const pcapBytes = 1 << 30

// Config says which device to use and how.
type Config struct {
	Name    string            // empty: chosen; roce0@ADDRESS and roce0@INTERFACE say where, A,B names several
	Several bool              // the command runs several devices at once
	Port    int               // 0: the first ACTIVE one
	GID     *int              // nil: chosen
	CPU     machine.CPUChoice // to measure on
	Emulate string            // bad network that the software device emulates
	Pcap    string            // file that gets the packets of the software device
	// Strict uses the software device only if it is named: a NIC whose driver failed must not pass a gate.
	Strict bool
	// First takes the first device that is listed or none, as perftest does.
	First bool
	// Look opens a software device without its socket, because another process may have the port.
	Look bool
	// Open tries this instead of the providers (tests).
	Providers []verbs.Provider `json:"-"`
}

// ToLookAt is the same device without a capture file and without its socket.
func (c Config) ToLookAt() Config {
	c.Pcap, c.Look = "", true
	return c
}

// Device is a device in use and what to say about its choice.
type Device struct {
	Device verbs.Device
	Note   string    // one line for the user, or empty
	others []*Device // that were named beside it
	place  place     // where it was named to be
	at     netip.Addr
	look   bool // without its socket
	pcap   io.Closer
}

// Info describes the first device.
func (d *Device) Info() verbs.DeviceInfo { return d.Device.Info() }

// Others are the devices that were named beside the first.
func (d *Device) Others() []verbs.Device {
	return plain.Each(d.others, func(o *Device) verbs.Device { return o.Device })
}

// Close closes the devices and the capture file.
func (d *Device) Close() error {
	var errs []error
	for _, o := range slices.Backward(d.others) {
		errs = append(errs, o.Close())
	}
	errs = append(errs, d.Device.Close())
	if d.pcap != nil {
		errs = append(errs, d.pcap.Close())
	}
	return errors.Join(errs...)
}

// SoftwareNote is the note of a software device that was chosen because there is no other. The header of a result says
// it, too.
const SoftwareNote = "no RDMA device: using roce0, a device in software"

// Providers is the whole registry, in order of preference.
func Providers(c Config) ([]verbs.Provider, io.Closer, error) {
	if c.Providers != nil {
		return c.Providers, nil, nil
	}
	o := roce.Options{}
	var err error
	if o.Network, err = netem.Parse(c.Emulate); err != nil {
		return nil, nil, exit.With(exit.Usage, err)
	}
	var file *os.File
	if c.Pcap != "" {
		if err = report.CheckOwner(c.Pcap); err == nil {
			file, err = os.Create(c.Pcap)
		}
		if err != nil {
			return nil, nil, exit.With(exit.Setup, fmt.Errorf("--pcap: %w", err))
		}
		o.Pcap, o.PcapBytes = file, pcapBytes
	}
	all := []verbs.Provider{ibv.New(), roce.New(o)}
	if file == nil {
		return all, nil, nil
	}
	return all, file, nil
}

// Open opens the devices that were named, or the best there is: one with an ACTIVE port first, the software device
// when there is no other.
func Open(c Config) (_ *Device, err error) {
	names := c.Names()
	switch {
	case len(names) > 1 && !c.Several:
		return nil, exit.With(exit.Usage, fmt.Errorf("--device (-d) %s: this command uses one device", c.Name))
	case len(names) > 1 && c.Pcap != "":
		return nil, exit.With(exit.Usage, fmt.Errorf("--pcap: the packets of %d devices do not go into one file", len(names)))
	}
	var first *Device
	for _, name := range names {
		one := c
		one.Name = name
		d, err := openOne(one)
		if err != nil {
			if first != nil {
				err = errors.Join(err, first.Close())
			}
			return nil, err
		}
		if first == nil {
			first = d
		} else {
			first.others = append(first.others, d)
		}
	}
	return first, nil
}

// Names are the devices that were named: one, which may be empty, or several.
func (c Config) Names() []string { return strings.Split(c.Name, ",") }

// Software tells whether these are software devices, from what was typed.
func (c Config) Software() bool {
	return c.Emulate != "" || c.Pcap != "" || slices.ContainsFunc(c.Names(), func(name string) bool {
		device, _, _ := strings.Cut(name, "@")
		return device == roce.DeviceName
	})
}

func openOne(c Config) (*Device, error) {
	named := c.Name
	var at place
	var err error
	if c.Name, at, err = cutPlace(named); err != nil {
		return nil, exit.With(exit.Setup, err)
	}
	all, pcap, err := Providers(c)
	if err != nil {
		return nil, err
	}
	chosen, note, err := chooseDevice(all, c)
	if err != nil {
		if pcap != nil {
			err = errors.Join(err, pcap.Close())
		}
		return nil, exit.With(exit.Setup, err)
	}
	d := &Device{Device: chosen, Note: note, pcap: pcap, place: at, look: c.Look}
	switch {
	case !d.Info().Software && (c.Emulate != "" || c.Pcap != ""):
		err = exit.With(exit.Usage,
			fmt.Errorf("--emulate and --pcap need the software device: -d roce0, not %s", d.Info().Name))
	case at.text != "" && !d.Info().Rebinds:
		err = exit.With(exit.Usage,
			fmt.Errorf("--device (-d) %s: only roce0 takes an address or interface; for other devices choose a GID with -x",
				named))
	case at.text != "":
		_, err = d.bind(netip.Addr{})
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func chooseDevice(all []verbs.Provider, c Config) (verbs.Device, string, error) {
	var names []verbs.DeviceName
	var reasons []string
	by := map[string]verbs.Provider{}
	for _, p := range all {
		found, err := p.Devices()
		if err != nil {
			reasons = append(reasons, fmt.Sprintf("%s: %v", p.Name(), err))
		}
		for _, n := range found {
			if by[n.Name] == nil {
				by[n.Name] = p
				names = append(names, n)
			}
		}
	}
	if c.Name == "" && (c.Emulate != "" || c.Pcap != "") && by[roce.DeviceName] != nil {
		c.Name = roce.DeviceName // only one device has these
	}
	if c.Name != "" {
		p := by[c.Name]
		if p == nil {
			return nil, "", noSuchDevice(c.Name, names, reasons)
		}
		d, err := p.Open(c.Name)
		return d, "", err
	}
	var failures []error
	for _, n := range names {
		if n.Name == roce.DeviceName && c.Strict {
			continue
		}
		if c.First && len(failures) > 0 {
			break
		}
		d, err := by[n.Name].Open(n.Name)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		if !d.Info().Software { // the software device's port comes with its address, see bindDevice
			if _, err := endpoint.ChoosePort(d, c.Port); err != nil {
				failures = append(failures, err, d.Close())
				continue
			}
		}
		note := ""
		if d.Info().Software {
			note = SoftwareNote
			if err := errors.Join(failures...); err != nil {
				note = fmt.Sprintf("%v; %s", strings.ReplaceAll(err.Error(), "\n", "; "), SoftwareNote)
			}
		}
		return d, note, nil
	}
	err := errors.Join(failures...)
	if err == nil {
		err = errors.New("no RDMA device")
		if len(reasons) > 0 {
			err = fmt.Errorf("%w (%s)", err, strings.Join(reasons, "; "))
		}
	}
	if c.Strict {
		err = fmt.Errorf("%w; the software device is used here only if named: -d %s", err, roce.DeviceName)
	}
	return nil, "", err
}

func noSuchDevice(name string, names []verbs.DeviceName, reasons []string) error {
	have := plain.Each(names, func(n verbs.DeviceName) string { return n.Name })
	err := fmt.Errorf("no device %q; there are: %s", name, strings.Join(have, ", "))
	if _, is := net.InterfaceByName(name); is == nil {
		err = fmt.Errorf("%w; %s is a network interface: -d %s@%s runs the software device on it", err, name,
			roce.DeviceName, name)
	}
	if len(reasons) > 0 {
		err = fmt.Errorf("%w (%s)", err, strings.Join(reasons, "; "))
	}
	return err
}
