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

// request sends an order and waits for the answer; a process that gives none is ended.
func request[T any](ctx context.Context, p *Process, o order, within time.Duration) (T, error) {
	var none T
	type answer struct {
		v   T
		err error
	}
	got := make(chan answer, 1)
	in, out := p.in, p.out
	go func() {
		var a answer
		m, err := frame.Of(o.kind, o.body)
		if err == nil {
			err = frame.Write(in, m)
		}
		if err == nil {
			m, err = frame.Read(out, o.most)
		}
		if err == nil && m.Kind != o.answer {
			err = fmt.Errorf("it answers %.20q to %q", m.Kind, o.kind)
		}
		if err == nil {
			a.v, err = frame.Decode[T](m)
		}
		a.err = err
		got <- a
	}()
	timer := time.NewTimer(within)
	defer timer.Stop()
	var a answer
	select {
	case a = <-got:
		if a.err == nil {
			return a.v, nil
		}
	case <-timer.C:
		a.err = fmt.Errorf("no answer within %v", within)
	case <-ctx.Done():
		a.err = context.Cause(ctx)
	}
	_ = p.cmd.Process.Kill()
	state := p.reap()
	if said, _, _ := strings.Cut(p.stderr.String(), "\n"); said != "" {
		state += ": " + said
	}
	return none, fmt.Errorf("the measuring process ended (%s): %w", state, a.err)
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
	f, err := request[Facts](ctx, p, order{kindOpen, p.opened, kindFacts, mostFacts}, openingWithin)
	if err == nil && len(f.Rails) != 1 {
		err = errors.New("the measuring process opened no device")
	}
	if err != nil {
		return Rail{}, err
	}
	return f.Rails[0], nil
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
	a, err := request[Prepared](ctx, p, order{kindPrepare, w, kindPrepared, mostOrder}, prepareWithin)
	switch {
	case err != nil:
		return nil, err
	case a.Error != "":
		return nil, errors.New(a.Error)
	case len(a.Addresses) != 1:
		return nil, errors.New("the measuring process prepared no rail")
	}
	return a.Addresses[0], nil
}

// Go implements [Worker].
func (p *Process) Go(ctx context.Context, g GoOrder, rail int) ([]Flow, error) {
	if p.cmd == nil {
		return nil, errors.New("the measuring process has ended")
	}
	g.Addresses = g.Addresses[rail : rail+1]
	r, err := request[Result](ctx, p, order{kindGo, g, kindResult, mostOrder}, g.In+g.Lead+g.Measure+g.Tail+beyondRun)
	switch {
	case err != nil:
		return nil, err
	case r.Error != "":
		return nil, errors.New(r.Error)
	case len(r.Rails) != 1:
		return nil, errors.New("the measuring process ran no rail")
	}
	return r.Rails[0], nil
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
