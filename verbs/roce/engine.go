package roce

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/wire"
)

// Limits of the device; those a peer can see follow rxe.
const (
	maxQP       = 1 << 14
	maxQPWR     = 1 << 16
	maxSGE      = 32
	maxInline   = 1024
	maxCQ       = 1 << 14
	maxCQE      = 1 << 20
	maxMR       = 1 << 18
	maxPD       = 1 << 14
	maxAH       = 1 << 16
	maxMW       = 1 << 16
	maxSRQ      = 1 << 12
	maxSRQWR    = 1 << 16
	maxRDAtomic = 128
	maxMessage  = 1 << 31
)

// engine is the device's protocol: all its state, behind one lock. Whoever holds the lock drives it by progress.
type engine struct {
	mu      sync.Mutex
	waiting atomic.Int32 // goroutines that want the lock: a runner lets them in

	device  *device
	options Options
	clock   clock
	closed  bool

	sockets []*socket
	busy    []*path
	train   train
	flat    []byte
	input   []byte
	fabric  *fabric
	deliver func(heldPacket)
	capture *capture

	qps     []*queuePair // by the low bits of the QPN
	lastQP  uint32
	openQPs int
	keys    keyTable

	pds, mrs, mws, cqs, ahs, srqs, channels int

	acks    []*queuePair // those that owe an answer
	unacked int          // bytes received since answers were sent

	timed         []*queuePair // those with something outstanding
	nextTimer     verbs.Ticks
	ackTimeout    [32]verbs.Ticks
	firstProbe    verbs.Ticks
	shortestProbe verbs.Ticks
	longestProbe  verbs.Ticks
	patience      verbs.Ticks

	datagrams     queue // UD queue pairs that have something to send
	readsInFlight int   // bytes of READ responses on the way to us
	readLimit     int
	gathered      [maxSGE]piece
	grh           [wire.GRHBytes]byte

	count  counts
	events chan verbs.AsyncEvent

	background
}

func newEngine(o Options, c clock) *engine {
	e := &engine{
		options: o, clock: c, nextTimer: never, input: make([]byte, 1<<16), flat: make([]byte, 0, 1<<16),
		events: make(chan verbs.AsyncEvent, 64), readLimit: 512 << 10,
	}
	e.train = *newTrain()
	for i := range e.ackTimeout {
		e.ackTimeout[i] = c.ticks(timerStretch * verbs.AckTimeout(uint8(i)))
	}
	e.firstProbe, e.shortestProbe, e.longestProbe = c.ticks(firstProbe), c.ticks(shortestProbe), c.ticks(longestProbe)
	e.noteEvery = c.ticks(silence / 16)
	e.patience = c.ticks(200 * time.Microsecond)
	e.datagrams.kind = requestQueue
	e.fabric = newFabric(o.Fabric, c)
	e.deliver = func(p heldPacket) { e.onPacket(p.path, p.bytes, p.segment, p.port, verbs.Now()) }
	return e
}

func (e *engine) lock() {
	if e.mu.TryLock() {
		return
	}
	e.waiting.Add(1)
	e.mu.Lock()
	e.waiting.Add(-1)
}

func (e *engine) unlock() { e.mu.Unlock() }

// letIn releases the lock to those who wait for it and takes it again.
func (e *engine) letIn() {
	e.unlock()
	for i := 0; e.waiting.Load() != 0 && i < 200; i++ {
		if i >= 100 {
			runtime.Gosched() // costs a locked thread two switches
		} else {
			verbs.Now()
		}
	}
	e.lock()
}

// fail words an error of a verb.
func (e *engine) fail(verb string, qpn uint32, err error) error {
	return &verbs.Error{Verb: verb, Device: DeviceName, QP: qpn, Err: err}
}

// raise delivers an asynchronous event; the oldest gives way when nobody reads.
func (e *engine) raise(v verbs.AsyncEvent) {
	if e.closed {
		return
	}
	for {
		select {
		case e.events <- v:
			return
		default:
		}
		select {
		case <-e.events:
		default:
		}
	}
}

const (
	// receiveBudget is how much one round of progress takes from a socket before it sends.
	receiveBudget = 4
	// ackEvery is how much may arrive before answers are sent although more is waiting.
	ackEvery = 64 << 10
	// sendQuantum is how many packets a queue pair sends in its turn, sendBudget how many leave in one round of progress.
	sendQuantum = 64
	sendBudget  = 128
	// sendBytes bounds a round in bytes.
	sendBytes = 128 << 10
)

// progress drives the device one round: receive, answer, send. It reports whether anything was received or sent.
func (e *engine) progress(now verbs.Ticks) bool { return e.round(now, receiveBudget) }

// round is progress that takes at most receives times from each socket.
func (e *engine) round(now verbs.Ticks, receives int) bool {
	e.drives++
	e.drove(now)
	got := false
	for _, s := range e.sockets {
		for range receives {
			n, segment := s.receive(e.input)
			if n == 0 {
				break
			}
			got = true
			e.onDatagrams(s, e.input[:n], segment, now)
		}
	}
	if e.fabric != nil {
		e.fabric.release(now, e.patience, e.deliver)
	}
	if len(e.acks) > 0 && (!got || e.unacked >= ackEvery) {
		e.flushAcks()
		got = true
	}
	if now >= e.nextTimer {
		e.runTimers(now)
	}
	sent := false
	if len(e.busy) > 0 || e.datagrams.head != nil {
		sent = e.transmit(now)
	}
	e.flush()
	return got || sent
}

