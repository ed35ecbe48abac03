package verbs

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"
)

// Device is one opened RDMA device. Its methods may be called by several goroutines; each handle it makes says who may
// use it.
type Device interface {
	io.Closer

	// Info describes the device. It does not change while the device is open, except [Limits].ReceiveWindow, by Bind.
	Info() DeviceInfo
	// Port describes port n, counted from 1, as it is now.
	Port(n int) (PortInfo, error)
	// GIDs lists the valid entries of port n's GID table.
	GIDs(port int) ([]GIDEntry, error)
	// DefaultGID is the line of the GID table to use where nothing was asked for: of a device that Rebinds the address
	// that it is bound to, of others the best of port 1, see [BestGID].
	DefaultGID() (GIDEntry, error)
	// Bind makes addr, an address of this host, that of the default GID. A device that does not Rebind refuses with
	// [ErrUnsupported], one that has queue pairs with an error.
	Bind(addr netip.Addr) error
	// Name makes addr that of the default GID for a look at port and GID table alone: another process may be
	// there. Bind comes before queue pairs.
	Name(addr netip.Addr) error
	// PKeys lists port n's partition keys.
	PKeys(port int) ([]uint16, error)
	// Counters counts port n's errors and traffic; names follow the kernel's hw_counters where they have an equal
	// ("out_of_sequence", "rnr_nak_retry_err", ...).
	Counters(port int) (map[string]uint64, error)

	// AllocPD makes a protection domain.
	AllocPD() (ProtectionDomain, error)
	// CreateCompletionChannel makes a channel on which completion queues announce events.
	CreateCompletionChannel() (CompletionChannel, error)
	// CreateCQ makes a completion queue.
	CreateCQ(o CompletionQueueOptions) (CompletionQueue, error)
	// Events delivers asynchronous events (port down, QP fatal, SRQ limit, ...). It is closed with the device. Events
	// that nobody reads are dropped, oldest first, beyond 64 at least.
	Events() <-chan AsyncEvent
}

// DeviceInfo describes a device: struct ibv_device_attr in Go words.
type DeviceInfo struct {
	Name            string `json:"name"`
	Provider        string `json:"provider"`
	Software        bool   `json:"software"`         // true: figures are the host's, not a NIC's
	EmulatedNetwork string `json:"fabric,omitempty"` // bad network that the device emulates ("loss=1%"), empty: none
	Firmware        string `json:"firmware,omitempty"`
	NodeGUID        GUID   `json:"node_guid"`
	SystemGUID      GUID   `json:"system_guid"`
	VendorID        uint32 `json:"vendor_id"`
	PartID          uint32 `json:"part_id"`
	HardwareVer     uint32 `json:"hw_ver"`
	Ports           int    `json:"ports"`
	NUMANode        int    `json:"numa_node"` // -1: unknown
	Driver          string `json:"driver,omitempty"`
	PCIAddress      string `json:"pci_address,omitempty"`
	PCILinkSpeed    string `json:"pci_link_speed,omitempty"` // "16.0 GT/s PCIe"
	PCILinkWidth    int    `json:"pci_link_width,omitempty"` // lanes
	NetInterface    string `json:"net_interface,omitempty"`
	TransportType   string `json:"transport_type"` // "IB", "IW": as perftest prints it
	Limits          Limits `json:"limits"`
	// Clock stamps the completions of queues that ask for it.
	Clock CompletionClock `json:"completion_clock,omitzero"`
	// CompletionVectors is how many there are to spread completion events over CPUs.
	CompletionVectors int `json:"completion_vectors,omitempty"`

	// Rebinds tells that Bind chooses the address after opening, as of the software device.
	Rebinds bool `json:"-"`
	// ServesItself tells that peers are served without anybody calling the device: by hardware, or a driver in the kernel.
	// A process whose part is to be written to and read from may then sleep.
	ServesItself bool `json:"-"`
	// Batched is how many packets the longest WRITE and READ have that still go out in full batches: a message of several
	// requests is best cut there. 0: as few requests as possible are best.
	Batched struct{ Write, Read int } `json:"-"`
}

// IWARP tells a device whose connections are streams that RDMA CM makes: RC alone, without immediate data and atomics.
func (i *DeviceInfo) IWARP() bool { return i.TransportType == "IW" }

