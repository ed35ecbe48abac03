package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gobw/gobw/internal/child"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/connect"
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

// process is a test's process as the server sees it.
type process struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stderr child.Words
	events chan event
}

// thisProgram is what runs here, also when its file was replaced meanwhile: an order is for a process of the same version.
func thisProgram() (string, error) {
	const running = "/proc/self/exe"
	if _, err := os.Stat(running); err == nil {
		return running, nil
	}
	return os.Executable()
}

// start runs this program as a test's process.
func start(o order, connection *os.File) (*process, error) {
	self, err := thisProgram()
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = w.Close() }()
	if connection == nil { // a probe
		connection = w
	}
	p := &process{cmd: exec.Command(self, "serve", "--test-process"), events: make(chan event, 16)}
	p.cmd.ExtraFiles = []*os.File{connection, w}
	p.cmd.Stderr = &p.stderr
	p.cmd.SysProcAttr = child.OwnGroup()
	p.cmd.Env = append(os.Environ(), "GOTRACEBACK=single")
	stdin, err := p.cmd.StdinPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the test's process: %w", err), r.Close())
	}
	p.stdin = stdin
	go func() {
		defer close(p.events)
		defer func() { _ = r.Close() }()
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, 4<<20)
		for lines.Scan() {
			var e event
			if json.Unmarshal(lines.Bytes(), &e) == nil {
				p.events <- e
			}
		}
	}()
	text, err := json.Marshal(o)
	if err == nil {
		_, err = stdin.Write(text)
	}
	if err != nil {
		_ = p.cmd.Process.Kill()
	}
	return p, nil // a process that could not be told ends, and is noticed by that
}

// reapAfter is how long a process has to be gone before it is waited for.
const reapAfter = 2 * time.Millisecond

// wait is called once the events have ended: the process is about to be gone. Linux wakes the waiter before the last thread
// has left /proc, and the two then spin on the same entries (proc_invalidate_siblings_dcache): 5 to 8 ms of CPU time on a
// busy machine, which this sleep avoids.
func (p *process) wait() error {
	time.Sleep(reapAfter)
	err := p.cmd.Wait()
	_ = p.stdin.Close()
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
	p, err := start(order{Probe: true, Device: c.Device, Perftest: c.PerftestLine}, nil)
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

// serveApart serves clients in processes of their own until a signal.
func (c config) serveApart(ctx context.Context, l *connect.Listener) error {
	var tests sync.WaitGroup
	defer tests.Wait()
	for {
		s, err := l.Accept(ctx)
		if err != nil {
			return stopped(ctx, err)
		}
		tests.Go(func() { c.serveOne(ctx, s, l.Waiting) })
	}
}

// serveOne has a process run a client's tests, and tells log and client if that process dies. While others wait, a client may
// begin tests only for as long as one may take.
func (c config) serveOne(ctx context.Context, s control.Session, othersWait func() bool) {
	began := time.Now()
	log := c.Listen.Log.With("client", s.RemoteAddr())
	o := order{
		Device: c.Device, CPU: c.CPU, Timeouts: c.Listen.Timeouts, Policy: c.Policy, DataAllow: c.DataAllow, End: c.End,
	}
	conn, release, err := handOver(s, &o)
	if err != nil {
		log.Warn("client gone before its test", "err", control.Bounded(err.Error()))
		return
	}
	defer release()
	defer func() { _ = conn.Close() }()
	file, err := fileOf(conn)
	if err != nil {
		log.Error("hand the connection over", "err", err)
		return
	}
	p, err := start(o, file)
	_ = file.Close()
	if err != nil {
		log.Error("test", "test", "none", "err", err)
		tellClient(conn, o, err)
		return
	}
	var last *event
	planned := make(chan struct{}, 1)
	watched := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(watched)
		c.watch(ctx, p, conn, planned, ended)
	}()
	test := "none"
	var over error
	for e := range p.events {
		switch {
		case e.Ended:
			last = &e
		case e.Planned != "":
			test = e.Planned
			if took := time.Since(began).Round(time.Second); c.Policy.Duration > 0 && took > c.Policy.Duration && othersWait() {
				over = fmt.Errorf("others wait, and this client has been served for %v: --max-duration grants %v", took, c.Policy.Duration)
				_ = p.cmd.Process.Kill()
				continue
			}
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
	case over != nil:
		log.Warn("ended", "test", test, "err", over)
		tellClient(conn, o, over)
	case last == nil:
		err = p.deathOf(err)
		log.Error("test", "test", test, "err", err)
		tellClient(conn, o, err)
	case last.Error != "":
		log.Warn("ended", "test", test, "err", last.Error)
	default:
		log.Info("done", "test", test)
	}
}

// watch ends a process that takes longer than is granted, whose client has left, or whose server is to end.
func (c config) watch(ctx context.Context, p *process, conn net.Conn, planned, ended <-chan struct{}) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	var limit, kill <-chan time.Time
	restart := func() {
		if c.Policy.Duration > 0 {
			limit = time.After(c.Policy.Duration + settleTime)
		}
	}
	restart()
	gone := 0
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

// handOver takes a session apart for another process.
func handOver(s control.Session, o *order) (net.Conn, func(), error) {
	switch s := s.(type) {
	case *native.Session:
		h, conn, release, err := s.Handover()
		o.Ours = &h
		return conn, release, err
	case *perftest.Session:
		h, conn, release, err := s.Handover()
		o.Theirs = &h
		return conn, release, err
	}
	return nil, nil, fmt.Errorf("a session of %T stays in its process", s)
}

// tellClient says why a test ended whose process cannot. Perftest's dialect has no words: there the connection closes.
func tellClient(conn net.Conn, o order, why error) {
	if o.Ours == nil {
		return
	}
	unblock(conn)
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	b, err := native.AppendFrame(nil, native.Message{Kind: native.KindError, Error: why.Error(), Lost: true})
	if err != nil {
		return
	}
	if _, err := conn.Write(b); err != nil {
		return
	}
	if w, can := conn.(interface{ CloseWrite() error }); can {
		_ = w.CloseWrite()
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(conn, 1<<20)) // a reset would lose the message
}

// fileOf is a second descriptor of a connection.
func fileOf(conn net.Conn) (*os.File, error) {
	c, can := conn.(interface{ File() (*os.File, error) })
	if !can {
		return nil, fmt.Errorf("a connection of %T stays in its process", conn)
	}
	return c.File()
}
