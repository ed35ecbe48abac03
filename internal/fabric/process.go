package fabric

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gobw/gobw/internal/child"
	"github.com/gobw/gobw/internal/control/frame"
)

// Process is a worker in a process of its own: what crashes there costs a round, and its spinning takes no heartbeat away.
type Process struct {
	// Command are the words with which this program runs [Measure] on its standard streams.
	Command []string

	*child.Process
	opened Order // which a process that is started anew is given again
}

const (
	openingWithin = 28 * time.Second
	prepareWithin = 8 * time.Second
	beyondRun     = 8 * time.Second // a slow path's first completion is waited for, and processors may be busy
)

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
	process := p.Process.Process
	stop := context.AfterFunc(ctx, func() { _ = process.Kill() })
	defer stop()
	m, err := frame.Of(kindOrder, o)
	if err == nil {
		err = frame.Write(p.In, m)
	}
	if err == nil {
		m, err = frame.Read(p.Out, mostOrder)
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
	words := p.Said
	state := p.reap()
	if said, _, _ := strings.Cut(words.String(), "\n"); said != "" {
		state += ": " + said
	}
	return r, fmt.Errorf("the measuring process ended (%s): %w", state, err)
}

// reap waits for a process that has been told to end.
func (p *Process) reap() string {
	_ = p.In.Close()
	err := p.Wait()
	p.Process = nil
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
	if p.Process == nil {
		if o.Go != nil {
			return Rail{}, errors.New("the measuring process has ended")
		}
		process, err := child.Start(p.Command...)
		if err != nil {
			return Rail{}, err
		}
		p.Process = process
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
	if p.Process == nil {
		return nil
	}
	process := p.Process.Process
	kill := time.AfterFunc(2*time.Second, func() { _ = process.Kill() })
	defer kill.Stop()
	p.reap()
	return nil
}
