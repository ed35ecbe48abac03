package roce

import (
	"errors"
	"fmt"

	"github.com/gobw/gobw/verbs"
)

// provider is the verbs.Provider of the software device.
type provider struct{ options Options }

// New makes the provider.
func New(o Options) verbs.Provider { return &provider{options: o} }

func (p *provider) Name() string { return "roce" }

func (p *provider) Devices() ([]verbs.DeviceName, error) {
	return []verbs.DeviceName{{Name: DeviceName, Provider: p.Name()}}, nil
}

// Open opens a device of its own at each call: two in one process need two addresses.
func (p *provider) Open(name string) (verbs.Device, error) {
	if name != DeviceName {
		return nil, &verbs.Error{
			Verb: "open device", Device: name, Err: errors.New("no such device"), Fix: "the software device is " + DeviceName,
		}
	}
	if err := p.options.validate(); err != nil {
		return nil, &verbs.Error{Verb: "open device", Device: name, Err: fmt.Errorf("options: %w", err)}
	}
	return openDevice(p.options)
}
