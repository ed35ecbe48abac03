package ab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/child"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/operation"
	"github.com/gobw/gobw/report/plain"
)

const (
	neighbourStart = time.Second      // until its messages flow
	neighbourLimit = "3600"           // seconds; it is stopped when the other test has ended
	neighbourStop  = 10 * time.Second // for it to end
)

// neighbour is a test that runs, in a process of its own, as long as another is measured beside it.
type neighbour struct {
	line, program string
	args          []string
}

// parseNeighbour reads a command line of gobw or golat.
func parseNeighbour(tool, line string) (*neighbour, error) {
	words, err := plain.SplitWords(line)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", line, err)
	}
	if len(words) == 0 || words[0] != "gobw" && words[0] != "golat" {
		words = slices.Insert(words, 0, tool)
	}
	_, err = operation.Parse(words, func(typed *pflag.FlagSet) error {
		for _, name := range []string{"iters", "duration", "save", "format", "expect"} {
			if typed.Changed(name) {
				return fmt.Errorf("%q: --%s is ab's to give: the test runs as long as A does", line, name)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err == nil && words[0] != tool {
		self = filepath.Join(filepath.Dir(self), words[0])
		_, err = os.Stat(self)
	}
	return &neighbour{line: line, program: self, args: append(words[1:], "--duration", neighbourLimit, "--quiet")}, err
}

// start starts it. stop ends it, and tells if it had ended before.
func (n *neighbour) start(ctx context.Context) (stop func() error, err error) {
	var said child.Words
	cmd := exec.Command(n.program, n.args...)
	cmd.Stderr, cmd.SysProcAttr = &said, child.OwnGroup()
	if err := cmd.Start(); err != nil {
		return nil, exit.SetupError{Err: fmt.Errorf("%q: %w", n.line, err)}
	}
	ended := make(chan struct{})
	var status error // once it has ended
	go func() {
		status = cmd.Wait()
		close(ended)
	}()
	early := func() error {
		code := 0
		if e, is := errors.AsType[*exec.ExitError](status); is {
			code = e.ExitCode()
		}
		return &sideError{line: n.line, code: code, said: "it ended before the test beside it: " + said.String()}
	}
	stop = func() error {
		select {
		case <-ended:
			return early()
		default:
		}
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
			return nil
		case <-time.After(neighbourStop):
		}
		err := cmd.Process.Kill()
		<-ended
		return errors.Join(fmt.Errorf("%q: it did not end within %v and was killed", n.line, neighbourStop), err)
	}
	select {
	case <-ended:
		return nil, early()
	case <-ctx.Done():
		return nil, errors.Join(context.Cause(ctx), stop())
	case <-time.After(neighbourStart):
		return stop, nil
	}
}
