//go:build lab && linux

package labtest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/gobw/gobw/verbs"
)

// sizes are around the path MTUs of 1024 and 4096 bytes.
var sizes = []int{1, 3, 1023, 1024, 1025, 4095, 4096, 4097, 12289, 65536, 300001}

// TestWire lets our device and the kernel's talk over a good network, both ways round.
func TestWire(t *testing.T) {
	for _, d := range directions(t) {
		t.Run(d.name, func(t *testing.T) {
			for _, mtu := range []verbs.MTU{verbs.MTU1024, verbs.MTU4096} {
				t.Run(fmt.Sprintf("mtu=%v", mtu), func(t *testing.T) {
					for _, c := range wireCases {
						t.Run(c.name, func(t *testing.T) {
							o := c.o
							o.mtu = mtu
							p := connect(t, d.from, d.to, o)
							clear(p.to.bytes())
							c.run(t, p)
						})
					}
				})
			}
		})
	}
}

// wireCases are the operations that succeed.
var wireCases = []struct {
	name string
	o    pairOptions
	run  func(*testing.T, *pair)
}{
	{"RC/write", pairOptions{}, func(t *testing.T, p *pair) { oneByOne(t, p, verbs.OpWrite) }},
	{"RC/write-imm", pairOptions{}, func(t *testing.T, p *pair) { oneByOne(t, p, verbs.OpWriteWithImmediate) }},
	{"RC/send", pairOptions{}, func(t *testing.T, p *pair) { oneByOne(t, p, verbs.OpSend) }},
	{"RC/send-imm", pairOptions{}, func(t *testing.T, p *pair) { oneByOne(t, p, verbs.OpSendWithImmediate) }},
	{"RC/read", pairOptions{}, func(t *testing.T, p *pair) { oneByOne(t, p, verbs.OpRead) }},
	{"RC/srq", pairOptions{srq: true}, func(t *testing.T, p *pair) { oneByOne(t, p, verbs.OpSendWithImmediate) }},
	{"RC/empty", pairOptions{}, empty},
	{"RC/atomic", pairOptions{}, atomics},
	{"RC/gather-scatter", pairOptions{}, gatherScatter},
	{"RC/inline", pairOptions{inline: 64}, inline},
	{"RC/mixed", pairOptions{}, func(t *testing.T, p *pair) { stream(t, p, 300) }},
	{"UC/write", pairOptions{transport: verbs.UC}, func(t *testing.T, p *pair) { oneByOne(t, p, verbs.OpWrite) }},
	{
		"UC/write-imm",
		pairOptions{transport: verbs.UC},
		func(t *testing.T, p *pair) { oneByOne(t, p, verbs.OpWriteWithImmediate) },
	},
	{"UC/send", pairOptions{transport: verbs.UC}, func(t *testing.T, p *pair) { oneByOne(t, p, verbs.OpSend) }},
	{
		"UC/send-imm",
		pairOptions{transport: verbs.UC},
		func(t *testing.T, p *pair) { oneByOne(t, p, verbs.OpSendWithImmediate) },
	},
	{"UC/srq", pairOptions{transport: verbs.UC, srq: true}, func(t *testing.T, p *pair) { oneByOne(t, p, verbs.OpSend) }},
	{"UD/send", pairOptions{transport: verbs.UD}, func(t *testing.T, p *pair) { datagrams(t, p, verbs.OpSend) }},
	{
		"UD/send-imm",
		pairOptions{transport: verbs.UD},
		func(t *testing.T, p *pair) { datagrams(t, p, verbs.OpSendWithImmediate) },
	},
	{"UD/srq", pairOptions{transport: verbs.UD, srq: true}, func(t *testing.T, p *pair) { datagrams(t, p, verbs.OpSend) }},
}

