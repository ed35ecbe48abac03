package roce

import (
	"cmp"
	"flag"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
	"github.com/gobw/gobw/verbs/roce/netem"
	"github.com/gobw/gobw/verbs/tick"
)

// The benchmarks here are ratios to yardsticks measured in the same iteration: what raw UDP sockets carry on this
// machine. Run them on an idle machine as
//
//	go test -run '^$' -bench Ratio -benchtime 9x ./verbs/roce
//
// Each iteration measures yardstick and device once, in turn; the metrics are medians over iterations.

const (
	rawPacket = 4156 // bytes of payload and headers of a 4 KiB packet
	rawBatch  = 15
)

// pingPongs is how many round trips the latency benchmarks make.
const pingPongs = 12000

// slotTime is how long each measurement of an iteration lasts.
var slotTime = flag.Duration("slot", 150*time.Millisecond, "time per measurement of the ratio benchmarks")

// rawPair is a pair of plain UDP sockets.
type rawPair struct {
	a, b      int
	connected bool
	buffer    []byte
}

// newRawPair connects the sockets, or not: the packets of connected ones have IP IDs that their sender does not know,
// and RoCE's ICRC covers them over IPv4.
func newRawPair(b *testing.B, connected bool) *rawPair {
	open := func(last byte) int {
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_NONBLOCK, 0)
		check(b, err)
		_ = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20)
		_ = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, unix.SO_SNDBUFFORCE, 8<<20)
		check(b, syscall.Bind(fd, &syscall.SockaddrInet4{Port: 4999, Addr: [4]byte{127, 2, 9, last}}))
		return fd
	}
	one, two := byte(1), byte(2)
	if !connected {
		one, two = 3, 4
	}
	p := &rawPair{open(one), open(two), connected, make([]byte, 1<<16)}
	if connected {
		check(b, syscall.Connect(p.a, &syscall.SockaddrInet4{Port: 4999, Addr: [4]byte{127, 2, 9, 2}}))
		check(b, syscall.Connect(p.b, &syscall.SockaddrInet4{Port: 4999, Addr: [4]byte{127, 2, 9, 1}}))
	}
	b.Cleanup(func() {
		_ = syscall.Close(p.a)
		_ = syscall.Close(p.b)
	})
	return p
}

func rawSend(fd int, b []byte) bool {
	_, _, errno := syscall.RawSyscall6(syscall.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&b[0])),
		uintptr(len(b)), 0, 0, 0)
	return errno == 0
}

// sockaddr is struct sockaddr_in.
type sockaddr struct {
	b [syscall.SizeofSockaddrInet4]byte
	n uint32
}

// looseB is 127.2.9.4 port 4999, the second of the sockets that are not connected.
var looseB = sockaddr{
	[syscall.SizeofSockaddrInet4]byte{syscall.AF_INET, 0, 4999 >> 8, 4999 & 0xff, 127, 2, 9, 4},
	syscall.SizeofSockaddrInet4,
}

// multiMessage is struct mmsghdr.
type multiMessage struct {
	syscall.Msghdr
	_ uint32
}

// send sends b, to an address where the sockets are not connected.
func (p *rawPair) send(fd int, b []byte, to *sockaddr) {
	if p.connected {
		rawSend(fd, b)
		return
	}
	_, _, _ = syscall.RawSyscall6(syscall.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), 0,
		uintptr(unsafe.Pointer(&to.b[0])), uintptr(to.n))
}

func (p *rawPair) receive(fd int, b []byte, from *sockaddr) int {
	if p.connected {
		return rawReceive(fd, b)
	}
	from.n = uint32(len(from.b))
	n, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&b[0])),
		uintptr(len(b)), 0,
		uintptr(unsafe.Pointer(&from.b[0])), uintptr(unsafe.Pointer(&from.n)))
	if errno != 0 {
		return 0
	}
	return int(n)
}

func rawReceive(fd int, b []byte) int {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&b[0])),
		uintptr(len(b)), 0, 0, 0)
	if errno != 0 {
		return 0
	}
	return int(n)
}

// onThread runs f on a thread pinned to a processor.
func onThread(cpu int, f func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer pinThread(cpu)()
		f()
	}()
	return done
}

