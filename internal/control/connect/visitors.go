package connect

import (
	"net"
	"net/netip"
	"slices"
	"sync"
)

// Bounds of the connections that hold no slot.
const (
	maxVisitors    = 256
	maxFromNetwork = 128
	maxFromAddress = 32
)

// progress is how far a visitor has come. Who has come less far gives way first; of those that wait, the latest of the network that
// has the most.
type progress uint8

const (
	silent  progress = iota
	greeted          // its first message was read
	waiting          // its plan has come
)

// visitor is a connection that holds no slot.
type visitor struct {
	conn     net.Conn
	from     netip.AddrPort
	progress progress
}

// visitors are the connections that hold no slot, oldest first. Who holds connections without a word must not keep others
// out.
type visitors struct {
	mu   sync.Mutex
	list []*visitor
}

// add admits a connection. Where there are too many it closes another one and returns it, or admits none: a stranger's many never
// keep out who has fewer.
func (v *visitors) add(conn net.Conn, from netip.AddrPort) (entered, closed *visitor) {
	v.mu.Lock()
	defer v.mu.Unlock()
	fromHere := func(x *visitor) bool { return addressOf(x.from.Addr()) == addressOf(from.Addr()) }
	fromNear := func(x *visitor) bool { return networkOf(x.from.Addr()) == networkOf(from.Addr()) }
	all := func(*visitor) bool { return true }
	for _, bound := range []struct {
		counts func(*visitor) bool
		most   int
	}{{fromHere, maxFromAddress}, {fromNear, maxFromNetwork}, {all, maxVisitors}} {
		if v.count(bound.counts) < bound.most {
			continue
		}
		i := v.least(bound.counts)
		if i < 0 && bound.most == maxVisitors {
			i = v.latestOfMost(v.count(fromNear) + 1)
		}
		if i < 0 {
			return nil, nil
		}
		closed = v.list[i]
		v.list = slices.Delete(v.list, i, i+1)
		_ = closed.conn.Close()
	}
	entered = &visitor{conn: conn, from: from}
	v.list = append(v.list, entered)
	return entered, closed
}

// latestOfMost is the latest visitor of the network that has the most, where those are more than so many; else -1.
func (v *visitors) latestOfMost(more int) int {
	of := map[netip.Prefix]int{}
	for _, x := range v.list {
		of[networkOf(x.from.Addr())]++
	}
	best := -1
	for i, x := range v.list {
		if n := of[networkOf(x.from.Addr())]; n > more || n == more && best >= 0 {
			best, more = i, n
		}
	}
	return best
}

func (v *visitors) count(of func(*visitor) bool) int {
	n := 0
	for _, x := range v.list {
		if of(x) {
			n++
		}
	}
	return n
}

// least is the oldest of those that have come the least far, -1 where all wait for their turn.
func (v *visitors) least(of func(*visitor) bool) int {
	for _, p := range []progress{silent, greeted} {
		if i := slices.IndexFunc(v.list, func(x *visitor) bool { return x.progress == p && of(x) }); i >= 0 {
			return i
		}
	}
	return -1
}

// advance notes how far a visitor has come.
func (v *visitors) advance(x *visitor, p progress) {
	v.mu.Lock()
	defer v.mu.Unlock()
	x.progress = p
}

// leave removes a visitor that has gone or has a slot.
func (v *visitors) leave(x *visitor) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.list = slices.DeleteFunc(v.list, func(y *visitor) bool { return y == x })
}

// each calls f with every connection.
func (v *visitors) each(f func(net.Conn)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, x := range v.list {
		f(x.conn)
	}
}