// oneByOne sends each size alone and looks at every byte and every field of the completions.
func oneByOne(t *testing.T, p *pair, op verbs.Opcode) {
	const local, remote = 64, 192 // neither is page aligned
	for i, size := range sizes {
		id := uint64(100 + i)
		out, in := p.from.bytes()[local:][:size], p.to.bytes()[remote:][:size]
		if op == verbs.OpRead {
			out, in = in, out
		}
		fill(out, i)
		clear(in)
		guard := append(in, 0)[size : size+1] // the byte behind must stay
		guard[0] = 0xa5
		switch op {
		case verbs.OpWriteWithImmediate:
			p.to.receive(t, verbs.ReceiveRequest{ID: id})
		case verbs.OpSend, verbs.OpSendWithImmediate:
			p.to.receive(t, verbs.ReceiveRequest{ID: id, SGEs: []verbs.SGE{p.to.sge(remote, size)}})
		default: // the rest needs no receive
		}
		p.from.post(t, p.request(id, op, local, size, remote))
		p.succeed(t, p.from, id, op.Completed())
		p.arrived(t, op, id, size)
		if p.o.transport == verbs.UC && op == verbs.OpWrite { // nothing tells when it is there
			p.until(t, func() bool { return filled(in, i) < 0 })
		}
		if at := filled(in, i); at >= 0 {
			t.Fatalf("%v of %d bytes: byte %d differs", op, size, at)
		}
		if guard[0] != 0xa5 {
			t.Fatalf("%v of %d bytes wrote behind its end", op, size)
		}
	}
}

// arrived checks the receiver's completion, where there is one.
func (p *pair) arrived(t *testing.T, op verbs.Opcode, id uint64, size int) {
	t.Helper()
	if !op.NeedsReceive() {
		return
	}
	want := verbs.CompletedReceive
	if op == verbs.OpWriteWithImmediate {
		want = verbs.CompletedReceiveWithImmediate
	}
	c := p.succeed(t, p.to, id, want)
	if int(c.Bytes) != size {
		t.Errorf("%s: received %d bytes, want %d", p.to.name, c.Bytes, size)
	}
	if op.HasImmediate() != (c.Flags&verbs.WithImmediate != 0) || op.HasImmediate() && c.Immediate != immediate {
		t.Errorf("%s: flags %#x, immediate %#x; want it %v, %#x", p.to.name, c.Flags, c.Immediate,
			op.HasImmediate(), immediate)
	}
}

// empty sends no byte at all, by every operation that may.
func empty(t *testing.T, p *pair) {
	p.to.receive(t, verbs.ReceiveRequest{ID: 1}, verbs.ReceiveRequest{ID: 2})
	for id, op := range []verbs.Opcode{verbs.OpWrite, verbs.OpSend, verbs.OpWriteWithImmediate} {
		r := p.request(uint64(id), op, 0, 0, 0)
		r.SGEs = nil
		p.from.post(t, r)
		p.succeed(t, p.from, uint64(id), op.Completed())
		p.arrived(t, op, uint64(id), 0)
	}
}

// inline sends data that the device copied while posting: the buffer is overwritten at once.
func inline(t *testing.T, p *pair) {
	for id, op := range []verbs.Opcode{verbs.OpSend, verbs.OpWrite} {
		in := p.to.bytes()[128:192]
		clear(in)
		fill(p.from.bytes()[:64], 7)
		p.to.receive(t, verbs.ReceiveRequest{ID: uint64(id), SGEs: []verbs.SGE{p.to.sge(128, 64)}})
		r := p.request(uint64(id), op, 0, 64, 128)
		r.Flags, r.SGEs[0].LKey = verbs.Inline, 0
		p.from.post(t, r)
		clear(p.from.bytes()[:64])
		p.succeed(t, p.from, uint64(id), op.Completed())
		p.arrived(t, op, uint64(id), 64)
		if at := filled(in, 7); at >= 0 {
			t.Fatalf("%v inline: byte %d differs", op, at)
		}
	}
}

// atomics checks what comes back and what stays.
func atomics(t *testing.T, p *pair) {
	word := p.to.bytes()[256:264]
	binary.NativeEndian.PutUint64(word, 1000)
	cases := []struct {
		op            verbs.Opcode
		compare, swap uint64
		old, left     uint64
	}{
		{verbs.OpFetchAdd, 5, 0, 1000, 1005},
		{verbs.OpFetchAdd, ^uint64(0), 0, 1005, 1004},
		{verbs.OpCompareSwap, 1004, 0x0123456789abcdef, 1004, 0x0123456789abcdef},
		{verbs.OpCompareSwap, 1, 2, 0x0123456789abcdef, 0x0123456789abcdef},
	}
	for i, c := range cases {
		r := p.request(uint64(i), c.op, 512, 8, 256)
		r.CompareAdd, r.Swap = c.compare, c.swap
		p.from.post(t, r)
		p.succeed(t, p.from, uint64(i), c.op.Completed())
		if old := binary.NativeEndian.Uint64(p.from.bytes()[512:]); old != c.old {
			t.Errorf("%v returned %#x, want %#x", c.op, old, c.old)
		}
		if left := binary.NativeEndian.Uint64(word); left != c.left {
			t.Errorf("%v left %#x, want %#x", c.op, left, c.left)
		}
	}
}

