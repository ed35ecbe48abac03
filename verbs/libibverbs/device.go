//go:build linux && cgo

package main

// #include "abi.h"
import "C"

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce"
	"github.com/gobw/gobw/verbs/roce/netem"
)

// Environment variables by which 'gobw run' tells what the device is like.
const (
	envAddress = "GOBW_ROCE_ADDRESS"
	envEmulate = "GOBW_ROCE_EMULATE"
	envPcap    = "GOBW_ROCE_PCAP"
)

// pcapBytes is the size at which a file of packets ends.
const pcapBytes = 1 << 30

// shared is the process's device, which all its contexts are of: an address has one socket.
var shared struct { //nolint:gochecknoglobals // C has no receiver to pass
	mu       sync.Mutex
	device   verbs.Device
	capture  *os.File
	contexts []int // descriptors that get their events
	gids     []verbs.GIDEntry
}

// device is the open device; C calls nothing of it before it has opened it.
func device() verbs.Device {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	return shared.device
}

//export gobwOpen
func gobwOpen(events C.int) C.int {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.device == nil {
		if err := openDevice(); err != nil {
			return errno("ibv_open_device", err)
		}
	}
	shared.contexts = append(shared.contexts, int(events))
	return 0
}

func openDevice() (err error) {
	var o roce.Options
	if a := os.Getenv(envAddress); a != "" {
		if o.Address, err = netip.ParseAddr(a); err != nil {
			return fmt.Errorf("%s: %w", envAddress, err)
		}
	}
	if o.Network, err = netem.Parse(os.Getenv(envEmulate)); err != nil {
		return fmt.Errorf("%s: %w", envEmulate, err)
	}
	var file *os.File
	if path := os.Getenv(envPcap); path != "" {
		if file, err = os.Create(path); err != nil {
			return fmt.Errorf("%s: %w", envPcap, err)
		}
		o.Pcap, o.PcapBytes = file, pcapBytes
	}
	d, err := roce.New(o).Open(roce.DeviceName)
	if err != nil {
		if file != nil {
			_ = file.Close()
		}
		return err
	}
	shared.device, shared.capture, shared.gids = d, file, nil
	go deliver(d.Events())
	return nil
}

//export gobwClose
func gobwClose(events C.int) C.int {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.contexts = slices.DeleteFunc(shared.contexts, func(fd int) bool { return fd == int(events) })
	freeObjectsOf(int(events))
	if len(shared.contexts) > 0 || shared.device == nil {
		return 0
	}
	err := shared.device.Close()
	if err == nil && shared.capture != nil {
		err = shared.capture.Close()
	}
	if err == nil {
		shared.device = nil
	}
	return errno("ibv_close_device", err)
}

//export gobwQuit
func gobwQuit() C.int {
	d := device()
	if d == nil {
		return 0
	}
	return errno("exit", d.(interface{ Quit() error }).Quit())
}

// deliver writes events to the contexts' pipes, until the device is closed.
func deliver(events <-chan verbs.AsyncEvent) {
	for e := range events {
		var of any
		switch {
		case e.QP != nil:
			of = e.QP
		case e.CQ != nil:
			of = e.CQ
		case e.SRQ != nil:
			of = e.SRQ
		case e.Port == 0 && e.Type != verbs.EventDeviceFatal:
			continue // its object is closed
		}
		if of != nil {
			if o := objectOf(of); o != nil {
				o.tell(o.events, e.Type)
			}
			continue
		}
		shared.mu.Lock()
		for _, fd := range shared.contexts {
			writeEvent(fd, uint64(e.Port), e.Type)
		}
		shared.mu.Unlock()
	}
}

// mostPipe is as large as a pipe may be without privileges: 65,536 events, more than there are queues.
const mostPipe = 1 << 20

// writeEvent writes struct event, and tells whether it went in.
func writeEvent(fd int, element uint64, t verbs.EventType) bool {
	var b [16]byte
	binary.NativeEndian.PutUint64(b[:], element)
	binary.NativeEndian.PutUint64(b[8:], uint64(t))
	_, err := syscall.Write(fd, b[:])
	if errors.Is(err, syscall.EAGAIN) { // full
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, mostPipe)
		_, err = syscall.Write(fd, b[:])
	}
	return err == nil
}

