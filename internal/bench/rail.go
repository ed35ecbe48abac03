package bench

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/verbs"
)

// rails are the devices of this end that a test runs on.
type rails []rail

// rail is one device of an end, and its address: rail i of one end talks to rail i of the other. Most tests have one. In a test
// on two ports of a device each is a rail.
type rail struct {
	device   verbs.Device
	port     verbs.PortInfo
	gid      verbs.GIDEntry
	useGID   bool
	numaNode int // where its threads and its buffers are to be; -1: wherever the kernel wants
}

// openRails chooses the port of each device.
func openRails(dev verbs.Device, o Options) ([]rail, error) {
	var rails []rail
	for _, d := range append([]verbs.Device{dev}, o.Rails...) {
		port, err := ChoosePort(d, o.Port)
		if err != nil {
			return nil, err
		}
		r := rail{device: d, port: port, numaNode: d.Info().NUMANode}
		if o.NUMANode != nil {
			r.numaNode = *o.NUMANode
		}
		rails = append(rails, r)
	}
	return rails, nil
}

// openPorts leaves those rails that a test runs on. One on two ports has each as a rail.
func (r *run) openPorts() error {
	r.rails = r.rails[:r.spec.Rails]
	if !r.spec.DualPort {
		return nil
	}
	first := r.rails[0]
	r.rails = []rail{first, first}
	for i := range r.rails {
		var err error
		if r.rails[i].port, err = ChoosePort(first.device, i+1); err != nil {
			return err
		}
	}
	return nil
}

// common is what all rails can do, which is what a test is settled with.
func common(rails []rail) (verbs.DeviceInfo, verbs.PortInfo) {
	info, port := rails[0].device.Info(), rails[0].port
	for _, r := range rails[1:] {
		i, l := r.device.Info(), &info.Limits
		if r.device != rails[0].device {
			info.Name += "," + i.Name
		}
		info.Software = info.Software || i.Software
		for _, v := range []struct {
			limit *int
			other int
		}{
			{&l.MaxQP, i.Limits.MaxQP},
			{&l.MaxQPWR, i.Limits.MaxQPWR},
			{&l.MaxSGE, i.Limits.MaxSGE},
			{&l.MaxCQE, i.Limits.MaxCQE},
			{&l.MaxInline, i.Limits.MaxInline},
			{&l.MaxRDAtomic, i.Limits.MaxRDAtomic},
			{&l.MaxInitRDAtomic, i.Limits.MaxInitRDAtomic},
		} {
			*v.limit = min(*v.limit, v.other)
		}
		if n := i.Limits.Threads; n > 0 && (l.Threads == 0 || n < l.Threads) {
			l.Threads = n
		}
		l.Atomic = l.Atomic && i.Limits.Atomic
		port.ActiveMTU, port.MaxMessage = min(port.ActiveMTU, r.port.ActiveMTU), min(port.MaxMessage, r.port.MaxMessage)
	}
	return info, port
}

// tables reads the GID tables from which each rail's address is chosen.
func (r *run) tables() ([][]verbs.GIDEntry, error) {
	var out [][]verbs.GIDEntry
	for i := range r.rails {
		table, err := r.rails[i].device.GIDs(r.rails[i].port.Number)
		if err != nil {
			return nil, err
		}
		if table, err = narrow(r.rails[i].device, r.o.GIDIndex, table); err != nil {
			return nil, err
		}
		out = append(out, table)
	}
	return out, nil
}

// narrow leaves only the line of the GID table that was asked for, or that the device was bound to.
func narrow(dev verbs.Device, index *int, table []verbs.GIDEntry) ([]verbs.GIDEntry, error) {
	if index != nil {
		e, err := GIDWithIndex(table, *index)
		if err != nil {
			return nil, setupOf("choose GID", dev.Info().Name, err)
		}
		return []verbs.GIDEntry{e}, nil
	}
	if d, has := dev.(interface {
		DefaultGID() (verbs.GIDEntry, error)
	}); has {
		e, err := d.DefaultGID()
		if err != nil {
			return nil, err
		}
		return []verbs.GIDEntry{e}, nil
	}
	return table, nil
}

