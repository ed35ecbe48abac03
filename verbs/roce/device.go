package roce

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/link"
	"github.com/gobw/gobw/verbs/roce/rc"
	"github.com/gobw/gobw/verbs/roce/wire"
	"github.com/gobw/gobw/verbs/tick"
)

// device is a verbs.Device.
type device struct {
	object
	info verbs.DeviceInfo

	// held while this machine's interfaces are listed; taken before the engine's lock, which packets need
	addresses sync.Mutex
	home      netip.Addr // the default GID; invalid: not chosen yet. It is written with both locks held
	gids      gidTable   // since home was chosen
}

var (
	errTooManyQPs = fmt.Errorf("%d queue pairs are the most", maxQP-32)
	errHasQPs     = errors.New("queue pairs exist: choose the address before making them")
)

func openDevice(o Options) (*device, error) {
	e := newEngine(o, tick.Start().PerNanosecond())
	d := &device{object: object{e: e}, info: deviceInfo(o)}
	e.device = d
	e.qps = make([]*queuePair, maxQP)
	var err error
	if o.Pcap != nil {
		e.out.Capture = wire.NewCapture(o.Pcap, o.PcapBytes)
	}
	if e.sentry, err = link.NewSleeper(); err != nil {
		return nil, d.fail("open device", err)
	}
	if o.Address.IsValid() {
		if err := d.bind(o.Address, true); err != nil {
			_ = e.closeSleepers()
			return nil, err
		}
	}
	e.quit = make(chan struct{})
	e.done.Add(1)
	go e.serve()
	return d, nil
}

// everyPage is every operation: this device copies as the process it is in, whose pages
// the kernel brings when they are touched.
const everyPage = verbs.PagedSend | verbs.PagedReceive | verbs.PagedWrite | verbs.PagedRead | verbs.PagedAtomic |
	verbs.PagedSharedReceive

func deviceInfo(o Options) verbs.DeviceInfo {
	return verbs.DeviceInfo{
		Name: DeviceName, Provider: "roce", Software: true, EmulatedNetwork: o.Network.String(), Firmware: runtime.Version(),
		NodeGUID: 0x0200_00ff_fe00_12b7, SystemGUID: 0x0200_00ff_fe00_12b7, VendorID: 0xffffff, Ports: 1, NUMANode: -1,
		Driver: "roce", TransportType: "IB",
		Clock: completionClock(), CompletionVectors: 1, Rebinds: true,
		// A WRITE of one packet joins a batch of others. A longer one ends a batch: its FIRST is 16 bytes longer than
		// what follows, so that a batch carries two packets of an 8 KiB message where it carries fifteen of 4 KiB. In an
		// answer to a READ the FIRST and the LAST are equally long, as both have an AETH, and longer than a MIDDLE: an
		// answer of two packets joins a batch of others.
		Batched: struct{ Write, Read int }{Write: 1, Read: 2},
		Limits: verbs.Limits{
			MaxQP: maxQP - 32, MaxQPWR: maxQPWR, MaxSGE: maxSGE, MaxSGERead: maxSGE, MaxInline: maxInline, MaxCQ: maxCQ,
			MaxCQE: maxCQE,
			MaxMR:  maxMR, MaxMRBytes: 1 << 62, MaxPD: maxPD, MaxAH: maxAH, MaxMW: maxMW, MaxSRQ: maxSRQ, MaxSRQWR: maxSRQWR,
			MaxSRQSGE:   maxSGE,
			MaxRDAtomic: maxRDAtomic, MaxInitRDAtomic: maxRDAtomic, MaxMessageBytes: maxMessage, MaxPKeys: 1, Atomic: true,
			MemoryWindow2: true, SendInvalidate: true, LocalCAAckDelay: 15, PageSizeCap: 0xfffff000,
			MaxMulticastGroup: maxGroups,
			OnDemand:          verbs.OnDemand{Supported: true, RC: everyPage, UC: everyPage, UD: everyPage},
			Threads:           1,
		},
	}
}

