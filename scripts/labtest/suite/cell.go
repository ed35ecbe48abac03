//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// patient is what both ends of a test of ours are told: on two emulated CPUs, which other work may take away, an end
// may be silent for longer than the usual 3 s.
const patient = "--peer-timeout=30s"

// command is one end of a cell.
type command struct {
	label string // "stock" or "gobw"
	argv  []string
	peer  bool // run it in the lab's other network namespace
}

func (c command) line() string {
	s := strings.Join(c.argv, " ")
	if c.peer {
		s = "ip netns exec " + os.Getenv("LAB_NETNS") + " " + s
	}
	return s
}

// cell is a test of two programs: a server, and a client once the server listens.
type cell struct {
	name, row, column string
	server, client    command
	port              int           // on which the server listens
	rdmaCM            bool          // by RDMA CM, not by TCP
	timeout           time.Duration // 60 s
	lossy             bool          // UC, UD: a lost message, at times on Soft-RoCE, fails it, and it is run again
	timed             bool          // compares times that the two ends took, which a busy machine sets apart
	check             func(server, client ended) (figures string, err error)
}

// ended is a program that has come to its end.
type ended struct {
	stdout, stderr string
	code           int
	err            error
}

// program is a running end.
type program struct {
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
	done           chan error
}

func start(c command) (*program, error) {
	argv := c.argv
	if c.peer {
		argv = append([]string{"ip", "netns", "exec", os.Getenv("LAB_NETNS")}, argv...)
	}
	p := &program{cmd: exec.Command(argv[0], argv[1:]...), done: make(chan error, 1)}
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.WaitDelay = time.Second
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { p.done <- p.cmd.Wait() }()
	return p, nil
}

// wait waits for the end, and kills the program and its children at a deadline.
func (p *program) wait(deadline time.Time) ended {
	var err error
	select {
	case err = <-p.done:
	case <-time.After(time.Until(deadline)):
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGQUIT) // Go programs print where they are
		kill := time.AfterFunc(5*time.Second, func() { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) })
		err = errors.New("did not end in time")
		if how := <-p.done; how != nil {
			err = fmt.Errorf("%w: %w", err, how)
		}
		kill.Stop()
	}
	return ended{stdout: p.stdout.String(), stderr: p.stderr.String(), code: p.cmd.ProcessState.ExitCode(), err: err}
}

// listening tells whether a process's network namespace has a listener on a TCP port.
func (p *program) listening(port int) bool { return p.has(port, "0A") }

// serving tells whether it has a connection to that port.
func (p *program) serving(port int) bool { return p.has(port, "01") }

// has tells whether there is a local end at a TCP port in a state of the kernel's.
func (p *program) has(port int, state string) bool {
	want := fmt.Sprintf(":%04X ", port)
	for _, f := range []string{"tcp", "tcp6"} {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", p.cmd.Process.Pid, f)) // gone already: not listening
		for line := range strings.Lines(string(b)) {
			if f := strings.Fields(line); len(f) > 3 && strings.HasSuffix(f[1]+" ", want) && f[3] == state {
				return true
			}
		}
	}
	return false
}

// listeningByRDMACM tells whether the kernel's RDMA CM has a listener on a port.
func listeningByRDMACM(port int) bool {
	b, _ := exec.Command("rdma", "resource", "show", "cm_id").Output() // nothing: not listening
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, " state LISTEN ") && strings.Contains(line, fmt.Sprintf(":%d ", port)) {
			return true
		}
	}
	return false
}

// awaitListener waits until the server listens; false when it ended before, or took too long.
func (p *program) awaitListener(port int) bool {
	return p.await(func() bool { return p.listening(port) })
}

// await waits until the server is ready; false when it ended before, or took too long.
func (p *program) await(ready func() bool) bool {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if ready() {
			return true
		}
		select {
		case err := <-p.done:
			p.done <- err
			return false
		case <-time.After(10 * time.Millisecond):
		}
	}
	return false
}

// runCell runs both ends and judges them.
func (s *suite) runCell(c cell) outcome {
	if c.timeout == 0 {
		c.timeout = 60 * time.Second
	}
	o := outcome{
		Name: c.name, Row: c.row, Column: c.column,
		Command: fmt.Sprintf("server: %s; client: %s", c.server.line(), c.client.line()),
	}
	o.attempt(func(attempt int) (figures string, again bool, err error) {
		server, client, err := both(c)
		s.keep(c, attempt, server, client)
		if err == nil {
			figures, err = c.check(server, client)
		}
		again = c.lossy || err != nil && !grave.MatchString(err.Error()) && client.code != 6 && server.code != 6
		return figures, again && s.draw == nil, err
	})
	return o
}

