package roce

import (
	"unsafe"

	"github.com/gobw/gobw/verbs/roce/wire"
)

const (
	// maxSegments is how many packets the kernel takes in one segmented send (UDP_MAX_SEGMENTS of Linux 6.1).
	maxSegments = 64
	// maxTrainBytes is the longest UDP payload over IPv4.
	maxTrainBytes = 65507
	// stageBelow is the size of the piece of payload that is copied rather than handed to the kernel where it lies: a
	// copy costs less than an entry in the kernel's list. Whole packets of the largest MTU are handed over.
	stageBelow = 4096
	maxPieces  = 1024 // IOV_MAX
	// A WRITE of one packet joins a train of others. A longer one ends a train: its FIRST is 16 bytes longer than what
	// follows, so that a system call carries two packets of an 8 KiB message where it carries fifteen of 4 KiB. The FIRST and
	// the LAST of a READ response are of one length (both have an AETH), longer than a MIDDLE: two packets may follow on.
	writeBatchPackets = 1
	readBatchPackets  = 2
)

// piece is a part of a train in memory; its layout is that of struct iovec.
type piece struct {
	base unsafe.Pointer
	n    uintptr
}

// train is a batch of packets to one path, sent by one system call. All packets but the last have the length of the
// first, only the last may be shorter: a WRITE, whose FIRST is the longest, takes two trains at least, [FIRST, MIDDLE] and
// [MIDDLE … LAST], where SENDs of whole packets fill trains across messages. Headers and small payloads lie in scratch, large
// payloads where they are.
type train struct {
	path     *path
	packets  int
	segment  int // length of the first packet
	bytes    int
	complete bool // the last packet was shorter: nothing may follow

	pieces  []piece
	scratch []byte
	used    int // of scratch
	run     int // start of the piece of scratch that is still growing

	crc    uint32 // of the open packet
	crcAt  int    // scratch from here is not yet in crc
	begun  bool   // the open packet's BTH is in crc
	length int    // of the open packet
}

func newTrain() *train {
	return &train{pieces: make([]piece, 0, maxPieces), scratch: make([]byte, maxTrainBytes+4096)}
}

// fits tells whether a packet of n bytes to p may join.
func (t *train) fits(p *path, n int) bool {
	return t.packets == 0 ||
		t.path == p && !t.complete && n <= t.segment && t.packets < p.segments && t.bytes+n <= maxTrainBytes && len(t.pieces)+2*maxSGE+4 < maxPieces
}

// open begins a packet of n bytes from BTH through ICRC and returns room for its headers. The caller has made sure that it fits.
func (t *train) open(p *path, n, headers int) []byte {
	if t.packets == 0 {
		t.path, t.segment = p, n
	} else if n < t.segment {
		t.complete = true
	}
	t.length = n
	t.crc = p.flow.Prefix(n+wire.UDPBytes, uint16(t.packets))
	t.packets++
	t.bytes += n
	t.crcAt = t.used
	t.begun = false
	return t.stage(headers)
}

// stage gives n bytes of scratch that follow what the packet has so far.
func (t *train) stage(n int) []byte {
	b := t.scratch[t.used : t.used+n : t.used+n]
	t.used += n
	return b
}

// checksum takes staged bytes into the CRC.
func (t *train) checksum() {
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

// refer appends n bytes of payload where they lie.
func (t *train) refer(at unsafe.Pointer, n int) {
	t.checksum()
	t.crc = wire.UpdateICRC(t.crc, unsafe.Slice((*byte)(at), n))
	t.endRun()
	t.pieces = append(t.pieces, piece{at, uintptr(n)})
}

// copy appends n bytes of payload by copying them.
func (t *train) copy(at unsafe.Pointer, n int) {
	copy(t.stage(n), unsafe.Slice((*byte)(at), n))
}

// payload appends payload in the cheaper way.
func (t *train) payload(at unsafe.Pointer, n int) {
	if n >= stageBelow {
		t.refer(at, n)
	} else {
		t.copy(at, n)
	}
}

// close ends the packet with pad bytes of padding and the ICRC.
func (t *train) close(pad int) {
	if pad > 0 {
		clear(t.stage(pad))
	}
	t.checksum()
	wire.PutICRC(t.stage(wire.ICRCBytes), t.crc)
}

func (t *train) endRun() {
	if t.used > t.run {
		t.pieces = append(t.pieces, piece{unsafe.Pointer(&t.scratch[t.run]), uintptr(t.used - t.run)})
	}
	t.run = t.used
}

func (t *train) reset() {
	t.path = nil
	t.packets, t.segment, t.bytes, t.used, t.run = 0, 0, 0, 0, 0
	t.complete = false
	t.pieces = t.pieces[:0]
}

// flatten copies the train's bytes to b, for captures and for kernels that do not segment.
func (t *train) flatten(b []byte) []byte {
	b = b[:0]
	for _, p := range t.pieces {
		b = append(b, unsafe.Slice((*byte)(p.base), p.n)...)
	}
	return b
}

// flush sends the train.
func (e *engine) flush() {
	t := &e.train
	if t.packets == 0 {
		return
	}
	t.endRun()
	e.count.sentPackets += uint64(t.packets)
	e.count.sentBytes += uint64(t.bytes)
	if e.capture != nil {
		e.captureTrain(t)
	}
	if !t.path.socket.send(t.path, t.pieces, t.segment, t.packets) {
		e.sendSingly(t)
	}
	t.reset()
}

// sendSingly sends a train that the kernel would not segment packet by packet, each with the IP ID of a single datagram.
func (e *engine) sendSingly(t *train) {
	p := t.path
	if t.packets > 1 {
		p.segments = 1
		p.socket.segmentation = false
	}
	e.flat = t.flatten(e.flat)
	for b := e.flat; len(b) > 0; {
		n := min(t.segment, len(b))
		p.flow.Seal(b[:n], 0)
		one := [1]piece{{unsafe.Pointer(&b[0]), uintptr(n)}}
		if !p.socket.send(p, one[:], n, 1) {
			e.count.sendErrors++
		}
		b = b[n:]
	}
}