// stream returns the bytes per second that arrive of a segmented stream, of which each call sends so many batches.
func (p *rawPair) stream(segment, batch, batches int) float64 {
	check := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	check(syscall.SetsockoptInt(p.a, unix.SOL_UDP, unix.UDP_SEGMENT, segment))
	check(syscall.SetsockoptInt(p.b, unix.SOL_UDP, unix.UDP_GRO, 1))
	var stop atomic.Bool
	var arrived int
	var first, last time.Time
	receiver := onThread(1, func() {
		buffer := make([]byte, 1<<16)
		for !stop.Load() {
			if n := rawReceive(p.b, buffer); n > 0 {
				if arrived == 0 {
					first = time.Now()
				}
				arrived += n
			}
		}
		last = time.Now()
	})
	sender := onThread(0, func() {
		buffer := make([]byte, segment*batch)
		messages, vector := make([]multiMessage, batches), syscall.Iovec{Base: &buffer[0]}
		vector.SetLen(len(buffer))
		for i := range messages {
			messages[i].Iov, messages[i].Iovlen = &vector, 1
		}
		for end := time.Now().Add(*slotTime); time.Now().Before(end); {
			for range 16 / batches {
				if batches == 1 {
					rawSend(p.a, buffer)
					continue
				}
				_, _, _ = syscall.RawSyscall6(unix.SYS_SENDMMSG, uintptr(p.a), uintptr(unsafe.Pointer(&messages[0])),
					uintptr(batches), 0, 0, 0)
			}
		}
	})
	<-sender
	stop.Store(true)
	<-receiver
	for buffer := make([]byte, 1<<16); rawReceive(p.b, buffer) > 0; { // what nobody took
	}
	return float64(arrived) / last.Sub(first).Seconds()
}

// pingPong returns the sorted half round trips of one datagram, busy-polled, in nanoseconds.
func (p *rawPair) pingPong(size int) []float64 {
	_ = syscall.SetsockoptInt(p.a, unix.SOL_UDP, unix.UDP_SEGMENT, 0)
	_ = syscall.SetsockoptInt(p.b, unix.SOL_UDP, unix.UDP_GRO, 0)
	var stop atomic.Bool
	echo := onThread(1, func() {
		buffer, peer := make([]byte, 1<<16), new(sockaddr)
		for !stop.Load() {
			if n := p.receive(p.b, buffer, peer); n > 0 {
				p.send(p.b, buffer[:n], peer)
			}
		}
	})
	samples := make([]float64, 0, pingPongs)
	<-onThread(0, func() {
		buffer, from := make([]byte, 1<<16), new(sockaddr)
		to := looseB
		for t := time.Now(); len(samples) < cap(samples); {
			p.send(p.a, buffer[:size], &to)
			for p.receive(p.a, buffer, from) == 0 {
				if time.Since(t) > time.Second {
					break
				}
			}
			now := time.Now()
			samples = append(samples, float64(now.Sub(t).Nanoseconds())/2)
			t = now
		}
	})
	stop.Store(true)
	<-echo
	slices.Sort(samples)
	return samples
}

// deviceStream returns bytes and messages per second of a stream that lasts for slotTime.
func deviceStream(t testing.TB, a, b *end, lanes []job.Lane, receives []job.Lane) (float64, float64) {
	t.Helper()
	var stop atomic.Uint32
	passive := serveJob(&stop)
	if receives != nil {
		for i := range receives {
			check(t, receives[i].PostInitial(receives[i].QP.Capabilities().RecvDepth))
		}
		passive = &job.Job{Shape: job.Stream, CQs: []verbs.CompletionQueue{b.cq}, Lanes: receives, Stop: &stop}
	}
	other := onThread(1, func() {
		if _, err := runJob(t, b.device, passive, 1); err != nil {
			t.Errorf("receiver: %v", err)
		}
	})
	var p job.Progress
	<-onThread(0, func() {
		j := &job.Job{Shape: job.Stream, CQs: []verbs.CompletionQueue{a.cq}, Lanes: lanes, Stop: new(atomic.Uint32)}
		time.AfterFunc(*slotTime, func() { j.Stop.Store(1) })
		var err error
		if p, err = runJob(t, a.device, j, 0); err != nil {
			t.Errorf("sender: %v", err)
		}
	})
	stop.Store(1)
	<-other
	seconds := a.device.e.clock.Duration(p.LastDone - p.FirstPost).Seconds()
	return float64(p.BytesOut) / seconds, float64(p.Completed) / seconds
}

