//go:build !linux || portable

package link

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/gobw/gobw/verbs/tick"
)

// sockaddr is an address as package net wants it.
type sockaddr = netip.AddrPort

func makeSockaddr(a netip.Addr, zone uint32, port uint16, _ uint32) sockaddr {
	if a.IsLinkLocalUnicast() && a.Is6() {
		a = a.WithZone(strconv.Itoa(int(zone)))
	}
	return netip.AddrPortFrom(a, port)
}

// system is a socket of package net. A goroutine reads it, so that receiving never blocks and whoever sleeps is woken
// on every system alike. The IP ID is the kernel's: only peers that solve for it (this device does) accept the packets.
type system struct {
	conn    *net.UDPConn
	arrived chan datagram
	spare   chan []byte   // buffers to use again
	done    chan struct{} // the goroutine has ended
	from    netip.AddrPort
	before  netip.AddrPort // the sender before

	mu       sync.Mutex
	sleepers []*Sleeper // to be woken by what arrives
}

type datagram struct {
	bytes []byte
	from  netip.AddrPort
}

// SendsFromPorts tells whether a socket that only sends costs little: here each has a goroutine and buffers.
const SendsFromPorts = false

const (
	waitingDatagrams = 512
	datagramBytes    = 4096 + 256 // the largest packet; longer ones are none
)

// Open binds a local address; zone is the index of its interface.
func Open(local netip.Addr, zone uint32, port uint16, receiveBuffer int, clock tick.Rate) (*Socket, error) {
	s := NewSocket(local, zone, port, clock)
	if s.Local.IsMulticast() {
		return nil, errNoMulticast
	}
	network := "udp4"
	if s.Local.Is6() {
		network = "udp6"
	}
	var err error
	if s.conn, err = net.ListenUDP(network, net.UDPAddrFromAddrPort(makeSockaddr(s.Local, zone, port, 0))); err != nil {
		if errors.Is(err, syscall.Errno(10048)) { // WSAEADDRINUSE
			err = syscall.EADDRINUSE
		}
		return nil, err
	}
	for n := receiveBuffer; n >= 64<<10 && s.BufferBytes == 0; n /= 2 {
		if s.conn.SetReadBuffer(n) == nil {
			s.BufferBytes = n
		}
	}
	s.arrived, s.spare, s.done = make(chan datagram, waitingDatagrams), make(chan []byte,
		waitingDatagrams), make(chan struct{})
	for range waitingDatagrams {
		s.spare <- make([]byte, datagramBytes)
	}
	go s.read()
	return s, nil
}

// read hands on what arrives until the socket is closed.
func (s *Socket) read() {
	defer close(s.done)
	for b := range s.spare {
		n, from, err := s.conn.ReadFromUDPAddrPort(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // such as a peer's "port unreachable"
			n = 0
		}
		s.arrived <- datagram{b[:n], netip.AddrPortFrom(from.Addr().Unmap().WithZone(""), from.Port())}
		s.mu.Lock()
		for _, x := range s.sleepers {
			x.Wake()
		}
		s.mu.Unlock()
	}
}

var errNoMulticast = fmt.Errorf("multicast: %w: this device has it on Linux", errors.ErrUnsupported)

// SendToGroups has what goes to multicast groups leave by the socket's interface.
func (s *Socket) SendToGroups() error { return errNoMulticast }

// TellService does nothing here: datagrams seem to have been treated as by default.
func (s *Socket) TellService() {}

// Connect does nothing here: senders of their own are not made.
func (s *Socket) Connect(netip.AddrPort, uint32) error { return nil }

// UseOffloads does nothing here.
func (s *Socket) UseOffloads() {}

// Close closes the socket.
func (s *Socket) Close() error {
	err := s.conn.Close()
	close(s.spare)
	<-s.done
	return err
}

func (s *Socket) receive(b []byte) (n, segment int) {
	select {
	case d := <-s.arrived:
		n, s.from = copy(b, d.bytes), d.from
		s.spare <- d.bytes[:datagramBytes]
		return n, n
	default:
		return -1, 0
	}
}

func (s *Socket) sender() (netip.Addr, uint16) { return s.from.Addr(), s.from.Port() }

func (s *Socket) sameSender() bool { return s.from == s.before }

func (s *Socket) remember() { s.before = s.from }

// send hands a packet to the kernel.
func (s *Socket) send(p *Path, b []byte, _ int) verdict {
	for range 100 {
		switch _, err := s.conn.WriteToUDPAddrPort(b, p.name); {
		case err == nil:
			return taken
		case !errors.Is(err, syscall.ENOBUFS):
			return failed
		}
		time.Sleep(100 * time.Microsecond) // until there is room
	}
	return failed
}

// sendBatches takes nothing here: the batches are sent one by one.
func (s *Socket) sendBatches(*Sender) int { return 0 }

// Sleeper is a goroutine that waits for a packet, a time or its bell.
type Sleeper struct {
	bell    chan struct{}
	timer   *time.Timer
	watched []*Socket
}

// NewSleeper makes a sleeper that watches no socket.
func NewSleeper() (*Sleeper, error) {
	return &Sleeper{bell: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}, nil
}

// Watch has what arrives at s wake the next sleep.
func (x *Sleeper) Watch(s *Socket) {
	x.watched = append(x.watched, s)
	s.mu.Lock()
	s.sleepers = append(s.sleepers, x)
	s.mu.Unlock()
	if len(s.arrived) > 0 {
		x.Wake()
	}
}

// Sleep blocks until a watched socket has something, it is woken, or ns nanoseconds have passed; negative: no limit.
func (x *Sleeper) Sleep(ns int64) {
	if ns < 0 {
		ns = math.MaxInt64
	}
	x.timer.Reset(time.Duration(ns))
	select {
	case <-x.bell:
	case <-x.timer.C:
	}
	for _, s := range x.watched {
		s.mu.Lock()
		s.sleepers = slices.DeleteFunc(s.sleepers, func(other *Sleeper) bool { return other == x })
		s.mu.Unlock()
	}
	x.watched = x.watched[:0]
}

// Wake ends the present sleep, or the next.
func (x *Sleeper) Wake() {
	select {
	case x.bell <- struct{}{}:
	default:
	}
}

// Close frees what the sleeper holds.
func (x *Sleeper) Close() error { return nil }
