//go:build lab && linux

package labtest

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/ibv"
	"github.com/gobw/gobw/verbs/roce"
)

// bufferBytes is each end's registered memory.
const bufferBytes = 4 << 20

// patience is how long a test waits for anything; emulated machines are slow.
const patience = 30 * time.Second

// anyAccess lets the peer do everything.
const anyAccess = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic

// end is an open device with memory. Everything is done on one thread: our device's must stay in its network namespace.
type end struct {
	name   string
	dev    verbs.Device
	gid    verbs.GIDEntry
	pd     verbs.ProtectionDomain
	buffer *verbs.Buffer
	mr     verbs.MemoryRegion
	calls  chan func()
}

// do runs f on the end's thread.
func (e *end) do(f func()) {
	done := make(chan struct{})
	e.calls <- func() {
		defer close(done)
		f()
	}
	<-done
}

func (e *end) bytes() []byte { return e.buffer.Bytes() }

// openKernel opens the kernel's device that GOBW_IBV_DEVICE names (rxe0), in this network namespace.
func openKernel(t *testing.T) *end {
	name := os.Getenv("GOBW_IBV_DEVICE")
	if name == "" {
		name = "rxe0"
	}
	return openEnd(t, endOptions{name: name, provider: ibv.New(), address: address(t, "LAB_HERE")})
}

// openOurs opens our device in the namespace that LAB_NETNS names, with the address LAB_PEER.
func openOurs(t *testing.T) *end {
	o := roce.Options{Address: address(t, "LAB_PEER")}
	if name := os.Getenv("LAB_PCAP"); name != "" { // what our device sent and received, for looking into failures
		f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		o.Pcap = f
	}
	return openEnd(t,
		endOptions{name: roce.DeviceName, provider: roce.New(o), address: o.Address, namespace: os.Getenv("LAB_NETNS")})
}

func address(t *testing.T, variable string) netip.Addr {
	t.Helper()
	a, err := netip.ParseAddr(os.Getenv(variable))
	if err != nil {
		t.Fatalf("%s: %v (these tests run in the lab: scripts/lab test --only wire)", variable, err)
	}
	return a
}

type endOptions struct {
	name, namespace string
	provider        verbs.Provider
	address         netip.Addr
}

func openEnd(t *testing.T, o endOptions) *end {
	t.Helper()
	e := &end{name: o.name, calls: make(chan func())}
	entered := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine, and its namespace with it
		entered <- enter(o.namespace)
		for f := range e.calls {
			f()
		}
	}()
	if err := <-entered; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { close(e.calls) })
	e.do(func() {
		var err error
		if e.dev, err = o.provider.Open(o.name); err != nil {
			t.Error(err)
			return
		}
		e.closing(t, "device", e.dev)
		gids, err := e.dev.GIDs(1)
		if err != nil {
			t.Error(err)
			return
		}
		for _, g := range gids {
			if g.Type == verbs.GIDRoCEv2 && g.GID.Addr() == o.address {
				e.gid = g
			}
		}
		if e.gid.GID.IsZero() {
			t.Errorf("%s has no GID for %v: %v", o.name, o.address, gids)
			return
		}
		if e.pd, err = e.dev.AllocPD(); err != nil {
			t.Error(err)
			return
		}
		e.closing(t, "PD", e.pd)
		if e.buffer, err = verbs.Alloc(bufferBytes, verbs.MemoryOptions{Touch: true}); err != nil {
			t.Error(err)
			return
		}
		e.closing(t, "buffer", e.buffer)
		if e.mr, err = e.pd.RegisterMemory(e.buffer, 0, e.buffer.Len(), anyAccess|verbs.AccessMWBind); err != nil {
			t.Error(err)
			return
		}
		e.closing(t, "MR", e.mr)
	})
	if t.Failed() {
		t.FailNow()
	}
	return e
}

func (e *end) closing(t *testing.T, what string, c interface{ Close() error }) {
	t.Cleanup(func() {
		e.do(func() {
			if err := c.Close(); err != nil {
				t.Errorf("close %s of %s: %v", what, e.name, err)
			}
		})
	})
}

// enter moves this thread into a network namespace made by "ip netns add".
func enter(namespace string) error {
	if namespace == "" {
		return nil
	}
	f, err := os.Open("/run/netns/" + namespace)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter network namespace %s: %w", namespace, err)
	}
	return nil
}

// half is one end of a connection.
type half struct {
	*end
	qp   verbs.QueuePair
	cq   verbs.CompletionQueue
	srq  verbs.SharedReceiveQueue
	ah   verbs.AddressHandle
	done []verbs.Completion // polled and not yet asked for
	wcs  []verbs.Completion
}

