package roce

import (
	"net/netip"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/wire"
)

const (
	defaultWindow = 256 << 10
	minWindow     = 64 << 10 // safe for any receive buffer
	// packetOverhead is what a packet counts in the window besides its payload: a peer that does not coalesce pays for
	// each with the kernel's bookkeeping.
	packetOverhead = 256
)

// path is a pair of addresses: one of ours, one of a peer's. All queue pairs between them share it.
type path struct {
	socket *socket
	remote netip.Addr
	name   sockaddr  // the peer, as the kernel wants it
	flow   wire.Flow // what we send

	// what the peer sends depends on its source port; most have one, rxe has one per queue pair
	lastPort uint16
	lastFlow *wire.Flow
	flows    map[uint16]*wire.Flow

	segments int // most packets of one send: 1 without segmentation
	window   window

	requests  queue // queue pairs that have something to send
	responses queue // queue pairs that owe READ responses
	busy      bool  // in engine.busy
}

// maxFlows bounds the source ports remembered for a peer.
const maxFlows = 4096

func newPath(s *socket, remote netip.Addr, maximum int) (*path, error) {
	remote = remote.WithZone("")
	flow, err := wire.NewFlow(netip.AddrPortFrom(s.local, s.port), netip.AddrPortFrom(remote, wire.Port))
	if err != nil {
		return nil, err
	}
	p := &path{socket: s, remote: remote, name: makeSockaddr(remote, s.zone, wire.Port), flow: flow, flows: map[uint16]*wire.Flow{}}
	p.segments = 1
	if s.segmentation {
		p.segments = maxSegments
	}
	p.window.maximum = maximum
	p.window.size = min(maximum, 192<<10)
	return p, nil
}

// incoming is the flow of packets from the peer's port.
func (p *path) incoming(port uint16) *wire.Flow {
	if port == p.lastPort && p.lastFlow != nil {
		return p.lastFlow
	}
	f := p.flows[port]
	if f == nil {
		made, err := wire.NewFlow(netip.AddrPortFrom(p.remote, port), netip.AddrPortFrom(p.socket.local, p.socket.port))
		if err != nil {
			return nil
		}
		if len(p.flows) >= maxFlows {
			clear(p.flows)
		}
		f = &made
		p.flows[port] = f
	}
	p.lastPort, p.lastFlow = port, f
	return f
}

// window bounds what is in flight to a peer address: it opens slowly and closes a little at each loss.
type window struct {
	size, maximum int
	inFlight      int
	acked         int         // since the last opening
	lastLoss      verbs.Ticks // at most one closing per round trip
}

// admits tells whether a packet may leave: always when nothing is in flight.
func (w *window) admits(cost int) bool { return w.inFlight == 0 || w.inFlight+cost <= w.size }

func (w *window) onAcked(bytes int) {
	w.inFlight -= bytes
	w.acked += bytes
	if w.acked >= w.size {
		w.acked = 0
		w.size = min(w.size+8<<10, w.maximum)
	}
}

func (w *window) onLoss(now, roundTrip verbs.Ticks) {
	if now-w.lastLoss < roundTrip {
		return
	}
	w.lastLoss = now
	w.acked = 0
	w.size = max(w.size-w.size/8, minWindow)
}

// queue is a first-in, first-out list of queue pairs, threaded through them.
type queue struct {
	kind       int
	head, tail *queuePair
}

const (
	requestQueue  = 0
	responseQueue = 1
)

func (l *queue) push(q *queuePair) {
	if q.queued[l.kind] {
		return
	}
	q.queued[l.kind] = true
	q.next[l.kind] = nil
	if l.tail == nil {
		l.head = q
	} else {
		l.tail.next[l.kind] = q
	}
	l.tail = q
}

func (l *queue) pop() *queuePair {
	q := l.head
	if q == nil {
		return nil
	}
	l.head = q.next[l.kind]
	if l.head == nil {
		l.tail = nil
	}
	q.queued[l.kind], q.next[l.kind] = false, nil
	return q
}

func (l *queue) remove(q *queuePair) {
	if !q.queued[l.kind] {
		return
	}
	var prev *queuePair
	for e := l.head; e != nil; prev, e = e, e.next[l.kind] {
		if e != q {
			continue
		}
		if prev == nil {
			l.head = q.next[l.kind]
		} else {
			prev.next[l.kind] = q.next[l.kind]
		}
		if l.tail == q {
			l.tail = prev
		}
		break
	}
	q.queued[l.kind], q.next[l.kind] = false, nil
}