// Info describes the device. What a peer may have in flight to it follows from the
// receive buffer that the kernel granted.
func (d *device) Info() verbs.DeviceInfo {
	e := d.e
	e.lock()
	defer e.unlock()
	info := d.info
	if s := e.socketAt(d.home); s != nil {
		info.Limits.ReceiveWindow = s.BufferBytes / 2
	}
	return info
}

// Port describes the only port; its MTU is that of the default GID's interface.
func (d *device) Port(n int) (verbs.PortInfo, error) {
	list, home, err := d.portTable(n, "query port")
	if err != nil {
		return verbs.PortInfo{}, err
	}
	p := verbs.PortInfo{
		Number: 1, State: verbs.PortActive, PhysicalState: "LINK_UP", LinkLayer: verbs.LinkEthernet, MaxMTU: verbs.MTU4096,
		ActiveMTU: verbs.MTU4096, GIDTableLen: 1024, PKeyTableLen: 1, MaxMessage: maxMessage,
	}
	for _, g := range list {
		if g.addr == home && !g.gone {
			p.ActiveMTU, p.NetInterface = activeMTU(g.mtu), g.name
		}
	}
	return p, nil
}

func (d *device) portTable(port int, verb string) (list []gid, home netip.Addr, err error) {
	if err := d.checkPort(verb, port); err != nil {
		return nil, home, err
	}
	return d.table(verb)
}

func (d *device) checkPort(verb string, port int) error {
	switch {
	case d.Closed():
		return d.fail(verb, verbs.ErrClosed)
	case port != 1:
		return d.fail(verb, fmt.Errorf("port %d: this device has one, 1", port))
	}
	return nil
}

// bindAnywhere chooses the loopback address. Where loopback is down it takes the first address that can be had.
func (d *device) bindAnywhere() error {
	err := d.bind(netip.AddrFrom4([4]byte{127, 0, 0, 1}), true)
	if err == nil || errors.Is(err, syscall.EADDRINUSE) {
		return err
	}
	list, _ := readGIDs(netip.Addr{}) // its error was the first one's, too
	for i := range list {
		if d.bind(list[i].addr, true) == nil {
			return nil
		}
	}
	return err
}

// table reads the GID table, choosing the default GID if nobody has, and tells which that is.
func (d *device) table(verb string) (list []gid, home netip.Addr, err error) {
	d.addresses.Lock()
	defer d.addresses.Unlock()
	if d.Closed() {
		return nil, home, d.fail(verb, verbs.ErrClosed)
	}
	if !d.home.IsValid() {
		if err := d.bindAnywhere(); err != nil {
			return nil, home, err
		}
	}
	if list, err = readGIDs(d.home); err != nil {
		return nil, home, d.fail(verb, err)
	}
	d.gids.update(list)
	return slices.Clone(d.gids), d.home, nil
}

// GIDs lists the addresses of this machine, those of the default GID's interface first.
func (d *device) GIDs(port int) ([]verbs.GIDEntry, error) {
	list, _, err := d.portTable(port, "query GID table")
	if err != nil {
		return nil, err
	}
	entries := make([]verbs.GIDEntry, 0, len(list))
	for i := range list {
		if !list[i].gone {
			entries = append(entries, list[i].entry(i))
		}
	}
	return entries, nil
}

func (g *gid) entry(index int) verbs.GIDEntry {
	return verbs.GIDEntry{Index: index, GID: verbs.GIDFromAddr(g.addr), Type: verbs.GIDRoCEv2, NetInterface: g.name}
}

// DefaultGID is the line of the GID table that the device was bound to: the one to use where nothing was asked for.
func (d *device) DefaultGID() (verbs.GIDEntry, error) {
	list, home, err := d.table("query GID table")
	if err != nil {
		return verbs.GIDEntry{}, err
	}
	for i := range list {
		if g := &list[i]; g.addr == home && !g.gone {
			return g.entry(i), nil
		}
	}
	return verbs.GIDEntry{}, d.fail("query GID table", fmt.Errorf("%v is not an address of this machine any more", home))
}

// PKeys lists the only partition key.
func (d *device) PKeys(port int) ([]uint16, error) {
	if err := d.checkPort("query P_Key table", port); err != nil {
		return nil, err
	}
	return []uint16{0xffff}, nil
}

// Bind makes addr the default GID and opens its socket.
func (d *device) Bind(addr netip.Addr) error { return d.rebind(addr, true) }

