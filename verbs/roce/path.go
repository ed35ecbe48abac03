package roce

import (
	"net/netip"

	"github.com/gobw/gobw/verbs/roce/wire"
)

// path is a pair of addresses: one of ours, one of a peer's. All queue pairs between them share it.
type path struct {
	socket  *socket
	remote  netip.Addr
	name    sockaddr // the peer, as the kernel wants it
	service service
	flow    wire.Flow // what we send

	segments int // most packets of one send: 1 without segmentation
	trip     roundTrip
	window   window // of what we send
	reads    window // of what we ask for

	requests  queue // queue pairs that have something to send
	responses queue // queue pairs that owe READ responses
	busy      bool  // in engine.busy
}

func newPath(s *socket, remote netip.Addr, v service, c clock, maximum int) (*path, error) {
	remote = remote.WithZone("")
	flow, err := wire.NewFlow(netip.AddrPortFrom(s.local, s.port), netip.AddrPortFrom(remote, wire.Port))
	if err != nil {
		return nil, err
	}
	p := &path{socket: s, remote: remote, name: makeSockaddr(remote, s.zone, wire.Port, v.flowLabel), flow: flow, service: v}
	p.segments = 1
	if s.segmentation {
		p.segments = maxSegments
	}
	p.trip = newRoundTrip(c)
	p.window = newWindow(maximum)
	p.reads = newReadWindow(s.bufferBytes)
	return p, nil
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
