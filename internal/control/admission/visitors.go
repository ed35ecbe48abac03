// Package admission bounds the connections that have proven nothing yet, so that many from one place keep no other out.
package admission

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Most is how many connections there may be.
const Most = 256

// Progress is how far a visitor has come.
type Progress uint8

// Steps of a visitor.
const (
	Silent  Progress = iota
	Greeted          // its first message was read
	Waiting          // it waits for its turn
)

// Visitor is a connection that has proven nothing yet.
type Visitor struct {
	Conn     net.Conn
	From     netip.AddrPort
	sources  [2]netip.Prefix
	progress Progress
}

// Visitors are those of one listener, oldest first.
type Visitors struct {
	mu   sync.Mutex
	list []*Visitor
	less int // than Most, as the process has not the descriptors
}

// Add admits a connection. Where there are too many, one is closed and returned, which may be the new one. It is of the network that has
// the most, and there of the address that has the most: the oldest of those that have come least far, or, where all wait, the latest.
func (v *Visitors) Add(conn net.Conn, from netip.AddrPort) (entered, closed *Visitor) {
	v.mu.Lock()
	defer v.mu.Unlock()
	entered = &Visitor{Conn: conn, From: from, sources: SourcesOf(from)}
	v.list = append(v.list, entered)
	if len(v.list) <= Most-v.less {
		return entered, nil
	}
	entered.progress = Waiting // the new one stays, unless all wait
	defer func() { entered.progress = Silent }()
	return entered, v.giveWay()
}

// makeRoom closes a quarter of the visitors, and no more than the rest are admitted until all have gone.
func (v *Visitors) makeRoom() {
	v.mu.Lock()
	defer v.mu.Unlock()
	stay := len(v.list) * 3 / 4
	for len(v.list) > stay {
		v.giveWay()
	}
	v.less = Most - max(stay, 1)
}

// giveWay closes one by the rule of Add.
func (v *Visitors) giveWay() (closed *Visitor) {
	crowd := most(most(v.list, 0), 1)
	closed = slices.MinFunc(crowd, func(a, b *Visitor) int { return int(a.progress) - int(b.progress) })
	if closed.progress == Waiting {
		closed = crowd[len(crowd)-1]
	}
	v.list = slices.DeleteFunc(v.list, func(x *Visitor) bool { return x == closed })
	_ = closed.Conn.Close()
	return closed
}

// most are the visitors from the i-th source that has the most; where several have as many, from all of these.
func most(list []*Visitor, i int) []*Visitor {
	held, top := map[netip.Prefix]int{}, 0
	for _, x := range list {
		held[x.sources[i]]++
		top = max(top, held[x.sources[i]])
	}
	return slices.DeleteFunc(slices.Clone(list), func(x *Visitor) bool { return held[x.sources[i]] < top })
}

// Advance notes how far a visitor has come.
func (v *Visitors) Advance(x *Visitor, p Progress) {
	v.mu.Lock()
	defer v.mu.Unlock()
	x.progress = p
}

// Leave takes a visitor from the list: it has gone, or has proven itself. False: it had to give way before.
func (v *Visitors) Leave(x *Visitor) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	before := len(v.list)
	v.list = slices.DeleteFunc(v.list, func(y *Visitor) bool { return y == x })
	if len(v.list) == 0 {
		v.less = 0
	}
	return len(v.list) < before
}

// Each calls f with every connection.
func (v *Visitors) Each(f func(net.Conn)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, x := range v.list {
		f(x.Conn)
	}
}

// SourcesOf are where a connection comes from: the network, which is what one host may have any number of addresses of (64 bits of an
// IPv6 address), and the address.
func SourcesOf(from netip.AddrPort) [2]netip.Prefix {
	a := from.Addr().Unmap().WithZone("")
	address := netip.PrefixFrom(a, a.BitLen())
	if a.Is4() {
		return [2]netip.Prefix{address, address}
	}
	network, _ := a.Prefix(64)
	return [2]netip.Prefix{network, address}
}

// Accept takes connections until the context ends or the listener is closed or fails for good. Where the process is out of descriptors, visitors
// give way.
func (v *Visitors) Accept(ctx context.Context, l net.Listener, take func(net.Conn), failed func(error)) error {
	for {
		conn, err := l.Accept()
		_, passes := errors.AsType[net.Error](err) // out of descriptors, a client that went before it was accepted
		switch {
		case err == nil:
			take(conn)
			continue
		case ctx.Err() != nil, errors.Is(err, net.ErrClosed):
			return nil
		case !passes:
			return err
		}
		failed(err)
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			v.makeRoom()
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}
