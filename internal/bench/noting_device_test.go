package bench

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/gobw/gobw/internal/bench/endpoint"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
)

// notingDevice is a device that does nothing and notes what it is asked for.
type notingDevice struct {
	info verbs.DeviceInfo
	port verbs.PortInfo
	seen observation

	registered uint64 // bytes
	mapped     uint64 // of the memory that they lie in
	entries    entries
}

// entries are what the queues of a test hold, in all.
type entries struct{ queuePairs, queues, send, recv, sharedRecv, completions int }

// newNotingDevice is like a NIC of the ordinary kind, or like the software device.
func newNotingDevice(software bool) *notingDevice {
	name, ports := "noting0", 2
	threads := 0 // as many as there are
	if software {
		name, ports, threads = "roce0", 1, 1
	}
	return &notingDevice{
		info: verbs.DeviceInfo{
			Name: name, Software: software, Ports: ports, TransportType: "IB", NUMANode: -1,
			Clock: verbs.CompletionClock{Hz: 1e9, Mask: 1<<48 - 1}, Limits: verbs.Limits{
				MaxQP: 1 << 17, MaxQPWR: 1 << 15, MaxSGE: 30, MaxSGERead: 30, MaxInline: 1024, MaxCQE: 1 << 30, MaxRDAtomic: 16,
				MaxInitRDAtomic: 16,
				Atomic:          true, MaxMessageBytes: 1 << 31, Threads: threads,
				OnDemand: verbs.OnDemand{
					Supported: true, RC: verbs.PagedWrite | verbs.PagedRead | verbs.PagedSend | verbs.PagedReceive | verbs.PagedAtomic,
				},
			},
		},
		port: verbs.PortInfo{
			Number: 1, State: verbs.PortActive, LinkLayer: verbs.LinkEthernet, ActiveMTU: verbs.MTU4096, MaxMTU: verbs.MTU4096,
			MaxMessage: 1 << 31,
		},
		seen: observation{},
	}
}

// rails are those of a test, which all are the device.
func (d *notingDevice) rails(s plan.Spec) endpoint.Rails {
	out := make(endpoint.Rails, s.Rails)
	for i := range out {
		out[i] = endpoint.Rail{Device: d, Port: d.port, GID: notingGID(1), UseGID: true, NUMANode: -1}
	}
	return out
}

// observation is what can be seen of a test: of each thing that has a name the values that occurred.
type observation map[string]string

func (o observation) add(name string, value any) {
	if text := fmt.Sprintf(" %v;", value); !strings.Contains(o[name], text) {
		o[name] += text
	}
}

// addFields notes the fields of a struct, but for those that are objects.
func (o observation) addFields(prefix string, x any) {
	v := reflect.ValueOf(x)
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.Type.Kind() != reflect.Interface && f.Name != "Mask" {
			o.add(prefix+f.Name, v.Field(i).Interface())
		}
	}
}

