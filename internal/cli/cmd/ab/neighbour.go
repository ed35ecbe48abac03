package ab

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/gobw/gobw/internal/child"
	"github.com/gobw/gobw/internal/cli/output"
)

// neighbourLimit is how long a neighbour runs at most, in seconds: it is stopped when the test beside it has ended.
const neighbourLimit = "3600"

// Neighbour is a test that runs as long as others are measured beside it.
type Neighbour struct{ side }

// ParseNeighbour reads the test's command line.
func ParseNeighbour(tool, line string) (Neighbour, error) {
	s, err := parseSide(tool, line, "iters", "duration")
	if s.stock {
		err = fmt.Errorf("%q: want a test of gobw or golat, because it must run as long as the other test", line)
	}
	return Neighbour{s}, err
}

// Running is a neighbour that was started.
type Running struct {
	cancel context.CancelFunc
	ended  chan struct{}
	early  func() error // why it ended before it was stopped
}

// Ended is an error if the neighbour does not run any more.
func (r *Running) Ended() error {
	select {
	case <-r.ended:
		return r.early()
	default:
		return nil
	}
}

// Stop ends the neighbour, and tells if it had ended before.
func (r *Running) Stop() error {
	err := r.Ended()
	r.cancel()
	<-r.ended
	return err
}

// Start starts the neighbour, and waits until its messages flow.
func (s Neighbour) Start(ctx context.Context) (*Running, error) {
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c, err := s.command(running, "--duration", neighbourLimit)
	if err != nil {
		cancel()
		return nil, err
	}
	said := &progressed{flows: make(chan struct{})}
	c.Stderr, c.Env = said, append(os.Environ(), output.ProgressVariable+"=1")
	ended := make(chan struct{})
	var status error
	go func() {
		status = child.Run(c)
		close(ended)
	}()
	early := func() error {
		cancel()
		text := said.String() // an error follows the line of progress, which is cleared before it
		text = "it ended before the test beside it: " + strings.TrimSpace(text[strings.LastIndexByte(text, '\r')+1:])
		if status == nil {
			return fmt.Errorf("%q: %s", s.line, text)
		}
		return s.failure(status, text)
	}
	select {
	case <-ended:
		return nil, early()
	case <-ctx.Done():
		cancel()
		<-ended
		return nil, context.Cause(ctx)
	case <-said.flows:
	}
	return &Running{cancel: cancel, ended: ended, early: early}, nil
}

// progressed keeps what a test writes, and tells when its line of progress shows that it measures.
type progressed struct {
	child.Words
	once  sync.Once
	flows chan struct{}
}

func (p *progressed) Write(b []byte) (int, error) {
	has := func(text string) bool { return bytes.Contains(b, []byte(text)) }
	if has("\r") && (has("b/s") || has("p50")) && !has("warming up") {
		p.once.Do(func() { close(p.flows) })
	}
	return p.Words.Write(b)
}
