package measure

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/gobw/gobw/internal/bench/machine"
	"github.com/gobw/gobw/internal/child"
)

// otherEnd is the other end of --loopback: this program as 'serve --once' on a port of its own.
type otherEnd struct {
	address string
	*child.Process
	done chan error
	once sync.Once
	err  error
}

// childStart is how long the child may take to listen: under emulation, or where all is busy, it starts slowly. One that ends
// is noticed at once.
const childStart = time.Minute

// startChild starts the other end and waits until it listens.
func startChild(ctx context.Context, c Config) (*otherEnd, error) {
	args := []string{"serve", "--once", "--listen", "127.0.0.1:0", "--child", "--quiet", "--peer-timeout", c.Peer.Timeout.String()}
	give := func(flag string, value any, given bool) {
		if given {
			args = append(args, flag, fmt.Sprint(value))
		}
	}
	d := c.Device
	give("--device", d.Name, d.Name != "")
	give("--device", "roce0", d.Name == "" && (d.Pcap != "" || d.Emulate != ""))
	give("--ib-port", d.Port, d.Port > 0)
	if d.GID != nil {
		give("--gid-index", *d.GID, true)
	}
	give("--emulate", d.Emulate, d.Emulate != "")
	give("--cpu", "none", c.CPU.Last == 0) // where this end's CPU was chosen by hand, the other end's is left to the kernel
	give("--priority", machine.PriorityRealtime, c.CPU.Realtime)
	p, err := child.Start(nil, args...)
	if err != nil {
		return nil, fmt.Errorf("--loopback: start the other end: %w", err)
	}
	ch := &otherEnd{Process: p, done: make(chan error, 1)}
	line := make(chan string, 1)
	go func() {
		s := bufio.NewScanner(p.Out)
		if s.Scan() {
			line <- s.Text()
		}
		close(line)
		_, _ = io.Copy(io.Discard, p.Out)
		ch.done <- p.Wait()
	}()
	select {
	case ch.address = <-line:
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-time.After(childStart):
		err = fmt.Errorf("--loopback: the other end does not listen within %v", childStart)
	}
	if ch.address == "" {
		werr := ch.wait()
		if err == nil {
			err = fmt.Errorf("--loopback: the other end: %s (%w)", p.Said.String(), werr)
		}
		return nil, err
	}
	return ch, nil
}

// wait ends the child if it does not end by itself: what it reported is already known through the session.
func (c *otherEnd) wait() error {
	c.once.Do(func() {
		ended := func(within time.Duration) bool {
			select {
			case c.err = <-c.done:
				return true
			case <-time.After(within):
				return false
			}
		}
		if ended(time.Second) {
			return
		}
		if _ = c.In.Close(); ended(10 * time.Second) {
			return
		}
		_ = c.Process.Process.Signal(syscall.SIGQUIT) // it says where it hangs
		<-c.done                                      //nolint:errcheck // it was ended
		c.err = fmt.Errorf("--loopback: the other end hung and was ended: %s", c.Said.String())
	})
	if _, is := errors.AsType[*exec.ExitError](c.err); is {
		return nil
	}
	return c.err
}
