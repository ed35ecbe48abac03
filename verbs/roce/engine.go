package roce

import (
	"math/rand/v2"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/link"
	"github.com/gobw/gobw/verbs/roce/netem"
	"github.com/gobw/gobw/verbs/roce/rc"
	"github.com/gobw/gobw/verbs/roce/wire"
	"github.com/gobw/gobw/verbs/tick"
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
	maxGroups   = 256 // multicast groups, of which each takes a socket; rxe has 8192
	maxMessage  = 1 << 31

	// mostEvents wait for a reader: all queue pairs may fail in one moment, and each has an event or two then.
	mostEvents = 2 * maxQP
)

// engine is the device's protocol: all its state, behind one lock. Whoever holds the lock drives it by progress.
type engine struct {
	mu      sync.Mutex
	waiting atomic.Int32 // goroutines that want the lock: a runner lets them in

	tellsService bool // sockets are told how what arrives was treated: there was a UD queue pair
	borrowed     bool // there was a region over memory that somebody else may unmap
	faultsBefore bool // what faults of the lock's holder did before it got it

	device  *device
	options Options
	clock   tick.Rate
	closed  bool
	ended   bool // nothing more is captured or counted

	sockets []*socket
	busy    []*path // those with something to send, in the order of their turns
	turns   []*path // room for the next order
	out     link.Sender
	replies replies
	pool    rc.Pool
	input   []byte
	network *netem.Network[arrival] // nil: the real one alone

	qps     []*queuePair // by the low bits of the QPN
	openQPs int
	keys    keyTable

	acks    []*queuePair // those that owe an answer
	unacked int          // bytes received since answers were sent

	timed      []*queuePair // those with something outstanding
	nextTimer  tick.Time
	lastRound  tick.Time
	lateRound  tick.Time
	ackTimeout [32]tick.Time

	datagrams path // of UD queue pairs, whose packets each have their own
	gathered  [maxSGE][]byte
	grh       [wire.GRHBytes]byte

	count  counts
	events chan verbs.AsyncEvent

	background
}

func newEngine(o Options, c tick.Rate) *engine {
	e := &engine{
		options: o, clock: c, nextTimer: tick.Never, input: make([]byte, 1<<16),
		events: make(chan verbs.AsyncEvent, mostEvents),
	}
	e.out = link.NewSender()
	for i := range e.ackTimeout {
		if i > 0 { // 0 is no timer
			e.ackTimeout[i] = c.Ticks(rc.TimerStretch * verbs.AckTimeout(uint8(i)))
		}
	}
	e.lateRound = c.Ticks(lateRound)
	e.network = netem.New(o.Network, float64(c)*1e9, func(p netem.Packet[arrival]) {
		s, from := p.From.socket, p.From.from
		e.onPacket(s, s.From(from.Addr(), from.Port()), p.Bytes, p.From.place, tick.Now())
	})
	return e
}

func (e *engine) lock() {
	if e.tryLock() {
		return
	}
	e.waiting.Add(1)
	e.mu.Lock()
	e.waiting.Add(-1)
	e.catchFaults(true)
}

func (e *engine) tryLock() bool {
	got := e.mu.TryLock()
	if got {
		e.catchFaults(true)
	}
	return got
}

func (e *engine) unlock() {
	e.catchFaults(false)
	e.mu.Unlock()
}

// letIn releases the lock to those who wait for it and takes it again.
func (e *engine) letIn() {
	e.unlock()
	for i := 0; e.waiting.Load() != 0 && i < 200; i++ {
		if i >= 100 {
			//nolint:forbidigo // costs a locked thread two switches; another goroutine has the engine, and must run
			runtime.Gosched()
		} else {
			tick.Now()
		}
	}
	e.lock()
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
	// Small packets count leastUnacked each: a hundred of them are much of a queue.
	ackEvery     = 64 << 10
	leastUnacked = 512
	// A round that brings burstPackets or more answers them at its end. A peer with a short queue waits for these ACKs,
	// while the program here looks at what has arrived.
	burstPackets = 32
	// sendQuantum is how many packets a queue pair sends in its turn, sendBudget how many leave in one round of progress.
	sendQuantum = 128
	sendBudget  = 128
	// sendBytes bounds a round in bytes.
	sendBytes = 128 << 10
)

