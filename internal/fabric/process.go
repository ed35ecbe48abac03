package fabric

import (
	"context"
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
	ended string // why the process is no more
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
		return o.Go.In + o.Go.whole() + beyondRun
	}
	return prepareWithin
}

// Do implements [Worker]. The process is started by its first order, and not again. One that gives no answer in time is ended.
func (p *Process) Do(ctx context.Context, o Order) (r Rail) {
	if p.Process == nil && p.ended == "" {
		process, err := child.Start(nil, p.Command...)
		if err != nil {
			return Rail{Error: err.Error()}
		}
		p.Process = process
	}
	if p.Process == nil {
		return Rail{Error: p.ended}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.within(), fmt.Errorf("no answer within %v", o.within()))
	defer cancel()
	process := p.Process
	kill := func() { _ = process.Process.Kill() }
	stop := context.AfterFunc(ctx, kill)
	defer stop()
	err := frame.Write(p.In, kindOrder, o)
	if err == nil {
		r, err = frame.Read[Rail](p.Out, kindAnswer, mostOrder)
	}
	if err == nil {
		return r
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	kill()
	state := p.reap()
	if said, _, _ := strings.Cut(process.Said.String(), "\n"); said != "" {
		state += ": " + said
	}
	p.ended = fmt.Sprintf("the measuring process ended (%s): %v", state, err)
	return Rail{Error: p.ended}
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
