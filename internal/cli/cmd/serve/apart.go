package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gobw/gobw/internal/child"
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/connect"
	"github.com/gobw/gobw/internal/control/frame"
)

const (
	// settleTime is what a test takes beside what it measures: queue pairs, memory, verification.
	settleTime = 2 * time.Minute
	// afterSignal is how long a test's process may take to tell its client that the server ends.
	afterSignal = 3 * time.Second
	// lookEvery is how often the server looks at the connection of a client, and whether others wait for what takes long.
	lookEvery = 500 * time.Millisecond
	// seatTime is how long a client may take to agree on its test while others wait to do the same.
	seatTime = 500 * time.Millisecond
	// closedTime is how long a test may outlive its client's connection. Its process
	// ends sooner by itself, unless it hangs.
	closedTime = leaveGrace + time.Second/2
)

// seats is how many processes may agree on tests at once.
const seats = 8

// process is a test's process as the server sees it.
type process struct {
	*child.Process
	events chan event
}

// start runs this program as the process of a client's tests. It inherits the client's
// connection, and has so long to begin.
func start(ctx context.Context, conn net.Conn, within time.Duration) (*process, error) {
	inherited, err := descriptorOf(conn)
	if err != nil {
		return nil, err
	}
	c, err := child.Start([]*os.File{inherited}, "serve", "--test-process")
	_ = inherited.Close()
	if err != nil {
		return nil, fmt.Errorf("start the test's process: %w", err)
	}
	p := &process{Process: c, events: make(chan event, 16)}
	go func() {
		defer close(p.events)
		for {
			e, err := frame.Read[event](c.Out, kindEvent, maxOrderBytes)
			if err != nil {
				return
			}
			p.events <- e
		}
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("the test's process did not begin within %v", within))
	defer cancel()
	select {
	case _, ready := <-p.events:
		if !ready {
			return nil, p.death()
		}
		return p, nil
	case <-ctx.Done():
		p.end()
		return nil, context.Cause(ctx)
	}
}

// end ends a process that is not needed.
func (p *process) end() {
	_ = p.Process.Process.Kill()
	for range p.events { //nolint:revive // until it is gone
	}
	_ = p.wait()
}

// reapAfter is how long a process has to be gone before it is waited for.
const reapAfter = 2 * time.Millisecond

// wait is called once the events have ended: the process is about to be gone. Linux wakes the waiter before the last
// thread has left /proc, and the two then spin on the same entries (proc_invalidate_siblings_dcache): 5 to 8 ms of CPU
// time on a busy machine, which this sleep avoids.
func (p *process) wait() error {
	time.Sleep(reapAfter)
	return p.Wait()
}

// fault is a line in which a program of Go says what ends it.
var fault = regexp.MustCompile(`(panic|fatal error|internal fault|runtime): .*|.*(SIGSEGV|SIGBUS|unexpected fault).*`)

// death waits for a process that did not say why it ends, and says in one line what ended it.
func (p *process) death() error {
	how := "it ended without a word"
	if err := p.wait(); err != nil {
		how = err.Error()
	}
	if p.ProcessState.String() == "signal: killed" {
		how = "it was killed, perhaps for want of memory"
	}
	said := p.Said.String()
	last := said[strings.LastIndex(said, "\n")+1:]
	if why := cmp.Or(fault.FindString(said), last); why != "" {
		how += ": " + control.Bounded(why)
	}
	return fmt.Errorf("the test's process died (%s)", how)
}

// serveOne runs a client's tests in a process of their own: this one reads no plan. It tells
// log and client where that process dies.
func (c *config) serveOne(ctx context.Context, client *connect.Client) {
	defer client.Leave()
	log := c.Listen.Log.With("client", client.From)
	if client.HasLeft() {
		log.Info("client left without a test")
		return
	}
	p, err := start(ctx, client.Conn, c.Timeouts.Hello)
	if err != nil {
		log.Error("test", "test", "none", "err", err)
		client.Session().Fail(err)
		return
	}
	p.Said.TellHangs(func(line string) { log.Warn("hangs", "err", line) })
	o := c.order
	if o.Client, err = client.Handover(); err == nil {
		err = frame.Write(p.In, kindOrder, o)
	}
	if err != nil {
		log.Info("client left without a test", "err", control.Bounded(err.Error()))
		p.end()
		return
	}
	f := &follower{process: p, o: o, log: log, door: client, out: client.Out}
	if err := f.follow(ctx); err != nil {
		client.Yield()
		log.Error("test", "test", f.test, "err", err)
		if o.Client.Ours != nil { // perftest's dialect has no words: there the connection closes
			o.Client.Ours.Farewell(client.Conn,
				frame.Message{Kind: frame.KindError, Error: err.Error(), Cause: control.PeerGone})
		}
	}
}

