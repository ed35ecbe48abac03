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
	Conn net.Conn
	From netip.AddrPort
	Out  chan struct{} // closed once it had to give way

	sources  [4]netip.Prefix
	progress Progress
	until    time.Time // how long it waits
}

// Visitors are those of one listener, oldest first.
type Visitors struct {
	mu   sync.Mutex
	list []*Visitor
	held map[netip.Prefix]int // how many there are from each source
	less int                  // how many fewer than Most there may be, because the process ran out of descriptors
}

// Add admits a connection. If there are too many, it closes one, which may be the new one, and returns it. It looks for
// the largest network with the most visitors, within it for the next smaller network with the most, and so on. Among
// those visitors it closes the least advanced, oldest first; if all wait, the one that wants to wait the longest.
func (v *Visitors) Add(conn net.Conn, from netip.AddrPort) (entered, closed *Visitor) {
	v.mu.Lock()
	defer v.mu.Unlock()
	entered = &Visitor{Conn: conn, From: from, Out: make(chan struct{}), sources: SourcesOf(from)}
	v.list = append(v.list, entered)
	v.count(entered, 1)
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
	crowd := slices.Clone(v.list)
	for i := range crowd[0].sources {
		top := 0
		for _, x := range crowd {
			top = max(top, v.held[x.sources[i]])
		}
		crowd = slices.DeleteFunc(crowd, func(x *Visitor) bool { return v.held[x.sources[i]] < top })
	}
	closed = slices.MinFunc(crowd, func(a, b *Visitor) int { return int(a.progress) - int(b.progress) })
	if closed.progress == Waiting {
		slices.Reverse(crowd) // of equals the latest
		closed = slices.MaxFunc(crowd, func(a, b *Visitor) int { return a.until.Compare(b.until) })
	}
	v.remove(closed)
	close(closed.Out)
	_ = closed.Conn.Close()
	return closed
}

// count counts one more, or one less, from each of its sources.
func (v *Visitors) count(x *Visitor, n int) {
	if v.held == nil {
		v.held = map[netip.Prefix]int{}
	}
	for _, source := range x.sources {
		if v.held[source] += n; v.held[source] == 0 {
			delete(v.held, source)
		}
	}
}

// remove takes a visitor off the list, and tells whether it was there.
func (v *Visitors) remove(x *Visitor) bool {
	i := slices.Index(v.list, x)
	if i < 0 {
		return false
	}
	v.list = slices.Delete(v.list, i, i+1)
	v.count(x, -1)
	return true
}

// Advance notes how far a visitor has come, and how long it waits.
func (v *Visitors) Advance(x *Visitor, p Progress, until time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	x.progress, x.until = p, until
}

// Leave takes a visitor from the list: it has gone, or has proven itself. False: it had to give way before.
func (v *Visitors) Leave(x *Visitor) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	was := v.remove(x)
	if len(v.list) == 0 {
		v.less = 0
	}
	return was
}

// Each calls f with every connection.
func (v *Visitors) Each(f func(net.Conn)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, x := range v.list {
		f(x.Conn)
	}
}

// SourcesOf are where a connection comes from, the largest network first: of IPv6 the /48, /56 and /64, any of which
// one site or one host may have for itself, and the address. An IPv4 address stands for itself.
func SourcesOf(from netip.AddrPort) (sources [4]netip.Prefix) {
	a := from.Addr().Unmap().WithZone("")
	for i, bits := range []int{48, 56, 64, 128} {
		sources[i], _ = a.Prefix(min(bits, a.BitLen()))
	}
	return sources
}

// How long Accept waits after a failure: each time twice as long as before.
const leastPause, mostPause = 50 * time.Millisecond, 3200 * time.Millisecond

// Accept takes connections until the context ends or the listener is closed or fails for good. Where the process is
// out of descriptors, visitors give way. A failure that comes again and again is told once.
func (v *Visitors) Accept(ctx context.Context, l net.Listener, take func(net.Conn), failed func(error)) error {
	told, pause := "", leastPause
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
			told, pause = "", leastPause
			take(conn)
			continue
		case ctx.Err() != nil, errors.Is(err, net.ErrClosed):
			return nil
		case broken(err):
			return err
		}
		if err.Error() != told {
			told = err.Error()
			failed(err)
		}
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			v.makeRoom()
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, mostPause)
	}
}

// broken tells an error of accept that is the listener's own, so that it comes again and again.
func broken(err error) bool {
	_, passes := errors.AsType[net.Error](err) // out of descriptors, a client that went before it was accepted
	own := func(e syscall.Errno) bool { return errors.Is(err, e) }
	return !passes ||
		slices.ContainsFunc([]syscall.Errno{syscall.EBADF, syscall.EINVAL, syscall.ENOTSOCK, syscall.EOPNOTSUPP}, own)
}
