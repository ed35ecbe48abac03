package roce

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
	"github.com/gobw/gobw/verbs/roce/wire"
)

// storm sends wrong packets to an address until it is stopped, and tells how many.
type storm struct {
	stop atomic.Bool
	sent atomic.Uint64
	done chan struct{}
}

// datagram is a UDP datagram in IPv4, or a fragment of one, for a raw socket; the
// kernel fills in the header's checksum.
func datagram(from, to netip.AddrPort, id, fragment uint16, payload []byte) []byte {
	b := make([]byte, 28, 28+len(payload))
	b[0], b[8], b[9] = 0x45, 64, 17
	binary.BigEndian.PutUint16(b[4:], id)
	binary.BigEndian.PutUint16(b[6:], fragment)
	copy(b[12:], from.Addr().AsSlice())
	copy(b[16:], to.Addr().AsSlice())
	binary.BigEndian.PutUint16(b[20:], from.Port())
	binary.BigEndian.PutUint16(b[22:], to.Port())
	binary.BigEndian.PutUint16(b[24:], uint16(8+len(payload)))
	return append(b, payload...)
}

// forgeries are datagrams that say that they come from the peer, or from the target itself: damaged ones with the right
// queue pair, and fragments of which the rest never comes.
func forgeries(t testing.TB, target netip.AddrPort, qpn uint32, peer netip.Addr) [][]byte {
	const moreFragments, dontFragment = 0x2000, 0x4000
	var list [][]byte
	for _, from := range []netip.Addr{peer, target.Addr()} {
		flow, err := wire.NewFlow(netip.AddrPortFrom(from, Port), target)
		check(t, err)
		for k := range uint16(8) {
			b := make([]byte, 400)
			wire.PutBTH(b, []wire.Opcode{wire.MakeOpcode(wire.RC, wire.SendOnly), wire.RCAcknowledge}[k%2], wire.FlagAckReq,
				qpn, uint32(k)<<20)
			flow.Seal(b, 0)
			b[len(b)-1-int(k)] ^= 1
			list = append(list, datagram(netip.AddrPortFrom(from, Port), target, 0, dontFragment, b),
				datagram(netip.AddrPortFrom(from, Port), target, 100+k, moreFragments|8*k, b))
		}
	}
	return list
}

// startStorm sends about perSecond packets to target, in turn of every kind that strangers send: random bytes, cut
// short, right but from others than the peer, replayed, longer than any packet, 64 KB of what looks like headers, and,
// with the privilege of a raw socket, forgeries.
func startStorm(t testing.TB, target netip.AddrPort, qpn uint32, peer netip.Addr, perSecond int) *storm {
	t.Helper()
	const sources = 64
	var fds [sources]int
	var packets [sources][][]byte
	r := rand.New(rand.NewPCG(1, 1))
	base := netip.MustParseAddr("127.77.0.1").As4()
	for i := range fds {
		base[3]++
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
		check(t, err)
		check(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: base}))
		name, err := syscall.Getsockname(fd)
		check(t, err)
		fds[i] = fd
		from := netip.AddrPortFrom(netip.AddrFrom4(base), uint16(name.(*syscall.SockaddrInet4).Port))
		flow, err := wire.NewFlow(from, target)
		check(t, err)
		asPeer, err := wire.NewFlow(netip.AddrPortFrom(peer, Port), target)
		check(t, err)
		noise := make([]byte, 20+r.IntN(1500))
		for k := range noise {
			noise[k] = byte(r.Uint32())
		}
		right := make([]byte, 1200)
		wire.PutBTH(right, wire.MakeOpcode(wire.RC, wire.SendOnly), wire.FlagAckReq, qpn, r.Uint32()&wire.Mask24)
		replayed := bytes.Clone(right)
		flow.Seal(right, 0)
		asPeer.Seal(replayed, 0)
		long := make([]byte, 9000)
		copy(long, right)
		crafted := bytes.Repeat([]byte{0x04, 0, 0xff, 0xff}, 65507/4)
		packets[i] = [][]byte{noise, right[:r.IntN(40)], right, replayed, long, noise, right, crafted}
	}
	var forged [][]byte
	raw, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, syscall.IPPROTO_RAW)
	if err == nil {
		forged = forgeries(t, target, qpn, peer)
	}
	s := &storm{done: make(chan struct{})}
	to := &syscall.SockaddrInet4{Port: int(target.Port()), Addr: target.Addr().As4()}
	go func() {
		defer close(s.done)
		start := time.Now()
		for n := uint64(0); !s.stop.Load(); n++ {
			i := n % sources
			kind := n / sources % 256 // of the longest, few
			p := packets[i][min(kind%8, 6)]
			if kind == 255 {
				p = packets[i][7]
			}
			fd := fds[i]
			if len(forged) > 0 && n%7 == 3 {
				fd, p = raw, forged[n/7%uint64(len(forged))]
			}
			_ = syscall.Sendto(fd, p, syscall.MSG_DONTWAIT, to)
			s.sent.Add(1)
			for n%64 == 63 && float64(n) > time.Since(start).Seconds()*float64(perSecond) && !s.stop.Load() {
				<-time.After(50 * time.Microsecond)
			}
		}
		for _, fd := range append(fds[:], raw) {
			_ = syscall.Close(fd)
		}
	}()
	return s
}

