package bench

import (
	"fmt"

	"github.com/gobw/gobw/verbs"
)

// ChoosePort is the port asked for, or the first ACTIVE one.
func ChoosePort(dev verbs.Device, n int) (verbs.PortInfo, error) {
	info := dev.Info()
	if n > info.Ports {
		return verbs.PortInfo{}, &verbs.Error{Verb: "choose port", Device: info.Name, Err: fmt.Errorf("--ib-port (-i) %d: the device has %d", n, info.Ports)}
	}
	if n > 0 {
		p, err := dev.Port(n)
		if err == nil && p.State != verbs.PortActive {
			err = portDown(info, p)
		}
		return p, err
	}
	var first error
	for i := 1; i <= max(info.Ports, 1); i++ {
		p, err := dev.Port(i)
		if err == nil && p.State == verbs.PortActive {
			return p, nil
		}
		if err == nil {
			err = portDown(info, p)
		}
		if first == nil {
			first = err
		}
	}
	return verbs.PortInfo{}, first
}

func portDown(info verbs.DeviceInfo, p verbs.PortInfo) error {
	fix := "check cable and transceiver, or bring the network interface up"
	if p.State == verbs.PortInit {
		fix = "no subnet manager answers: start opensm on one host of the fabric"
	}
	return &verbs.Error{Verb: fmt.Sprintf("use port %d", p.Number), Device: info.Name, Err: fmt.Errorf("state is %v", p.State), Fix: fix}
}
