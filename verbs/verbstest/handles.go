package verbstest

import (
	"errors"
	"io"
	"reflect"
	"slices"
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

// kind is a kind of handles with one of it, which may be nil, and what keeps that open.
type kind struct {
	name string
	io.Closer
	users []string
	api   reflect.Type // the interface
}

func kindOf[T io.Closer](name string, one T, users ...string) kind {
	return kind{name, one, users, reflect.TypeFor[T]()}
}

// kinds are all kinds, newest first.
func (h *handles) kinds() []kind {
	return []kind{
		kindOf("job", h.job),
		kindOf("queue pair", h.qp, "1 prepared job"),
		kindOf("address handle", h.address),
		kindOf("memory window", h.window),
		kindOf("memory region", h.mr),
		kindOf("shared receive queue", h.srq, "1 queue pair"),
		kindOf("completion queue", h.recvCQ, "1 queue pair"),
		kindOf("completion channel", h.channel, "2 completion queues"),
		kindOf("protection domain", h.pd, "1 queue pair", "1 memory region", "1 shared receive queue"),
		kindOf("device", h.device, "protection domain", "completion queues", "completion channel"),
	}
}

// method is a call on a handle; one that returns no error tells nil.
type method struct {
	name string
	call func() error
}

// methods are the calls that the interface of a kind has: those that tell an error, and the others. Left out are those
// that a device may refuse whatever its state is, and what takes the number of a lane.
func (h *handles) methods(k kind) (failing, others []method) {
	for m := range k.api.Methods() {
		x := method{m.Name, func() error { return h.call(k, m) }}
		switch last := m.Type.NumOut() - 1; {
		case slices.Contains([]string{"Close", "Bind", "Name", "RegisterDMABuf", "Received"}, m.Name):
		case m.Type.Out(last) == reflect.TypeFor[error]():
			failing = append(failing, x)
		default:
			others = append(others, x)
		}
	}
	return failing, others
}

// call calls a method of a kind's handle, and closes what it has made.
func (h *handles) call(k kind, m reflect.Method) error {
	var arguments []reflect.Value
	for of := range m.Type.Ins() {
		arguments = append(arguments, h.argument(of))
	}
	results := reflect.ValueOf(k.Closer).MethodByName(m.Name).Call(arguments)
	err, fails := reflect.TypeAssert[error](results[len(results)-1])
	if made, is := reflect.TypeAssert[io.Closer](results[0]); is && !fails && len(results) > 1 && m.Name != "Wait" {
		return made.Close()
	}
	return err
}

// argument is a value of a type that the methods of handles take.
func (h *handles) argument(of reflect.Type) reflect.Value {
	for _, v := range []any{
		1, job.Now() + 1<<20, h.r.Context(), h.buf, h.vector(h.peer()),
		verbs.GID{0xff, 0x0e},
		make([]verbs.Completion, 4),
		verbs.QueuePairOptions{SendCQ: h.spare},
		verbs.QueuePairAttributes{Mask: verbs.AttrState, State: verbs.StateError},
		[]verbs.SendRequest{h.request(1, send, 8)},
		[]verbs.ReceiveRequest{{}},
	} {
		if reflect.TypeOf(v).AssignableTo(of) {
			return reflect.ValueOf(v)
		}
	}
	return reflect.Zero(of)
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
	pd := got(h.device.AllocPD()).closing(t)
	h.channel = got(h.device.CreateCompletionChannel()).closing(t)
	h.spare = got(h.device.CreateCQ(verbs.CompletionQueueOptions{})).closing(t)
	h.srq = got(pd.CreateSRQ(verbs.SharedReceiveQueueOptions{})).closing(t)
	h.side = newRig(t, rigOptions{pdB: pd, channel: h.channel, srq: h.srq}).b
	if h.device.Info().Limits.MemoryWindow2 {
		h.window = got(pd.AllocMW()).closing(t)
	}
	if !t.lacks(HasUnconnected) {
		h.address = got(pd.CreateAH(h.vector(h.peer()))).closing(t)
	}
	serves := &job.Job{
		Shape: job.Serve, Stop: new(atomic.Uint32), CQs: []verbs.CompletionQueue{h.sendCQ, h.recvCQ},
		Lanes: []job.Lane{{QP: h.qp}},
	}
	h.job = got(job.Prepare(h.device, serves)).closing(t)
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
			methods, others := h.methods(x)
			closeBeside(t, x, methods)
			for _, m := range methods {
				if err := m.call(); !errors.Is(err, verbs.ErrClosed) {
					t.Errorf("%s after Close: %v, want ErrClosed", m.name, err)
				}
			}
			if err := x.Close(); err != nil {
				t.Errorf("close again: %v", err)
			}
			for _, m := range others {
				_ = m.call()
			}
			h.job.Received(0)
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
func closeBeside(t testing.TB, x io.Closer, methods []method) {
	t.Helper()
	var calls sync.WaitGroup
	for _, m := range methods {
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