// chooseGIDs chooses each rail's address by its table and that of the peer's rail; server is the server's on the first, where
// both are known.
func (r *run) chooseGIDs(mine [][]verbs.GIDEntry, theirs control.Facts) (server verbs.GID, err error) {
	if r.ours && len(theirs.Rails) < len(r.rails)-1 {
		return server, fmt.Errorf("the peer has %d devices, the test has %d", len(theirs.Rails)+1, len(r.rails))
	}
	for i := range r.rails {
		table := theirs.GIDs
		if i > 0 {
			table = nil
			if r.ours {
				table = theirs.Rails[i-1]
			}
		}
		at, err := r.chooseGID(&r.rails[i], i == 0, mine[i], table)
		if err != nil {
			return server, err
		}
		if i == 0 {
			server = at
		}
	}
	return server, nil
}

// chooseGID chooses one rail's address. Those of the control connection are the first's.
func (r *run) chooseGID(on *rail, first bool, mine, theirs []verbs.GIDEntry) (server verbs.GID, err error) {
	if on.port.LinkLayer == verbs.LinkInfiniBand && r.o.GIDIndex == nil {
		return server, nil
	}
	on.useGID = true
	if len(theirs) == 0 {
		on.gid, err = ChooseGID(mine, r.session.LocalAddr())
		return server, err
	}
	var at ControlAddresses
	if first {
		at = ControlAddresses{Client: r.session.LocalAddr(), Server: r.session.RemoteAddr().Addr()}
	}
	dialled := r.session.Dialled()
	client, serving := mine, theirs
	if !dialled {
		client, serving = theirs, mine
		at.Client, at.Server = at.Server, at.Client
	}
	pair, err := ChooseGIDs(client, serving, at)
	if err != nil {
		return server, err
	}
	if on.gid = pair.Client; !dialled {
		on.gid = pair.Server
	}
	return pair.Server.GID, nil
}

// ServeThemselves tells whether the peer's requests are served while this process sleeps.
func (r rails) ServeThemselves() bool {
	return !slices.ContainsFunc(r, func(on rail) bool {
		_, does := on.device.(verbs.SelfServing)
		return !does
	})
}

// nodes are the NUMA nodes of the threads that measure.
func (r *run) nodes() []int {
	out := make([]int, r.spec.Threads)
	for n := range out {
		out[n] = r.rails[n%len(r.rails)].numaNode
	}
	return out
}

// names are those of the rails: with their address where a device's name stands for several.
func names(rails []rail) []string {
	count := map[string]int{}
	for i := range rails {
		count[rails[i].device.Info().Name]++
	}
	out := make([]string, len(rails))
	for i := range rails {
		out[i] = rails[i].device.Info().Name
		if count[out[i]] > 1 {
			out[i] += "@" + rails[i].gid.GID.Addr().String()
		}
	}
	return out
}

// describeRails adds what the result says of several devices.
func describeRails(e *report.Environment, rails []rail) {
	if len(rails) < 2 {
		return
	}
	list := names(rails)
	e.Device, e.Rails = strings.Join(list, ","), nil
	for i := range rails {
		one := describe(report.Environment{}, rails[i].device, rails[i].port)
		r := report.Rail{
			Device: list[i], Firmware: one.Firmware, Port: one.Port, LinkBitsPerS: one.LinkBitsPerS, MTU: one.MTU, NUMANode: one.NUMANode,
		}
		if rails[i].useGID {
			r.GID = rails[i].gid.GID.String()
		}
		e.Rails = append(e.Rails, r)
	}
}

// Name is that of the first.
func (r rails) Name() string { return r[0].device.Info().Name }

// Counters reads the devices' counters, added up; nil where one has none.
func (r rails) Counters() map[string]uint64 {
	all := map[string]uint64{}
	for _, on := range r {
		c, has := on.device.(verbs.Counters)
		if !has {
			return nil
		}
		m, err := c.Counters(on.port.Number)
		if err != nil {
			return nil
		}
		for name, v := range m {
			all[name] += v
		}
	}
	return all
}

// Failure looks at the events of the devices for one that no test survives. It does not wait.
func (r rails) Failure(counts func(verbs.AsyncEvent) bool) error {
	var errs []error
	for _, on := range r {
		for waiting := true; waiting; {
			select {
			case e, open := <-on.device.Events():
				if waiting = open; open && counts(e) {
					errs = append(errs, endedBy(on.device, e))
				}
			default:
				waiting = false
			}
		}
	}
	return errors.Join(errs...)
}

// endedBy is the error that an event makes of a test, or nil.
func endedBy(dev verbs.Device, e verbs.AsyncEvent) error {
	if !e.Type.EndsTest() {
		return nil
	}
	return &verbs.Error{
		Verb: "measure", Device: dev.Info().Name, Err: fmt.Errorf("the device reports %v: %s", e, e.Type.Meaning()), Fix: e.Type.Remedy(),
	}
}
