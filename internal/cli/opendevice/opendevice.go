// Package opendevice finds and opens the device of this end.
package opendevice

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"

	"github.com/gobw/gobw/internal/bench"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/ibv"
	"github.com/gobw/gobw/verbs/roce"
	"github.com/gobw/gobw/verbs/roce/netem"
)

// Config says which device to use and how.
type Config struct {
	Name    string // empty: chosen
	Port    int    // 0: the first ACTIVE one
	GID     *int   // nil: chosen
	Emulate string // bad network that the software device emulates
	Pcap    string // file that gets the packets of the software device
	// PcapBytes is the size at which the file ends, PcapSnap how much is kept of each packet; 0: all.
	PcapBytes int64
	PcapSnap  int
	// Strict refuses the software device unless it was named: a NIC whose driver failed must not pass.
	Strict bool
	// Open tries this instead of the providers (tests).
	Providers []verbs.Provider `json:"-"`
}

// ToLookAt is the same device for a look at it, of which no capture file is made.
func (c Config) ToLookAt() Config {
	c.Pcap = ""
	return c
}

// Device is a device in use and what to say about its choice.
type Device struct {
	verbs.Device
	Note string // one line for the user, or empty
	pcap io.Closer
}

// Close closes the device and its capture file.
func (d *Device) Close() error {
	err := d.Device.Close()
	if d.pcap != nil {
		err = errors.Join(err, d.pcap.Close())
	}
	return err
}

const softwareNote = "no RDMA device: using the embedded software device roce0; its numbers are this machine's software, not a NIC's"

// Providers is the whole registry, in order of preference.
func Providers(c Config) ([]verbs.Provider, io.Closer, error) {
	if c.Providers != nil {
		return c.Providers, nil, nil
	}
	o := roce.Options{}
	var err error
	if o.Network, err = netem.Parse(c.Emulate); err != nil {
		return nil, nil, exit.UsageError{Err: err}
	}
	var file *os.File
	if c.Pcap != "" {
		if file, err = os.Create(c.Pcap); err != nil {
			return nil, nil, exit.SetupError{Err: fmt.Errorf("--pcap: %w", err)}
		}
		o.Pcap, o.PcapBytes, o.PcapSnap = file, c.PcapBytes, c.PcapSnap
	}
	all := []verbs.Provider{ibv.New(), roce.New(o)}
	if file == nil {
		return all, nil, nil
	}
	return all, file, nil
}

// Open opens the device that was named, or the best there is: one with an ACTIVE port first, the software device
// when there is no other.
func Open(c Config) (*Device, error) {
	all, pcap, err := Providers(c)
	if err != nil {
		return nil, err
	}
	d, note, err := chooseDevice(all, c)
	if err != nil {
		if pcap != nil {
			err = errors.Join(err, pcap.Close())
		}
		return nil, err
	}
	if !d.Info().Software && (c.Emulate != "" || c.Pcap != "") {
		return nil, errors.Join(exit.UsageError{Err: fmt.Errorf("--emulate and --pcap need the software device: -d roce0, not %s", d.Info().Name)}, d.Close())
	}
	return &Device{Device: d, Note: note, pcap: pcap}, nil
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
	if c.Name != "" {
		p := by[c.Name]
		if p == nil {
			return nil, "", exit.SetupError{Err: noSuchDevice(c.Name, names, reasons)}
		}
		d, err := p.Open(c.Name)
		if err != nil {
			return nil, "", exit.SetupError{Err: err}
		}
		return d, "", nil
	}
	if (c.Emulate != "" || c.Pcap != "") && by[roce.DeviceName] != nil { // only one device has these
		d, err := by[roce.DeviceName].Open(roce.DeviceName)
		if err != nil {
			return nil, "", exit.SetupError{Err: err}
		}
		return d, "", nil
	}
	var failures []error
	for _, n := range names {
		if n.Name == roce.DeviceName && c.Strict {
			continue
		}
		d, err := by[n.Name].Open(n.Name)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		if !d.Info().Software { // the software device's port comes with its address, see bindDevice
			if _, err := bench.ChoosePort(d, c.Port); err != nil {
				failures = append(failures, err, d.Close())
				continue
			}
		}
		note := ""
		if d.Info().Software {
			note = softwareNote
			if err := errors.Join(failures...); err != nil {
				note = fmt.Sprintf("%v; %s", strings.ReplaceAll(err.Error(), "\n", "; "), softwareNote)
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
	return nil, "", exit.SetupError{Err: err}
}

func noSuchDevice(name string, names []verbs.DeviceName, reasons []string) error {
	var have []string
	for _, n := range names {
		have = append(have, n.Name)
	}
	err := fmt.Errorf("no device %q; there are: %s", name, strings.Join(have, ", "))
	if len(reasons) > 0 {
		err = fmt.Errorf("%w (%s)", err, strings.Join(reasons, "; "))
	}
	return err
}

// Bind makes the local address of the control connection the software device's default GID.
func Bind(d verbs.Device, local netip.Addr) error {
	b, can := unwrapDevice(d).(verbs.Rebinder)
	if !can || !local.IsValid() {
		return nil
	}
	if err := b.Bind(local); err != nil {
		return exit.SetupError{Err: err}
	}
	return nil
}

func unwrapDevice(d verbs.Device) verbs.Device {
	if o, is := d.(*Device); is {
		return o.Device
	}
	return d
}