// capabilities are flags of ibv_device_attr: CURR_QP_STATE_MOD, PORT_ACTIVE_EVENT,
// SYS_IMAGE_GUID, RC_RNR_NAK_GEN and N_NOTIFY_CQ.
const capabilities = 1<<7 | 1<<10 | 1<<11 | 1<<12 | 1<<14

//export gobwDevice
func gobwDevice(a *C.struct_vb_device_attr_ex) C.int {
	info := device().Info()
	l, o := &info.Limits, &a.orig
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&o.fw_ver)), len(o.fw_ver)-1), "software device (gobw)")
	o.node_guid, o.sys_image_guid = bigEndian(uint64(info.NodeGUID)), bigEndian(uint64(info.SystemGUID))
	o.max_mr_size, o.page_size_cap = C.uint64_t(l.MaxMRBytes), C.uint64_t(l.PageSizeCap)
	o.vendor_id, o.vendor_part_id, o.hw_ver = C.uint32_t(info.VendorID), C.uint32_t(info.PartID),
		C.uint32_t(info.HardwareVer)
	o.max_qp, o.max_qp_wr, o.max_sge, o.max_sge_rd = C.int32_t(l.MaxQP), C.int32_t(l.MaxQPWR), C.int32_t(l.MaxSGE),
		C.int32_t(l.MaxSGERead)
	o.max_cq, o.max_cqe, o.max_mr, o.max_pd = C.int32_t(l.MaxCQ), C.int32_t(l.MaxCQE), C.int32_t(l.MaxMR),
		C.int32_t(l.MaxPD)
	o.max_qp_rd_atom, o.max_qp_init_rd_atom = C.int32_t(l.MaxRDAtomic), C.int32_t(l.MaxInitRDAtomic)
	o.max_res_rd_atom = C.int32_t(l.MaxRDAtomic * l.MaxQP)
	o.max_mw, o.max_ah, o.max_mcast_grp = C.int32_t(l.MaxMW), C.int32_t(l.MaxAH), C.int32_t(l.MaxMulticastGroup)
	o.max_mcast_qp_attach, o.max_total_mcast_qp_attach = C.int32_t(l.MaxQP), C.int32_t(l.MaxQP)
	o.max_srq, o.max_srq_wr, o.max_srq_sge = C.int32_t(l.MaxSRQ), C.int32_t(l.MaxSRQWR), C.int32_t(l.MaxSRQSGE)
	o.max_pkeys, o.local_ca_ack_delay, o.phys_port_cnt = C.uint16_t(l.MaxPKeys), C.uint8_t(l.LocalCAAckDelay),
		C.uint8_t(info.Ports)
	if l.Atomic {
		o.atomic_cap = 2 // IBV_ATOMIC_GLOB: of this machine's processors, too
	}
	o.device_cap_flags = capabilities
	if l.SendInvalidate {
		o.device_cap_flags |= 1 << 21 // IBV_DEVICE_MEM_MGT_EXTENSIONS
	}
	if l.MemoryWindow2 {
		o.device_cap_flags |= 1<<17 | 1<<24 // IBV_DEVICE_MEM_WINDOW, IBV_DEVICE_MEM_WINDOW_TYPE_2B
	}
	if l.OnDemand.Supported {
		a.odp_caps.general_caps = 1
		a.odp_caps.rc, a.odp_caps.uc, a.odp_caps.ud = C.uint32_t(l.OnDemand.RC), C.uint32_t(l.OnDemand.UC),
			C.uint32_t(l.OnDemand.UD)
	}
	a.completion_timestamp_mask, a.hca_core_clock = C.uint64_t(info.Clock.Mask), C.uint64_t(info.Clock.Hz/1e3)
	return 0
}

func bigEndian(v uint64) C.uint64_t {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], v)
	return C.uint64_t(binary.NativeEndian.Uint64(b[:]))
}

//export gobwPort
func gobwPort(n C.uint8_t, a *C.struct_vb_port_attr) C.int {
	p, err := device().Port(int(n))
	if err != nil {
		return errno("ibv_query_port", err)
	}
	gids, err := readGIDs()
	if err != nil {
		return errno("ibv_query_port", err)
	}
	a.state, a.max_mtu, a.active_mtu = C.int32_t(p.State), C.int32_t(p.MaxMTU), C.int32_t(p.ActiveMTU)
	a.gid_tbl_len, a.pkey_tbl_len, a.max_msg_sz = C.int32_t(len(gids)), C.uint16_t(p.PKeyTableLen),
		C.uint32_t(p.MaxMessage)
	a.port_cap_flags = 1<<16 | 1<<26 // CM, IP based GIDs
	a.max_vl_num, a.phys_state, a.link_layer = 1, 5, C.uint8_t(p.LinkLayer)
	a.active_width, a.active_speed = 1, 1 // 1X at 2.5 Gbit/s, the least that can be said: there is no link
	return 0
}