// both runs the two programs of a cell; an error says which of them failed and what it said.
func both(c cell) (server, client ended, err error) {
	deadline := time.Now().Add(c.timeout)
	s, err := start(c.server)
	if err != nil {
		return server, client, err
	}
	listens := s.awaitListener
	if c.rdmaCM {
		listens = func(port int) bool { return s.await(func() bool { return listeningByRDMACM(port) }) }
	}
	if !listens(c.port) {
		server = s.wait(time.Now())
		return server, client, fmt.Errorf("the %s server does not listen: %s", c.server.label, server.said())
	}
	p, err := start(c.client)
	if err != nil {
		s.wait(time.Now())
		return server, client, err
	}
	client = p.wait(deadline)
	grace := time.Now().Add(30 * time.Second)
	if client.err != nil {
		grace = time.Now().Add(time.Second)
	}
	server = s.wait(grace)
	var errs []error
	if client.err != nil {
		errs = append(errs, fmt.Errorf("%s client: %s", c.client.label, client.said()))
	}
	if server.err != nil {
		errs = append(errs, fmt.Errorf("%s server: %s", c.server.label, server.said()))
	}
	return server, client, errors.Join(errs...)
}

// said is how a program ended and the last of what it said, on one line.
func (e ended) said() string {
	text := strings.TrimSpace(e.stderr)
	if text == "" {
		text = strings.TrimSpace(e.stdout)
	}
	lines := strings.Split(text, "\n")
	if i := goroutineAt(lines); i >= 0 { // killed with SIGQUIT: what it said before
		lines = lines[:i]
	}
	text = strings.Join(lines[max(0, len(lines)-4):], " / ")
	if len(text) > 400 {
		text = text[:400] + "…"
	}
	return fmt.Sprintf("%v: %s", e.err, text)
}

func goroutineAt(lines []string) int {
	for i, l := range lines {
		if strings.HasPrefix(l, "SIGQUIT:") {
			return i
		}
	}
	return -1
}

var unsafeInName = regexp.MustCompile(`[^A-Za-z0-9._=-]+`)

// keep writes what both ends said.
func (s *suite) keep(c cell, attempt int, server, client ended) {
	name := unsafeInName.ReplaceAllString(c.name, "_")
	if attempt > 1 {
		name += fmt.Sprintf(".attempt%d", attempt)
	}
	name = filepath.Join(s.logs, name+".txt")
	text := fmt.Sprintf("# server: %s\n%s%s# exit %d\n\n# client: %s\n%s%s# exit %d\n", c.server.line(), server.stdout,
		server.stderr,
		server.code, c.client.line(), client.stdout, client.stderr, client.code)
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		fmt.Fprintln(s.stdout, "suite:", err)
	}
}

// keepOne writes what a single program said.
func (s *suite) keepOne(name string, c command, e ended) {
	file := filepath.Join(s.logs, unsafeInName.ReplaceAllString(name, "_")+".txt")
	text := fmt.Sprintf("# %s\n%s%s# exit %d\n", c.line(), e.stdout, e.stderr, e.code)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		fmt.Fprintln(s.stdout, "suite:", err)
	}
}

// runCells runs cells one after the other: the machine has two CPUs, and both ends spin.
func (s *suite) runCells(ctx context.Context, cells []cell) []outcome {
	var out []outcome
	for _, c := range cells {
		if ctx.Err() != nil {
			break
		}
		if !s.wanted.MatchString(c.name) || !s.drawn(c) {
			continue
		}
		o := s.runCell(c)
		if s.full { // it takes an hour: what an interrupted run did is known
			fmt.Fprintln(s.stdout, o.line())
		}
		out = append(out, o)
	}
	return out
}

// drawn tells whether a cell runs: all do, or of those that a busy machine does not disturb, and
// that are run once, about one in twelve.
func (s *suite) drawn(c cell) bool {
	return s.draw == nil || s.draw.IntN(12) == 0 && !c.lossy && !c.timed && time.Now().Before(s.until)
}

// program's path among those under test.
func (s *suite) ours(name string) string { return filepath.Join(s.bin, name) }
