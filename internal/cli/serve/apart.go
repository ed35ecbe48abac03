package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/gobw/gobw/internal/child"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/connect"
	"github.com/gobw/gobw/internal/control/frame"
	"github.com/gobw/gobw/internal/control/native"
	"github.com/gobw/gobw/internal/control/perftest"
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

// start runs this program as a test's process. Its limits stand before it is told anything.
func start(o order) (*process, error) {
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
			m, err := frame.Read(orders, maxEventBytes)
			if err != nil {
				return
			}
			if e, err := frame.Decode[event](m); err == nil {
				p.events <- e
			}
		}
	}()
	if err = boundProcess(p.cmd.Process.Pid, o.Policy.Bytes); err == nil {
		err = p.tell(kindOrder, o)
	}
	if err != nil {
		p.end()
		return nil, fmt.Errorf("order the test's process: %w", err)
	}
	return p, nil
}

func (p *process) tell(kind string, body any) error {
	m, err := frame.Of(kind, body)
	if err != nil {
		return err
	}
	return frame.Write(p.orders, m)
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

// probeApart has a process look at the device, so that the server itself never opens one.
func (c config) probeApart(errs io.Writer) (*probed, error) {
	p, err := start(order{Probe: true, place: c.place, Perftest: c.Perftest})
	if err != nil {
		return nil, exit.SetupError{Err: err}
	}
	var found *probed
	for e := range p.events {
		found = e.Probe
	}
	err = p.wait()
	if found != nil {
		return found, nil
	}
	if status, is := errors.AsType[*exec.ExitError](err); is && status.ExitCode() > 0 {
		fmt.Fprintln(errs, p.stderr.String())
		return nil, exit.SilentError{Code: status.ExitCode()}
	}
	return nil, exit.SetupError{Err: p.deathOf(err)}
}

// serveOne judges a client's plan and runs its tests, each in a process of their own: this one reads no plan. It tells log and client
// where that process dies.
func (c config) serveOne(ctx context.Context, client *connect.Client) {
	log := c.Listen.Log.With("client", client.Session.RemoteAddr())
	alive, stop := client.Session.Watch(ctx)
	defer stop()
	o := order{
		place: c.place, Timeouts: c.Listen.Timeouts.WithDefaults(), Policy: c.Policy, Dialect: client.Session.Dialect(), Plan: client.Plan,
	}
	release := client.Slot(alive)
	if release == nil {
		return
	}
	defer release()
	p, err := judge(alive, o, client.OthersWait)
	if err != nil {
		client.Refuse(err)
		return
	}
	client.Served()
	stop()
	conn, ours, err := p.handOver(client.Session)
	if err != nil {
		log.Warn("client gone before its test", "err", control.Bounded(err.Error()))
		p.end()
		return
	}
	defer func() { _ = conn.Close() }()
	watched := make(chan struct{})
	ended := make(chan struct{})
	planned := make(chan struct{}, 1)
	go func() {
		defer close(watched)
		c.watch(ctx, p, conn, planned, ended, client.OthersWait)
	}()
	test := "none"
	var last *event
	for e := range p.events {
		switch {
		case e.Ended:
			last = &e
		case e.Planned != "":
			test = e.Planned
			log.Info("begins", "test", test)
			select {
			case planned <- struct{}{}:
			default:
			}
		case e.Measured != "":
			log.Info("measured", "test", e.Measured, "figure", e.Figure)
		}
	}
	err = p.wait()
	close(ended)
	<-watched
	switch {
	case last == nil:
		err = p.deathOf(err)
		log.Error("test", "test", test, "err", err)
		tellClient(conn, ours, err)
	case last.Left:
		log.Info("client left", "test", test, "while", last.Error)
	case last.Error != "":
		log.Warn("ended", "test", test, "err", last.Error)
	default:
		log.Info("done", "test", test)
	}
}

// judge starts a process, which judges the plan and then waits for its turn. One that takes too long is ended; where others wait for
// its place, that is a second.
func judge(ctx context.Context, o order, othersWait func() bool) (*process, error) {
	p, err := start(o)
	if err != nil {
		return nil, err
	}
	began, starting := time.Now(), time.Duration(0) // a process takes seconds to start in an emulated machine
	look := time.NewTicker(judgeTime / 10)
	defer look.Stop()
	for {
		select {
		case e, more := <-p.events:
			switch {
			case !more:
				return nil, p.deathOf(p.wait())
			case e.Judging:
				began, starting = time.Now(), cpuTime(p.cmd.Process.Pid)
			case e.Judged && e.Error == "":
				return p, nil
			case e.Judged:
				p.end()
				return nil, errors.New(e.Error)
			}
		case <-ctx.Done():
			p.end()
			return nil, context.Cause(ctx)
		case <-look.C:
			if used := cpuTime(p.cmd.Process.Pid) - starting; used > judgeCPU {
				p.end()
				return nil, fmt.Errorf("the plan was not judged within %v of processor time", judgeCPU)
			}
			if took := time.Since(began); took > o.Timeouts.Plan || took > judgeTime && othersWait != nil && othersWait() {
				p.end()
				return nil, fmt.Errorf("the plan was not judged within %v", took.Round(time.Second/10))
			}
		}
	}
}

// watch ends a process that takes longer than is granted, whose client has left, or whose server is to end, and tells it of others.
func (c config) watch(ctx context.Context, p *process, conn net.Conn, planned, ended <-chan struct{}, othersWait func() bool) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	var limit, kill <-chan time.Time
	restart := func() {
		if c.Policy.Duration > 0 {
			limit = time.After(c.Policy.Duration + settleTime)
		}
	}
	restart()
	gone, others := 0, false
	stop := ctx.Done()
	for {
		select {
		case <-ended:
			return
		case <-planned:
			restart()
		case <-look.C:
			if gone++; !hasLeft(conn) {
				gone = 0
			}
			if time.Duration(gone)*lookEvery > afterLeave+c.Listen.Timeouts.Peer {
				_ = p.cmd.Process.Kill()
			}
			if now := othersWait(); now != others {
				others = now
				_ = p.tell(kindOthers, others)
			}
		case <-limit:
			c.Listen.Log.Warn("a test takes longer than --max-duration grants: its process is ended", "test", "", "limit", c.Policy.Duration)
			_ = p.cmd.Process.Kill()
		case <-stop:
			stop, kill = nil, time.After(afterSignal)
			_ = p.cmd.Process.Signal(syscall.SIGTERM)
		case <-kill:
			_ = p.cmd.Process.Kill()
		}
	}
}

// handOver gives a session to the process. The connection that is returned is this one's end of it.
func (p *process) handOver(s control.Session) (conn net.Conn, ours bool, err error) { //nolint:revive // whose dialect it is
	var h handover
	switch s := s.(type) {
	case *native.Session:
		var own native.Handover
		own, err = s.Handover()
		conn, ours, h.Ours = s.Conn, true, &own
	case *perftest.Session:
		var theirs perftest.Handover
		theirs, err = s.Handover()
		conn, h.Theirs = s.Conn, &theirs
	default:
		err = fmt.Errorf("a session of %T stays in its process", s)
	}
	if err != nil {
		return nil, false, err
	}
	m, err := frame.Of(kindGo, h)
	if err == nil {
		err = sendWith(p.orders, m, conn)
	}
	if err != nil {
		return nil, false, errors.Join(err, conn.Close())
	}
	return conn, ours, nil
}

// tellClient says why a test ended whose process cannot. Perftest's dialect has no words: there the connection closes.
func tellClient(conn net.Conn, ours bool, why error) { //nolint:revive // whose dialect it is
	if ours {
		frame.Farewell(conn, frame.Message{Kind: frame.KindError, Error: why.Error(), Lost: true}, time.Second)
	}
}
