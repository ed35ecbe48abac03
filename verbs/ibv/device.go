//go:build linux && cgo

package ibv

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"net/netip"
	"sync"
	"syscall"
	"unsafe"

	"github.com/gobw/gobw/verbs"
)

// device is one opened device. Its methods may be called by several goroutines.
type device struct {
	object
	v       *C.struct_vb_verbs
	context *C.struct_vb_context
	sysfs   sysfsDevice
	info    verbs.DeviceInfo

	cm      *sharedLibrary
	objects sync.Map // queue pairs, completion and shared receive queues by libibverbs' pointers, which events carry
	events  chan verbs.AsyncEvent
	watcher // of events
}

// maxGIDs is more than any port has entries in its GID table: an address vector has 8 bits for them.
const maxGIDs = 1 << 16

// Device capability flags (ibv_device_cap_flags).
const (
	capMemoryManagement = 1 << 21 // SEND_WITH_INV and LOCAL_INV
	capMemoryWindow2A   = 1 << 23
	capMemoryWindow2B   = 1 << 24
	odpSupport          = 1 << 0 // IBV_ODP_SUPPORT
)

func (p *Provider) open(d *C.struct_vb_device) (verbs.Device, error) {
	name := text(d.name[:])
	c, err := C.vb_open_device(p.verbs(), d)
	dev := &device{
		v: p.verbs(), context: c, info: verbs.DeviceInfo{Name: name}, sysfs: sysfsDevice{p.sysfs, name}, cm: &p.cm,
		events: make(chan verbs.AsyncEvent, eventBacklog),
	}
	dev.d, dev.kind, dev.wake = dev, "device", dev.stop
	dev.destroy = func() C.int { return C.vb_close_device(dev.v, c) }
	dev.after = func() { close(dev.events) }
	if c == nil {
		// R_OK and W_OK
		err = whyClosed(p.sysfs, name, cmp.Or(err, errNoReason), func(file string) error { return syscall.Access(file, 6) })
		return nil, dev.fail("open device", err)
	}
	if p.sysfs == "" {
		dev.sysfs.root = sysfsRoot(text(d.ibdev_path[:]), name)
	}
	if err = checkContext(c); err == nil {
		err = dev.describe()
	}
	if err == nil {
		err = dev.watch(c.async_fd, "async events")
	}
	if err != nil {
		dev.destroy()
		return nil, dev.fail("open device", err)
	}
	dev.readEvents()
	return dev, nil
}

// checkContext refuses a context without what is used of it.
func checkContext(c *C.struct_vb_context) error {
	ops := &c.ops
	for name, missing := range map[string]bool{
		"device": c.device == nil, "ops.poll_cq": ops.poll_cq == nil, "ops.req_notify_cq": ops.req_notify_cq == nil,
		"ops.post_send": ops.post_send == nil, "ops.post_recv": ops.post_recv == nil,
	} {
		if missing {
			return fmt.Errorf("%w: its context has no %s", errLie, name)
		}
	}
	if c.num_comp_vectors < 0 {
		return fmt.Errorf("%w: it has %d completion vectors", errLie, c.num_comp_vectors)
	}
	return nil
}

