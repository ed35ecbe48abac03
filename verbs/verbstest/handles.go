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
	call func(h *handles) error
}

// handleKind is a kind of handles, with what keeps one open and all of its methods that return an error.
type handleKind struct {
	name    string
	of      func(h *handles) io.Closer
	users   []string
	methods []method
}

// handleKinds are all kinds, newest first.
func handleKinds() []handleKind {
	one := []verbs.ReceiveRequest{{}}
	return []handleKind{
		{"job", func(h *handles) io.Closer { return h.job }, nil, []method{
			{"Run", func(h *handles) error { _, err := h.job.Run(job.Now() + 1<<20); return err }},
		}},
		{"queue pair", func(h *handles) io.Closer { return h.qp }, []string{"1 prepared job"}, []method{
			{"Modify", func(h *handles) error {
				return h.qp.Modify(verbs.QueuePairAttributes{Mask: verbs.AttrState, State: verbs.StateError})
			}},
			{"Query", func(h *handles) error { _, err := h.qp.Query(); return err }},
			{"PostSend", func(h *handles) error { return h.qp.PostSend([]verbs.SendRequest{h.request(1, verbs.OpSend, 8)}) }},
			{"PostReceive", func(h *handles) error { return h.qp.PostReceive(one) }},
			{"AttachMulticast", func(h *handles) error { return h.qp.AttachMulticast(verbs.GID{0xff, 0x0e}, 0) }},
			{"DetachMulticast", func(h *handles) error { return h.qp.DetachMulticast(verbs.GID{0xff, 0x0e}, 0) }},
		}},
		{"address handle", func(h *handles) io.Closer { return h.address }, nil, nil},
		{"memory window", func(h *handles) io.Closer { return h.window }, nil, nil},
		{"memory region", func(h *handles) io.Closer { return h.mr }, nil, nil},
		{"shared receive queue", func(h *handles) io.Closer { return h.srq }, []string{"1 queue pair"}, []method{
			{"PostReceive", func(h *handles) error { return h.srq.PostReceive(one) }},
			{"SetLimit", func(h *handles) error { return h.srq.SetLimit(1) }},
		}},
		{"completion queue", func(h *handles) io.Closer { return h.recvCQ }, []string{"1 queue pair"}, []method{
			{"Poll", func(h *handles) error { _, err := h.recvCQ.Poll(make([]verbs.Completion, 4)); return err }},
			{"Resize", func(h *handles) error { return h.recvCQ.Resize(600) }},
			{"Arm", func(h *handles) error { return h.recvCQ.Arm(verbs.NotifyAny) }},
		}},
		{"completion channel", func(h *handles) io.Closer { return h.channel }, []string{"2 completion queues"}, []method{
			{"Wait", func(h *handles) error { _, err := h.channel.Wait(h.r.Context()); return err }},
		}},
		{"protection domain", func(h *handles) io.Closer { return h.pd }, []string{"1 queue pair", "1 memory region", "1 shared receive queue"}, []method{
			{"RegisterMemory", func(h *handles) error { return closed(h.pd.RegisterMemory(h.buf, 0, h.buf.Len(), 0)) }},
			{"CreateQP", func(h *handles) error { return closed(h.pd.CreateQP(verbs.QueuePairOptions{SendCQ: h.spare})) }},
			{"CreateSRQ", func(h *handles) error { return closed(h.pd.CreateSRQ(verbs.SharedReceiveQueueOptions{})) }},
			{"CreateAH", func(h *handles) error { return closed(h.pd.CreateAH(h.vector(h.peer()))) }},
			{"AllocMW", func(h *handles) error { return closed(h.pd.AllocMW()) }},
		}},
		{"device", func(h *handles) io.Closer { return h.device }, []string{"protection domain", "completion queues", "completion channel"}, []method{
			{"Port", func(h *handles) error { _, err := h.device.Port(max(h.end.Port, 1)); return err }},
			{"GIDs", func(h *handles) error { _, err := h.device.GIDs(max(h.end.Port, 1)); return err }},
			{"PKeys", func(h *handles) error { _, err := h.device.PKeys(max(h.end.Port, 1)); return err }},
			{"AllocPD", func(h *handles) error { return closed(h.device.AllocPD()) }},
			{"CreateCompletionChannel", func(h *handles) error { return closed(h.device.CreateCompletionChannel()) }},
			{"CreateCQ", func(h *handles) error { return closed(h.device.CreateCQ(verbs.CompletionQueueOptions{})) }},
			{"Counters", func(h *handles) error { _, err := h.device.Counters(max(h.end.Port, 1)); return err }},
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
	serves := &job.Job{Shape: job.Serve, Stop: new(atomic.Uint32), CQs: []verbs.CompletionQueue{h.sendCQ, h.recvCQ}, Lanes: []job.Lane{{QP: h.qp}}}
	h.job = got(job.Prepare(h.device, serves)).closing(t, "job")
	return h
}

// testHandles closes a handle of each kind with its dependents open, beside a goroutine that calls its methods, and twice, and calls
// all of its methods afterwards.
func testHandles(t *test) {
	for i, kind := range handleKinds() {
		t.Run(kind.name, func(t *test) {
			h := newHandles(t)
			x := kind.of(h)
			if x == nil {
				t.Skip("the device has none")
			}
			if err := x.Close(); len(kind.users) > 0 {
				checkBusy(t, err, kind.users)
			}
			var younger []io.Closer
			for _, y := range handleKinds()[:i] {
				younger = append(younger, y.of(h))
				if y.name == "completion queue" {
					younger = append(younger, h.sendCQ)
				}
			}
			if a := h.peer(); kind.name == "device" { // both ends may be of one
				younger = append(append(younger, h.r.met...), h.spare, a.qp, a.sendCQ, a.recvCQ, a.mr, a.pd)
			}
			closeAll(t, younger...)
			closeBeside(t, h, x, kind.methods)
			for _, m := range kind.methods {
				if err := m.call(h); !errors.Is(err, verbs.ErrClosed) {
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
func closeBeside(t testing.TB, h *handles, x io.Closer, methods []method) {
	t.Helper()
	var calls sync.WaitGroup
	for _, m := range methods {
		entered := make(chan struct{})
		calls.Go(func() {
			close(entered)
			for deadline := time.Now().Add(patience); !errors.Is(m.call(h), verbs.ErrClosed); {
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