// After lateRound without the processor a device takes what has arrived, up to lateReceives datagrams, before it looks
// at its timers: answers that wait in the socket are no silence.
const (
	lateRound    = time.Millisecond
	lateReceives = 1024
)

// progress drives the device one round: receive, at most so many times from each socket, answer, send. It reports
// whether anything was received or sent.
func (e *engine) progress(now tick.Time, receives int) bool {
	e.wakeSentry()
	switch took := now - e.lastRound; {
	case took < -e.lateRound:
		e.restartClocks(now)
	case took > e.lateRound:
		receives = max(receives, lateReceives)
	}
	e.lastRound = now
	got, before := false, e.count.receivedPackets
	for _, s := range e.sockets {
		for range receives {
			r, ok := s.Receive(e.input)
			if !ok {
				e.count.emptyReceives++
				break
			}
			e.count.receives++
			got = true
			if r.From != nil {
				e.onReceived(s, &r, now)
			}
		}
	}
	if e.network != nil {
		e.network.Release(int64(now))
	}
	if len(e.acks) > 0 && (!got || e.unacked >= ackEvery || e.count.receivedPackets-before >= burstPackets) {
		e.flushAcks()
		got = true
	}
	if now >= e.nextTimer {
		e.runTimers(now)
	}
	sent := false
	if len(e.busy) > 0 {
		sent = e.transmit(now)
	}
	e.out.Flush()
	return got || sent
}

// makeBusy has a path served.
func (e *engine) makeBusy(p *path) {
	if !p.busy {
		p.busy = true
		e.busy = append(e.busy, p)
	}
}

// transmit sends what queue pairs have, in turns. A path that was served goes behind the others: one that always has
// something to send, as unreliable queue pairs may, does not keep them waiting for more than a round.
func (e *engine) transmit(now tick.Time) bool {
	budget := sendBudget
	limit := e.out.Sent.Bytes + uint64(sendBytes)
	served := 0
	for ; served < len(e.busy) && budget > 0 && e.out.Sent.Bytes < limit; served++ {
		p := e.busy[served]
		for budget > 0 && e.out.Sent.Bytes < limit {
			sent, goesOn := p.serve(now, budget)
			budget -= sent
			if !goesOn {
				break
			}
		}
	}
	e.turns = append(e.turns[:0], e.busy[served:]...)
	for _, p := range e.busy[:served] {
		if p.busy = p.hasWork(); p.busy {
			e.turns = append(e.turns, p)
		}
	}
	e.busy, e.turns = e.turns, e.busy
	return budget < sendBudget
}

// serve sends up to budget packets of the queue pairs whose turn it is on a path,
// and tells whether others may send now.
func (p *path) serve(now tick.Time, budget int) (sent int, goesOn bool) {
	if q := p.responses.pop(); q != nil {
		sent += q.sendResponses(min(budget, sendQuantum/2))
		if q.respond.OwesAnswers() {
			p.responses.push(q)
		}
	}
	closed := true
	if q := p.requests.pop(); q != nil {
		n, why := q.sendSome(now, min(budget, sendQuantum))
		sent += n
		if why != rc.Idle {
			q.kick()
		}
		closed = why == rc.Blocked
	}
	return sent, p.responses.head != nil || p.requests.head != nil && !closed
}

func (p *path) hasWork() bool { return p.requests.head != nil || p.responses.head != nil }

// arrival is where a packet came from and its place among those that the kernel joined.
type arrival struct {
	socket *socket
	from   netip.AddrPort
	place  int
}