// pair is a connection: from asks, to is asked.
type pair struct {
	from, to *half
	o        pairOptions
}

// pairOptions shape a connection. Zero fields take the default shown.
type pairOptions struct {
	transport verbs.Transport // RC
	mtu       verbs.MTU       // 4096
	srq       bool
	rnrRetry  uint8 // 7 where noRNRRetry is not set
	noRNR     bool
	retry     uint8 // 7
	timeout   uint8 // 14: 67 ms
	depth     int   // 64
	sges      int   // 4
	rdAtomic  uint8 // 4
	inline    int   // 0 bytes
	toAccess  verbs.Access
}

const qkey = 0x1ee7c0de

// connect makes a connection between two ends, closed with the test. Its packet numbers soon wrap.
func connect(t *testing.T, from, to *end, o pairOptions) *pair {
	t.Helper()
	if o.transport == 0 {
		o.transport = verbs.RC
	}
	if o.mtu == 0 {
		o.mtu = verbs.MTU4096
	}
	if o.rnrRetry == 0 && !o.noRNR {
		o.rnrRetry = 7
	}
	if o.retry == 0 {
		o.retry = 7
	}
	if o.timeout == 0 {
		o.timeout = 14
	}
	if o.depth == 0 {
		o.depth = 64
	}
	if o.sges == 0 {
		o.sges = 4
	}
	if o.rdAtomic == 0 {
		o.rdAtomic = 4
	}
	if o.toAccess == 0 {
		o.toAccess = anyAccess
	}
	p := &pair{o: o}
	p.from, p.to = newHalf(t, from, o), newHalf(t, to, o)
	p.bring(t, p.from, p.to, 0xfffff0, 0x000123)
	p.bring(t, p.to, p.from, 0x000123, 0xfffff0)
	return p
}

func newHalf(t *testing.T, e *end, o pairOptions) *half {
	t.Helper()
	h := &half{end: e, wcs: make([]verbs.Completion, 32)}
	e.do(func() {
		var err error
		if h.cq, err = e.dev.CreateCQ(verbs.CompletionQueueOptions{Depth: 4 * o.depth}); err != nil {
			t.Error(err)
			return
		}
		e.closing(t, "CQ", h.cq)
		if o.srq {
			if h.srq, err = e.pd.CreateSRQ(verbs.SharedReceiveQueueOptions{Depth: o.depth, SGEs: o.sges}); err != nil {
				t.Error(err)
				return
			}
			e.closing(t, "SRQ", h.srq)
		}
		h.qp, err = e.pd.CreateQP(verbs.QueuePairOptions{
			Transport: o.transport, SendCQ: h.cq, SRQ: h.srq, SendDepth: o.depth, RecvDepth: o.depth, SendSGEs: o.sges,
			RecvSGEs:    o.sges,
			InlineBytes: o.inline,
		})
		if err != nil {
			t.Error(err)
			return
		}
		e.closing(t, "QP", h.qp)
		if err := verbs.InitQP(h.qp, verbs.ConnectOptions{Access: o.toAccess, QKey: qkey}); err != nil {
			t.Error(err)
		}
	})
	if t.Failed() {
		t.FailNow()
	}
	return h
}

// bring connects one half to the other.
func (p *pair) bring(t *testing.T, h, peer *half, sendPSN, recvPSN uint32) {
	t.Helper()
	h.do(func() {
		av := verbs.AddressVector{DGID: peer.gid.GID, SGIDIndex: h.gid.Index, UseGID: true}
		err := verbs.ConnectQP(h.qp, verbs.ConnectOptions{
			PathMTU: p.o.mtu, AddressVector: av, DestQPN: peer.qp.QPN(), SendPSN: sendPSN, RecvPSN: recvPSN, QKey: qkey,
			MaxRDAtomic: p.o.rdAtomic, MaxDestRDAtomic: p.o.rdAtomic, MinRNRTimer: 10,
			Timeout: p.o.timeout, RetryCount: p.o.retry, RNRRetry: p.o.rnrRetry,
		})
		if err == nil && p.o.transport == verbs.UD {
			if h.ah, err = h.pd.CreateAH(av); err == nil {
				h.closing(t, "AH", h.ah)
			}
		}
		if err != nil {
			t.Error(err)
		}
	})
	if t.Failed() {
		t.FailNow()
	}
}

// post queues send requests, signaled.
func (h *half) post(t *testing.T, r ...verbs.SendRequest) {
	t.Helper()
	for i := range r {
		r[i].Flags |= verbs.Signaled
	}
	h.do(func() {
		if err := h.qp.PostSend(r); err != nil {
			t.Errorf("%s: %v", h.name, err)
		}
	})
	if t.Failed() {
		t.FailNow()
	}
}

