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
	opened Order // which a process that is started anew is given again
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

// within is how long an order may take.
func (o Order) within() time.Duration {
	switch {
	case o.Open != nil:
		return openingWithin
	case o.Go != nil:
		return o.Go.In + o.Go.Lead + o.Go.Measure + o.Go.Tail + beyondRun
	}
	return prepareWithin
}

// ask sends an order and waits for the answer; a process that gives none is ended.
func (p *Process) ask(ctx context.Context, o Order) (Rail, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.within(), fmt.Errorf("no answer within %v", o.within()))
	defer cancel()
	process := p.cmd.Process
	stop := context.AfterFunc(ctx, func() { _ = process.Kill() })
	defer stop()
	m, err := frame.Of(kindOrder, o)
	if err == nil {
		err = frame.Write(p.in, m)
	}
	if err == nil {
		m, err = frame.Read(p.out, mostOrder)
	}
	var r Rail
	if err == nil {
		r, err = frame.Decode[Rail](m)
	}
	if err == nil {
		return r, nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	_ = process.Kill()
	state := p.reap()
	if said, _, _ := strings.Cut(p.stderr.String(), "\n"); said != "" {
		state += ": " + said
	}
	return r, fmt.Errorf("the measuring process ended (%s): %w", state, err)
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

// Do implements [Worker].
func (p *Process) Do(ctx context.Context, o Order) Rail {
	r, err := p.do(ctx, o)
	if err != nil {
		r.Error = err.Error()
	}
	return r
}

// do starts the process where there is none. One that has ended since its device was opened is started anew for the next round.
func (p *Process) do(ctx context.Context, o Order) (Rail, error) {
	if o.Open != nil {
		p.opened = o
	}
	if p.cmd == nil {
		if o.Go != nil {
			return Rail{}, errors.New("the measuring process has ended")
		}
		if err := p.start(); err != nil {
			return Rail{}, err
		}
		if o.Open == nil {
			if r, err := p.ask(ctx, p.opened); err != nil || r.Error != "" {
				return r, err
			}
		}
	}
	return p.ask(ctx, o)
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
