package link

import (
	"net/netip"
	"time"

	"github.com/gobw/gobw/verbs/roce/wire"
)

const (
	// MaxSegments is how many packets the kernel takes in one segmented send (UDP_MAX_SEGMENTS since Linux 6.9), and
	// oldMaxSegments how many did before.
	MaxSegments    = 128
	oldMaxSegments = 64
	// maxBatchBytes is the longest UDP payload over IPv4.
	maxBatchBytes = 65507
)

// Sender builds packets and sends them in bursts: batches of packets to one path that leave in one system call. A batch
// is cut into its packets by the kernel: all but the last have the length of the first, only the last may be shorter. A
// WRITE, whose FIRST is the longest, takes two batches at least, [FIRST, MIDDLE] and [MIDDLE … LAST], where SENDs of
// whole packets fill batches across messages.
//
// Payload is copied, and the ICRC is that of the copy: its owner may change it at any time, and what a NIC sends then
// is torn but not damaged. The copy is made by the pass that computes the CRC and costs nothing beside it.
type Sender struct {
	Sent    Sent
	Capture *wire.Capture // nil: none
	// takes what would go to p's socket: simulated networks; nil: the kernel does
	Carry func(p *Path, b []byte, segment int)

	path    *Path
	batches []batch

	scratch []byte
	used    int // of scratch

	openAt int    // where the open packet begins in scratch
	crc    uint32 // of the open packet
	crcAt  int    // scratch from here is not yet in crc
	begun  bool   // the open packet's BTH is in crc
	pad    int    // bytes of padding of the open packet
}

// Sent counts what has left.
type Sent struct {
	Packets, Bytes, Datagrams uint64
	Calls                     uint64 // of the kernel
	Errors                    uint64 // packets that the kernel did not take
	Uncut                     uint64 // batches that it did not cut
}

// batch is its place in scratch, up to the next one's.
type batch struct {
	at       int
	packets  int
	segment  int  // length of the first packet
	complete bool // the last packet was shorter: nothing may follow
}

const (
	// maxBatches is how many batches leave in one system call.
	maxBatches = 16
	// burstBytes is how much of a burst another batch may follow: the peer works on what has left.
	burstBytes = 48 << 10
)

// NewSender makes a sender.
func NewSender() Sender {
	return Sender{scratch: make([]byte, burstBytes+maxBatchBytes), batches: make([]batch, 0, maxBatches)}
}

// bytes is what batch i sends.
func (t *Sender) bytes(i int) []byte {
	end := t.used
	if i+1 < len(t.batches) {
		end = t.batches[i+1].at
	}
	return t.scratch[t.batches[i].at:end]
}

// stage gives n bytes of scratch that follow what the packet has so far.
func (t *Sender) stage(n int) []byte {
	b := t.scratch[t.used : t.used+n : t.used+n]
	t.used += n
	return b
}

// checksum takes staged bytes into the CRC.
func (t *Sender) checksum() {
	b := t.scratch[t.crcAt:t.used]
	t.crcAt = t.used
	if len(b) == 0 {
		return
	}
	if !t.begun {
		t.begun = true
		t.crc = wire.BeginICRC(t.crc, b)
		return
	}
	t.crc = wire.UpdateICRC(t.crc, b)
}

// Payload appends payload.
func (t *Sender) Payload(from []byte) {
	n := len(from)
	if n < copyApart {
		copy(t.stage(n), from)
		return
	}
	t.checksum()
	t.crc = wire.CopyICRC(t.crc, t.stage(n), from)
	t.crcAt = t.used
}

// copyApart is the size from which on a piece is copied and checksummed in one pass; the CRC of smaller ones is
// computed together with what is around them.
const copyApart = 256

// Close ends the packet with its padding and the ICRC. A batch of as many packets as the kernel cuts leaves at once,
// although others follow: a hundred small packets take the peer as long as they take us.
func (t *Sender) Close() {
	if t.pad > 0 {
		clear(t.stage(t.pad))
	}
	t.checksum()
	wire.PutICRC(t.stage(wire.ICRCBytes), t.crc)
	if n := t.path.Segments; n > 1 && t.batches[len(t.batches)-1].packets == n {
		t.Flush()
	}
}

// Abandon takes back the packet that was opened.
func (t *Sender) Abandon() {
	b := &t.batches[len(t.batches)-1]
	t.used, b.complete = t.openAt, false
	if b.packets--; b.packets == 0 {
		if t.batches = t.batches[:len(t.batches)-1]; len(t.batches) == 0 {
			t.path = nil
		}
	}
}

// Single tells whether one packet is waiting and no more.
func (t *Sender) Single() bool { return len(t.batches) == 1 && t.batches[0].packets == 1 }