// readGIDs reads the GID table that programs see: the lines of the interface of the default GID, which is the first
// and, since so many programs and their guides name index 1, also the second. On loopback it is the only one, as the
// other addresses there may be another process's.
func readGIDs() ([]verbs.GIDEntry, error) {
	d := device()
	first, err := d.DefaultGID()
	if err != nil {
		return nil, err
	}
	all, err := d.GIDs(1)
	if err != nil {
		return nil, err
	}
	gids := []verbs.GIDEntry{first, first}
	for _, g := range all {
		if g.NetInterface == first.NetInterface && g.Index != first.Index && !first.GID.Addr().IsLoopback() {
			gids = append(gids, g)
		}
	}
	shared.mu.Lock()
	shared.gids = gids
	shared.mu.Unlock()
	return gids, nil
}

// gidTable is the table as it was read last.
func gidTable() ([]verbs.GIDEntry, error) {
	shared.mu.Lock()
	gids := shared.gids
	shared.mu.Unlock()
	if gids == nil {
		return readGIDs()
	}
	return gids, nil
}

//export gobwGID
func gobwGID(index C.uint32_t, e *C.struct_vb_gid_entry) C.int {
	gids, err := gidTable()
	if err != nil {
		return errno("ibv_query_gid", err)
	}
	if int(index) >= len(gids) {
		return C.int(syscall.ENODATA)
	}
	g := &gids[index]
	*(*verbs.GID)(unsafe.Pointer(&e.gid)) = g.GID
	e.gid_index, e.port_num, e.gid_type = index, 1, 2 // RoCE v2
	if f, err := net.InterfaceByName(g.NetInterface); err == nil {
		e.ndev_ifindex = C.uint32_t(f.Index)
	}
	return 0
}

// vector is an address vector of a program as the device has it.
func vector(a *C.struct_vb_ah_attr) (verbs.AddressVector, error) {
	v := verbs.AddressVector{
		DGID: *(*verbs.GID)(unsafe.Pointer(&a.grh.dgid)), UseGID: a.is_global != 0, DLID: uint16(a.dlid), SL: uint8(a.sl),
		TrafficClass: uint8(a.grh.traffic_class), HopLimit: uint8(a.grh.hop_limit),
		FlowLabel: uint32(a.grh.flow_label) & verbs.MaxFlowLabel,
		Port:      int(a.port_num),
	}
	if !v.UseGID {
		return v,
			fmt.Errorf("%s is an Ethernet device, which is addressed by GID and not by LID: set is_global and the peer's GID "+
				"(ibv_rc_pingpong: -g 0; perftest: -x 0)", roce.DeviceName)
	}
	gids, err := gidTable()
	if err != nil {
		return v, err
	}
	if int(a.grh.sgid_index) >= len(gids) {
		return v, fmt.Errorf("sgid_index %d: the GID table has %d lines", a.grh.sgid_index, len(gids))
	}
	v.SGIDIndex = gids[a.grh.sgid_index].Index
	return v, nil
}

// tellVector is vector the other way round.
func tellVector(v *verbs.AddressVector, a *C.struct_vb_ah_attr) {
	*(*verbs.GID)(unsafe.Pointer(&a.grh.dgid)) = v.DGID
	if v.UseGID {
		a.is_global = 1
	}
	a.sl, a.grh.traffic_class, a.grh.hop_limit = C.uint8_t(v.SL), C.uint8_t(v.TrafficClass), C.uint8_t(v.HopLimit)
	a.grh.flow_label, a.port_num = C.uint32_t(v.FlowLabel), C.uint8_t(v.Port)
	if gids, err := gidTable(); err == nil {
		if i := slices.IndexFunc(gids, func(g verbs.GIDEntry) bool { return g.Index == v.SGIDIndex }); i > 0 {
			a.grh.sgid_index = C.uint8_t(i)
		}
	}
}
