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
	// lookEvery is how often the server looks whether others wait for what takes long.
	lookEvery = 500 * time.Millisecond
)

// process is a test's process as the server sees it.
type process struct {
	*child.Process
	events chan event
}

// start runs this program as the process of a client's tests. It inherits the client's connection.
func start(ctx context.Context, conn net.Conn) (*process, error) {
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

// wait is called once the events have ended: the process is about to be gone. Linux wakes the waiter before the last thread
// has left /proc, and the two then spin on the same entries (proc_invalidate_siblings_dcache): 5 to 8 ms of CPU time on a
// busy machine, which this sleep avoids.
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
	if said := fault.FindString(p.Said.String()); said != "" {
		how += ": " + control.Bounded(said)
	}
	return fmt.Errorf("the test's process died (%s)", how)
}

// serveOne runs a client's tests in a process of their own: this one reads no plan. It tells log and client where that process dies.
func (c *config) serveOne(ctx context.Context, client *connect.Client, othersWait func() bool) {
	defer client.Release()
	defer func() { _ = client.Conn.Close() }()
	log := c.Listen.Log.With("client", client.From)
	p, err := start(ctx, client.Conn)
	if err != nil {
		log.Error("test", "test", "none", "err", err)
		client.Session().Fail(err)
		return
	}
	o := c.order
	if o.Client, err = client.Handover(); err == nil {
		err = frame.Write(p.In, kindOrder, o)
	}
	if err != nil {
		log.Info("client left without a test", "err", control.Bounded(err.Error()))
		p.end()
		return
	}
	if test, err := p.follow(ctx, o, log, othersWait); err != nil {
		log.Error("test", "test", test, "err", err)
		if o.Client.Ours != nil { // perftest's dialect has no words: there the connection closes
			frame.Farewell(client.Conn, frame.Message{Kind: frame.KindError, Error: err.Error(), Lost: true}, time.Second)
		}
	}
}

// follow logs what a process does until it has ended. It ends one that takes longer than is granted, or long while others wait, or whose
// server is to end. Where the process did not say how it ended the error does.
func (p *process) follow(ctx context.Context, o order, log *slog.Logger, othersWait func() bool) (test string, err error) {
	kill := func(why error) {
		err = why
		_ = p.Process.Process.Kill()
	}
	granted, came, said := o.Policy.Duration, time.Now(), false
	late, tooLate := time.NewTimer(o.Timeouts.Hello), fmt.Errorf("no test was agreed on within %v", o.Timeouts.Hello)
	defer late.Stop()
	stop := ctx.Done()
	var look <-chan time.Time
	var slow string
	for {
		select {
		case e, more := <-p.events:
			look, slow = nil, e.Slow
			switch {
			case !more && err == nil && !said:
				return test, p.death()
			case !more:
				_ = p.wait()
				return test, err
			case slow != "":
				look = time.After(0)
				continue
			case e == event{}: // it is no longer slow
				continue
			}
			e.Test = cmp.Or(e.Test, test)
			e.log(log)
			if said = e.Ended; said || e.Figure != "" {
				break
			}
			test = e.Test
			if late.Stop(); granted == 0 {
				break
			}
			late.Reset(granted + settleTime)
			tooLate = fmt.Errorf("the test takes longer than --max-duration grants, %v: its process was ended", granted)
			if served := time.Since(came); served > granted && othersWait() {
				kill(fmt.Errorf("others wait, and this client has been served for %v: --max-duration grants %v", served.Round(time.Second), granted))
			}
		case <-look:
			if look = time.After(lookEvery); othersWait() {
				kill(fmt.Errorf("others wait, and %s", slow))
			}
		case <-late.C:
			kill(tooLate)
		case <-stop:
			stop, tooLate = nil, errors.New("the server has ended")
			late.Reset(afterSignal)
			_ = p.Process.Process.Signal(syscall.SIGTERM)
		}
	}
}