// Open begins a packet with so many bytes of payload, after sending the burst where the packet cannot join it. It
// returns room for the headers behind the BTH; Payload and Close follow.
func (t *Sender) Open(p *Path, code wire.Opcode, flags wire.BTHFlags, qpn, psn uint32, payload int) []byte {
	headers := code.HeaderBytes()
	t.pad = wire.PadBytes(payload)
	n := headers + payload + t.pad + wire.ICRCBytes
	last := len(t.batches) - 1
	if t.path != p || t.batches[last].complete || n > t.batches[last].segment || t.batches[last].packets >= p.Segments ||
		t.used-t.batches[last].at+n > maxBatchBytes {
		if t.path != p || len(t.batches) == maxBatches || t.used >= burstBytes {
			t.Flush()
		}
		t.path = p
		t.batches = append(t.batches, batch{at: t.used, segment: n})
		last = len(t.batches) - 1
	}
	b := &t.batches[last]
	b.complete = n < b.segment
	t.crc = p.flow.Prefix(n+wire.UDPBytes, uint16(b.packets))
	b.packets++
	t.openAt, t.crcAt, t.begun = t.used, t.used, false
	h := t.stage(headers)
	wire.PutBTH(h, code, flags|wire.FlagMigrated|wire.PadFlag(payload), qpn, psn)
	return h[wire.BTHBytes:]
}

// Flush sends the burst.
func (t *Sender) Flush() {
	if len(t.batches) == 0 {
		return
	}
	t.Sent.Bytes += uint64(t.used)
	t.Sent.Datagrams += uint64(len(t.batches))
	for i := range t.batches {
		t.Sent.Packets += uint64(t.batches[i].packets)
		if t.Capture != nil {
			t.capture(t.bytes(i), t.batches[i].segment)
		}
	}
	first := 0
	if len(t.batches) > 1 && t.Carry == nil {
		if first = t.path.Socket.sendBatches(t); first > 0 {
			t.path.uncut = 0
		}
		t.Sent.Calls++
	}
	for i := first; i < len(t.batches); i++ {
		b, segment := t.bytes(i), t.batches[i].segment
		if t.Carry != nil {
			t.Sent.Calls++
			t.Carry(t.path, b, segment)
			continue
		}
		switch t.send(b, segment) {
		case taken:
			t.path.uncut = 0
		case uncut:
			t.sendParts(b, segment)
		case failed:
		}
	}
	t.path, t.batches, t.used = nil, t.batches[:0], 0
}

// capture writes the packets of a batch that is about to leave.
func (t *Sender) capture(b []byte, segment int) {
	p := t.path
	for id := uint16(0); len(b) > 0; id++ {
		n := min(segment, len(b))
		t.Capture.Write(time.Now(), &wire.Datagram{
			Source: netip.AddrPortFrom(p.Socket.Local, p.Socket.Port), Dest: netip.AddrPortFrom(p.Remote, wire.Port), ID: id,
			Fragment:     0x4000,
			TrafficClass: p.Service.Class, Hops: p.Service.Hops, FlowLabel: p.Service.FlowLabel, Payload: b[:n],
		})
		b = b[n:]
	}
}

// verdict is what the kernel made of a send.
type verdict uint8

const (
	taken  verdict = iota
	uncut          // it does not cut these bytes into packets: perhaps one by one
	failed         // they have not left: the interface is too narrow, a firewall forbids it, there is no route
)

// mostUncut sends in a row that the kernel did not cut are no accident: the path's
// packets leave one by one from then on.
const mostUncut = 8

// send hands bytes to the kernel.
func (t *Sender) send(b []byte, segment int) verdict {
	t.Sent.Calls++
	v := t.path.Socket.send(t.path, b, segment)
	if v == failed {
		n := uint64((len(b) + segment - 1) / segment)
		t.Sent.Errors += n
		t.Sent.Packets -= n
	}
	return v
}

// sendParts sends a batch that the kernel did not cut in parts: first of as many packets as older kernels cut, then of
// one. Each part numbers its packets from 0 on, and its ICRCs say so.
func (t *Sender) sendParts(b []byte, segment int) {
	p := t.path
	most := segment
	if t.Sent.Uncut++; len(b) > oldMaxSegments*segment {
		p.Segments, most = oldMaxSegments, oldMaxSegments*segment
	} else if p.uncut++; p.uncut >= mostUncut {
		p.Segments = 1
	}
	for ; len(b) > 0; b = b[min(most, len(b)):] {
		part := b[:min(most, len(b))]
		for id, left := uint16(0), part; len(left) > 0; id++ {
			n := min(segment, len(left))
			p.flow.Seal(left[:n], id)
			left = left[n:]
		}
		if t.send(part, segment) == uncut {
			t.sendParts(part, segment)
		}
	}
}
