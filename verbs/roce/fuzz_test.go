package roce

import (
	"bytes"
	"encoding/binary"
	"flag"
	"math/rand/v2"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/testrun"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/wire"
	"github.com/gobw/gobw/verbs/tick"
)

// Layout of the target's memory: only the open part may ever change.
const (
	fuzzBytes   = 64 << 10
	fuzzOpen    = 16 << 10 // a region with every right
	fuzzSealed  = 40 << 10 // a region that peers may only read
	fuzzPart    = 16 << 10
	fuzzMTU     = verbs.MTU1024
	fuzzPackets = 64
	manyAtOnce  = 1024
)

// target is a device that takes arbitrary packets: an RC, a UC and a UD queue pair
// with receives posted and requests out.
type target struct {
	t      testing.TB
	device *device
	cq     verbs.CompletionQueue
	qps    [3]*queuePair
	buffer *verbs.Buffer
	open   verbs.MemoryRegion
	sealed verbs.MemoryRegion
	path   *path
	flow   wire.Flow
	peer   verbs.AddressVector
	ah     verbs.AddressHandle
	shadow []byte // what the buffer held at first
}

func newTarget(t testing.TB) *target {
	t.Helper()
	id := os.Getpid()
	address := func(n byte) netip.Addr {
		return netip.AddrFrom4([4]byte{127, 1, byte(id), 128 | byte(id>>8&7)<<3 | n})
	}
	d, err := New(Options{Address: address(1)}).Open(DeviceName)
	check(t, err)
	x := &target{t: t, device: d.(*device)}
	pd, err := d.AllocPD()
	check(t, err)
	x.cq, err = d.CreateCQ(verbs.CompletionQueueOptions{Depth: 1024})
	check(t, err)
	x.buffer, err = verbs.Alloc(fuzzBytes, verbs.MemoryOptions{})
	check(t, err)
	b := x.buffer.Bytes()
	for i := 0; i+8 <= len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], uint64(i)*0x9e3779b97f4a7c15)
	}
	x.shadow = append([]byte(nil), b...)
	x.open, err = pd.RegisterMemory(x.buffer, fuzzOpen, fuzzPart, everything)
	check(t, err)
	x.sealed, err = pd.RegisterMemory(x.buffer, fuzzSealed, fuzzPart, verbs.AccessRemoteRead)
	check(t, err)
	own, err := x.device.DefaultGID()
	check(t, err)
	x.peer = verbs.AddressVector{DGID: verbs.GIDFromAddr(address(2)), SGIDIndex: own.Index, UseGID: true, Port: 1}
	x.ah, err = pd.CreateAH(x.peer)
	check(t, err)
	for i, transport := range []verbs.Transport{verbs.RC, verbs.UC, verbs.UD} {
		q, err := pd.CreateQP(verbs.QueuePairOptions{Transport: transport, SendCQ: x.cq, SendDepth: 16, RecvDepth: 16})
		check(t, err)
		x.qps[i] = q.(*queuePair)
	}
	x.flow, err = wire.NewFlow(netip.AddrPortFrom(address(2), wire.Port), netip.AddrPortFrom(own.GID.Addr(), wire.Port))
	check(t, err)
	t.Cleanup(func() {
		for _, q := range x.qps {
			check(t, q.Close())
		}
		check(t, x.ah.Close())
		check(t, x.sealed.Close())
		check(t, x.open.Close())
		check(t, x.cq.Close())
		check(t, pd.Close())
		check(t, d.Close())
		check(t, x.buffer.Close())
	})
	return x
}