// describe asks the device and sysfs for all that [verbs.DeviceInfo] holds.
func (d *device) describe() error {
	var a C.struct_vb_device_attr
	err := errnoError(C.vb_query_device(d.v, d.context, &a))
	limit := func(n C.int32_t) int {
		if n < 0 {
			err = cmp.Or(err, fmt.Errorf("%w: a limit of %d", errLie, n))
		}
		return int(n)
	}
	d.info = verbs.DeviceInfo{
		Name: d.info.Name, Provider: "ibv", Firmware: text(a.fw_ver[:]),
		NodeGUID: hostGUID(a.node_guid), SystemGUID: hostGUID(a.sys_image_guid),
		VendorID: uint32(a.vendor_id), PartID: uint32(a.vendor_part_id), HardwareVer: uint32(a.hw_ver),
		Ports: int(a.phys_port_cnt), NUMANode: -1,
		TransportType: cmp.Or(map[C.int32_t]string{
			0: "IB", 1: "IW", 2: "USNIC", 3: "USNIC",
		}[d.context.device.transport_type], "unspecified"),
		CompletionVectors: int(d.context.num_comp_vectors), ServesItself: true,
		Limits: verbs.Limits{
			MaxQP: limit(a.max_qp), MaxQPWR: limit(a.max_qp_wr), MaxSGE: limit(a.max_sge), MaxSGERead: limit(a.max_sge_rd),
			MaxInline: -1,
			MaxCQ:     limit(a.max_cq), MaxCQE: limit(a.max_cqe), MaxMR: limit(a.max_mr), MaxMRBytes: uint64(a.max_mr_size),
			MaxPD: limit(a.max_pd), MaxAH: int(a.max_ah), MaxMW: int(a.max_mw),
			MaxSRQ: int(a.max_srq), MaxSRQWR: int(a.max_srq_wr), MaxSRQSGE: int(a.max_srq_sge),
			MaxRDAtomic: limit(a.max_qp_rd_atom), MaxInitRDAtomic: limit(a.max_qp_init_rd_atom), MaxPKeys: int(a.max_pkeys),
			Atomic: a.atomic_cap != 0, MemoryWindow2: a.device_cap_flags&(capMemoryWindow2A|capMemoryWindow2B) != 0,
			SendInvalidate: a.device_cap_flags&capMemoryManagement != 0, LocalCAAckDelay: int(a.local_ca_ack_delay),
			DeviceCapFlags: uint32(a.device_cap_flags), PageSizeCap: uint64(a.page_size_cap),
			MaxMulticastGroup: int(a.max_mcast_grp),
		},
	}
	if err != nil {
		return d.fail("query device", err)
	}
	d.describeExtended()
	if d.context.ops.alloc_mw == nil {
		d.info.Limits.MemoryWindow2 = false
	}
	d.sysfs.describe(&d.info)
	if port, err := d.Port(1); err == nil {
		d.info.Limits.MaxMessageBytes = port.MaxMessage
	}
	return nil
}

// describeExtended asks for what only newer drivers know.
func (d *device) describeExtended() {
	var x C.struct_vb_device_attr_ex
	if C.vb_query_device_ex(d.context, &x) != 0 {
		return
	}
	if x.hca_core_clock != 0 {
		d.info.Clock = verbs.CompletionClock{Hz: 1000 * float64(x.hca_core_clock), Mask: uint64(x.completion_timestamp_mask)}
	}
	if caps := &x.odp_caps; caps.general_caps&odpSupport != 0 {
		d.info.Limits.OnDemand = verbs.OnDemand{
			Supported: true, RC: verbs.PagedOperation(caps.rc), UC: verbs.PagedOperation(caps.uc),
			UD: verbs.PagedOperation(caps.ud),
		}
	}
}

// Info describes the device.
func (d *device) Info() verbs.DeviceInfo { return d.info }

// hostGUID turns a big-endian number.
func hostGUID[T ~uint64](guid T) verbs.GUID {
	return verbs.GUID(bits.ReverseBytes64(uint64(guid)))
}

// Port describes port n as it is now.
func (d *device) Port(n int) (p verbs.PortInfo, err error) {
	err = d.inside(fmt.Sprintf("query port %d", n), func() error {
		if n < 1 || n > d.info.Ports {
			return fmt.Errorf("the device has ports 1 to %d: choose one of these", d.info.Ports)
		}
		var room struct { // a later library may write a longer struct
			a C.struct_vb_port_attr
			_ [208]byte
		}
		if err := errnoError(C.vb_query_port(d.v, d.context, C.uint8_t(n), &room.a)); err != nil {
			return err
		}
		if entries := room.a.gid_tbl_len; entries < 0 || entries > maxGIDs {
			return fmt.Errorf("%w: a GID table of %d entries", errLie, entries)
		}
		p = d.describePort(n, &room.a)
		if p.ActiveMTU > verbs.MTU4096 {
			return fmt.Errorf("%w: an MTU with the code %d", errLie, room.a.active_mtu)
		}
		return nil
	})
	return p, err
}

func (d *device) describePort(n int, a *C.struct_vb_port_attr) verbs.PortInfo {
	p := verbs.PortInfo{
		Number: n, State: verbs.PortState(a.state), PhysicalState: physicalState(int(a.phys_state)),
		LinkLayer: verbs.LinkLayer(a.link_layer), MaxMTU: verbs.MTU(a.max_mtu), ActiveMTU: verbs.MTU(a.active_mtu),
		LID: uint16(a.lid), SMLID: uint16(a.sm_lid), LMC: uint8(a.lmc), GIDTableLen: int(a.gid_tbl_len),
		PKeyTableLen: int(a.pkey_tbl_len), MaxMessage: uint64(a.max_msg_sz), CapFlags: uint32(a.port_cap_flags),
	}
	if p.LinkLayer == verbs.LinkUnspecified && d.info.TransportType == "IB" { // libraries before link layers: InfiniBand
		p.LinkLayer = verbs.LinkInfiniBand
	}
	if p.Rate, p.RateBitsPerS = d.sysfs.rate(n); d.info.Software {
		p.RateBitsPerS = 0
	}
	p.NetInterface = d.sysfs.netInterface(n)
	return p
}

