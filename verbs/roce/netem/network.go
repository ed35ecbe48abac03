package netem

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Time is an instant or a span in the ticks of the caller's clock.
type Time = int64

// Never is an instant that does not come.
const Never = Time(math.MaxInt64)

// overtakeWait is how long an overtaken packet waits for its overtaker.
const overtakeWait = 200 * time.Microsecond

// maxHeldBytes bounds what is under way: beyond, packets are dropped as by a full
// queue. It is more than 100 ms of 5 Gb/s.
const maxHeldBytes = 64 << 20

// Packet is a packet and what its receiver wants to know besides: From is the caller's own.
type Packet[F any] struct {
	From  F
	Bytes []byte // valid during the call
}

// Network decides the fate of packets: the n-th packet's depends on the seed and n alone. It belongs to one goroutine.
type Network[F any] struct {
	Options
	// Dropped counts packets that found the queue full.
	Dropped uint64

	deliver func(Packet[F])
	random  *rand.Rand
	losing  bool // in a burst

	delay, overtakeWait Time
	perByte             float64 // time on the link
	linkFree            Time    // when the link has sent everything before
	longestWait         Time    // in the queue

	held      []held[F] // from head on, in order of due
	head      int
	heldBytes int
	spare     [][]byte // buffers to use again

	overtaken   held[F] // it waits for the next packet
	isOvertaken bool
}

// held is a packet that arrives later.
type held[F any] struct {
	Packet[F]
	due Time
}

// New makes a network that delivers to deliver; nil for a good one.
func New[F any](o Options, ticksPerSecond float64, deliver func(Packet[F])) *Network[F] {
	if o.IsGood() {
		return nil
	}
	ticks := func(d time.Duration) Time { return Time(d.Seconds() * ticksPerSecond) }
	n := &Network[F]{
		Options: o, deliver: deliver, random: rand.New(rand.NewPCG(o.Seed, 4791)), delay: ticks(o.Delay),
		overtakeWait: ticks(overtakeWait),
	}
	if o.Rate > 0 {
		n.perByte = 8 / o.Rate * ticksPerSecond
		queue := o.Queue
		if queue == 0 {
			queue = defaultQueue
		}
		n.longestWait = Time(float64(queue) * n.perByte)
	}
	return n
}

// chance draws once per question, so that fates stay aligned whatever the answers are.
func (n *Network[F]) chance(p float64) bool { return n.random.Float64() < p }

// loses decides on a loss. In bursts the share is the same (Gilbert's model: a state that loses everything).
func (n *Network[F]) loses() bool {
	switch {
	case n.Burst <= 1:
		return n.chance(n.Loss)
	case n.losing:
		n.losing = !n.chance(1 / n.Burst)
	default:
		n.losing = n.chance(n.Loss / (n.Burst * (1 - n.Loss)))
	}
	return n.losing
}

// Admit takes a packet and delivers what arrives now: nothing, it, it twice, or it and an overtaken one.
func (n *Network[F]) Admit(p Packet[F], now Time) {
	lost, twice, late := n.loses(), n.chance(n.Duplicate), n.chance(n.Reorder)
	if lost {
		return
	}
	if late && !n.isOvertaken {
		n.overtaken, n.isOvertaken = n.hold(p, now), true
		return
	}
	n.pass(p, now)
	if twice {
		n.pass(p, now)
	}
	n.followUp(now)
}

// followUp lets an overtaken packet through.
func (n *Network[F]) followUp(now Time) {
	if !n.isOvertaken {
		return
	}
	n.isOvertaken = false
	n.pass(n.overtaken.Packet, now)
	n.release(n.overtaken)
}

// pass puts a packet on the link.
func (n *Network[F]) pass(p Packet[F], now Time) {
	due := now + n.delay
	if n.perByte > 0 {
		start := max(now, n.linkFree)
		if start-now > n.longestWait {
			n.Dropped++
			return
		}
		n.linkFree = start + Time(float64(len(p.Bytes))*n.perByte)
		due = n.linkFree + n.delay
	}
	if due <= now && n.head == len(n.held) {
		n.deliver(p)
		return
	}
	if n.heldBytes+len(p.Bytes) > maxHeldBytes {
		n.Dropped++
		return
	}
	n.push(n.hold(p, due))
}

// Release delivers what is due, and a packet that waited for an overtaker which never came.
func (n *Network[F]) Release(now Time) {
	for n.head < len(n.held) && n.held[n.head].due <= now {
		h := n.pop()
		n.deliver(h.Packet)
		n.release(h)
	}
	if n.isOvertaken && now-n.overtaken.due > n.overtakeWait {
		n.followUp(now)
	}
}

// Restart makes due what is held, after the clock has gone back.
func (n *Network[F]) Restart(now Time) {
	n.linkFree, n.overtaken.due = now, now
	for i := range n.held[n.head:] {
		n.held[n.head+i].due = now
	}
}

// Next is when Release has something to do.
func (n *Network[F]) Next() Time {
	at := Never
	if n.head < len(n.held) {
		at = n.held[n.head].due
	}
	if n.isOvertaken {
		at = min(at, n.overtaken.due+n.overtakeWait+1)
	}
	return at
}

// hold copies a packet.
func (n *Network[F]) hold(p Packet[F], due Time) held[F] {
	var b []byte
	if k := len(n.spare); k > 0 {
		b, n.spare = n.spare[k-1][:0], n.spare[:k-1]
	}
	p.Bytes = append(b, p.Bytes...)
	n.heldBytes += len(p.Bytes)
	return held[F]{Packet: p, due: due}
}

// release takes a held packet's buffer back.
func (n *Network[F]) release(h held[F]) {
	n.heldBytes -= len(h.Bytes)
	n.spare = append(n.spare, h.Bytes)
}

func (n *Network[F]) push(h held[F]) {
	if 2*n.head > len(n.held) {
		n.held, n.head = slices.Delete(n.held, 0, n.head), 0
	}
	n.held = append(n.held, h)
}

func (n *Network[F]) pop() held[F] {
	h := n.held[n.head]
	n.held[n.head] = held[F]{}
	n.head++
	return h
}
