package roce

import (
	"errors"
	"fmt"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/rc"
)

// receiveQueue is a ring of posted receives, of a queue pair or shared.
type receiveQueue struct {
	ring       []receiveWork
	sges       []verbs.SGE
	mask       uint32
	depth      uint32
	maxSGE     int
	head, tail uint32
}

// receiveWork is a posted receive.
type receiveWork struct {
	id   uint64
	list []verbs.SGE // in the ring's memory: valid until the slot is posted again
}

func newReceiveQueue(depth, sges int) receiveQueue {
	n := rc.RingSize(max(depth, 1))
	return receiveQueue{
		ring: make([]receiveWork, n), sges: make([]verbs.SGE, int(n)*sges), mask: n - 1, depth: uint32(depth), maxSGE: sges,
	}
}

func (r *receiveQueue) empty() bool { return r.head == r.tail }
func (r *receiveQueue) len() int    { return int(r.tail - r.head) }

var errReceiveLong = errors.New("receive longer than 2 GiB")

func (r *receiveQueue) post(x *verbs.ReceiveRequest) error {
	if r.tail-r.head >= r.depth {
		return verbs.ErrQueueFull
	}
	if len(x.SGEs) > r.maxSGE {
		return fmt.Errorf("%d scatter/gather entries: the queue was made for %d", len(x.SGEs), r.maxSGE)
	}
	if x.Length() > maxMessage {
		return errReceiveLong
	}
	i := r.tail & r.mask
	o := int(i) * r.maxSGE
	list := r.sges[o : o+len(x.SGEs)]
	copy(list, x.SGEs)
	r.ring[i] = receiveWork{id: x.ID, list: list}
	r.tail++
	return nil
}

// take removes the oldest receive, which must be there.
func (r *receiveQueue) take() *receiveWork {
	w := &r.ring[r.head&r.mask]
	r.head++
	return w
}

// PostReceive queues receives.
func (q *queuePair) PostReceive(list []verbs.ReceiveRequest) error {
	e := q.e
	e.lock()
	defer e.unlock()
	var failed error
	for i := range list {
		if err := q.postReceive(&list[i]); err != nil {
			failed = q.fail("post receive", &verbs.PostError{Index: i, Err: err})
			break
		}
	}
	if q.state == verbs.StateError {
		q.flush()
	}
	return failed
}

var (
	errReceiveReset = errors.New("queue pair is in RESET: receives may be posted from INIT on")
	errReceiveSRQ   = errors.New("queue pair takes its receives from a shared receive queue: post there")
)

func (q *queuePair) postReceive(r *verbs.ReceiveRequest) error {
	switch {
	case q.Closed():
		return verbs.ErrClosed
	case q.srq != nil:
		return errReceiveSRQ
	case q.state == verbs.StateReset:
		return errReceiveReset
	}
	return q.receives.post(r)
}

// sharedReceiveQueue is a verbs.SharedReceiveQueue.
type sharedReceiveQueue struct {
	object
	pd    *protectionDomain
	queue receiveQueue
	limit int
}

// CreateSRQ makes a shared receive queue.
func (pd *protectionDomain) CreateSRQ(o verbs.SharedReceiveQueueOptions) (verbs.SharedReceiveQueue, error) {
	const verb = "create shared receive queue"
	setDefault(&o.Depth, 128)
	setDefault(&o.SGEs, 1)
	if err := errors.Join(within("depth", o.Depth, 1, maxSRQWR),
		within("scatter/gather entries", o.SGEs, 1, maxSGE)); err != nil {
		return nil, pd.fail(verb, err)
	}
	d := pd.e.device
	s := &sharedReceiveQueue{object: object{e: pd.e}, pd: pd, queue: newReceiveQueue(o.Depth, o.SGEs)}
	return made[verbs.SharedReceiveQueue](d, s, verb, d.open(&s.Handle, kindSRQ, maxSRQ, &pd.Handle))
}

// PostReceive queues receives for whichever queue pair needs one.
func (s *sharedReceiveQueue) PostReceive(list []verbs.ReceiveRequest) error {
	s.e.lock()
	defer s.e.unlock()
	const verb = "post shared receive"
	if s.Closed() {
		return s.fail(verb, &verbs.PostError{Err: verbs.ErrClosed})
	}
	for i := range list {
		if err := s.queue.post(&list[i]); err != nil {
			return s.fail(verb, &verbs.PostError{Index: i, Err: err})
		}
	}
	return nil
}

// SetLimit arms the limit event.
func (s *sharedReceiveQueue) SetLimit(limit int) error {
	return s.locked("set shared receive queue limit", func() error {
		if limit < 0 || limit > int(s.queue.depth) {
			return fmt.Errorf("limit %d: want 0 to the depth, %d", limit, s.queue.depth)
		}
		s.limit = limit
		s.checkLimit()
		return nil
	})
}

// Limit is the number of receives below which the armed event comes, 0 where none is armed.
func (s *sharedReceiveQueue) Limit() int {
	s.e.lock()
	defer s.e.unlock()
	return s.limit
}

func (s *sharedReceiveQueue) checkLimit() {
	if s.limit > 0 && s.queue.len() < s.limit {
		s.limit = 0
		s.e.raise(verbs.AsyncEvent{Type: verbs.EventSRQLimitReached, SRQ: s})
	}
}

// Close destroys the queue.
func (s *sharedReceiveQueue) Close() error {
	return s.close("close shared receive queue", func() {})
}