// GIDs lists the valid entries of a port's GID table: from the library in one call, or from sysfs.
func (d *device) GIDs(port int) (entries []verbs.GIDEntry, err error) {
	err = d.inside("query GID table", func() error {
		p, err := d.Port(port)
		if err != nil {
			return err
		}
		if entries, err = d.gidTable(port); err != nil && !errors.Is(err, errLie) {
			entries, err = d.sysfs.gids(port, p.GIDTableLen), nil
		}
		return err
	})
	return entries, err
}

// gidTable asks the library for the tables of all ports.
func (d *device) gidTable(port int) (entries []verbs.GIDEntry, err error) {
	total := 0
	for n := 1; n <= d.info.Ports; n++ {
		p, err := d.Port(n)
		if err != nil {
			return nil, err
		}
		total += p.GIDTableLen
	}
	table := make([]C.struct_vb_gid_entry, total+1)
	n := int(C.vb_query_gid_table(d.v, d.context, &table[0], C.size_t(total)))
	switch {
	case n < 0:
		return nil, syscall.Errno(-n)
	case n > total:
		return nil, fmt.Errorf("%w: a GID table of %d entries where there is room for %d", errLie, n, total)
	}
	for i := range table[:n] {
		e := &table[i]
		g := verbs.GID(C.GoBytes(unsafe.Pointer(&e.gid[0]), 16))
		isKnown := e.gid_type <= C.uint32_t(verbs.GIDRoCEv2)
		if !isKnown || int(e.port_num) != port || g.IsZero() || g.IsLinkLocal() && bytes.Equal(g[8:], make([]byte, 8)) {
			continue
		}
		entries = append(entries, verbs.GIDEntry{
			Index: int(e.gid_index), GID: g, Type: verbs.GIDType(e.gid_type), NetInterface: interfaceName(int(e.ndev_ifindex)),
		})
	}
	return entries, nil
}

// PKeys lists a port's partition keys.
func (d *device) PKeys(port int) (keys []uint16, err error) {
	err = d.inside(fmt.Sprintf("query P_Keys of port %d", port), func() error {
		p, err := d.Port(port)
		for i := 0; i < p.PKeyTableLen && err == nil; i++ {
			var k [2]byte
			err = errnoError(C.vb_query_pkey(d.v, d.context, C.uint8_t(port), C.int(i), (*C.uint16_t)(unsafe.Pointer(&k))))
			if key := binary.BigEndian.Uint16(k[:]); key != 0 {
				keys = append(keys, key)
			}
		}
		return err
	})
	return keys, err
}

// Counters reads the port's error and traffic counters from sysfs.
func (d *device) Counters(port int) (c map[string]uint64, err error) {
	err = d.inside(fmt.Sprintf("read counters of port %d", port), func() error {
		if c = d.sysfs.counters(port); len(c) == 0 {
			return fmt.Errorf("%w: no counters under %s", verbs.ErrUnsupported, d.sysfs.port(port))
		}
		return nil
	})
	return c, err
}

// Events delivers asynchronous events.
func (d *device) Events() <-chan verbs.AsyncEvent { return d.events }

// DefaultGID is the best line of port 1's table.
func (d *device) DefaultGID() (verbs.GIDEntry, error) {
	table, err := d.GIDs(1)
	if err != nil {
		return verbs.GIDEntry{}, err
	}
	e, err := verbs.BestGID(table, netip.Addr{})
	return e, d.fail("choose GID", err)
}

// Bind is not for a device whose addresses are those of its interfaces.
func (d *device) Bind(netip.Addr) error { return d.fail("bind", verbs.ErrUnsupported) }

// Name is not, either.
func (d *device) Name(a netip.Addr) error { return d.Bind(a) }

// AllocPD makes a protection domain.
func (d *device) AllocPD() (verbs.ProtectionDomain, error) {
	p := &protectionDomain{object: object{d: d}}
	return made[verbs.ProtectionDomain](p, p.open("allocate protection domain", "protection domain", func() (err error) {
		p.pd, err = C.vb_alloc_pd(d.v, d.context)
		return refusal(p.pd, err)
	}, func() C.int { return C.vb_dealloc_pd(d.v, p.pd) }, &d.Handle))
}