// Limits are the numbers a device grants; 0 means "none" except where noted.
type Limits struct {
	MaxQP             int    `json:"max_qp"`
	MaxQPWR           int    `json:"max_qp_wr"`
	MaxSGE            int    `json:"max_sge"`
	MaxSGERead        int    `json:"max_sge_rd"` // entries of a READ's list; differs from MaxSGE on real hardware
	MaxInline         int    `json:"max_inline"` // bytes; -1: only creating a queue pair tells
	MaxCQ             int    `json:"max_cq"`
	MaxCQE            int    `json:"max_cqe"`
	MaxMR             int    `json:"max_mr"`
	MaxMRBytes        uint64 `json:"max_mr_bytes,string"`
	MaxPD             int    `json:"max_pd"`
	MaxAH             int    `json:"max_ah"`
	MaxMW             int    `json:"max_mw"`
	MaxSRQ            int    `json:"max_srq"`
	MaxSRQWR          int    `json:"max_srq_wr"`
	MaxSRQSGE         int    `json:"max_srq_sge"`
	MaxRDAtomic       int    `json:"max_qp_rd_atom"`      // outstanding READs and atomics as responder
	MaxInitRDAtomic   int    `json:"max_qp_init_rd_atom"` // as requester
	MaxMessageBytes   uint64 `json:"max_message_bytes"`
	MaxPKeys          int    `json:"max_pkeys"`
	Atomic            bool   `json:"atomic"`
	MemoryWindow2     bool   `json:"memory_window_2"`
	SendInvalidate    bool   `json:"send_invalidate"`
	LocalCAAckDelay   int    `json:"local_ca_ack_delay"`
	DeviceCapFlags    uint32 `json:"device_cap_flags"`
	PageSizeCap       uint64 `json:"page_size_cap"`
	MaxMulticastGroup int    `json:"max_mcast_grp"`
	// A software device: bytes that one peer may have in flight to it. It also keeps what arrives behind a gap.
	ReceiveWindow int      `json:"receive_window,omitempty"`
	OnDemand      OnDemand `json:"on_demand,omitzero"`
	// Threads is how many threads its queue pairs can work for at the same time; 0: one for each queue pair.
	Threads int `json:"threads,omitempty"`
}

// OnDemand is what a device does with memory registered by [AccessOnDemand] (struct ibv_odp_caps): the operations of
// each transport. The zero value is a device that needs all registered memory in place.
type OnDemand struct {
	Supported bool           `json:"supported"`
	RC        PagedOperation `json:"rc,omitempty"`
	UC        PagedOperation `json:"uc,omitempty"`
	UD        PagedOperation `json:"ud,omitempty"`
}

// PagedOperation is a set of operations; the bits are those of ibv_odp_transport_cap_bits.
type PagedOperation uint32

// Operations on memory that is registered on demand.
const (
	PagedSend          PagedOperation = 1 << 0
	PagedReceive       PagedOperation = 1 << 1
	PagedWrite         PagedOperation = 1 << 2
	PagedRead          PagedOperation = 1 << 3
	PagedAtomic        PagedOperation = 1 << 4
	PagedSharedReceive PagedOperation = 1 << 5
)

func (p PagedOperation) String() string {
	return flagString(uint32(p), []string{"SEND", "RECV", "WRITE", "READ", "ATOMIC", "SRQ_RECV"})
}

// PagedOperations is what an opcode needs of the memory it names.
func PagedOperations(o Opcode) PagedOperation {
	switch o {
	case OpWrite, OpWriteWithImmediate:
		return PagedWrite
	case OpRead:
		return PagedRead
	case OpCompareSwap, OpFetchAdd:
		return PagedAtomic
	case OpSend, OpSendWithImmediate, OpSendWithInvalidate:
		return PagedSend
	default:
		return 0
	}
}

// GUID names a node or a system. In JSON it is text: many readers keep 53 bits of a number.
type GUID uint64

// MarshalText writes it as tools of libibverbs do in sysfs, in one piece.
func (g GUID) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "0x%016x", uint64(g)), nil }

// UnmarshalText reads what MarshalText wrote.
func (g *GUID) UnmarshalText(b []byte) error {
	n, err := strconv.ParseUint(string(b), 0, 64)
	*g = GUID(n)
	return err
}

// PortState is the state of a port (ibv_port_state).
type PortState uint8

// Port states; the course's table: DOWN means cable or module, INIT means no subnet manager.
const (
	PortNop         PortState = 0
	PortDown        PortState = 1
	PortInit        PortState = 2
	PortArmed       PortState = 3
	PortActive      PortState = 4
	PortActiveDefer PortState = 5
)

func portStates() []string { return []string{"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"} }

func (s PortState) String() string { return enumString(s, portStates(), "PortState") }