// Name makes addr the default GID. Its socket is opened once it is needed.
func (d *device) Name(addr netip.Addr) error { return d.rebind(addr, false) }

func (d *device) rebind(addr netip.Addr, open bool) error { //nolint:revive // open is all that distinguishes the two
	d.addresses.Lock()
	defer d.addresses.Unlock()
	e := d.e
	e.lock()
	hasQPs := e.openQPs > 0
	e.unlock()
	if hasQPs {
		return d.fail("bind", errHasQPs)
	}
	return d.bind(addr, open)
}

func (d *device) bind(addr netip.Addr, open bool) error { //nolint:revive // as above
	e := d.e
	addr = addr.Unmap().WithZone("")
	list, err := readGIDs(addr)
	if err != nil {
		return d.fail("bind", err)
	}
	e.lock()
	defer e.unlock()
	switch {
	case d.Closed():
		return d.fail("bind", verbs.ErrClosed)
	case addr == d.home && (!open || e.socketAt(addr) != nil):
		return nil
	}
	for i := range list {
		if g := &list[i]; g.addr == addr {
			if !open {
				d.home, d.gids = addr, nil
				return nil
			}
			s, err := e.openFree(g)
			if err != nil {
				return err
			}
			d.home, d.gids = s.Local, nil
			return nil
		}
	}
	return &verbs.Error{
		Verb: "bind", Device: DeviceName, Err: fmt.Errorf("%v is not an address of this machine", addr),
		Fix: map[bool]string{
			true: "the loopback interface is down: ip link set lo up", false: "choose one of 'ip address'",
		}[addr.IsLoopback()],
	}
}

// openFree opens the socket of a GID; where the port of a loopback address is taken, that of the next free one.
func (e *engine) openFree(g *gid) (*socket, error) {
	for try := *g; ; {
		s, err := e.socketOf(&try)
		if err == nil {
			return s, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) || !g.loopback || !try.addr.Is4() {
			return nil, bindError(try.addr, err)
		}
		next := try.addr.As4()
		if next[3] >= 254 {
			return nil, bindError(try.addr, err)
		}
		next[3]++
		try.addr = netip.AddrFrom4(next)
	}
}

func bindError(a netip.Addr, err error) error {
	v := &verbs.Error{Verb: "bind", Device: DeviceName, Err: fmt.Errorf("UDP %v port %d: %w", a, Port, err)}
	if errors.Is(err, syscall.EADDRINUSE) {
		v.Fix = "another process has the port, or the kernel's rdma_rxe holds it on every address: use a network namespace " +
			"of its own (ip netns add, with a veth pair), another address, or 'modprobe -r rdma_rxe'"
		if a.Is6() && a.IsLoopback() {
			v.Fix = "IPv6 has one loopback address, so that both ends cannot be there: let them meet at 127.0.0.1, " +
				"which has others beside it"
		}
	}
	return v
}

// socketOf finds or opens the socket of a GID.
func (e *engine) socketOf(g *gid) (*socket, error) {
	for _, s := range e.sockets {
		// interfaces may share a link-local address
		if s.Local == g.addr && (s.Zone == g.zone || !g.addr.IsLinkLocalUnicast()) {
			return s, nil
		}
	}
	return e.addSocket(g)
}

// socketAt is the socket of an address, nil where there is none.
func (e *engine) socketAt(a netip.Addr) *socket {
	for _, s := range e.sockets {
		if s.Local == a {
			return s
		}
	}
	return nil
}

// socket is a socket of the device, and what it is used for.
type socket struct {
	*link.Socket
	mtu     int // payload bytes of a packet that its interface carries
	paths   map[pathKey]*path
	flows   map[netip.Addr]*rc.Flow
	senders []sender     // of other ports, see senderAt
	members []*queuePair // it is a multicast group's: those attached to it
}

// sender is a socket that only sends: one that is connected to one address, with one flow label.
type sender struct {
	*link.Socket
	to    netip.Addr
	label uint32
}

// pathKey tells paths of a socket apart.
type pathKey struct {
	remote netip.Addr
	link.Service
	port uint16 // from which packets leave
}

