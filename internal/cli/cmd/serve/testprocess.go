package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/gobw/gobw/internal/child"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/opendevice"
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/connect"
	"github.com/gobw/gobw/internal/control/frame"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/verbs"
)

// A test runs in a process of its own, whatever ends it. The server starts this program again. The
// client's connection is its descriptor
//  3. The order comes on standard input, and then the slot, once the test has been agreed on; it stays open as long as
//     the server lives.
//
// Events go to standard output.
const (
	kindOrder = "order"
	kindSlot  = "slot"
	kindEvent = "event"
)

// slotOrder starts a test that was agreed on, or turns its client away.
type slotOrder struct {
	Busy string `json:"busy,omitempty"` // who has the slots; empty: this client has one
}

// maxOrderBytes bounds a message between the two.
const maxOrderBytes = 4 << 20

// order is what a test's process is told: how clients are served, and whom it serves.
type order struct {
	Device    opendevice.Config `json:"device"`
	DataAllow []netip.Prefix    `json:"data_allow,omitempty"` // where traffic may go, beside the client's address
	Timeouts  control.Timeouts  `json:"timeouts"`
	Policy    plan.Policy       `json:"policy"`
	// what clients of perftest before 6.28 expect here; nil: they are refused
	Told   *plan.Spec       `json:"told,omitempty"`
	Gbits  bool             `json:"gbits"`
	Client connect.Handover `json:"client"`

	slot     <-chan slotOrder   // of a test's process
	opened   *opendevice.Device // for the client that is being served
	tell     func(event)        // what happens to it
	perftest bool               // it speaks perftest's dialect
	test     string             // its last one
	granted  *plan.Settled      // the same
}

// event is what happens to a client.
type event struct {
	Test   string `json:"test,omitempty"`   // a test begins; with a figure: a record of it
	Agreed bool   `json:"agreed,omitempty"` // the first test was agreed on, and begins once there is a slot
	Figure string `json:"figure,omitempty"` // or the last that began
	Slow   string `json:"slow,omitempty"`   // what takes long; any other event ends that
	Ended  bool   `json:"ended,omitempty"`  // its tests
	Left   bool   `json:"left,omitempty"`   // the client went away
	Error  string `json:"error,omitempty"`  // how they ended, empty: well
}

// log says what happens.
func (e event) log(log *slog.Logger) {
	switch {
	case !e.Ended && e.Figure == "":
		log.Info("begins", "test", e.Test)
	case !e.Ended:
		log.Info("measured", "test", e.Test, "figure", e.Figure)
	case e.Test == "" && (e.Left || e.Error == ""):
		log.Info("client left without a test")
	case e.Left:
		log.Info("client left", "test", e.Test, "while", e.Error)
	case e.Test == "":
		log.Warn("client refused", "err", e.Error)
	case e.Error != "":
		log.Warn("ended", "test", e.Test, "err", e.Error)
	default:
		log.Info("done", "test", e.Test)
	}
}

// heapBytes bounds the heap of a test's process, also while its garbage is not collected.
const heapBytes = 512 << 20

// leaveGrace is how long a test may take to end once its client has left; then its process does. The session itself may
// take [frame.Parting] of it to end.
const leaveGrace = frame.Parting + time.Second/2

// How long a process may take to end once the one that started it has. A child whose parent lives and waits for it
// is made to say where it hangs before.
const (
	testGrace  = 3 * time.Second
	childGrace = 15 * time.Second
)

// runTestProcess is the whole life of a test's process.
func runTestProcess(ctx context.Context) error {
	inherited := os.NewFile(3, "client")
	conn, err := net.FileConn(inherited)
	if err != nil {
		return exit.With(exit.Usage, fmt.Errorf("this is a part of 'serve', which starts it: %w", err))
	}
	_ = inherited.Close()
	tell := teller(os.Stdout)
	tell(event{}) // it has started
	in := child.Input(testGrace)
	o, err := frame.Read[order](in, kindOrder, maxOrderBytes)
	if err != nil {
		return err // the client has gone
	}
	if err := boundProcess(o.Policy.Bytes); err != nil {
		return err
	}
	debug.SetMemoryLimit(heapBytes)
	ctx, cancel := o.hearServer(ctx, in)
	defer cancel(nil)
	o.tell, o.perftest = tell, o.Client.Ours == nil
	admit := func(p *plan.Spec) error {
		defer o.slow(judgeTime, fmt.Sprintf("the check of this client's test takes longer than %v", judgeTime), still)()
		if err := o.admit(p); err != nil {
			return err
		}
		return grantMemory()
	}
	s := connect.Resume(conn, o.Client, control.Options{
		Timeouts: o.Timeouts, Perftest: control.PerftestOptions{Gbits: o.Gbits}, Admit: admit, Waiting: o.waiting,
		LocalFacts: o.localFacts,
	})
	defer leaveWithClient(ctx, s, tell)()
	_ = o.serve(ctx, s)
	return nil
}

// hearServer hears of the slot, and ends what is done under a context once the server has ended.
func (o *order) hearServer(ctx context.Context, in io.Reader) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	slot := make(chan slotOrder, 1)
	o.slot = slot
	go func() {
		s, err := frame.Read[slotOrder](in, kindSlot, maxOrderBytes)
		if err == nil {
			slot <- s
			_, _ = io.Copy(io.Discard, in)
		}
		cancel(fmt.Errorf("the server has ended: %w", control.ErrStopped))
	}()
	return ctx, cancel
}

// endWithInput ends what is done under a context once standard input has ended.
func endWithInput(ctx context.Context, why string) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, child.Input(childGrace))
		cancel(errors.New(why))
	}()
	return ctx, cancel
}

