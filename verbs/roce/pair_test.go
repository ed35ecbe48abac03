package roce

import (
	"bytes"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/tick"
	"github.com/gobw/gobw/verbs/verbstest"
)

// end is one side of a connection under test.
type end struct {
	t      testing.TB
	device *device
	pd     verbs.ProtectionDomain
	cq     verbs.CompletionQueue
	qp     verbs.QueuePair
	buffer *verbs.Buffer
	mr     verbs.MemoryRegion
}

// pairOptions describe two connected ends.
type pairOptions struct {
	transport verbs.Transport
	bytes     int
	mtu       verbs.MTU
	a, b      Options
	depth     int
	sges      int
	timeout   uint8
	rdAtomic  uint8
	stranger  bool // the ends know nothing of each other's windows
}

const everything = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic

// newPair opens two devices on loopback addresses of this package's tests and connects a queue pair of each.
func newPair(t testing.TB, o pairOptions) (a, b *end) {
	t.Helper()
	if o.transport == 0 {
		o.transport = verbs.RC
	}
	if o.mtu == 0 {
		o.mtu = verbs.MTU4096
	}
	if o.depth == 0 {
		o.depth = 128
	}
	if o.sges == 0 {
		o.sges = 4
	}
	if o.timeout == 0 {
		o.timeout = 17 // half a second, seven times: an end may be off the processor for a while
	}
	if o.rdAtomic == 0 {
		o.rdAtomic = 16
	}
	if !o.a.Address.IsValid() {
		o.a.Address = verbstest.Address()
	}
	if !o.b.Address.IsValid() {
		o.b.Address = verbstest.Address()
	}
	a, b = newEnd(t, o.a, o), newEnd(t, o.b, o)
	connect(t, a.device, a.qp, b.device, b.qp, o)
	connect(t, b.device, b.qp, a.device, a.qp, o)
	return a, b
}

// OpenFree opens the device at an address as soon as nobody has it: there is one
// ::1, and other processes' tests use it.
func OpenFree(t testing.TB, o Options) verbs.Device {
	t.Helper()
	d, err := New(o).Open(DeviceName)
	for late := time.Now().Add(time.Minute); errors.Is(err, syscall.EADDRINUSE) &&
		time.Now().Before(late); d, err = New(o).Open(DeviceName) {
		<-time.After(10 * time.Millisecond)
	}
	check(t, err)
	return d
}

func newEnd(t testing.TB, options Options, o pairOptions) *end {
	t.Helper()
	d := OpenFree(t, options)
	e := &end{t: t, device: d.(*device)}
	var err error
	e.pd, err = d.AllocPD()
	check(t, err)
	e.cq, err = d.CreateCQ(verbs.CompletionQueueOptions{Depth: 4 * o.depth})
	check(t, err)
	e.qp, err = e.pd.CreateQP(verbs.QueuePairOptions{
		Transport: o.transport, SendCQ: e.cq, SendDepth: o.depth, RecvDepth: o.depth, SendSGEs: o.sges, RecvSGEs: o.sges,
		InlineBytes: 64,
	})
	check(t, err)
	e.buffer, err = verbs.Alloc(max(o.bytes, 4096), verbs.MemoryOptions{Touch: true})
	check(t, err)
	e.mr, err = e.pd.RegisterMemory(e.buffer, 0, e.buffer.Len(), everything)
	check(t, err)
	t.Cleanup(func() {
		check(t, e.qp.Close())
		check(t, e.mr.Close())
		check(t, e.cq.Close())
		check(t, e.pd.Close())
		check(t, d.Close())
		check(t, e.buffer.Close())
	})
	return e
}

func connect(t testing.TB, d *device, q verbs.QueuePair, peer *device, to verbs.QueuePair, o pairOptions) {
	t.Helper()
	own, err := d.DefaultGID()
	check(t, err)
	other, err := peer.DefaultGID()
	check(t, err)
	c := verbs.ConnectOptions{
		Access: everything, QKey: 0x1234, PathMTU: o.mtu, DestQPN: to.QPN(), SendPSN: q.QPN() * 1000 & 0xffffff,
		RecvPSN:       to.QPN() * 1000 & 0xffffff,
		AddressVector: verbs.AddressVector{DGID: other.GID, SGIDIndex: own.Index, UseGID: true},
		MaxRDAtomic:   o.rdAtomic, MaxDestRDAtomic: o.rdAtomic, MinRNRTimer: 1, Timeout: o.timeout, RetryCount: 7,
		RNRRetry: 7,
	}
	if !o.stranger {
		c.PeerWindow = peer.Info().Limits.ReceiveWindow
	}
	check(t, verbs.InitQP(q, c))
	check(t, verbs.ConnectQP(q, c))
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (e *end) sge(offset, n int) verbs.SGE {
	return verbs.SGE{Addr: e.mr.Addr() + uint64(offset), Length: uint32(n), LKey: e.mr.LKey()}
}

// await polls both ends until e has a completion.
func (e *end) await(peer *end) verbs.Completion {
	e.t.Helper()
	var c [1]verbs.Completion
	deadline := time.Now().Add(60 * time.Second)
	for {
		n, err := e.cq.Poll(c[:])
		check(e.t, err)
		if n == 1 {
			return c[0]
		}
		if peer != nil {
			peer.device.e.held(func() { peer.device.e.progress(tick.Now(), receiveBudget) })
		}
		if time.Now().After(deadline) {
			e.t.Fatal("no completion in 60 s")
		}
	}
}

func (e *end) fill(seed byte) {
	for i, b := 0, e.buffer.Bytes(); i < len(b); i++ {
		b[i] = byte(i*7) ^ byte(i>>8) ^ seed
	}
}

func TestWrite(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 4, 255, 4095, 4096, 4097, 8192, 65536, 1 << 20} {
		a, b := newPair(t, pairOptions{bytes: 1 << 20})
		a.fill(1)
		check(t, a.qp.PostSend([]verbs.SendRequest{{
			ID: 7, Opcode: verbs.OpWrite, Flags: verbs.Signaled, SGEs: []verbs.SGE{a.sge(0, n)}, RemoteAddr: b.mr.Addr(),
			RKey: b.mr.RKey(),
		}}))
		c := a.await(b)
		if c.ID != 7 || c.Status != verbs.Success {
			t.Fatalf("%d bytes: %+v", n, c)
		}
		if got, want := b.buffer.Bytes()[:n], a.buffer.Bytes()[:n]; !bytes.Equal(got, want) {
			t.Errorf("%d bytes differ", n)
		}
		for i, x := range b.buffer.Bytes()[n:] {
			if x != 0 {
				t.Fatalf("%d bytes: byte %d beyond was written", n, i)
			}
		}
		check(t, a.qp.Close())
		check(t, a.mr.Close())
		check(t, a.cq.Close())
		check(t, a.pd.Close())
		check(t, a.device.Close())
		check(t, b.qp.Close())
		check(t, b.mr.Close())
		check(t, b.cq.Close())
		check(t, b.pd.Close())
		check(t, b.device.Close())
	}
}
