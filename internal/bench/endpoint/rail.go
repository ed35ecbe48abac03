package endpoint

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/verbs"
)

// Rails are the devices of this end that a test runs on.
type Rails []Rail

// Rail is one device of an end, and its address: rail i of one end talks to rail i of the other. Most tests have one.
type Rail struct {
	Device   verbs.Device
	Port     verbs.PortInfo
	GID      verbs.GIDEntry
	UseGID   bool // else LIDs
	NUMANode int  // where its threads and its buffers are to be; -1: wherever the kernel wants
}

// OpenRails chooses the port of each device, 0: the first that is ACTIVE. node is where
// all are to be; nil: each at its device.
func OpenRails(devices []verbs.Device, port int, node *int) (Rails, error) {
	var rails Rails
	for _, d := range devices {
		at, err := ChoosePort(d, port)
		if err != nil {
			return nil, err
		}
		r := Rail{Device: d, Port: at, NUMANode: d.Info().NUMANode}
		if node != nil {
			r.NUMANode = *node
		}
		rails = append(rails, r)
	}
	return rails, nil
}

// Common is what all rails can do, which is what a test is settled with.
func (r Rails) Common() (verbs.DeviceInfo, verbs.PortInfo) {
	info, port := r[0].Device.Info(), r[0].Port
	for _, on := range r[1:] {
		i, l := on.Device.Info(), &info.Limits
		o := &i.Limits
		info.Name += "," + i.Name
		info.Software = info.Software || i.Software
		l.MaxQP, l.MaxQPWR, l.MaxCQE = min(l.MaxQP, o.MaxQP), min(l.MaxQPWR, o.MaxQPWR), min(l.MaxCQE, o.MaxCQE)
		l.MaxSGE, l.MaxSGERead, l.MaxInline = min(l.MaxSGE, o.MaxSGE), min(l.MaxSGERead, o.MaxSGERead), min(l.MaxInline,
			o.MaxInline)
		l.MaxRDAtomic, l.MaxInitRDAtomic = min(l.MaxRDAtomic, o.MaxRDAtomic), min(l.MaxInitRDAtomic, o.MaxInitRDAtomic)
		l.Atomic, l.MaxMessageBytes = l.Atomic && o.Atomic, min(l.MaxMessageBytes, o.MaxMessageBytes)
		if n := o.Threads; n > 0 && (l.Threads == 0 || n < l.Threads) {
			l.Threads = n
		}
		port.ActiveMTU, port.MaxMessage = min(port.ActiveMTU, on.Port.ActiveMTU), min(port.MaxMessage, on.Port.MaxMessage)
	}
	return info, port
}

// Tables reads the GID tables from which each rail's address is chosen: only the line that is asked for, or that the
// device was bound to, where there is one.
func (r Rails) Tables(index *int) ([][]verbs.GIDEntry, error) {
	var out [][]verbs.GIDEntry
	for _, on := range r {
		table, err := on.Device.GIDs(on.Port.Number)
		if err != nil {
			return nil, err
		}
		var e verbs.GIDEntry
		switch {
		case index != nil:
			if e, err = GIDWithIndex(table, *index); err != nil {
				err = &verbs.Error{Verb: "choose GID", Device: on.Device.Info().Name, Err: err}
			}
		case on.Device.Info().Rebinds:
			e, err = on.Device.DefaultGID()
		default:
			out = append(out, table)
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, []verbs.GIDEntry{e})
	}
	return out, nil
}

// ChooseGIDs chooses each rail's address by its table and that of the peer's rail, if it has told one.
// given is a line that was asked for; InfiniBand needs none otherwise. It returns the peer's address on the
// first rail, zero where it is not known.
func (r Rails) ChooseGIDs(mine, theirs [][]verbs.GIDEntry, given *int, ends Ends) (peer verbs.GID, err error) {
	for i := range r {
		on := &r[i]
		if on.Port.LinkLayer == verbs.LinkInfiniBand && given == nil {
			continue
		}
		on.UseGID = true
		var other verbs.GIDEntry
		switch {
		case i >= len(theirs) || len(theirs[i]) == 0:
			on.GID, err = verbs.BestGID(mine[i], ends.Local) // the peer does not tell its own: perftest's dialect
		case i == 0:
			on.GID, other, err = ChooseGIDs(mine[i], theirs[i], ends)
			peer = other.GID
		default: // the addresses of the control connection are the first's
			on.GID, _, err = ChooseGIDs(mine[i], theirs[i], Ends{Dialled: ends.Dialled})
		}
		if err != nil {
			return peer, err
		}
	}
	return peer, nil
}

