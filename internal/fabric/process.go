package fabric

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/gobw/gobw/internal/child"
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/frame"
)

// Process is a worker in a process of its own: what crashes there costs a round, and its spinning takes no heartbeat away.
type Process struct {
	// Command makes the process, which runs [Measure] on its standard streams.
	Command func() *exec.Cmd

	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr *child.Words
	opened *OpenOrder
}

const (
	openingWithin = 25 * time.Second
	prepareWithin = 8 * time.Second
	beyondRun     = 8 * time.Second // a slow path's first completion is waited for, and processors may be busy
)

// start starts the process.
func (p *Process) start() error {
	cmd := p.Command()
	p.stderr = &child.Words{}
	cmd.Stderr = p.stderr
	dieWithParent(cmd)
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p.cmd, p.in, p.out = cmd, in, bufio.NewReader(out)
	return nil
}

// ask sends an order and waits for the answer; a process that gives none is ended.
func (p *Process) ask(ctx context.Context, kind string, order any, within time.Duration) (answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("no answer within %v", within))
	defer cancel()
	process := p.cmd.Process
	stop := context.AfterFunc(ctx, func() { _ = process.Kill() })
	defer stop()
	a, err := p.converse(kind, order)
	if err == nil && a.Error != "" {
		return a, errors.New(a.Error)
	}
	if err == nil {
		return a, nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	_ = process.Kill()
	state := p.reap()
	if said, _, _ := strings.Cut(p.stderr.String(), "\n"); said != "" {
		state += ": " + said
	}
	return a, fmt.Errorf("the measuring process ended (%s): %w", state, err)
}

func (p *Process) converse(kind string, order any) (answer, error) {
	m, err := frame.Of(kind, order)
	if err == nil {
		err = frame.Write(p.in, m)
	}
	if err == nil {
		m, err = frame.Read(p.out, mostOrder)
	}
	if err != nil {
		return answer{}, err
	}
	return frame.Decode[answer](m)
}

// reap waits for a process that has been told to end.
func (p *Process) reap() string {
	_ = p.in.Close()
	err := p.cmd.Wait()
	p.cmd = nil
	if err != nil {
		return err.Error()
	}
	return "exit status 0"
}

// Open implements [Worker].
func (p *Process) Open(ctx context.Context, o OpenOrder, rail int) Rail {
	o.Rails = o.Rails[rail : rail+1]
	p.opened = &o
	r, err := p.open(ctx)
	if err != nil {
		return Rail{Device: o.Rails[0], Error: err.Error()}
	}
	return r
}

func (p *Process) open(ctx context.Context) (Rail, error) {
	if p.cmd == nil {
		if err := p.start(); err != nil {
			return Rail{}, err
		}
	}
	a, err := p.ask(ctx, kindOpen, p.opened, openingWithin)
	return a.Rail, err
}

// Prepare implements [Worker]. A process that has ended since is started anew.
func (p *Process) Prepare(ctx context.Context, w PrepareOrder) ([][]control.Address, error) {
	if p.cmd == nil {
		r, err := p.open(ctx)
		if err == nil && r.Error != "" {
			err = errors.New(r.Error)
		}
		if err != nil {
			return nil, err
		}
	}
	a, err := p.ask(ctx, kindPrepare, w, prepareWithin)
	return a.Addresses, err
}

// Go implements [Worker].
func (p *Process) Go(ctx context.Context, g GoOrder, rail int) ([]Flow, error) {
	if p.cmd == nil {
		return nil, errors.New("the measuring process has ended")
	}
	g.Addresses = g.Addresses[rail : rail+1]
	a, err := p.ask(ctx, kindGo, g, g.In+g.Lead+g.Measure+g.Tail+beyondRun)
	return a.Flows, err
}

// Close ends the process.
func (p *Process) Close() error {
	if p.cmd == nil {
		return nil
	}
	_ = p.in.Close() // its end of file
	kill := time.AfterFunc(2*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	_ = p.cmd.Wait()
	p.cmd = nil
	return nil
}