// onReceived handles packets one by one.
func (e *engine) onReceived(s *socket, r *link.Received, now tick.Time) {
	if r.Proven && e.network == nil {
		e.onPacket(s, r.From, r.Bytes, verified, now)
		return
	}
	for i, b := 0, r.Bytes; len(b) > 0; i++ {
		n := min(r.Segment, len(b))
		if e.network != nil {
			at := arrival{socket: s, from: netip.AddrPortFrom(r.From.Addr, r.From.Port), place: i}
			e.network.Admit(netem.Packet[arrival]{From: at, Bytes: b[:n]}, int64(now))
		} else {
			e.onPacket(s, r.From, b[:n], i, now)
		}
		b = b[n:]
	}
}

// verified as onPacket's place says that the ICRC is known to be right, for the IP ID 0.
const verified = -1

// onPacket handles one packet, in its place among those that the kernel joined. Whatever is wrong with it before its
// queue pair is known to be meant, it is dropped without a word (rxe's order: IBTA 9.6.1).
func (e *engine) onPacket(s *socket, from *link.Source, b []byte, place int, now tick.Time) {
	p, err := wire.ParsePacket(b)
	if err != nil {
		e.count.malformed++
		return
	}
	qpn := p.DestQPN()
	q := e.qps[qpn&(maxQP-1)]
	if members := s.members; members != nil && qpn == wire.MulticastQPN {
		q = members[0] // for the checks, which are those of any UD queue pair
	} else if q == nil || q.qpn != qpn || members != nil {
		q = nil
	}
	if q == nil || q.wire != p.Opcode.Transport() {
		e.count.unknownQP++
		return
	}
	if q.transport != verbs.UD && (q.path == nil || q.path.socket != s || q.path.Remote != from.Addr) {
		e.count.wrongPath++
		return
	}
	if key := p.PKey(); key&0x7fff != wire.DefaultPKey&0x7fff {
		e.count.badPKeys++
		return
	}
	var id uint16
	if place == verified {
		from.Prove()
	} else {
		var ok bool
		if id, ok = from.Verify(b, uint16(place), now); !ok {
			e.count.badICRCs++
			return
		}
	}
	e.count.receivedPackets++
	e.count.receivedBytes += uint64(len(b))
	e.unacked += max(len(b), leastUnacked)
	if e.out.Capture != nil {
		e.out.Capture.Write(time.Now(), from.Datagram(b, id))
	}
	if members := s.members; members != nil {
		for _, q := range members {
			if q.serves() {
				q.onDatagram(&p, from, id)
			}
		}
		return
	}
	if p.Opcode.Has(wire.IsResponse) {
		q.onResponse(&p, now)
		return
	}
	if !q.serves() {
		return
	}
	if q.state == verbs.StateRTR && !q.established {
		q.established = true
		e.raise(verbs.AsyncEvent{Type: verbs.EventCommEstablished, QP: q})
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

// addQP numbers a queue pair at random, so that stale packets, and those of strangers who guess,
// find nobody. The low bits are its slot.
func (e *engine) addQP(q *queuePair) error {
	if e.openQPs >= maxQP-32 {
		return errTooManyQPs
	}
	for n := rand.Uint32(); ; n++ { // from there on the next free one
		n &= wire.Mask24
		if n&(maxQP-1) < 17 || n == wire.MulticastQPN { // 0 and 1 are reserved; rxe starts at 17
			continue
		}
		if slot := &e.qps[n&(maxQP-1)]; *slot == nil {
			*slot = q
			if q.qpn = n; q.transport == verbs.UD && !e.tellsService {
				e.tellsService = true
				for _, s := range e.sockets {
					s.TellService()
				}
			}
			e.openQPs++
			return nil
		}
	}
}

func (e *engine) removeQP(q *queuePair) {
	e.qps[q.qpn&(maxQP-1)] = nil
	e.openQPs--
}