// connect brings a queue pair from wherever it is to RTS, with receives and requests posted.
func (x *target) connect(q *queuePair) {
	x.t.Helper()
	check(x.t, q.Modify(verbs.QueuePairAttributes{Mask: verbs.AttrState, State: verbs.StateReset}))
	c := verbs.ConnectOptions{
		Access: everything, QKey: 0x1234, PathMTU: fuzzMTU, DestQPN: 0x77, SendPSN: 0xfffffe, RecvPSN: 0xfffffd,
		AddressVector: x.peer,
		MaxRDAtomic:   4, MaxDestRDAtomic: 4, MinRNRTimer: 1, RetryCount: 7, RNRRetry: 7,
	}
	check(x.t, verbs.InitQP(q, c))
	check(x.t, verbs.ConnectQP(q, c))
	for i := range uint64(16) {
		check(x.t,
			q.PostReceive([]verbs.ReceiveRequest{
				{ID: i, SGEs: []verbs.SGE{{Addr: x.open.Addr() + 512*i, Length: 3000, LKey: x.open.LKey()}}},
			}))
	}
	sge := []verbs.SGE{{Addr: x.open.Addr() + 9000, Length: 2500, LKey: x.open.LKey()}}
	switch q.transport {
	case verbs.RC:
		check(x.t, q.PostSend([]verbs.SendRequest{
			{Opcode: verbs.OpSend, SGEs: sge},
			{Opcode: verbs.OpRead, SGEs: sge, RemoteAddr: 4096, RKey: 9},
			{
				Opcode: verbs.OpFetchAdd, SGEs: []verbs.SGE{{Addr: x.open.Addr() + 8, Length: 8, LKey: x.open.LKey()}},
				RemoteAddr: 4096, RKey: 9,
			},
			{Opcode: verbs.OpWrite, SGEs: sge, RemoteAddr: 4096, RKey: 9, Flags: verbs.Signaled},
		}))
	case verbs.UC:
		check(x.t, q.PostSend([]verbs.SendRequest{{Opcode: verbs.OpSend, SGEs: sge, Flags: verbs.Signaled}}))
	case verbs.UD:
		sge[0].Length = 500
		check(x.t,
			q.PostSend([]verbs.SendRequest{
				{Opcode: verbs.OpSend, SGEs: sge, AH: x.ah, RemoteQPN: 0x77, RemoteQKey: 1, Flags: verbs.Signaled},
			}))
	}
	if q.transport != verbs.UD {
		x.path = q.path
	}
}

// program reads a fuzzer's input as a list of packets that are near to valid ones.
type program struct{ rest []byte }

func (p *program) byte() byte {
	if len(p.rest) == 0 {
		return 0
	}
	b := p.rest[0]
	p.rest = p.rest[1:]
	return b
}

func (p *program) number(n int) uint64 {
	var v uint64
	for range n {
		v = v<<8 | uint64(p.byte())
	}
	return v
}