// door is where the client of a process stands among the others.
type door interface {
	TakeSlot(ctx context.Context) (busy string)
	MustStand(after time.Duration) bool
	OthersWait() bool
	HasLeft() bool
}

// follower follows the process of a client's tests from outside.
type follower struct {
	*process
	o    order
	log  *slog.Logger
	door door
	out  <-chan struct{} // closed where the client must give way to others

	test   string    // the last one that was agreed on
	slow   string    // what takes long
	seated bool      // it has a slot
	came   time.Time // since when
	said   bool      // the process said how it ended
	closed time.Time // since when the client's connection is
	why    error     // it was ended
	late   *time.Timer
	limit  error // what it has missed then
}

// kill ends the process.
func (f *follower) kill(why error) {
	f.why = why
	_ = f.Process.Process.Kill()
}

// follow logs what a process does until it has ended. It takes a slot for a test that was agreed on. It ends a process
// that takes longer than is granted, that takes long while others wait, or that outlives its client or the server. It
// returns an error if the process has not reported how it ended.
func (f *follower) follow(ctx context.Context) error {
	f.late, f.limit = time.NewTimer(f.o.Timeouts.Hello), fmt.Errorf("no test was agreed on within %v", f.o.Timeouts.Hello)
	defer f.late.Stop()
	look := time.NewTicker(seatTime / 5)
	defer look.Stop()
	slot := make(chan string, 1)
	var waits sync.WaitGroup
	defer waits.Wait() // the slot is given back after that
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := ctx.Done()
	for {
		select {
		case e, more := <-f.events:
			switch {
			case !more && f.why == nil && !f.said:
				return f.death()
			case !more:
				_ = f.wait()
				return f.why
			case e.Agreed:
				f.test = e.Test
				f.late.Stop()
				waits.Go(func() { slot <- f.door.TakeSlot(waiting) })
			default:
				f.hear(e)
			}
		case busy := <-slot:
			f.take(busy)
			look.Reset(lookEvery)
		case <-look.C:
			f.look()
		case <-f.late.C:
			f.kill(f.limit)
		case <-f.out:
			f.out = nil
			if !f.seated {
				f.kill(errors.New("too many connections: this one gave way to others"))
			}
		case <-stop:
			stop, f.limit = nil, errors.New("the server has ended")
			f.late.Reset(afterSignal)
			_ = f.Process.Process.Signal(syscall.SIGTERM)
		}
	}
}

// take gives a test its slot, or has its client turned away.
func (f *follower) take(busy string) {
	if busy != "" {
		f.log.Info("client turned away", "why", busy)
		f.said = true
		f.late.Reset(afterSignal)
	} else {
		f.seated, f.came = true, time.Now()
		f.begins()
	}
	_ = frame.Write(f.In, kindSlot, slotOrder{busy}) // a process that has gone is heard of otherwise
}

// begins notes that a test begins, and how long it may take.
func (f *follower) begins() {
	event{Test: f.test}.log(f.log)
	if granted := f.o.Policy.Duration; granted > 0 {
		f.late.Reset(granted + settleTime)
		f.limit = fmt.Errorf("the test takes longer than --max-duration grants, %v: its process was ended", granted)
	}
}

// hear hears what happens to the client.
func (f *follower) hear(e event) {
	f.slow = e.Slow
	switch {
	case e.Slow != "":
		f.look()
		return
	case e == event{}: // it is no longer slow
		return
	case !e.Ended && e.Figure == "": // a further test
		f.test = e.Test
		f.begins()
		granted := f.o.Policy.Duration
		if served := time.Since(f.came); granted > 0 && served > granted && f.door.OthersWait() {
			f.kill(fmt.Errorf("others wait, and this client has been served for %v: --max-duration grants %v",
				served.Round(time.Second), granted))
		}
		return
	}
	e.Test = cmp.Or(e.Test, f.test)
	e.log(f.log)
	f.said = f.said || e.Ended
}

// look ends a process that takes long while others wait, and one that outlives its client.
func (f *follower) look() {
	switch {
	case f.slow != "" && f.door.OthersWait():
		f.kill(fmt.Errorf("others wait, and %s", f.slow))
	case !f.seated && f.door.MustStand(seatTime):
		f.kill(fmt.Errorf("others wait, and this client has not agreed on a test within %v", seatTime))
	case !f.door.HasLeft():
		f.closed = time.Time{}
	case f.closed.IsZero():
		f.closed = time.Now()
	case time.Since(f.closed) > closedTime:
		f.kill(errors.New("the client has left, and its test did not end"))
	}
}
