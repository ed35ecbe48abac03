package roce

import (
	"github.com/gobw/gobw/verbs/roce/link"
	"github.com/gobw/gobw/verbs/roce/rc"
)

// path is a pair of addresses: one of ours, one of a peer's. All queue pairs between them share it.
type path struct {
	link.Path
	socket *socket // at which the peer's packets arrive

	*rc.Flow // of all paths to the peer's address

	requests  queue // queue pairs that have something to send
	responses queue // queue pairs that owe READ responses
	busy      bool  // in engine.busy
}

// queue is a first-in, first-out list of queue pairs, threaded through them. One that has nothing
// to send any more stays until its turn.
type queue struct {
	kind       int
	head, tail *queuePair
}

// responseQueue is the kind of those that owe READ responses; 0 is that of those that have something to send.
const responseQueue = 1

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