// differs lists the names whose text is another.
func (o observation) differs(other observation) []string {
	var names []string
	for name := range o {
		if o[name] != other[name] {
			names = append(names, name)
		}
	}
	for name := range other {
		if _, has := o[name]; !has {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (d *notingDevice) Close() error                     { return nil }
func (d *notingDevice) Info() verbs.DeviceInfo           { return d.info }
func (d *notingDevice) Port(int) (verbs.PortInfo, error) { return d.port, nil }
func (d *notingDevice) GIDs(int) ([]verbs.GIDEntry, error) {
	return []verbs.GIDEntry{notingGID(1)}, nil
}
func (d *notingDevice) DefaultGID() (verbs.GIDEntry, error)      { return notingGID(1), nil }
func (d *notingDevice) Bind(netip.Addr) error                    { return verbs.ErrUnsupported }
func (d *notingDevice) Name(netip.Addr) error                    { return verbs.ErrUnsupported }
func (d *notingDevice) PKeys(int) ([]uint16, error)              { return []uint16{0xffff}, nil }
func (d *notingDevice) Counters(int) (map[string]uint64, error)  { return nil, verbs.ErrUnsupported }
func (d *notingDevice) Events() <-chan verbs.AsyncEvent          { return nil }
func (d *notingDevice) AllocPD() (verbs.ProtectionDomain, error) { return &notingPD{d: d}, nil }

func notingGID(host byte) verbs.GIDEntry {
	return verbs.GIDEntry{
		Index: 3, GID: verbs.GIDFromAddr(netip.AddrFrom4([4]byte{192, 0, 2, host})), Type: verbs.GIDRoCEv2,
	}
}

func (d *notingDevice) CreateCompletionChannel() (verbs.CompletionChannel, error) {
	d.seen.add("completion channel", "made")
	return notingChannel{}, nil
}

func (d *notingDevice) CreateCQ(o verbs.CompletionQueueOptions) (verbs.CompletionQueue, error) {
	d.seen.addFields("completion queue: ", o)
	d.entries.queues++
	d.entries.completions += o.Depth
	return notingCQ{depth: o.Depth}, nil
}

var errNoted = errors.New("noted")

func (d *notingDevice) DialCM(_ context.Context, _ netip.AddrPort, o verbs.CMOptions) (verbs.CMConnection, error) {
	if o.TOS != nil {
		d.seen.add("RDMA CM: type of service", *o.TOS)
	}
	d.seen.add("RDMA CM: transport", o.Transport)
	return nil, errNoted
}

func (d *notingDevice) ListenCM(netip.AddrPort, verbs.CMOptions) (verbs.CMListener, error) {
	return nil, errNoted
}

type notingChannel struct{}

func (notingChannel) Close() error { return nil }
func (notingChannel) Wait(context.Context) (verbs.CompletionQueue, error) {
	return nil, errNoted
}

type notingCQ struct{ depth int }

func (notingCQ) Close() error                         { return nil }
func (c notingCQ) Depth() int                         { return c.depth }
func (notingCQ) Poll([]verbs.Completion) (int, error) { return 0, nil }
func (notingCQ) Arm(verbs.Notify) error               { return nil }
func (notingCQ) Resize(int) error                     { return nil }

type notingPD struct {
	verbs.ProtectionDomain // what no test registers by
	d                      *notingDevice
}

func (*notingPD) Close() error { return nil }

func (p *notingPD) RegisterMemory(buf *verbs.Buffer, offset, n int, access verbs.Access) (verbs.MemoryRegion, error) {
	b := buf.Bytes()[offset:][:n]
	p.d.registered += uint64(len(b))
	if p.d.mapped += uint64(len(b)); cap(b)-len(b) >= os.Getpagesize() {
		p.d.mapped += uint64(cap(b) - len(b)) // more than is rounded up to
	}
	p.d.seen.add("memory region: bytes", len(b))
	p.d.seen.add("memory region: access", access)
	return notingMR(len(b)), nil
}

func (p *notingPD) CreateQP(o verbs.QueuePairOptions) (verbs.QueuePair, error) {
	return p.CreateQPPosting(o, verbs.Posting{})
}

func (p *notingPD) CreateQPPosting(o verbs.QueuePairOptions, by verbs.Posting) (verbs.QueuePair, error) {
	p.d.seen.addFields("queue pair: ", o)
	p.d.seen.addFields("queue pair: ", by)
	p.d.entries.queuePairs++
	p.d.entries.send += o.SendDepth
	p.d.entries.recv += o.RecvDepth
	return &notingQP{d: p.d, o: o, n: uint32(p.d.entries.queuePairs)}, nil
}

func (p *notingPD) CreateSRQ(o verbs.SharedReceiveQueueOptions) (verbs.SharedReceiveQueue, error) {
	p.d.seen.addFields("shared receive queue: ", o)
	p.d.entries.sharedRecv += o.Depth
	return notingSRQ{}, nil
}

func (p *notingPD) CreateAH(a verbs.AddressVector) (verbs.AddressHandle, error) {
	p.d.seen.addFields("packets: ", a)
	return notingMR(0), nil
}

func (*notingPD) AllocMW() (verbs.MemoryWindow, error) { return notingMR(0), nil }

type notingMR int

func (notingMR) Close() error           { return nil }
func (notingMR) Addr() uint64           { return 0 }
func (m notingMR) Len() int             { return int(m) }
func (notingMR) LKey() uint32           { return 1 }
func (notingMR) SGE(_, n int) verbs.SGE { return verbs.SGE{Length: uint32(n), LKey: 1} }
func (notingMR) RKey() uint32           { return 2 }

type notingSRQ struct{}

func (notingSRQ) Close() error                             { return nil }
func (notingSRQ) PostReceive([]verbs.ReceiveRequest) error { return nil }
func (notingSRQ) SetLimit(int) error                       { return nil }

type notingQP struct {
	d *notingDevice
	o verbs.QueuePairOptions
	n uint32
}

func (*notingQP) Close() error                       { return nil }
func (q *notingQP) QPN() uint32                      { return q.n }
func (q *notingQP) Transport() verbs.Transport       { return q.o.Transport }
func (*notingQP) State() verbs.QPState               { return verbs.StateRTS }
func (q *notingQP) Device() verbs.Device             { return q.d }
func (*notingQP) PostSend([]verbs.SendRequest) error { return nil }

func (q *notingQP) AttachMulticast(group verbs.GID, lid uint16) error {
	q.d.seen.add("multicast group", fmt.Sprint(group, lid))
	return nil
}
func (*notingQP) DetachMulticast(verbs.GID, uint16) error { return nil }
func (q *notingQP) PostReceive(r []verbs.ReceiveRequest) error {
	q.d.seen.add("receives posted at once", len(r))
	return nil
}

func (q *notingQP) Capabilities() verbs.QueuePairCapabilities {
	return verbs.QueuePairCapabilities{SendDepth: q.o.SendDepth, RecvDepth: q.o.RecvDepth, InlineBytes: q.o.InlineBytes}
}

func (q *notingQP) Query() (verbs.QueuePairAttributes, error) {
	return verbs.QueuePairAttributes{}, nil
}

func (q *notingQP) Modify(a verbs.QueuePairAttributes) error {
	a.RecvPSN, a.SendPSN = 0, 0 // drawn by lot
	for _, field := range []struct {
		bit verbs.AttributeMask
		at  any
	}{
		{verbs.AttrAccess, &a.Access},
		{verbs.AttrPKeyIndex, &a.PKeyIndex},
		{verbs.AttrPort, &a.Port},
		{verbs.AttrQKey, &a.QKey},
		{verbs.AttrPathMTU, &a.PathMTU},
		{verbs.AttrTimeout, &a.Timeout},
		{verbs.AttrRetryCount, &a.RetryCount},
		{verbs.AttrRNRRetry, &a.RNRRetry},
		{verbs.AttrMaxRDAtomic, &a.MaxRDAtomic},
		{verbs.AttrMaxDestRDAtomic, &a.MaxDestRDAtomic},
		{verbs.AttrMinRNRTimer, &a.MinRNRTimer},
		{verbs.AttrDestQPN, &a.DestQPN},
	} {
		if a.Mask&field.bit == 0 { // the device does not look at it
			reflect.ValueOf(field.at).Elem().SetZero()
		}
	}
	prefix := strings.TrimSuffix(a.State.String(), ";") + ": "
	if a.Mask&verbs.AttrAddressVector != 0 {
		q.d.seen.addFields("packets: ", a.AddressVector)
	}
	a.AddressVector = verbs.AddressVector{}
	q.d.seen.addFields(prefix, a)
	return nil
}