func (s *storm) end() uint64 {
	s.stop.Store(true)
	<-s.done
	return s.sent.Load()
}

// TestStorm writes and reads beside a storm of wrong packets at both ends: the data are right, the connection lives, no
// path is made and memory does not grow.
func TestStorm(t *testing.T) {
	const size, rate = 100_000, 100_000
	a, b := newPair(t, pairOptions{bytes: 1 << 20, timeout: 18})
	at := func(e *end) (netip.AddrPort, uint32, *socket) {
		q := e.qp.(*queuePair)
		return netip.AddrPortFrom(q.path.socket.Local, Port), q.qpn, q.path.socket
	}
	ours, qa, sa := at(a)
	theirs, qb, sb := at(b)
	before := liveHeap()
	first := startStorm(t, ours, qa, theirs.Addr(), rate)
	second := startStorm(t, theirs, qb, ours.Addr(), rate)
	source := a.buffer.Bytes()[:size]
	rounds := 0
	stormy := func() bool {
		c := counters(t, b)
		return first.sent.Load()+second.sent.Load() >= 10_000 && c["wrong_path"] > 0 && c["icrc_err"]+c["malformed"]+
			c["unknown_qp"] > 0
	}
	least := time.Second
	if testing.Short() {
		least /= 5 // so many packets arrive all the same
	}
	start := time.Now()
	for ; time.Since(start) < least || !stormy(); rounds++ {
		if time.Since(start) > time.Minute {
			t.Fatalf("no storm in a minute: %d and %d packets; %v", first.sent.Load(), second.sent.Load(), counters(t, b))
		}
		for i := 0; i+8 <= size; i += 8 {
			binary.LittleEndian.PutUint64(source[i:], uint64(rounds)*0x9e3779b97f4a7c15+uint64(i))
		}
		for _, op := range []verbs.Opcode{verbs.OpWrite, verbs.OpRead} {
			back := a.sge(size, size)
			if op == verbs.OpWrite {
				back = a.sge(0, size)
			}
			check(t,
				a.qp.PostSend([]verbs.SendRequest{
					{Opcode: op, Flags: verbs.Signaled, SGEs: []verbs.SGE{back}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()},
				}))
			if c := a.await(b); c.Status != verbs.Success {
				t.Fatalf("%v: %v\nours %v\ntheirs %v", op, c.Status, counters(t, a), counters(t, b))
			}
		}
		if !bytes.Equal(source, a.buffer.Bytes()[size:2*size]) || !bytes.Equal(source, b.buffer.Bytes()[:size]) {
			t.Fatal("data differ")
		}
	}
	sent := first.end() + second.end()
	t.Logf("%d wrong packets, %d rounds\nours %v\ntheirs %v", sent, rounds, counters(t, a), counters(t, b))
	if len(sa.paths) != 1 || len(sb.paths) != 1 {
		t.Errorf("%d and %d paths, want one each", len(sa.paths), len(sb.paths))
	}
	if now := liveHeap(); now > before+4<<20 {
		t.Errorf("the heap grew from %d to %d bytes", before, now)
	}
}

// BenchmarkRatioStorm compares what a storm of 200,000 wrong packets a second at the receiver leaves of a raw segmented
// stream and of our own.
func BenchmarkRatioStorm(b *testing.B) {
	spinners(b)
	raw := newRawPair(b, true)
	x, y := newPair(b, pairOptions{bytes: 1 << 20, depth: 128})
	lanes := []job.Lane{sendLane(x, y, verbs.OpWrite, []verbs.SGE{x.sge(0, 65536)}, 32, 4, 4)}
	q := y.qp.(*queuePair)
	local := q.path.socket.Local
	var rawLeft, left, ratio, control []float64
	for b.Loop() {
		beside := func(target netip.AddrPort, run func() float64) float64 {
			quiet := run()
			s := startStorm(b, target, q.qpn, netip.MustParseAddr("127.2.9.1"), 200_000)
			defer s.end()
			return run() / quiet
		}
		stream := func() float64 { return raw.stream(rawPacket, rawBatch, 1) }
		r := beside(netip.MustParseAddrPort("127.2.9.2:4999"), stream)
		v := beside(netip.AddrPortFrom(local, Port), func() float64 {
			v, _ := deviceStream(b, x, y, lanes, nil)
			return v
		})
		again := beside(netip.MustParseAddrPort("127.2.9.2:4999"), stream)
		rawLeft, left, ratio, control = append(rawLeft, r), append(left, v), append(ratio, v/r), append(control, again/r)
	}
	report(b, "raw-left", median(rawLeft), "left", median(left), "ratio", median(ratio), "control", median(control))
}