// packet makes the next packet; most of its fields are what a peer would send, some are whatever the input says.
func (x *target) packet(p *program) ([]byte, *queuePair) {
	how := p.byte()
	q := x.qps[int(how&3)%3]
	code := p.byte()
	op := wire.MakeOpcode(q.wire, wire.Operation(code&0x1f))
	if code&0x80 != 0 && code&0x40 != 0 {
		op = wire.Opcode(p.byte())
	}
	psn := q.respond.Expected
	if op.Has(wire.IsResponse) {
		psn = uint32(inside(&q.request, "una").Uint())
	}
	switch how >> 4 & 3 {
	case 1:
		psn++
	case 2:
		psn--
	case 3:
		psn = uint32(p.number(3))
	}
	size := int(p.number(2)) % 1300
	if code&0x20 != 0 {
		size = fuzzMTU.Bytes() // as in the middle of a message
	}
	pad := wire.PadBytes(size)
	if how&0x40 != 0 {
		pad = int(p.byte() & 3)
	}
	flags := wire.BTHFlags(pad) << 12
	if how&8 != 0 {
		flags |= wire.FlagSolicited
	}
	if how&4 != 0 {
		flags |= wire.FlagAckReq
	}
	b := make([]byte, wire.BTHBytes)
	wire.PutBTH(b, op, flags, q.qpn, psn)
	key, base := x.open.RKey(), x.open.Addr()
	switch p.byte() & 7 {
	case 0:
		key, base = x.sealed.RKey(), x.sealed.Addr()
	case 1:
		key = uint32(p.number(4))
	case 2:
		base = p.number(8)
	}
	addr := base + p.number(2)%(fuzzPart+200) - 100
	switch {
	case op.Has(wire.HasRETH):
		length := uint32(size)
		if b := p.byte(); b&1 != 0 {
			length = uint32(p.number(2))
		} else if b&2 != 0 {
			length = uint32(p.number(4))
		}
		b = append(b, header(wire.RETHBytes, wire.RETH{Addr: addr, RKey: key, Length: length})...)
	case op.Has(wire.HasAtomicETH):
		b = append(b,
			header(wire.AtomicETHBytes, wire.AtomicETH{Addr: addr, RKey: key, SwapAdd: p.number(8), Compare: p.number(1)})...)
	case op.Has(wire.HasDETH):
		b = append(b, header(wire.DETHBytes, wire.DETH{QKey: 0x1234, SourceQPN: uint32(p.byte())})...)
	}
	for len(b) < op.HeaderBytes() { // AETH, immediate, key to invalidate
		b = append(b, p.byte())
	}
	b = append(b, make([]byte, size+pad+wire.ICRCBytes)...)
	for i := range b[len(b)-size-pad-wire.ICRCBytes:] {
		if i >= 8 {
			break
		}
		b[len(b)-size-pad-wire.ICRCBytes+i] = p.byte()
	}
	if how&0x80 != 0 && p.byte()&1 != 0 {
		b = b[:max(int(p.byte()), wire.MinPacketBytes)%len(b)]
	}
	if len(b) >= wire.MinPacketBytes {
		x.flow.Seal(b, 0)
	}
	return b, q
}

// FuzzEngine feeds a device packets that nobody should send, in any order: it does not panic, it writes nowhere but
// where it was told it may, it reads nothing it may not, and (TestArbitraryPackets) what it remembers is bounded.
func FuzzEngine(f *testing.F) {
	for _, op := range []wire.Operation{
		wire.SendOnly, wire.WriteOnly, wire.ReadRequest, wire.FetchAdd, wire.Acknowledge, wire.ReadResponseFirst,
	} {
		f.Add([]byte{4, byte(op), 0, 64, 3, 0, 200, 0})
		f.Add([]byte{4, byte(op) | 0x20, 0, 0, 3, 16, 0, 2, 1, 0, 0, 0, 5, 5, 5, 5})
		f.Add([]byte{5, byte(op), 0, 64, 0, 0, 200, 1, 8, 8, 6, byte(op), 0, 64, 3, 0, 200, 0})
	}
	f.Add([]byte{
		4, 0x06 | 0x20, 0, 0, 3, 0, 100, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0x07 | 0x20, 0, 0, 3, 0, 100, 0, 0, 0, 0, 0,
		0, 0, 0, 4, 0x08, 4, 0,
	})
	x := newTarget(f)
	testrun.Fuzz(f, func(t *testing.T, input []byte) {
		x.t = t
		x.feed(input, fuzzPackets)
	})
}

// feed makes up to most packets of the input, gives them to the device one by one, and
// checks the memory around the open region.
func (x *target) feed(input []byte, most int) {
	x.t.Helper()
	for _, q := range x.qps {
		x.connect(q)
	}
	p := &program{input}
	e := x.device.e
	var c [64]verbs.Completion
	for n := 0; n < most && len(p.rest) > 0; n++ {
		var q *queuePair
		var dead bool
		e.held(func() {
			var packet []byte
			packet, q = x.packet(p)
			e.onPacket(x.path.socket, x.path.socket.From(x.path.Remote, wire.Port), packet, 0, tick.Now())
			e.progress(tick.Now(), receiveBudget)
			dead = q.state != verbs.StateRTS
		})
		if _, err := x.cq.Poll(c[:]); err != nil {
			x.t.Fatal(err)
		}
		if dead {
			x.connect(q)
		}
	}
	b := x.buffer.Bytes()
	for _, part := range [][2]int{{0, fuzzOpen}, {fuzzOpen + fuzzPart, fuzzBytes}} {
		for i := part[0]; i < part[1]; i++ {
			if b[i] != x.shadow[i] {
				x.t.Fatalf("byte %d, which nobody may write, changed from %#x to %#x", i, x.shadow[i], b[i])
			}
		}
	}
	for k := 1; k > 0; {
		var err error
		k, err = x.cq.Poll(c[:])
		check(x.t, err)
	}
}