// receive queues receives.
func (h *half) receive(t *testing.T, r ...verbs.ReceiveRequest) {
	t.Helper()
	h.do(func() {
		var err error
		if h.srq != nil {
			err = h.srq.PostReceive(r)
		} else {
			err = h.qp.PostReceive(r)
		}
		if err != nil {
			t.Errorf("%s: %v", h.name, err)
		}
	})
	if t.Failed() {
		t.FailNow()
	}
}

// poll takes what has completed.
func (h *half) poll() error {
	var err error
	h.do(func() {
		var n int
		n, err = h.cq.Poll(h.wcs)
		h.done = append(h.done, h.wcs[:max(n, 0)]...)
	})
	return err
}

// until polls both ends until a condition holds; false when patience is at an end.
func (p *pair) until(t *testing.T, holds func() bool) bool {
	t.Helper()
	return p.untilFor(t, patience, holds)
}

func (p *pair) untilFor(t *testing.T, wait time.Duration, holds func() bool) bool {
	t.Helper()
	for start := time.Now(); time.Since(start) < wait; {
		if err := errors.Join(p.from.poll(), p.to.poll()); err != nil {
			t.Fatal(err)
		}
		if holds() {
			return true
		}
	}
	return false
}

// await returns the next n completions of a half.
func (p *pair) await(t *testing.T, h *half, n int) []verbs.Completion {
	t.Helper()
	if !p.until(t, func() bool { return len(h.done) >= n }) {
		t.Fatalf("%s: %d completions after %v, want %d (%s has %v; states %v and %v)", h.name, len(h.done), patience, n,
			p.other(h).name, p.other(h).done, p.from.qp.State(), p.to.qp.State())
	}
	c := h.done[:n:n]
	h.done = h.done[n:]
	return c
}

// succeed awaits one completion and checks it.
func (p *pair) succeed(t *testing.T, h *half, id uint64, o verbs.CompletionOpcode) verbs.Completion {
	t.Helper()
	c := p.await(t, h, 1)[0]
	if c.Status != verbs.Success {
		t.Fatalf("%s: request %d: %v (vendor error %#x)", h.name, c.ID, c.Status, c.VendorError)
	}
	if c.ID != id || c.Opcode != o || c.QPN != h.qp.QPN() {
		t.Fatalf("%s: completion of request %d, %v, QPN %#x; want %d, %v, %#x", h.name, c.ID, c.Opcode, c.QPN, id, o,
			h.qp.QPN())
	}
	return c
}

// fails awaits one completion and returns its status.
func (p *pair) fails(t *testing.T, h *half) verbs.Status {
	t.Helper()
	return p.await(t, h, 1)[0].Status
}

func (p *pair) other(h *half) *half {
	if h == p.from {
		return p.to
	}
	return p.from
}

// sge names a piece of the half's buffer.
func (h *half) sge(offset, length int) verbs.SGE {
	return verbs.SGE{Addr: h.mr.Addr() + uint64(offset), Length: uint32(length), LKey: h.mr.LKey()}
}

// request makes a send request of a piece of from's buffer, with to's buffer at another offset.
func (p *pair) request(id uint64, op verbs.Opcode, offset, length, remote int) verbs.SendRequest {
	r := verbs.SendRequest{
		ID: id, Opcode: op, SGEs: []verbs.SGE{p.from.sge(offset, length)},
		RemoteAddr: p.to.mr.Addr() + uint64(remote), RKey: p.to.mr.RKey(), Immediate: immediate,
	}
	if p.o.transport == verbs.UD {
		r.AH, r.RemoteQPN, r.RemoteQKey = p.from.ah, p.to.qp.QPN(), qkey
	}
	return r
}

const immediate = 0x01e57ab1

// fill writes a pattern that depends on seed and place, so that shifted, lost and foreign bytes all show.
func fill(b []byte, seed int) {
	x := uint32(seed)*2654435761 + 12345
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
}

// filled tells where b first differs from the pattern, or -1.
func filled(b []byte, seed int) int {
	x := uint32(seed)*2654435761 + 12345
	for i := range b {
		x = x*1664525 + 1013904223
		if b[i] != byte(x>>24) {
			return i
		}
	}
	return -1
}

// direction is who asks whom.
type direction struct {
	name     string
	from, to *end
}

// directions opens both ends and returns both ways round.
func directions(t *testing.T) []direction {
	kernel, ours := openKernel(t), openOurs(t)
	return []direction{
		{ours.name + "-to-" + kernel.name, ours, kernel},
		{kernel.name + "-to-" + ours.name, kernel, ours},
	}
}

// run runs a program of the machine and fails with what it said.
func run(t *testing.T, line string) {
	t.Helper()
	f := strings.Fields(line)
	if out, err := exec.Command(f[0], f[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
}