func sendLane(a, b *end, op verbs.Opcode, list []verbs.SGE, window, signal, batch int) job.Lane {
	var n uint64
	for _, g := range list {
		n += uint64(g.Length)
	}
	return job.Lane{
		QP: a.qp, Window: window, Signal: signal, Batch: batch,
		Ring: []job.Message{{Bytes: n, Steps: []job.Step{{Requests: []verbs.SendRequest{{
			Opcode: op, SGEs: list, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(),
		}}}}}},
	}
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// spinners lets two spinning goroutines and the runtime live side by side.
func spinners(b *testing.B) {
	before := runtime.GOMAXPROCS(4)
	b.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

func BenchmarkRatioBandwidth(b *testing.B) {
	for _, tt := range []struct {
		name        string
		op          verbs.Opcode
		size, batch int // batch: packets of a batch of the yardstick
		batches     int // of a call
	}{
		{"write", verbs.OpWrite, 65536, rawBatch, 1},
		{"send", verbs.OpSend, 65536, rawBatch, 1},
		{"read", verbs.OpRead, 65536, rawBatch, 1},
		{"write", verbs.OpWrite, 4096, rawBatch, 1},
		{"write", verbs.OpWrite, 8192, 2, 6}, // FIRST and LAST: nothing longer than LAST may follow it in a batch
		{"write", verbs.OpWrite, 16384, 2, 6},
		{"write", verbs.OpWrite, 32768, 4, 3}, // two and six
	} {
		b.Run(fmt.Sprintf("op=%s/size=%d", tt.name, tt.size), func(b *testing.B) {
			spinners(b)
			raw := newRawPair(b, true)
			x, y := newPair(b, pairOptions{bytes: 1 << 20, depth: 128})
			size := tt.size
			var yard, got, ratio []float64
			for b.Loop() {
				r := raw.stream(rawPacket, tt.batch, tt.batches)
				var receives []job.Lane
				if tt.op == verbs.OpSend {
					receives = []job.Lane{{QP: y.qp, Receives: []verbs.ReceiveRequest{{SGEs: []verbs.SGE{y.sge(0, size)}}}}}
					drain(y)
				}
				v, _ := deviceStream(b, x, y, []job.Lane{sendLane(x, y, tt.op, []verbs.SGE{x.sge(0, size)}, 32, 4, 4)}, receives)
				yard, got, ratio = append(yard, r), append(got, v), append(ratio, v/r)
			}
			report(b, "raw-GB/s", median(yard)/1e9, "GB/s", median(got)/1e9, "ratio", median(ratio))
			b.Logf("ours %v theirs %v", counters(b, x), counters(b, y))
		})
	}
}

func report(b *testing.B, pairs ...any) {
	b.ReportMetric(0, "ns/op")
	for i := 0; i < len(pairs); i += 2 {
		b.ReportMetric(pairs[i+1].(float64), pairs[i].(string))
	}
}

func BenchmarkRatioMessageRate(b *testing.B) {
	for _, tt := range []struct {
		name string
		op   verbs.Opcode
	}{{"write", verbs.OpWrite}, {"send", verbs.OpSend}} {
		b.Run("op="+tt.name+"/size=2", func(b *testing.B) {
			spinners(b)
			raw := newRawPair(b, true)
			x, y := newPair(b, pairOptions{bytes: 1 << 20, depth: 512})
			var yard, got, ratio []float64
			for b.Loop() {
				r := raw.stream(36, 64, 1) / 36
				var receives []job.Lane
				if tt.op == verbs.OpSend {
					receives = []job.Lane{{QP: y.qp, Receives: []verbs.ReceiveRequest{{SGEs: []verbs.SGE{y.sge(0, 2)}}}}}
					drain(y)
				}
				_, v := deviceStream(b, x, y, []job.Lane{sendLane(x, y, tt.op, []verbs.SGE{x.sge(0, 2)}, 256, 32, 32)}, receives)
				yard, got, ratio = append(yard, r), append(got, v), append(ratio, v/r)
			}
			report(b, "raw-Mmsg/s", median(yard)/1e6, "Mmsg/s", median(got)/1e6, "ratio", median(ratio))
		})
	}
}

func BenchmarkRatioLatency(b *testing.B) {
	for _, tt := range []struct {
		name  string
		op    verbs.Opcode
		await job.Await
	}{{"send", verbs.OpSend, job.AwaitReceive}, {"write", verbs.OpWrite, job.AwaitLastByte}} {
		b.Run("op="+tt.name+"/size=2", func(b *testing.B) {
			spinners(b)
			raw, loose := newRawPair(b, true), newRawPair(b, false)
			x, y := newPair(b, pairOptions{bytes: 1 << 20, depth: 128})
			var unconnected, yard, got, ratio, yard99, got99, ratio99, ratio999, rawMin, gotMin []float64
			for b.Loop() {
				r := raw.pingPong(20)
				u := loose.pingPong(20)
				v := devicePingPong(b, x, y, tt.op, tt.await, 2)
				at := func(s []float64, p float64) float64 { return s[int(p*float64(len(s)-1))] }
				unconnected = append(unconnected, at(v, 0.5)/at(u, 0.5))
				yard, got, ratio = append(yard, at(r, 0.5)), append(got, at(v, 0.5)), append(ratio, at(v, 0.5)/at(r, 0.5))
				rawMin, gotMin = append(rawMin, r[len(r)/10]), append(gotMin, v[len(v)/10])
				ratio999 = append(ratio999, at(v, 0.999)/at(r, 0.999))
				yard99, got99, ratio99 = append(yard99, at(r, 0.99)), append(got99, at(v, 0.99)), append(ratio99,
					at(v, 0.99)/at(r, 0.99))
			}
			report(b, "raw-p10-µs", slices.Min(rawMin)/1e3, "p10-µs", slices.Min(gotMin)/1e3, "raw-µs", median(yard)/1e3, "µs",
				median(got)/1e3, "ratio", median(ratio),
				"unconnected-ratio", median(unconnected), "raw-p99-µs", median(yard99)/1e3, "p99-µs", median(got99)/1e3,
				"p99-ratio", median(ratio99), "p99.9-ratio", median(ratio999))
		})
	}
}

// devicePingPong returns the sorted half round trips in nanoseconds.
func devicePingPong(b *testing.B, x, y *end, op verbs.Opcode, await job.Await, size int) []float64 {
	b.Helper()
	const count = pingPongs
	newJob := func(e, peer *end, first bool, rec *job.Recorder) *job.Job {
		l := sendLane(e, peer, op, []verbs.SGE{e.sge(0, size)}, 16, 1, 1)
		l.Count, l.Await = count, await
		if await == job.AwaitReceive {
			l.Receives = []verbs.ReceiveRequest{{SGEs: []verbs.SGE{e.sge(1024, size)}}}
			l.Expect = count
			drain(e)
			check(b, l.PostInitial(64))
		} else {
			l.Ring[0].Steps[0].Requests[0].RemoteAddr = peer.mr.Addr() + 1024
			l.FlagOut, l.FlagIn = &e.buffer.Bytes()[size-1], &e.buffer.Bytes()[1024+size-1]
			*l.FlagOut, *l.FlagIn = 0, 0
		}
		return &job.Job{
			Shape: job.PingPong, First: first, CQs: []verbs.CompletionQueue{e.cq}, Lanes: []job.Lane{l}, Record: rec,
		}
	}
	rec := job.NewRecorder(1 << 16)
	rec.Samples = true
	j1, j2 := newJob(x, y, true, rec), newJob(y, x, false, nil)
	other := onThread(1, func() {
		if _, err := runJob(b, y.device, j2, 1); err != nil {
			b.Errorf("second: %v", err)
		}
	})
	<-onThread(0, func() {
		if _, err := runJob(b, x.device, j1, 0); err != nil {
			b.Errorf("first: %v", err)
		}
	})
	<-other
	samples := make([]float64, rec.RawLen)
	for i := range samples {
		samples[i] = float64(x.device.e.clock.Duration(rec.Raw[i]).Nanoseconds()) / 2
	}
	slices.Sort(samples)
	return samples
}

// serialRounds is how many times BenchmarkSerial measures each.
const serialRounds = 3000

// BenchmarkSerial has one thread do the work of both ends, and tells what a message costs at best (the tenth percentile
// of short rounds): beside other work, too, it repeats within a few per cent. The yardsticks send the same packets by
// plain sockets, in batches as RoCE admits them: connected, each batch by a call of its own, and several by one call.
func BenchmarkSerial(b *testing.B) {
	b.Run("op=send/size=2", func(b *testing.B) {
		raw, loose := newRawPair(b, true), newRawPair(b, false)
		x, y := newPair(b, pairOptions{bytes: 1 << 16, depth: 128})
		var packet [20]byte
		to, from := looseB, new(sockaddr)
		bounce := func(p *rawPair) func() {
			return func() {
				for range 16 {
					p.send(p.a, packet[:], &to)
					for p.receive(p.b, packet[:], from) == 0 {
					}
				}
			}
		}
		for b.Loop() {
			r, l, v := bestOf(x, 16, bounce(raw)), bestOf(x, 16, bounce(loose)), bestOf(x, 16,
				func() { pingPongSerially(b, x, y, 8) })
			report(b, "raw-ns", r, "unconnected-ns", l, "ns", v, "ratio", v/r, "unconnected-ratio", v/l)
		}
	})
	for _, tt := range []struct {
		size, messages int
		batches        []int // packets: [FIRST, MIDDLE or LAST], [MIDDLE … LAST]
		repeats        int   // of batches
	}{
		{4096, 15, []int{15}, 1},
		{8192, 8, []int{2}, 8},
		{16384, 4, []int{2, 2}, 4},
		{32768, 2, []int{2, 6}, 2},
		{65536, 2, []int{2, 14}, 2},
	} {
		b.Run(fmt.Sprintf("op=write/size=%d", tt.size), func(b *testing.B) {
			raw := newRawPair(b, true)
			check(b, syscall.SetsockoptInt(raw.a, unix.SOL_UDP, unix.UDP_SEGMENT, rawPacket))
			check(b, syscall.SetsockoptInt(raw.b, unix.SOL_UDP, unix.UDP_GRO, 1))
			x, y := newPair(b, pairOptions{bytes: 1 << 20, depth: 128})
			for b.Loop() {
				one := bestOf(x, tt.messages, func() { raw.serially(tt.batches, tt.repeats, 1) })
				many := bestOf(x, tt.messages, func() { raw.serially(tt.batches, tt.repeats, 16) })
				v := bestOf(x, tt.messages, func() { writeSerially(b, x, y, tt.size, tt.messages) })
				report(b, "raw-ns", one, "raw-burst-ns", many, "ns", v, "ratio", many/v)
			}
		})
	}
}

// bestOf is the tenth percentile of what f takes, in nanoseconds for each of so many messages.
func bestOf(x *end, messages int, f func()) float64 {
	samples := make([]float64, serialRounds)
	for i := range samples {
		start := tick.Now()
		f()
		samples[i] = float64(x.device.e.clock.Duration(tick.Now()-start).Nanoseconds()) / float64(messages)
	}
	slices.Sort(samples)
	return samples[len(samples)/10]
}

// serially sends batches of so many packets, several times, and receives them; burst batches leave in one call.
func (p *rawPair) serially(batches []int, repeats, burst int) {
	var list [32]multiMessage
	var vectors [32]syscall.Iovec
	n, bytes := 0, 0
	for range repeats {
		for _, packets := range batches {
			vectors[n].Base = &p.buffer[0]
			vectors[n].SetLen(packets * rawPacket)
			list[n].Iov, list[n].Iovlen = &vectors[n], 1
			bytes += packets * rawPacket
			n++
		}
	}
	for i := 0; i < n; i += burst {
		k := min(burst, n-i)
		if burst == 1 {
			rawSend(p.a, p.buffer[:vectors[i].Len])
			continue
		}
		_, _, _ = syscall.RawSyscall6(unix.SYS_SENDMMSG, uintptr(p.a), uintptr(unsafe.Pointer(&list[i])), uintptr(k), 0, 0, 0)
	}
	for bytes > 0 {
		bytes -= rawReceive(p.b, p.buffer)
	}
}

// writeSerially posts WRITEs and drives both devices until the last is complete.
func writeSerially(b *testing.B, x, y *end, size, messages int) {
	ex, ey := x.device.e, y.device.e
	ex.lock()
	ey.lock()
	defer ex.unlock()
	defer ey.unlock()
	q, cq := x.qp.(*queuePair), x.cq.(*completionQueue)
	r := verbs.SendRequest{
		Opcode: verbs.OpWrite, SGEs: []verbs.SGE{x.sge(0, size)}, RemoteAddr: y.mr.Addr(), RKey: y.mr.RKey(),
	}
	for i := range messages {
		if i == messages-1 {
			r.Flags = verbs.Signaled
		}
		if err := q.post(&r); err != nil {
			b.Fatal(err)
		}
	}
	for q.kick(); cq.head == cq.tail && q.state == verbs.StateRTS; {
		now := tick.Now()
		ex.progress(now, receiveBudget)
		ey.progress(now, receiveBudget)
	}
	cq.take()
}

// TestSerialPingPong has packets come late at once, as beside other work: both ends must be driven then, or the one
// that sends waits for an answer to its probes that never comes.
func TestSerialPingPong(t *testing.T) {
	// 67 ms, eight times: none where the processor is away
	x, y := newPair(t, pairOptions{bytes: 4096, depth: 32, timeout: 12})
	pingPongSerially(t, x, y, 100)
	for _, s := range []*end{x, y} {
		e := s.device.e
		e.lock()
		e.network = netem.New(netem.Options{Delay: 2 * time.Millisecond}, float64(e.clock)*1e9,
			func(p netem.Packet[arrival]) {
				e.onPacket(p.From.socket, p.From.socket.From(p.From.from.Addr(), p.From.from.Port()), p.Bytes, p.From.place,
					tick.Now())
			})
		e.unlock()
	}
	pingPongSerially(t, x, y, 64)
}

// pingPongSerially sends a SEND to and fro.
func pingPongSerially(b testing.TB, x, y *end, n int) {
	type side struct {
		q       *queuePair
		cq      *completionQueue
		send    verbs.SendRequest
		receive verbs.ReceiveRequest
	}
	var sides [2]side
	for i, e := range []*end{x, y} {
		e.device.e.lock()
		defer e.device.e.unlock()
		sides[i] = side{
			e.qp.(*queuePair), e.cq.(*completionQueue),
			verbs.SendRequest{Opcode: verbs.OpSend, SGEs: []verbs.SGE{e.sge(0, 2)}},
			verbs.ReceiveRequest{SGEs: []verbs.SGE{e.sge(64, 64)}},
		}
	}
	for i := range 2 * n {
		from, to := &sides[i%2], &sides[1-i%2]
		s := &from.q.request
		if err := cmp.Or(to.q.postReceive(&to.receive), from.q.post(&from.send)); err != nil { // check takes 200 ns
			b.Fatal(err)
		}
		s.At(s.Tail - 1).Lazy = true
		from.q.sendPosted()
		for rounds := 1; to.cq.head == to.cq.tail; rounds++ {
			to.q.e.progress(tick.Now(), 1)
			if rounds%64 == 0 { // the packet is late: its sender looks for answers, too
				from.q.e.progress(tick.Now(), 1)
			}
			if from.q.state != verbs.StateRTS || to.q.state != verbs.StateRTS {
				b.Fatalf("message %d: the queue pairs are in %v and %v", i, from.q.state, to.q.state)
			}
		}
		to.cq.take()
		s.Release(s.Tail) // nothing is signaled
	}
}

func BenchmarkRatioGather(b *testing.B) {
	spinners(b)
	x, y := newPair(b, pairOptions{bytes: 1 << 20, depth: 256, sges: 16})
	one := []verbs.SGE{x.sge(0, 4096)}
	var many []verbs.SGE
	for i := range 16 {
		many = append(many, x.sge(i*512, 256))
	}
	var single, gathered, ratio []float64
	for b.Loop() {
		s, _ := deviceStream(b, x, y, []job.Lane{sendLane(x, y, verbs.OpWrite, one, 128, 16, 16)}, nil)
		g, _ := deviceStream(b, x, y, []job.Lane{sendLane(x, y, verbs.OpWrite, many, 128, 16, 16)}, nil)
		single, gathered, ratio = append(single, s), append(gathered, g), append(ratio, s/g)
	}
	report(b, "one-SGE-GB/s", median(single)/1e9, "gather-GB/s", median(gathered)/1e9, "time-ratio", median(ratio))
}

func BenchmarkRatioQueuePairs(b *testing.B) {
	spinners(b)
	const size, n = 65536, 64
	o := pairOptions{bytes: 1 << 20, depth: 64}
	x, y := newPair(b, o)
	lanes := make([]job.Lane, n)
	for i := range n {
		p := morePair(b, x, y, o)
		lanes[i] = sendLane(p, y, verbs.OpWrite, []verbs.SGE{x.sge(0, size)}, 16, 4, 4)
	}
	var one, all, ratio []float64
	for b.Loop() {
		s, _ := deviceStream(b, x, y, []job.Lane{sendLane(x, y, verbs.OpWrite, []verbs.SGE{x.sge(0, size)}, 16, 4, 4)}, nil)
		m, _ := deviceStream(b, x, y, lanes, nil)
		one, all, ratio = append(one, s), append(all, m), append(ratio, m/s)
	}
	report(b, "one-GB/s", median(one)/1e9, "64-GB/s", median(all)/1e9, "ratio", median(ratio))
}

// morePair connects another queue pair on each of two ends and returns the first end with it.
func morePair(t testing.TB, x, y *end, o pairOptions) *end {
	t.Helper()
	o.transport, o.mtu, o.timeout, o.rdAtomic = verbs.RC, verbs.MTU4096, 14, 16
	make := func(e *end) *end {
		qp, err := e.pd.CreateQP(verbs.QueuePairOptions{SendCQ: e.cq, SendDepth: o.depth, RecvDepth: o.depth})
		check(t, err)
		t.Cleanup(func() { check(t, qp.Close()) })
		other := *e
		other.qp = qp
		return &other
	}
	a, b := make(x), make(y)
	connect(t, a.device, a.qp, b.device, b.qp, o)
	connect(t, b.device, b.qp, a.device, a.qp, o)
	return a
}

func BenchmarkRatioLoss(b *testing.B) {
	spinners(b)
	const size = 65536
	good, bad := newPairAt(b, 1, netem.Options{}), newPairAt(b, 3, netem.Options{Loss: 0.01, Seed: 1})
	var clean, lossy, ratio []float64
	for b.Loop() {
		run := func(p [2]*end) float64 {
			v, _ := deviceStream(b, p[0], p[1],
				[]job.Lane{sendLane(p[0], p[1], verbs.OpWrite, []verbs.SGE{p[0].sge(0, size)}, 32, 4, 4)}, nil)
			return v
		}
		c, l := run(good), run(bad)
		clean, lossy, ratio = append(clean, c), append(lossy, l), append(ratio, l/c)
	}
	report(b, "clean-GB/s", median(clean)/1e9, "lossy-GB/s", median(lossy)/1e9, "ratio", median(ratio))
	b.Logf("ours %v theirs %v", counters(b, bad[0]), counters(b, bad[1]))
}

func newPairAt(b *testing.B, last byte, f netem.Options) [2]*end {
	a := func(n byte) netip.Addr { return netip.AddrFrom4([4]byte{127, 2, 3, n}) }
	x, y := newPair(b, pairOptions{
		bytes: 1 << 20, depth: 128, a: Options{Address: a(last), Network: f}, b: Options{Address: a(last + 1), Network: f},
	})
	return [2]*end{x, y}
}