// sourcePort is the UDP port that packets of a flow label, or else of two queue pairs, come from. Switches spread
// equal-cost paths by it. It is computed as by Linux's drivers (rdma_get_udp_sport).
func sourcePort(label, qpn, peer uint32) uint16 {
	if label == 0 {
		v := uint64(qpn) * uint64(peer)
		v ^= v >> 20
		v ^= v >> 40
		label = uint32(v) & verbs.MaxFlowLabel
	}
	return uint16(label&0x3fff^label>>14) | 0xc000
}

// mostSenders is how many sockets send the packets from an address: more ports than any switch has equal paths.
const mostSenders = 64

// senderAt is the socket whose packets to an address leave by a port, or by another where that is taken or there are
// many sockets already. Switches spread equal-cost paths by the port, so queue pairs have ports of their own. Where the
// kernel cuts batches they have not: a batch has one port, and interfaces without hardware, which alone are trusted
// with that, have no equal-cost paths behind them. There an IPv6 socket is connected instead, to an address and with a
// flow label, so that the kernel need not look up the route for each packet. IPv4 packets of connected sockets have an
// IP identification, which the ICRC covers, from a counter that nobody can read.
func (e *engine) senderAt(s *socket, port uint16, remote netip.Addr, label uint32) *link.Socket {
	connects, way := s.Segments(), sender{}
	switch {
	case !link.SendsFromPorts, connects && !remote.Is6():
		return s.Socket
	case connects:
		way = sender{to: remote, label: label}
	}
	for _, x := range s.senders {
		if x.to == way.to && x.label == way.label && (x.Port == port || connects) {
			return x.Socket
		}
	}
	for try := uint16(0); len(s.senders) < mostSenders && try < mostSenders; try++ {
		x, err := link.Open(s.Local, s.Zone, (port+try)|0xc000, 1, e.clock)
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			break
		}
		if connects {
			x.UseOffloads()
			if x.Connect(netip.AddrPortFrom(remote, Port), label) != nil { // there is no route yet
				_ = x.Close()
				break
			}
		}
		way.Socket = x
		s.senders = append(s.senders, way)
		return x
	}
	if n := len(s.senders); n > 0 && !connects {
		return s.senders[int(port)%n].Socket
	}
	return s.Socket
}

// receiveBuffer is what a socket is asked to have, in bytes; the kernel may grant less.
const receiveBuffer = 8 << 20

// addSocket opens the socket of an address and has everybody watch it.
func (e *engine) addSocket(g *gid) (*socket, error) {
	x, err := link.Open(g.addr, g.zone, Port, receiveBuffer, e.clock)
	if err != nil {
		return nil, err
	}
	// What a NIC's own segmentation makes of the IP identification is not known.
	if g.virtual && !e.options.noOffload {
		x.UseOffloads()
	}
	if e.tellsService {
		x.TellService()
	}
	s := &socket{Socket: x, mtu: activeMTU(g.mtu).Bytes(), paths: map[pathKey]*path{}, flows: map[netip.Addr]*rc.Flow{}}
	e.sockets = append(e.sockets, s)
	e.wakeSleepers() // whoever is blocked must watch this socket too
	return s, nil
}

// source is the line of the GID table that an address vector names. The engine's lock is not held.
func (d *device) source(a verbs.AddressVector) (*gid, error) {
	if a.Port != 0 && a.Port != 1 {
		return nil, fmt.Errorf("port %d: this device has one, 1", a.Port)
	}
	if !a.UseGID || a.DGID.IsZero() {
		return nil, errors.New("address vector without a GID: RoCE always needs one (UseGID, DGID)")
	}
	list, _, err := d.table("address vector")
	if err != nil {
		return nil, err
	}
	if a.SGIDIndex < 0 || a.SGIDIndex >= len(list) {
		return nil, fmt.Errorf("GID index %d: the table has %d lines", a.SGIDIndex, len(list))
	}
	g := &list[a.SGIDIndex]
	if g.gone {
		return nil, fmt.Errorf("GID index %d is %v, which is not an address of this machine any more", a.SGIDIndex, g.addr)
	}
	return g, nil
}