// Find looks for the address in use where it is now: an interface that comes or goes moves the lines of the table, and
// an index from before would name another.
func (r *Rail) Find() error {
	if !r.UseGID {
		return nil
	}
	table, err := r.Device.GIDs(r.Port.Number)
	if err != nil {
		return err
	}
	same := func(e verbs.GIDEntry) bool { return e.GID == r.GID.GID && e.Type == r.GID.Type }
	if i := slices.IndexFunc(table, same); i >= 0 {
		r.GID = table[i]
		return nil
	}
	return &verbs.Error{
		Verb: "find the address in use", Device: r.Device.Info().Name,
		Err: fmt.Errorf("%v is gone: its interface %s has vanished, is down, or has lost it", r.GID.GID.Addr(),
			r.GID.NetInterface), Fix: "look at 'ip address' and the kernel's log (dmesg)",
	}
}

// ServeThemselves tells whether the peer's requests are served while this process sleeps.
func (r Rails) ServeThemselves() bool {
	return !slices.ContainsFunc(r, func(on Rail) bool { return !on.Device.Info().ServesItself })
}

// Of is the rail of a thread: they are dealt out.
func (r Rails) Of(thread int) *Rail { return &r[thread%len(r)] }

// Names are those of the rails: with their address where a device's name stands for several.
func (r Rails) Names() []string {
	count := map[string]int{}
	for i := range r {
		count[r[i].Device.Info().Name]++
	}
	out := make([]string, len(r))
	for i := range r {
		out[i] = r[i].Device.Info().Name
		if count[out[i]] > 1 {
			out[i] += "@" + r[i].GID.GID.Addr().String()
		}
	}
	return out
}

// Describe adds what a result says of the devices, their ports and their addresses: in full of the
// first, and in brief of each of several.
func (r Rails) Describe(e *report.Environment) {
	first := &r[0]
	i, port := first.Device.Info(), first.Port
	e.Device, e.Provider, e.Software, e.Driver, e.Firmware = i.Name, i.Provider, i.Software, i.Driver, i.Firmware
	e.Fabric = i.EmulatedNetwork
	e.Port, e.LinkLayer, e.LinkBitsPerS, e.LinkState = port.Number, port.LinkLayer.String(), port.RateBitsPerS,
		port.State.String()
	e.MTU = port.ActiveMTU.Bytes()
	e.PCILinkSpeed, e.PCILinkWidth, e.NUMANode = i.PCILinkSpeed, i.PCILinkWidth, i.NUMANode
	if i.Software {
		e.LinkBitsPerS = 0
	}
	if first.UseGID {
		e.GIDIndex, e.GID, e.GIDType = first.GID.Index, first.GID.GID.String(), first.GID.Type.String()
	}
	if len(r) < 2 {
		return
	}
	list := r.Names()
	e.Device, e.Rails = strings.Join(list, ","), nil
	for i := range r {
		var one report.Environment
		r[i : i+1].Describe(&one)
		e.Rails = append(e.Rails, report.Rail{
			Device: list[i], Firmware: one.Firmware, Port: one.Port, LinkBitsPerS: one.LinkBitsPerS, MTU: one.MTU,
			NUMANode: one.NUMANode, GID: one.GID,
		})
	}
}

// CountersOfEach reads the devices' counters; nil where one has none.
func (r Rails) CountersOfEach() (each []map[string]uint64) {
	for _, on := range r {
		m, err := on.Device.Counters(on.Port.Number)
		if err != nil {
			return nil
		}
		each = append(each, m)
	}
	return each
}

// Counters are those of all devices, added up.
func (r Rails) Counters() map[string]uint64 {
	all := map[string]uint64{}
	for _, m := range r.CountersOfEach() {
		for name, v := range m {
			all[name] += v
		}
	}
	return all
}

// Failure looks at the events of the devices for one that no test survives. It does not wait.
func (r Rails) Failure(counts func(verbs.AsyncEvent) bool) error {
	var errs []error
	for _, on := range r {
		for waiting := true; waiting; {
			select {
			case e, open := <-on.Device.Events():
				if waiting = open; open && counts(e) && e.Type.EndsTest() {
					errs = append(errs, &verbs.Error{
						Verb: "measure", Device: on.Device.Info().Name, Err: fmt.Errorf("the device reports %v: %s", e, e.Type.Meaning()),
						Fix: e.Type.Remedy(),
					})
				}
			default:
				waiting = false
			}
		}
	}
	return errors.Join(errs...)
}