// MarshalText spells the state as String does.
func (s PortState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (s *PortState) UnmarshalText(b []byte) error { return parseEnum(s, b, portStates(), "port state") }

// LinkLayer is a port's link layer.
type LinkLayer uint8

// Link layers.
const (
	LinkUnspecified LinkLayer = 0
	LinkInfiniBand  LinkLayer = 1
	LinkEthernet    LinkLayer = 2
)

func linkLayers() []string { return []string{"Unspecified", "InfiniBand", "Ethernet"} }

func (l LinkLayer) String() string { return enumString(l, linkLayers(), "LinkLayer") }

// MarshalText spells the link layer as String does.
func (l LinkLayer) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (l *LinkLayer) UnmarshalText(b []byte) error { return parseEnum(l, b, linkLayers(), "link layer") }

// MTU is a path MTU in its wire code: 1 is 256 bytes, 5 is 4096.
type MTU uint8

// MTU codes (IBTA 9.6.1, ibv_mtu).
const (
	MTU256  MTU = 1
	MTU512  MTU = 2
	MTU1024 MTU = 3
	MTU2048 MTU = 4
	MTU4096 MTU = 5
)

// Bytes is the payload size, 0 for an unknown code.
func (m MTU) Bytes() int {
	if m < MTU256 || m > MTU4096 {
		return 0
	}
	return 128 << m
}

func (m MTU) String() string { return fmt.Sprint(m.Bytes()) }

// ParseMTU turns 256, 512, 1024, 2048 or 4096 bytes into its code.
func ParseMTU(bytes int) (MTU, error) {
	for m := MTU256; m <= MTU4096; m++ {
		if m.Bytes() == bytes {
			return m, nil
		}
	}
	return 0, fmt.Errorf("MTU %d: want 256, 512, 1024, 2048 or 4096 bytes", bytes)
}

// PortInfo describes a port: struct ibv_port_attr in Go words.
type PortInfo struct {
	Number        int       `json:"number"`
	State         PortState `json:"state"`
	PhysicalState string    `json:"physical_state,omitempty"` // "LINK_UP", "POLLING", ...
	LinkLayer     LinkLayer `json:"link_layer"`
	MaxMTU        MTU       `json:"max_mtu"`
	ActiveMTU     MTU       `json:"active_mtu"`
	RateBitsPerS  float64   `json:"rate_bits_per_s"` // link rate; 0 where there is no link (software device)
	Rate          string    `json:"rate,omitempty"`  // as the driver words it: "100 Gb/sec (4X EDR)"
	LID           uint16    `json:"lid"`
	SMLID         uint16    `json:"sm_lid"`
	LMC           uint8     `json:"lmc"`
	GIDTableLen   int       `json:"gid_table_len"`
	PKeyTableLen  int       `json:"pkey_table_len"`
	MaxMessage    uint64    `json:"max_message_bytes"`
	CapFlags      uint32    `json:"cap_flags"`
	NetInterface  string    `json:"net_interface,omitempty"`
}

// GID is a port address: on RoCE v2 an IPv6 address or an IPv4-mapped one (annex A17).
type GID [16]byte

// GIDFromAddr makes the GID of an IP address.
func GIDFromAddr(a netip.Addr) GID { return GID(a.WithZone("").As16()) }

// Addr is the IP address that a RoCE v2 GID stands for; IPv4-mapped ones come out as IPv4.
func (g GID) Addr() netip.Addr { return netip.AddrFrom16(g).Unmap() }

// IsZero tells whether the entry is empty.
func (g GID) IsZero() bool { return g == GID{} }

// IsMulticast tells whether the GID names a multicast group: ff00::/8, or an IPv4 one of 224.0.0.0/4.
func (g GID) IsMulticast() bool { return g.Addr().IsMulticast() }

// IsLinkLocal tells whether the GID is fe80::/10.
func (g GID) IsLinkLocal() bool { return g[0] == 0xfe && g[1]&0xc0 == 0x80 }

func (g GID) String() string { return netip.AddrFrom16(g).String() }

// MarshalText writes the GID as an IPv6 address.
func (g GID) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText reads an IPv6 address, or 32 hexadecimal digits.
func (g *GID) UnmarshalText(b []byte) error {
	if len(b) == 32 && !strings.Contains(string(b), ":") {
		_, err := hex.Decode(g[:], b)
		return err
	}
	a, err := netip.ParseAddr(string(b))
	if err != nil {
		return fmt.Errorf("GID %q: %w", b, err)
	}
	*g = GIDFromAddr(a)
	return nil
}

// GIDType tells which encapsulation a GID selects.
type GIDType uint8

// GID types.
const (
	GIDInfiniBand GIDType = 0
	GIDRoCEv1     GIDType = 1
	GIDRoCEv2     GIDType = 2
)

func gidTypes() []string { return []string{"IB", "RoCE v1", "RoCE v2"} }

func (t GIDType) String() string { return enumString(t, gidTypes(), "GIDType") }

// MarshalText spells the type as String does.
func (t GIDType) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (t *GIDType) UnmarshalText(b []byte) error { return parseEnum(t, b, gidTypes(), "GID type") }

// GIDEntry is one valid line of a port's GID table.
type GIDEntry struct {
	Index        int     `json:"index"`
	GID          GID     `json:"gid"`
	Type         GIDType `json:"type"`
	NetInterface string  `json:"net_interface,omitempty"`
}

func enumString[T ~uint8 | ~uint32](v T, names []string, typ string) string {
	if int(v) < len(names) && names[v] != "" {
		return names[v]
	}
	return fmt.Sprintf("%s(%d)", typ, uint64(v))
}

// parseEnum reads one of the names of an enum whose values are their places, in any case.
func parseEnum[T ~uint8](v *T, text []byte, names []string, what string) error {
	var known []string
	for i, n := range names {
		if n != "" && strings.EqualFold(n, string(text)) {
			*v = T(i)
			return nil
		} else if n != "" {
			known = append(known, n)
		}
	}
	last := len(known) - 1
	return fmt.Errorf("%s %q: want %s or %s", what, text, strings.Join(known[:last], ", "), known[last])
}