// pathTo finds or makes the path that an address vector describes, from its source.
// Packets leave by a UDP port, if they can.
func (e *engine) pathTo(g *gid, a verbs.AddressVector, port uint16) (*path, error) {
	remote := a.DGID.Addr()
	if remote.Is4() != g.addr.Is4() {
		return nil, fmt.Errorf("GID index %d is %v: cannot reach %v, an address of the other family", a.SGIDIndex,
			g.addr, remote)
	}
	s, err := e.socketOf(g)
	if err != nil {
		return nil, bindError(g.addr, err)
	}
	if remote.IsMulticast() {
		if err := s.SendToGroups(); err != nil {
			return nil, err
		}
	}
	switch {
	case a.SL > 15:
		return nil, fmt.Errorf("SL %d: want 0 to 15", a.SL)
	case a.FlowLabel > verbs.MaxFlowLabel:
		return nil, fmt.Errorf("flow label %#x: want 20 bits", a.FlowLabel)
	}
	from := s.Socket
	if port != Port && !remote.IsMulticast() {
		from = e.senderAt(s, port, remote, a.FlowLabel)
	}
	return e.pathFor(s, from, remote,
		link.Service{Class: a.TrafficClass, Level: a.SL, Hops: a.HopLimit, FlowLabel: a.FlowLabel})
}

func (e *engine) pathFor(s *socket, from *link.Socket, remote netip.Addr, v link.Service) (*path, error) {
	if v.Hops == 0 {
		v.Hops = link.DefaultHops
	}
	key := pathKey{remote, v, from.Port}
	if p := s.paths[key]; p != nil {
		return p, nil
	}
	way, err := link.NewPath(from, remote, v)
	if err != nil {
		return nil, err
	}
	flow := s.flows[remote]
	if flow == nil {
		fresh := rc.NewFlow(e.clock, s.BufferBytes)
		flow = &fresh
		s.flows[remote] = flow
	}
	p := &path{Path: way, socket: s, Flow: flow, responses: queue{kind: responseQueue}}
	s.paths[key] = p
	return p, nil
}

// portMTU is the active MTU in bytes: the most a UD message carries.
func (e *engine) portMTU() uint32 {
	if s := e.socketAt(e.device.home); s != nil {
		return uint32(s.mtu)
	}
	return uint32(verbs.MTU4096.Bytes())
}

// Events delivers asynchronous events.
func (d *device) Events() <-chan verbs.AsyncEvent { return d.e.events }

// Quit is for a process that ends: it sends the ACKs that peers wait for, and ends the capture. It closes nothing, as
// other threads may still use the device.
func (d *device) Quit() error {
	e := d.e
	e.lock()
	defer e.unlock()
	e.flushAcks()
	e.out.Flush()
	return e.end()
}

// EnvSent names the environment variable of a file to which each device adds, as it ends, a line with the bytes that it
// has sent. 'gobw qualify' learns so whether a program has moved anything.
const EnvSent = "GOBW_ROCE_SENT"

// end is what a device does last, once.
func (e *engine) end() (err error) {
	if e.ended {
		return nil
	}
	e.ended = true
	if e.out.Capture != nil {
		err = e.out.Capture.Close()
		e.out.Capture = nil
	}
	if path := os.Getenv(EnvSent); path != "" {
		f, wrong := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		if wrong != nil {
			return errors.Join(err, wrong)
		}
		_, wrong = fmt.Fprintln(f, e.out.Sent.Bytes)
		err = errors.Join(err, wrong, f.Close())
	}
	return err
}

// Close stops the device. Its handles must be closed first.
func (d *device) Close() error {
	e := d.e
	var errs []error
	err := d.Handle.Close(nil, func() error {
		e.lock()
		e.closed = true
		close(e.quit)
		e.wakeSleepers()
		e.unlock()
		e.done.Wait()
		e.lock()
		defer e.unlock()
		close(e.events)
		for _, s := range e.sockets {
			for _, x := range s.senders {
				errs = append(errs, x.Close())
			}
			errs = append(errs, s.Close())
		}
		e.sockets = nil
		errs = append(errs, e.closeSleepers(), e.end())
		return nil
	})
	return d.fail("close device", errors.Join(append(errs, err)...))
}