// TestArbitraryPackets is the fuzz target on random input, and looks at the heap as well.
func TestArbitraryPackets(t *testing.T) {
	x := newTarget(t)
	r := rand.New(rand.NewPCG(1, 2))
	input := make([]byte, 700)
	var settled uint64
	for round := range 300 {
		for i := range input {
			input[i] = byte(r.Uint32())
		}
		x.feed(input, fuzzPackets)
		if round == 20 {
			settled = liveHeap()
		}
	}
	if open := x.buffer.Bytes()[fuzzOpen : fuzzOpen+fuzzPart]; bytes.Equal(open, x.shadow[fuzzOpen:fuzzOpen+fuzzPart]) {
		t.Error("no packet wrote where it may: the input is too far from what is valid")
	}
	if now := liveHeap(); now > settled+1<<20 {
		t.Errorf("the heap grew from %d to %d bytes", settled, now)
	}
}

// manyPackets is how many packets TestManyPackets sends: scripts/fuzz-packets sets it.
var manyPackets = flag.Uint64("packets", 0, "packets of TestManyPackets")

// TestManyPackets feeds the codec and the machines packets that are nearly right, wrong and random, for as long as is
// asked. feed checks the memory outside of the regions after every manyAtOnce of them.
func TestManyPackets(t *testing.T) {
	if *manyPackets == 0 {
		t.Skip("a search of hours: scripts/fuzz-packets")
	}
	x := newTarget(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	input := make([]byte, 11*manyAtOnce)
	var settled, sent, codec, parsed uint64
	start := time.Now()
	for next := uint64(0); sent < *manyPackets; {
		for i := 0; i < len(input); i += 8 {
			binary.LittleEndian.PutUint64(input[i:], r.Uint64())
		}
		for i := range manyAtOnce { // the codec alone, on random bytes behind a known opcode
			b := input[i*11%(len(input)-64):][:r.IntN(64)]
			if len(b) > 1 {
				b[0], b[1] = byte(i), b[1]&0xf0
			}
			if p, err := wire.ParsePacket(b); err == nil {
				parsed++
				_, _, _, _, _ = p.RETH(), p.AtomicETH(), p.AETH(), p.DETH(), p.Immediate()
			}
		}
		x.feed(input, manyAtOnce)
		codec += manyAtOnce
		c := &x.device.e.count
		sent = codec + c.receivedPackets + c.malformed + c.unknownQP + c.wrongPath + c.badPKeys + c.badICRCs
		if sent >= next {
			heap := liveHeap()
			t.Logf("%d packets in %v: codec: %d right; machines: %d for a queue pair, %d malformed, %d for nobody, "+
				"%d with a wrong ICRC; heap %d bytes",
				sent, time.Since(start).Round(time.Second), parsed, c.receivedPackets, c.malformed, c.unknownQP, c.badICRCs, heap)
			if settled == 0 && next > 0 {
				settled = heap
			}
			if settled > 0 && heap > settled+4<<20 {
				t.Fatalf("the heap grew from %d to %d bytes", settled, heap)
			}
			next += max(*manyPackets/100, 1<<16)
		}
	}
	t.Logf("%d packets in %v: none wrote outside of a region", sent, time.Since(start).Round(time.Second))
}

// liveHeap is what is still in use after a collection.
func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// header is one header as bytes.
func header(size int, h interface{ Put(b []byte) }) []byte {
	b := make([]byte, size)
	h.Put(b)
	return b
}