// admitGroup refuses a multicast group that a client names: the switches would send this host whatever goes to it.
func (o *order) admitGroup(group *verbs.GID) error {
	told := o.Told != nil && o.Told.MGID != nil && group != nil && *o.Told.MGID == *group
	if group == nil || told ||
		slices.ContainsFunc(o.DataAllow, func(p netip.Prefix) bool { return p.Contains(group.Addr()) }) {
		return nil
	}
	return fmt.Errorf("this server joins no multicast group that a client names: leave --MGID (-M) out, "+
		"or start serve with --data-allow %v", group.Addr())
}

// admit refuses a plan that no test is, or that this end does not grant.
func (o *order) admit(p *plan.Spec) (err error) {
	if err := o.admitGroup(p.MGID); err != nil {
		return err
	}
	o.granted, err = plan.Settle(*p, plan.Limits{}, plan.Peer{}, o.Policy)
	if err == nil {
		o.test = planText(*p)
		if o.slot == nil { // the first test of a test's process begins later
			o.tell(event{Test: o.test})
		}
	}
	return err
}

// How long a check of a plan and a step of a client may take while others wait. A step may register memory, and the
// time grows with the memory. In perftest's dialect each queue pair's keys are a message of their own.
const (
	judgeTime  = time.Second
	stepTime   = 5 * time.Second
	stepPerMiB = time.Millisecond
	stepPerKey = 10 * time.Millisecond
)

// waiting tells the server of a step that takes long. A measurement may take long as long as packets move. If the
// device does not count packets, a measurement with -D may take its time longer, and one with -n has no limit.
func (o *order) waiting(measuring bool) (over func()) {
	most, what, moves := stepTime, "this client did nothing for %v", still
	if p := o.granted; p != nil {
		most += time.Duration(p.Memory.Total()>>20) * stepPerMiB
		if o.perftest {
			most += time.Duration(p.Spec.QPs) * stepPerKey
		}
	}
	if measuring {
		most += time.Duration(o.granted.PauseNs(o.granted.LargestSize()))
		runs := o.granted.Spec.Duration
		switch _, counts := o.packets(); {
		case counts:
			what, moves = "no packet of this client's test came or went for %v", func() uint64 { n, _ := o.packets(); return n }
		case runs == 0:
			return func() {}
		default:
			most += runs
		}
	}
	return o.slow(most, fmt.Sprintf(what, most.Round(time.Second)), moves)
}

// packets is how many packets the devices of the test have sent and received, where they count them.
func (o *order) packets() (n uint64, counts bool) {
	if o.opened == nil {
		return 0, false
	}
	for _, d := range append(o.opened.Others(), o.opened.Device) {
		for port := range d.Info().Ports {
			counters, _ := d.Counters(port + 1)
			for _, name := range []string{"rcvd_pkts", "sent_pkts", "port_rcv_packets", "port_xmit_packets"} {
				c, has := counters[name]
				n, counts = n+c, counts || has
			}
		}
	}
	return n, counts
}

// still counts nothing.
func still() uint64 { return 0 }

// slow tells the server that something takes longer than most, and when it is over or moves again.
func (o *order) slow(most time.Duration, what string, moves func() uint64) (over func()) {
	done, last, told := make(chan struct{}), moves(), ""
	tell := func(now string) {
		if told != now {
			told = now
			o.tell(event{Slow: now})
		}
	}
	go func() {
		for {
			select {
			case <-done:
				tell("")
				return
			case <-time.After(most):
			}
			now := moves()
			tell(plain.When(now == last, "%s", what))
			last = now
		}
	}()
	return sync.OnceFunc(func() { close(done) })
}

// leaveWithClient ends the process of a test whose client has left, whatever the test is doing: memory may take its
// time to be registered, and a call into a driver need not return.
func leaveWithClient(ctx context.Context, s control.Session, tell func(event)) (stop func()) {
	watched, unwatch := s.Watch(ctx)
	context.AfterFunc(watched, func() {
		time.Sleep(leaveGrace)
		// no signal, and no end by itself
		if cause := context.Cause(watched); ctx.Err() == nil && !errors.Is(cause, context.Canceled) {
			tell(event{Ended: true, Left: true, Error: cause.Error()})
			os.Exit(exit.PeerLost) //nolint:forbidigo // a thread may be where nothing else reaches it
		}
	})
	return unwatch
}

// teller writes what the server is to know.
func teller(w io.Writer) func(event) {
	var mu sync.Mutex
	return func(e event) {
		e.Error, e.Figure = control.Bounded(e.Error), control.Bounded(e.Figure)
		mu.Lock()
		defer mu.Unlock()
		_ = frame.Write(w, kindEvent, e) // a server that has gone is noticed by its orders
	}
}

// figureText is the figure that the test is about.
func figureText(r report.Record) string {
	if r.Latency != nil && r.IsLatency() {
		return fmt.Sprintf("%.2f us", r.Latency.P50Ns/1e3)
	}
	if r.Messages > 0 && r.Messages <= fewMessages && !r.DurationTest {
		return plain.Plural(int(r.Messages), "message")
	}
	return plain.WithUnit(r.Bandwidth.AverageBitsPerS, plain.BitsPerS)
}

// planText names a test in the log.
func planText(p plan.Spec) string {
	if p.Iterations > 0 && p.Iterations <= fewMessages {
		return fmt.Sprintf("%s %v, %s", p.Operation, p.Transport, plain.Plural(int(p.Iterations), "message"))
	}
	return fmt.Sprintf("%s %s %v", p.Operation, p.Kind, p.Transport)
}

// fewMessages are no measurement: 'connect' sends 1, 'doctor' sends 16.
const fewMessages = 16