// gatherScatter sends from four pieces into three, and reads into four.
func gatherScatter(t *testing.T, p *pair) {
	out, in := []int{1, 1500, 4097, 2}, []int{3000, 7, 2593} // both add up to 5600
	whole := make([]byte, 5600)
	fill(whole, 9)
	spread := func(h *half, lengths []int) (list []verbs.SGE, pieces [][]byte) {
		for i, n := range lengths {
			list = append(list, h.sge(i*8192+i, n))
			pieces = append(pieces, h.bytes()[i*8192+i:][:n])
		}
		return list, pieces
	}
	list, pieces := spread(p.from, out)
	for rest := whole; len(pieces) > 0; pieces = pieces[1:] {
		rest = rest[copy(pieces[0], rest):]
	}
	into, landed := spread(p.to, in)
	p.to.receive(t, verbs.ReceiveRequest{ID: 1, SGEs: into})
	r := p.request(1, verbs.OpSend, 0, 0, 0)
	r.SGEs = list
	p.from.post(t, r)
	p.succeed(t, p.from, 1, verbs.CompletedSend)
	p.arrived(t, verbs.OpSend, 1, len(whole))
	if !bytes.Equal(slices.Concat(landed...), whole) {
		t.Error("SEND of 4 pieces into 3: data differ")
	}

	clear(p.to.bytes()[:65536])
	r = p.request(2, verbs.OpWrite, 0, 0, 40000)
	r.SGEs = list
	p.from.post(t, r)
	p.succeed(t, p.from, 2, verbs.CompletedWrite)
	if !bytes.Equal(p.to.bytes()[40000:][:len(whole)], whole) {
		t.Error("WRITE of 4 pieces: data differ")
	}

	clear(p.from.bytes()[:65536])
	r.ID, r.Opcode = 3, verbs.OpRead
	p.from.post(t, r)
	p.succeed(t, p.from, 3, verbs.CompletedRead)
	_, pieces = spread(p.from, out)
	if !bytes.Equal(slices.Concat(pieces...), whole) {
		t.Error("READ into 4 pieces: data differ")
	}
}

// datagrams sends UD messages up to the MTU and looks at the 40 bytes in front.
func datagrams(t *testing.T, p *pair, op verbs.Opcode) {
	const grh = 40
	for i, size := range sizes {
		if size > p.o.mtu.Bytes() {
			break
		}
		id := uint64(i)
		fill(p.from.bytes()[:size], i)
		clear(p.to.bytes()[:grh+size])
		p.to.receive(t, verbs.ReceiveRequest{ID: id, SGEs: []verbs.SGE{p.to.sge(0, grh+size)}})
		p.from.post(t, p.request(id, op, 0, size, 0))
		p.succeed(t, p.from, id, verbs.CompletedSend)
		c := p.await(t, p.to, 1)[0]
		if c.Status != verbs.Success || c.ID != id || int(c.Bytes) != grh+size || c.SourceQPN != p.from.qp.QPN() ||
			c.Flags&verbs.WithGRH == 0 {
			t.Fatalf("%s: %+v; want success, %d bytes, source QPN %#x, GRH", p.to.name, c, grh+size, p.from.qp.QPN())
		}
		if op.HasImmediate() && (c.Flags&verbs.WithImmediate == 0 || c.Immediate != immediate) {
			t.Errorf("immediate %#x, flags %#x; want %#x", c.Immediate, c.Flags, immediate)
		}
		if at := filled(p.to.bytes()[grh:][:size], i); at >= 0 {
			t.Fatalf("%d bytes: byte %d differs", size, at)
		}
		// RoCE v2 over IPv4: the last 20 of the 40 bytes are the IP header (annex A17.4.5.2).
		ip := p.to.bytes()[20:40]
		source, destination := p.from.gid.GID.Addr().As4(), p.to.gid.GID.Addr().As4()
		if ip[0]>>4 != 4 || !bytes.Equal(ip[12:16], source[:]) || !bytes.Equal(ip[16:20], destination[:]) {
			t.Errorf("%s: GRH area %x: want an IPv4 header from %v to %v in its last 20 bytes", p.to.name, p.to.bytes()[:40],
				source, destination)
		}
	}
}
