package agent

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
	"github.com/gobw/gobw/internal/fabric/wire"
)

// Process is a worker in a process of its own: what crashes there costs a round, and its spinning takes no heartbeat away.
type Process struct {
	// Command makes the process, which speaks [wire] on its standard streams.
	Command func() *exec.Cmd

	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr *child.Words
	opened *wire.Open
	rail   int
}

const (
	openWithin    = 25 * time.Second
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

// ask sends a message and waits for the answer; a process that gives none is ended.
func (p *Process) ask(ctx context.Context, m *wire.Message, within time.Duration) (*wire.Message, error) {
	type answer struct {
		m   *wire.Message
		err error
	}
	got := make(chan answer, 1)
	in, out := p.in, p.out
	go func() {
		err := wire.Write(in, m)
		if err == nil {
			var reply *wire.Message
			reply, err = wire.Read(out, wire.FromAgent)
			got <- answer{reply, err}
			return
		}
		got <- answer{nil, err}
	}()
	timer := time.NewTimer(within)
	defer timer.Stop()
	var a answer
	select {
	case a = <-got:
		if a.err == nil {
			return a.m, nil
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
	return nil, fmt.Errorf("the measuring process ended (%s): %w", state, a.err)
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
func (p *Process) Open(ctx context.Context, o wire.Open, rail int) wire.Rail {
	p.opened, p.rail = &o, rail
	r, err := p.open(ctx)
	if err != nil {
		return wire.Rail{Device: o.Rails[rail], Error: err.Error()}
	}
	return r
}

func (p *Process) open(ctx context.Context) (wire.Rail, error) {
	if p.cmd == nil {
		if err := p.start(); err != nil {
			return wire.Rail{}, err
		}
	}
	o := *p.opened
	o.Rails = o.Rails[p.rail : p.rail+1]
	m, err := p.ask(ctx, &wire.Message{Kind: wire.KindOpen, Open: &o}, openWithin)
	if err != nil {
		return wire.Rail{}, err
	}
	if m.Kind != wire.KindFacts || len(m.Facts.Rails) != 1 {
		return wire.Rail{}, wire.ErrFormat
	}
	return m.Facts.Rails[0], nil
}

// Prepare implements [Worker]. A process that has ended since is started anew.
func (p *Process) Prepare(ctx context.Context, w wire.Prepare) ([][]control.Address, error) {
	if p.cmd == nil {
		r, err := p.open(ctx)
		if err == nil && r.Error != "" {
			err = errors.New(r.Error)
		}
		if err != nil {
			return nil, err
		}
	}
	m, err := p.ask(ctx, &wire.Message{Kind: wire.KindPrepare, Prepare: &w}, prepareWithin)
	switch {
	case err != nil:
		return nil, err
	case m.Kind != wire.KindPrepared:
		return nil, wire.ErrFormat
	case m.Prepared.Error != "":
		return nil, errors.New(m.Prepared.Error)
	case len(m.Prepared.Addresses) != 1:
		return nil, wire.ErrFormat
	}
	return m.Prepared.Addresses[0], nil
}

// Go implements [Worker].
func (p *Process) Go(ctx context.Context, g wire.Go, rail int) ([]wire.Flow, error) {
	if p.cmd == nil {
		return nil, errors.New("the measuring process has ended")
	}
	g.Addresses = g.Addresses[rail : rail+1]
	m, err := p.ask(ctx, &wire.Message{Kind: wire.KindGo, Go: &g}, g.In+g.Lead+g.Measure+g.Tail+beyondRun)
	switch {
	case err != nil:
		return nil, err
	case m.Kind != wire.KindResult || len(m.Result.Rails) != 1 && m.Result.Error == "":
		return nil, wire.ErrFormat
	case m.Result.Error != "":
		return nil, errors.New(m.Result.Error)
	}
	return m.Result.Rails[0], nil
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