// makeBusy has a path served.
func (e *engine) makeBusy(p *path) {
	if !p.busy {
		p.busy = true
		e.busy = append(e.busy, p)
	}
}

// transmit sends what queue pairs have, in turns.
func (e *engine) transmit(now verbs.Ticks) bool {
	budget := sendBudget
	limit := e.count.sentBytes + uint64(sendBytes)
	some := false
	for i := 0; i < len(e.busy); i++ {
		p := e.busy[i]
		for budget > 0 && e.count.sentBytes < limit {
			sent := 0
			if q := p.responses.pop(); q != nil {
				sent += q.sendResponses(min(budget, sendQuantum/2))
				if !q.respond.reads.empty() {
					p.responses.push(q)
				}
			}
			closed := true
			if q := p.requests.pop(); q != nil {
				n, why := q.sendSome(now, min(budget, sendQuantum))
				sent += n
				if why != idle {
					p.requests.push(q)
				}
				closed = why == blocked
			}
			budget -= sent
			some = some || sent > 0
			if p.responses.head == nil && (p.requests.head == nil || closed) {
				break
			}
		}
		if p.requests.head == nil && p.responses.head == nil {
			p.busy = false
			last := len(e.busy) - 1
			e.busy[i] = e.busy[last]
			e.busy = e.busy[:last]
			i--
		}
	}
	for budget > 0 && e.datagrams.head != nil {
		q := e.datagrams.pop()
		n, why := q.sendDatagrams(min(budget, sendQuantum))
		budget -= n
		some = some || n > 0
		if why != idle {
			e.datagrams.push(q)
		}
	}
	return some
}

// onDatagrams splits what the kernel joined.
func (e *engine) onDatagrams(s *socket, b []byte, segment int, now verbs.Ticks) {
	p := s.in.path
	if p == nil || !s.sameSender() {
		from, _ := s.sender()
		if p = e.pathFrom(s, from); p == nil {
			return
		}
		s.in.path = p
		s.remember()
	}
	_, port := s.sender()
	if segment == 0 {
		switch segment = p.segmentOf(b, port); {
		case segment == 0:
			segment = len(b)
			s.calm = 0
		case segment < len(b):
			s.calm.notice(true)
		case e.fabric == nil:
			e.onPacket(p, b, verified, port, now)
			return
		}
	}
	for i := 0; len(b) > 0; i++ {
		n := min(segment, len(b))
		if e.fabric != nil {
			e.fabric.admit(heldPacket{path: p, segment: i, port: port, bytes: b[:n]}, now, e.deliver)
		} else {
			e.onPacket(p, b[:n], i, port, now)
		}
		b = b[n:]
	}
}

// verified as onPacket's segment says that the ICRC is known to be right, for the IP ID 0.
const verified = -1

// onPacket handles one packet, the segment-th of those that the kernel joined. Whatever is wrong with it before its queue pair is known to be meant, it is dropped
// without a word (specification of rxe's order: IBTA 9.6.1).
func (e *engine) onPacket(from *path, b []byte, segment int, port uint16, now verbs.Ticks) {
	p, err := wire.ParsePacket(b)
	if err != nil {
		e.count.malformed++
		return
	}
	qpn := p.DestQPN()
	q := e.qps[qpn&(maxQP-1)]
	if q == nil || q.qpn != qpn || q.wire != p.Opcode.Transport() {
		e.count.unknownQP++
		return
	}
	if q.path != from && q.transport != verbs.UD {
		e.count.wrongPath++
		return
	}
	if key := p.PKey(); key&0x7fff != wire.DefaultPKey&0x7fff {
		e.count.badPKeys++
		return
	}
	id := uint16(0)
	if segment != verified {
		flow := from.incoming(port)
		if flow == nil {
			return
		}
		var ok bool
		if id, ok = flow.Verify(b, uint16(segment)); !ok {
			e.count.badICRCs++
			return
		}
	}
	e.count.receivedPackets++
	e.count.receivedBytes += uint64(len(b))
	e.unacked += len(b)
	if e.capture != nil {
		e.captureReceived(from, b, id, port)
	}
	if p.Opcode.IsResponse() {
		q.onResponse(&p, now)
		return
	}
	if !q.serves() {
		return
	}
	switch q.transport {
	case verbs.RC:
		q.onRequest(&p)
	case verbs.UC:
		q.onUnreliable(&p)
	case verbs.UD:
		q.onDatagram(&p, from, id)
	}
}

// addQP numbers a queue pair: its slot in the low bits, and a part that changes so that stale packets find nobody.
func (e *engine) addQP(q *queuePair) error {
	if e.openQPs >= maxQP-32 {
		return errTooManyQPs
	}
	for {
		e.lastQP = (e.lastQP + 1) & wire.Mask24
		if e.lastQP&(maxQP-1) < 17 { // 0 and 1 are reserved; rxe starts at 17
			continue
		}
		if slot := &e.qps[e.lastQP&(maxQP-1)]; *slot == nil {
			*slot = q
			q.qpn = e.lastQP
			e.openQPs++
			return nil
		}
	}
}

func (e *engine) removeQP(q *queuePair) {
	e.qps[q.qpn&(maxQP-1)] = nil
	e.openQPs--
}
