package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
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
	// afterLeave is how long a test's process may outlive its client; it ends by itself unless its runtime has stopped.
	afterLeave = 5 * time.Second
	// afterSignal is how long it may take to tell its client that the server ends.
	afterSignal = 3 * time.Second
	// lookEvery is how often the server looks whether a client is still there.
	lookEvery = 500 * time.Millisecond
)

// judgeTime is how long a plan may take to be judged while others wait for that; alone it has the time of a first message. In any case it
// has so much processor time.
const (
	judgeTime = time.Second
	judgeCPU  = 2 * time.Second
)

// process is a test's process as the server sees it.
type process struct {
	cmd    *exec.Cmd
	orders *net.UnixConn
	stderr *child.Words
	events chan event
}

// start runs this program as a test's process.
func start(ctx context.Context) (*process, error) {
	cmd, words, err := child.Command("serve", "--test-process")
	if err != nil {
		return nil, err
	}
	orders, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, stderr: words, orders: orders, events: make(chan event, 16)}
	p.cmd.Stdin = theirs
	p.cmd.Env = append(os.Environ(), "GOTRACEBACK=single")
	err = p.cmd.Start()
	_ = theirs.Close()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the test's process: %w", err), orders.Close())
	}
	go func() {
		defer close(p.events)
		for {
			e, err := frame.Read[event](orders, kindEvent, maxOrderBytes)
			if err != nil {
				return
			}
			p.events <- e
		}
	}()
	select {
	case _, ready := <-p.events:
		if !ready {
			return nil, p.deathOf(p.wait())
		}
		return p, nil
	case <-ctx.Done():
		p.end()
		return nil, context.Cause(ctx)
	}
}

// end ends a process that is not needed.
func (p *process) end() {
	_ = p.cmd.Process.Kill()
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
	err := p.cmd.Wait()
	_ = p.orders.Close()
	return err
}

// deathOf says in one line what ended a process that had not said so itself.
func (p *process) deathOf(err error) error {
	var said string
	for line := range strings.Lines(p.stderr.String()) {
		line = strings.TrimSpace(line)
		for _, sign := range []string{"panic: ", "fatal error: ", "internal fault: ", "SIGSEGV", "SIGBUS", "runtime: ", "unexpected fault"} {
			if strings.Contains(line, sign) && said == "" {
				said = ": " + control.Bounded(line)
			}
		}
	}
	how := "it ended without a word"
	if err != nil {
		how = err.Error()
	}
	if status, is := errors.AsType[*exec.ExitError](err); is {
		if s, is := status.Sys().(syscall.WaitStatus); is && s.Signaled() && s.Signal() == syscall.SIGKILL {
			how = "it was killed, perhaps for want of memory"
		}
	}
	return fmt.Errorf("the test's process died (%s%s)", how, said)
}

// serveOne runs a client's tests in a process of their own: this one reads no plan. It tells log and client where that process dies.
func (c config) serveOne(ctx context.Context, client *connect.Client, othersWait func() bool) {
	defer client.Release()
	log := c.Listen.Log.With("client", client.From)
	p, err := start(ctx)
	if err != nil {
		log.Error("test", "test", "none", "err", err)
		client.Session().Fail(err)
		return
	}
	o := c.order
	conn, h, err := client.Handover()
	if o.Client = h; err == nil {
		defer func() { _ = conn.Close() }()
		err = frame.Write(passing{p.orders, conn}, kindOrder, o)
	}
	if err != nil {
		log.Warn("client gone before its test", "err", control.Bounded(err.Error()))
		p.end()
		return
	}
	test, last, err := p.follow(ctx, o, conn, log, othersWait)
	switch {
	case last == nil:
		log.Error("test", "test", test, "err", err)
		if h.Ours != nil { // perftest's dialect has no words: there the connection closes
			frame.Farewell(conn, frame.Message{Kind: frame.KindError, Error: err.Error(), Lost: true}, time.Second)
		}
	case last.Left:
		log.Info("client left", "test", test, "while", last.Error)
	case last.Error != "" && test == "":
		log.Warn("client refused", "err", last.Error)
	case last.Error != "":
		log.Warn("ended", "test", test, "err", last.Error)
	default:
		log.Info("done", "test", test)
	}
}

// follow logs what a process does until it has ended, and tells it of others. It ends one that takes longer than is granted, whose client
// has left, or whose server is to end. Without a last event of the process the error says why.
func (p *process) follow(
	ctx context.Context, o order, conn net.Conn, log *slog.Logger, othersWait func() bool,
) (test string, last *event, err error) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	kill := func(format string, args ...any) {
		if err == nil {
			err = fmt.Errorf(format, args...)
		}
		_ = p.cmd.Process.Kill()
	}
	began, used := time.Now(), time.Duration(0) // used: processor time until the plan is judged
	judging, gone, others := false, 0, false
	stop := ctx.Done()
	var over <-chan time.Time
	for {
		select {
		case e, more := <-p.events:
			switch {
			case !more && err == nil:
				err = p.deathOf(p.wait())
				return test, last, err
			case !more:
				_ = p.wait()
				return test, last, err
			case e.Ended:
				last = &e
			case e.Judging:
				judging, began, used = true, time.Now(), cpuTime(p.cmd.Process.Pid)
			case e.Planned != "":
				judging, began, test = false, time.Now(), e.Planned
				log.Info("begins", "test", test)
			case e.Measured != "":
				log.Info("measured", "test", e.Measured, "figure", e.Figure)
			}
		case <-look.C:
			if now := othersWait(); now != others {
				others = now
				_ = frame.Write(p.orders, kindOthers, others)
			}
			took := time.Since(began)
			if gone++; !frame.HasLeft(conn) {
				gone = 0
			}
			switch most := o.Policy.Duration; {
			case time.Duration(gone)*lookEvery > afterLeave+o.Timeouts.Peer:
				kill("the client has left")
			case judging && cpuTime(p.cmd.Process.Pid)-used > judgeCPU:
				kill("the plan was not judged within %v of processor time", judgeCPU)
			case judging && (took > o.Timeouts.Hello || took > judgeTime && others):
				kill("the plan was not judged within %v", took.Round(time.Second/10))
			case most > 0 && took > most+settleTime:
				kill("the test takes longer than --max-duration grants, %v: its process was ended", most)
			}
		case <-stop:
			stop, over = nil, time.After(afterSignal)
			_ = p.cmd.Process.Signal(syscall.SIGTERM)
		case <-over:
			kill("the server has ended")
		}
	}
}
