package agent

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gobw/gobw/internal/child"
	"github.com/gobw/gobw/internal/control/frame"
	"github.com/gobw/gobw/internal/fabric"
	"github.com/gobw/gobw/report/plain"
)

// Process is a worker in a process of its own. Its crash does not end the agent, and its busy loop does not delay the
// agent's heartbeats.
type Process struct {
	// Command are the words with which this program runs [Measure] on its standard streams.
	Command []string

	*child.Process
	ended string // why the process is no more
}

// Do implements [Worker]. The process is started by its first order, and not again. One
// that gives no answer in time is ended.
func (p *Process) Do(ctx context.Context, o fabric.Order) (r fabric.Rail) {
	if p.Process == nil {
		process, err := child.Start(nil, p.Command...)
		if err != nil {
			return fabric.Rail{Error: err.Error()}
		}
		p.Process = process
	}
	if p.ended != "" {
		return fabric.Rail{Error: p.ended}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.Within(), fmt.Errorf("no answer within %v", o.Within()))
	defer cancel()
	defer context.AfterFunc(ctx, p.kill)()
	err := frame.Write(p.In, fabric.KindOrder, o)
	if err == nil {
		r, err = frame.Read[fabric.Rail](p.Out, fabric.KindAnswer, fabric.MostBytes)
	}
	if err == nil {
		return r
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	p.kill()
	p.wait()
	said, _, _ := strings.Cut(p.Said.String(), "\n")
	p.ended = fmt.Sprintf("the measuring process ended (%v%s): %v", p.ProcessState,
		plain.When(said != "", ": %s", said), err)
	return fabric.Rail{Error: p.ended}
}

// kill kills the system's process: p.Process is the child, whose Process comes from exec.Cmd.
func (p *Process) kill() { _ = p.Process.Process.Kill() }

// wait closes the process's input, which tells it to end, and waits for it.
func (p *Process) wait() {
	_ = p.In.Close()
	_ = p.Wait()
}

// Close ends the process.
func (p *Process) Close() error {
	if p.Process != nil && p.ended == "" {
		defer time.AfterFunc(2*time.Second, p.kill).Stop()
		p.wait()
	}
	return nil
}
