package roce

import (
	"unsafe"

	"github.com/gobw/gobw/verbs/roce/wire"
)

const (
	// maxSegments is how many packets the kernel takes in one segmented send (UDP_MAX_SEGMENTS of Linux 6.1).
	maxSegments = 64
	// maxBatchBytes is the longest UDP payload over IPv4.
	maxBatchBytes = 65507
	// A WRITE of one packet joins a batch of others. A longer one ends a batch: its FIRST is 16 bytes longer than what
	// follows, so that a system call carries two packets of an 8 KiB message where it carries fifteen of 4 KiB. The FIRST and
	// the LAST of a READ response are of one length (both have an AETH), longer than a MIDDLE: two packets may follow on.
	writeBatchPackets = 1
	readBatchPackets  = 2
)

// batch is a batch of packets to one path, sent by one system call. All packets but the last have the length of the
// first, only the last may be shorter: a WRITE, whose FIRST is the longest, takes two batches at least, [FIRST, MIDDLE] and
// [MIDDLE … LAST], where SENDs of whole packets fill batches across messages.
//
// Payload is copied, and the ICRC is that of the copy: its owner may change it at any time, and what a NIC sends then is
// torn but not damaged. The copy is made by the pass that computes the CRC and costs nothing beside it.
type batch struct {
	path     *path
	packets  int
	segment  int  // length of the first packet
	complete bool // the last packet was shorter: nothing may follow

	scratch []byte
	used    int // of scratch

	crc   uint32 // of the open packet
	crcAt int    // scratch from here is not yet in crc
	begun bool   // the open packet's BTH is in crc
	pad   int    // bytes of padding of the open packet
}

func newBatch() *batch { return &batch{scratch: make([]byte, maxBatchBytes)} }

// piece is memory that a packet's payload is gathered from.
type piece struct {
	base unsafe.Pointer
	n    uintptr
}

// fits tells whether a packet of n bytes to p may join.
func (t *batch) fits(p *path, n int) bool {
	return t.packets == 0 ||
		t.path == p && !t.complete && n <= t.segment && t.packets < p.segments && t.used+n <= maxBatchBytes
}

// open begins a packet of n bytes from BTH through ICRC and returns room for its headers. The caller has made sure that it fits.
func (t *batch) open(p *path, n, headers int) []byte {
	if t.packets == 0 {
		t.path, t.segment = p, n
	} else if n < t.segment {
		t.complete = true
	}
	t.crc = p.flow.Prefix(n+wire.UDPBytes, uint16(t.packets))
	t.packets++
	t.crcAt = t.used
	t.begun = false
	return t.stage(headers)
}

// stage gives n bytes of scratch that follow what the packet has so far.
func (t *batch) stage(n int) []byte {
	b := t.scratch[t.used : t.used+n : t.used+n]
	t.used += n
	return b
}

// checksum takes staged bytes into the CRC.
func (t *batch) checksum() {
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

// payload appends n bytes of payload.
func (t *batch) payload(at unsafe.Pointer, n int) {
	from := unsafe.Slice((*byte)(at), n)
	if n < copyApart {
		copy(t.stage(n), from)
		return
	}
	t.checksum()
	t.crc = wire.CopyICRC(t.crc, t.stage(n), from)
	t.crcAt = t.used
}

// copyApart is the size from which on a piece is copied and checksummed in one pass; the CRC of smaller ones is computed
// together with what is around them.
const copyApart = 256

// close ends the packet with its padding and the ICRC.
func (t *batch) close() {
	if t.pad > 0 {
		clear(t.stage(t.pad))
	}
	t.checksum()
	wire.PutICRC(t.stage(wire.ICRCBytes), t.crc)
}

func (t *batch) reset() {
	t.path = nil
	t.packets, t.segment, t.used = 0, 0, 0
	t.complete = false
}

// open begins a packet with n bytes of payload, after sending the batch where the packet cannot join it. It returns room for
// the headers behind the BTH; payload and close follow.
func (e *engine) open(p *path, code wire.Opcode, flags wire.BTHFlags, qpn, psn uint32, n int) []byte {
	t := &e.batch
	headers, pad := code.HeaderBytes(), wire.PadBytes(n)
	total := headers + n + pad + wire.ICRCBytes
	if !t.fits(p, total) {
		e.flush()
	}
	h := t.open(p, total, headers)
	t.pad = pad
	wire.PutBTH(h, code, flags|wire.PadFlag(n), qpn, psn)
	return h[wire.BTHBytes:]
}

// flush sends the batch.
func (e *engine) flush() {
	t := &e.batch
	if t.packets == 0 {
		return
	}
	e.count.sentPackets += uint64(t.packets)
	e.count.sentBytes += uint64(t.used)
	if e.capture != nil {
		e.captureBatch(t)
	}
	switch b := t.scratch[:t.used]; {
	case e.carry != nil:
		e.carry(t.path, b, t.segment)
	case !t.path.socket.send(t.path, b, t.segment):
		e.sendSingly(t)
	}
	t.reset()
}

// sendSingly sends a batch that the kernel would not segment packet by packet, each with the IP ID of a single datagram.
func (e *engine) sendSingly(t *batch) {
	p := t.path
	if t.packets > 1 {
		p.segments = 1
		p.socket.segmentation = false
	}
	for b := t.scratch[:t.used]; len(b) > 0; {
		n := min(t.segment, len(b))
		p.flow.Seal(b[:n], 0)
		if !p.socket.send(p, b[:n], n) {
			e.count.sendErrors++
		}
		b = b[n:]
	}
}
