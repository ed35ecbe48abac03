package endpoint

import (
	"fmt"
	"os"

	"github.com/gobw/gobw/internal/bench/machine"
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
)

// ChoosePort is the port asked for, or the first ACTIVE one.
func ChoosePort(dev verbs.Device, n int) (verbs.PortInfo, error) {
	info := dev.Info()
	if n > info.Ports {
		return verbs.PortInfo{}, &verbs.Error{
			Verb: "choose port", Device: info.Name, Err: &PortError{Number: n, Ports: info.Ports},
		}
	}
	from, to := 1, max(info.Ports, 1)
	if n > 0 {
		from, to = n, n
	}
	var first error
	for i := from; i <= to; i++ {
		p, err := dev.Port(i)
		if err == nil && p.State == verbs.PortActive {
			return p, nil
		}
		if err == nil {
			fix := "check cable and transceiver, or bring the network interface up"
			if p.State == verbs.PortInit {
				fix = "no subnet manager answers: start opensm on one host of the fabric"
			}
			err = &verbs.Error{
				Verb: fmt.Sprintf("use port %d", p.Number), Device: info.Name,
				Err: &PortError{Number: p.Number, Ports: info.Ports, State: p.State}, Fix: fix,
			}
		}
		if first == nil {
			first = err
		}
	}
	return verbs.PortInfo{}, first
}

// PortError is a port that carries no traffic, or one that the device does not have.
type PortError struct {
	Number int
	Ports  int // of the device
	State  verbs.PortState
}

func (e *PortError) Error() string {
	if e.Number > e.Ports {
		return fmt.Sprintf("--ib-port (-i) %d: the device has %d", e.Number, e.Ports)
	}
	return fmt.Sprintf("state is %v", e.State)
}

// Limits is what this end is: what its devices have in common, and the machine.
//
//nolint:revive // this end is the client
func Limits(info verbs.DeviceInfo, port verbs.PortInfo, dialled bool) plan.Limits {
	l := plan.Limits{
		Device: info, Port: port, PageBytes: os.Getpagesize(), LineBytes: machine.CacheLine(), Dialled: dialled,
	}
	if cpus, err := machine.AllowedCPUs(); err == nil {
		l.CPUs = len(cpus)
	}
	return l
}

// LocalFacts is what this end says of itself before a plan is known.
func LocalFacts(dev verbs.Device, port int) (control.Facts, error) {
	p, err := ChoosePort(dev, port)
	if err != nil {
		return control.Facts{}, err
	}
	info := dev.Info()
	return control.Facts{
		PageBytes: os.Getpagesize(), CacheLineBytes: machine.CacheLine(), MTU: p.ActiveMTU, Limits: &info.Limits,
		MaxOutstanding: max(min(info.Limits.MaxRDAtomic, info.Limits.MaxInitRDAtomic), 1),
	}, nil
}
