package bench

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
)

// twoPorts is a device whose one port answers as two, and which notes at which its queue pairs and their packets are.
type twoPorts struct {
	verbs.Device
	mu  sync.Mutex
	log []string
}

func (d *twoPorts) Info() verbs.DeviceInfo {
	info := d.Device.Info()
	info.Ports = 2
	return info
}

func (d *twoPorts) Port(n int) (verbs.PortInfo, error) {
	p, err := d.Device.Port(1)
	p.Number = n
	return p, err
}

func (d *twoPorts) GIDs(int) ([]verbs.GIDEntry, error) { return d.Device.GIDs(1) }

func (d *twoPorts) DefaultGID() (verbs.GIDEntry, error) {
	return d.Device.(interface {
		DefaultGID() (verbs.GIDEntry, error)
	}).DefaultGID()
}

func (d *twoPorts) AllocPD() (verbs.ProtectionDomain, error) {
	pd, err := d.Device.AllocPD()
	d.note("domain")
	return &portPD{pd, d}, err
}

func (d *twoPorts) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log = append(d.log, fmt.Sprintf(format, args...))
}

type portPD struct {
	verbs.ProtectionDomain
	d *twoPorts
}

func (p *portPD) CreateQP(o verbs.QueuePairOptions) (verbs.QueuePair, error) {
	qp, err := p.ProtectionDomain.CreateQP(o)
	return &portQP{qp, p.d}, err
}

func (p *portPD) CreateAH(a verbs.AddressVector) (verbs.AddressHandle, error) {
	p.d.note("handle %d", a.Port)
	a.Port = 1
	return p.ProtectionDomain.CreateAH(a)
}

type portQP struct {
	verbs.QueuePair
	d *twoPorts
}

func (q *portQP) Modify(a verbs.QueuePairAttributes) error {
	if a.Mask&verbs.AttrPort != 0 {
		q.d.note("port %d", a.Port)
		a.Port = 1
	}
	if a.Mask&verbs.AttrAddressVector != 0 {
		q.d.note("path %d", a.AddressVector.Port)
		a.AddressVector.Port = 1
	}
	return q.QueuePair.Modify(a)
}

// TestDualPort: of a device's two ports each has half of the queue pairs, in one protection domain and at both ends, and all data
// arrives; a device with one port is refused by name.
func TestDualPort(t *testing.T) {
	var devices []*twoPorts
	split := func(d verbs.Device) verbs.Device {
		x := &twoPorts{Device: d}
		devices = append(devices, x)
		return x
	}
	p := newPairOfRails(t, 1, 1, split)
	for _, tt := range []struct {
		spec plan.Spec
		want string // of what each end does, in order
	}{
		{
			plan.Spec{Operation: plan.Write, Kind: plan.Bandwidth, Sizes: []int{4096}, Iterations: 50, QPs: 4, Verify: plan.VerifyAll},
			"domain; port 1; port 1; port 2; port 2; path 1; path 1; path 2; path 2",
		},
		{
			plan.Spec{Operation: plan.Send, Kind: plan.Bandwidth, Transport: verbs.UD, Sizes: []int{512}, Iterations: 50, QPs: 2, Bidirectional: true},
			"domain; port 1; port 2; handle 1; handle 2",
		},
	} {
		for _, d := range devices {
			d.log = nil
		}
		tt.spec.DualPort = true
		res, err := p.run(t, tt.spec)
		if err != nil {
			t.Fatal(err)
		}
		if r := res.Records[0]; r.Messages == 0 || len(res.Here.Rails) != 2 || res.Here.Rails[0].Port != 1 || res.Here.Rails[1].Port != 2 {
			t.Errorf("%d messages; the environment tells of %+v", r.Messages, res.Here.Rails)
		}
		for _, d := range devices {
			d.mu.Lock()
			got := strings.Join(slices.Clone(d.log), "; ")
			d.mu.Unlock()
			if got != tt.want {
				t.Errorf("%v: an end did %s, want %s", tt.spec.Operation, got, tt.want)
			}
		}
	}
	same := func(d verbs.Device) verbs.Device { return d }
	_, err := newPairOfRails(t, 1, 1, same).run(t, plan.Spec{Operation: plan.Write, Kind: plan.Bandwidth, QPs: 2, DualPort: true})
	if err == nil || !strings.Contains(err.Error(), "roce0 has one port") {
		t.Errorf("a device with one port: %v", err)
	}
}
