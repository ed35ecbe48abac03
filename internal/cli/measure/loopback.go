package measure

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"

	"github.com/gobw/gobw/internal/child"
	"github.com/gobw/gobw/internal/cli/output"
)

// otherEnd is the other end of --loopback: this program as 'serve --once' on a port of its own.
type otherEnd struct {
	*child.Process
	address string
}

// childStart is how long the child may take to listen: under emulation, or where all is busy, it starts slowly. One
// that ends is noticed at once.
const childStart = time.Minute

// startChild starts the other end and waits until it listens.
func startChild(ctx context.Context, out output.Streams, c Config) (*otherEnd, error) {
	args := []string{
		"serve", "--once", "--listen", "127.0.0.1:0", "--child", "--quiet", "--peer-timeout", c.Peer.Timeout.String(),
	}
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
	// where this end's CPU was chosen by hand, the other end's is left to the kernel
	give("--cpu", "none", d.CPU.Last == 0)
	p, err := child.Start(nil, args...)
	if err != nil {
		return nil, fmt.Errorf("--loopback: start the other end: %w", err)
	}
	p.Said.TellHangs(func(line string) { fmt.Fprintf(out.Err, "the other end: %s\n", line) })
	ch := &otherEnd{Process: p}
	line := make(chan string, 1)
	go func() {
		s := bufio.NewScanner(p.Out)
		s.Scan()
		line <- s.Text() // nothing: it has ended
		_, _ = io.Copy(io.Discard, p.Out)
	}()
	select {
	case ch.address = <-line:
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-time.After(childStart):
		err = fmt.Errorf("--loopback: the other end does not listen within %v", childStart)
	}
	if ch.address == "" {
		if stop := ch.wait(); err == nil {
			err = errors.Join(fmt.Errorf("--loopback: the other end: %s (%v)", p.Said.String(), p.ProcessState), stop)
		}
		return nil, err
	}
	return ch, nil
}

// hangs is how long the child may take to end when its input has been closed.
const hangs = 10 * time.Second

// wait waits for the child, and ends it if it does not end by itself. Its result has come through the session. If the
// child hangs, SIGQUIT makes it print where.
func (c *otherEnd) wait() error {
	leave := time.AfterFunc(time.Second, func() { _ = c.In.Close() })
	quit := time.AfterFunc(time.Second+hangs, func() { _ = c.Process.Process.Signal(syscall.SIGQUIT) })
	err := c.Wait()
	leave.Stop()
	if !quit.Stop() {
		return fmt.Errorf("--loopback: the other end hung and was ended: %s", c.Said.String())
	}
	if _, is := errors.AsType[*exec.ExitError](err); is {
		return nil
	}
	return err
}
