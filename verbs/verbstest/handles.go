package verbstest

import (
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// handles are one of each kind, of which later ones depend on earlier ones.
type handles struct {
	*side
	device  verbs.Device
	channel verbs.CompletionChannel
	spare   verbs.CompletionQueue
	srq     verbs.SharedReceiveQueue
	window  verbs.MemoryWindow  // nil: the device has none
	address verbs.AddressHandle // likewise
	job     job.Runner
}

// method is a call on a handle; one that returns no error tells nil.
type method struct {
	name string
	call func() error
}

// kind is a kind of handles with one of it, which may be nil, what keeps that open, and
// all of its methods that return an error.
type kind struct {
	name string
	io.Closer
	users   []string
	methods []method
}

// kinds are all kinds, newest first.
func (h *handles) kinds() []kind {
	one := []verbs.ReceiveRequest{{}}
	return []kind{
		{"job", h.job, nil, []method{
			{"Run", func() error { _, err := h.job.Run(job.Now() + 1<<20); return err }},
		}},
		{"queue pair", h.qp, []string{"1 prepared job"}, []method{
			{"Modify", func() error {
				return h.qp.Modify(verbs.QueuePairAttributes{Mask: verbs.AttrState, State: verbs.StateError})
			}},
			{"Query", func() error { _, err := h.qp.Query(); return err }},
			{"PostSend", func() error { return h.qp.PostSend([]verbs.SendRequest{h.request(1, verbs.OpSend, 8)}) }},
			{"PostReceive", func() error { return h.qp.PostReceive(one) }},
			{"AttachMulticast", func() error { return h.qp.AttachMulticast(verbs.GID{0xff, 0x0e}, 0) }},
			{"DetachMulticast", func() error { return h.qp.DetachMulticast(verbs.GID{0xff, 0x0e}, 0) }},
		}},
		{"address handle", h.address, nil, nil},
		{"memory window", h.window, nil, nil},
		{"memory region", h.mr, nil, nil},
		{"shared receive queue", h.srq, []string{"1 queue pair"}, []method{
			{"PostReceive", func() error { return h.srq.PostReceive(one) }},
			{"SetLimit", func() error { return h.srq.SetLimit(1) }},
		}},
		{"completion queue", h.recvCQ, []string{"1 queue pair"}, []method{
			{"Poll", func() error { _, err := h.recvCQ.Poll(make([]verbs.Completion, 4)); return err }},
			{"Resize", func() error { return h.recvCQ.Resize(600) }},
			{"Arm", func() error { return h.recvCQ.Arm(verbs.NotifyAny) }},
		}},
		{"completion channel", h.channel, []string{"2 completion queues"}, []method{
			{"Wait", func() error { _, err := h.channel.Wait(h.r.Context()); return err }},
		}},
		{"protection domain", h.pd, []string{"1 queue pair", "1 memory region", "1 shared receive queue"}, []method{
			{"RegisterMemory", func() error { return closed(h.pd.RegisterMemory(h.buf, 0, h.buf.Len(), 0)) }},
			{"CreateQP", func() error { return closed(h.pd.CreateQP(verbs.QueuePairOptions{SendCQ: h.spare})) }},
			{"CreateSRQ", func() error { return closed(h.pd.CreateSRQ(verbs.SharedReceiveQueueOptions{})) }},
			{"CreateAH", func() error { return closed(h.pd.CreateAH(h.vector(h.peer()))) }},
			{"AllocMW", func() error { return closed(h.pd.AllocMW()) }},
		}},
		{"device", h.device, []string{"protection domain", "completion queues", "completion channel"}, []method{
			{"Port", func() error { _, err := h.device.Port(max(h.end.Port, 1)); return err }},
			{"GIDs", func() error { _, err := h.device.GIDs(max(h.end.Port, 1)); return err }},
			{"PKeys", func() error { _, err := h.device.PKeys(max(h.end.Port, 1)); return err }},
			{"AllocPD", func() error { return closed(h.device.AllocPD()) }},
			{"CreateCompletionChannel", func() error { return closed(h.device.CreateCompletionChannel()) }},
			{"CreateCQ", func() error { return closed(h.device.CreateCQ(verbs.CompletionQueueOptions{})) }},
			{"Counters", func() error { _, err := h.device.Counters(max(h.end.Port, 1)); return err }},
		}},
	}
}

// closed closes what a method has made.
func closed[T io.Closer](made T, err error) error {
	if err == nil {
		err = made.Close()
	}
	return err
}

func newHandles(t *test) *handles {
	t.Helper()
	h := &handles{device: t.B.Device}
	pd := got(h.device.AllocPD()).closing(t, "domain")
	h.channel = got(h.device.CreateCompletionChannel()).closing(t, "channel")
	h.spare = got(h.device.CreateCQ(verbs.CompletionQueueOptions{})).closing(t, "CQ")
	h.srq = got(pd.CreateSRQ(verbs.SharedReceiveQueueOptions{})).closing(t, "SRQ")
	h.side = newRig(t, rigOptions{pdB: pd, channel: h.channel, srq: h.srq}).b
	if h.device.Info().Limits.MemoryWindow2 {
		h.window = got(pd.AllocMW()).closing(t, "window")
	}
	if !t.lacks(HasUnconnected) {
		h.address = got(pd.CreateAH(h.vector(h.peer()))).closing(t, "AH")
	}
	serves := &job.Job{
		Shape: job.Serve, Stop: new(atomic.Uint32), CQs: []verbs.CompletionQueue{h.sendCQ, h.recvCQ},
		Lanes: []job.Lane{{QP: h.qp}},
	}
	h.job = got(job.Prepare(h.device, serves)).closing(t, "job")
	return h
}

// testHandles closes a handle of each kind with its dependents open, beside a goroutine that calls its methods, and
// twice, and calls all of its methods afterwards.
func testHandles(t *test) {
	none := handles{side: new(side)}
	for i, k := range none.kinds() {
		t.Run(k.name, func(t *test) {
			h := newHandles(t)
			x := h.kinds()[i]
			if x.Closer == nil {
				t.Skip("the device has none")
			}
			if err := x.Close(); len(x.users) > 0 {
				checkBusy(t, err, x.users)
			}
			var younger []io.Closer
			for _, y := range h.kinds()[:i] {
				younger = append(younger, y.Closer)
				if y.name == "completion queue" {
					younger = append(younger, h.sendCQ)
				}
			}
			if a := h.peer(); k.name == "device" { // both ends may be of one
				younger = append(append(younger, h.r.met...), h.spare, a.qp, a.sendCQ, a.recvCQ, a.mr, a.pd)
			}
			closeAll(t, younger...)
			closeBeside(t, x)
			for _, m := range x.methods {
				if err := m.call(); !errors.Is(err, verbs.ErrClosed) {
					t.Errorf("%s after Close: %v, want ErrClosed", m.name, err)
				}
			}
			if err := x.Close(); err != nil {
				t.Errorf("close again: %v", err)
			}
			h.touch()
		})
	}
}

func checkBusy(t testing.TB, err error, users []string) {
	t.Helper()
	if !errors.Is(err, verbs.ErrBusy) {
		t.Fatalf("close with dependents: %v, want ErrBusy", err)
	}
	for _, user := range users {
		if !strings.Contains(err.Error(), user) {
			t.Errorf("close with dependents: %v, want %q named", err, user)
		}
	}
}

// closeBeside closes a handle while a goroutine calls each of its methods until it is told that the handle is closed.
func closeBeside(t testing.TB, x kind) {
	t.Helper()
	var calls sync.WaitGroup
	for _, m := range x.methods {
		entered := make(chan struct{})
		calls.Go(func() {
			close(entered)
			for deadline := time.Now().Add(patience); !errors.Is(m.call(), verbs.ErrClosed); {
				if time.Now().After(deadline) {
					t.Errorf("%s never tells ErrClosed", m.name)
					return
				}
			}
		})
		<-entered
	}
	for deadline := time.Now().Add(patience); ; { // what a method has made may depend on it for a moment
		err := x.Close()
		if err == nil {
			break
		}
		if !errors.Is(err, verbs.ErrBusy) || time.Now().After(deadline) {
			t.Fatalf("close: %v", err)
		}
	}
	calls.Wait()
}

// touch calls what returns no error.
func (h *handles) touch() {
	_, _, _, _, _ = h.qp.QPN(), h.qp.Transport(), h.qp.Capabilities(), h.qp.State(), h.qp.Device()
	_, _, _, _ = h.mr.Addr(), h.mr.Len(), h.mr.LKey(), h.mr.RKey()
	_, _, _ = h.recvCQ.Depth(), h.device.Info(), h.device.Events()
	h.job.Received(0)
	if h.window != nil {
		h.window.RKey()
	}
}
