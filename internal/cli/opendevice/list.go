package opendevice

import (
	"errors"

	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/verbs"
)

// Listing is one provider's devices, or why there are none.
type Listing struct {
	Name    string   `json:"name"`
	Error   string   `json:"error,omitempty"`
	Remedy  string   `json:"remedy,omitempty"`
	Devices []Listed `json:"devices"`
}

// Listed is one device with its ports.
type Listed struct {
	verbs.DeviceName
	Error  string            `json:"error,omitempty"`
	Remedy string            `json:"remedy,omitempty"`
	Info   *verbs.DeviceInfo `json:"info,omitempty"`
	Ports  []ListedPort      `json:"ports,omitempty"`
}

// ListedPort is one port with its tables.
type ListedPort struct {
	verbs.PortInfo
	ActiveMTUBytes int              `json:"active_mtu_bytes"` // beside its code
	MaxMTUBytes    int              `json:"max_mtu_bytes"`
	GIDs           []verbs.GIDEntry `json:"gids"`
	PKeys          []uint16         `json:"pkeys,omitempty"`
}

// List opens all devices and reads what they say of themselves.
func List(all []verbs.Provider) []Listing {
	return plain.Each(all, func(p verbs.Provider) Listing {
		names, err := p.Devices()
		out := Listing{Name: p.Name(), Devices: []Listed{}}
		if err != nil {
			out.Error, out.Remedy = err.Error(), verbs.RemedyOf(err)
		}
		for _, n := range names {
			out.Devices = append(out.Devices, list(p, n))
		}
		return out
	})
}

func list(p verbs.Provider, n verbs.DeviceName) Listed {
	out := Listed{DeviceName: n}
	d, err := p.Open(n.Name)
	if err != nil {
		out.Error, out.Remedy = err.Error(), verbs.RemedyOf(err)
		return out
	}
	info := d.Info()
	out.Info = &info
	for i := 1; i <= info.Ports; i++ {
		port, err := d.Port(i)
		if err != nil {
			out.Error = errors.Join(errors.New(out.Error), err).Error()
			continue
		}
		lp := ListedPort{
			PortInfo: port, ActiveMTUBytes: port.ActiveMTU.Bytes(), MaxMTUBytes: port.MaxMTU.Bytes(), GIDs: []verbs.GIDEntry{},
		}
		if gids, err := d.GIDs(i); err == nil {
			lp.GIDs = gids
		}
		if keys, err := d.PKeys(i); err == nil {
			lp.PKeys = keys
		}
		out.Ports = append(out.Ports, lp)
	}
	if err := d.Close(); err != nil {
		out.Error = err.Error()
	}
	return out
}
