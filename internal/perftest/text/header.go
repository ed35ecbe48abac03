package text

import (
	"cmp"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/perftest/flags"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
)

// Facts are what the header and the address lines need beside the command line.
type Facts struct {
	Device        verbs.DeviceInfo
	Port          verbs.PortInfo
	MTU           verbs.MTU
	GID           *verbs.GIDEntry // nil: none in use
	Inline        int
	Outstanding   int
	PostAPI       verbs.PostAPI
	NUMANode      int // of the measuring CPU; -1: unknown
	Local, Remote []control.Address
	Plan          *plan.Settled // in force
}

// page is what the templates show.
type page struct {
	*Facts
	V         *flags.Invocation
	Spec      *plan.Spec
	Known     plan.Row // what the addresses tell of the operation
	Title     string
	Lists     []flags.List
	Addresses []address
	Tx, Rx    bool // depths that this end has

	Bandwidth, Modern, WR             bool
	Dashes, Transport, Link, Exchange string
}

// address is one end of a queue pair.
type address struct {
	control.Address
	Whose string
	Group bool // its GID is the multicast group
}

// page makes the data of the templates.
func (f *Facts) page(v *flags.Invocation) *page {
	p := &f.Plan.Spec
	x := &page{
		Facts: f, V: v, Spec: p, Known: f.Plan.Row, Lists: (&flags.Invocation{Plan: *p}).Lists(),
		Bandwidth: p.Kind == plan.Bandwidth, Modern: v.Style() == flags.Modern, WR: f.PostAPI == verbs.PostWR,
		Dashes: flags.Dashes, Transport: cmp.Or(f.Device.TransportType, "IB"),
		Link:     either(f.Port.LinkLayer == verbs.LinkEthernet, "Ethernet", "IB"),
		Exchange: either(v.ControlCM, "rdma_cm", "Ethernet"),
	}
	if v.ControlCM { // perftest then knows no more than for a SEND
		x.Known = plan.RowOf(plan.Send)
	}
	x.Tx, x.Rx = f.Plan.Shown()
	for _, a := range f.Local {
		x.Addresses = append(x.Addresses, address{a, "local", p.Multicast && v.Server()})
	}
	for _, a := range f.Remote { // the group is the server's, as perftest has it
		x.Addresses = append(x.Addresses, address{a, "remote", p.Multicast && !v.Server()})
	}
	x.Title = fill("title", x)
	return x
}
