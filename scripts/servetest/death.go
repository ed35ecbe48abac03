//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/gobw/gobw/report"
)

// way is how an end dies.
type way string

const (
	killed way = "killed"
	// stopped ends go on after the survivor has ended: then they, too, must see that the peer is lost.
	stopped  way = "stopped"
	silenced way = "silenced" // the network; both ends survive
)

// lookEvery is how often the server's processes are looked for: a look reads a file for each of its threads.
const lookEvery = 8 * time.Millisecond

// death is one.
type death struct {
	gobw     string
	server   *server
	file     string // what the client saves
	test     string
	ofClient bool
	way      way
	after    time.Duration

	client *exec.Cmd
	said   bytes.Buffer
	ended  chan error
}

// newDeath chooses one. Most tests sleep on events, so that many can run at once; half of the deaths come while a test is
// being set up.
func newDeath(gobw string, s *server, file string, random *rand.Rand) *death {
	tests := []string{
		"write -e -s 4096 -D 30 --rate 100M", "read -e -s 65536 -D 30 --rate 100M", "send -e -s 64 -D 30 --rate 1M",
		"write -e --sizes 64:64K -n 20000 --runs 50 --rate 10M", "atomic -e -D 30 --rate 1M", "send -e -c UD -s 1024 -D 30 --rate 10M",
		"send -e -b -s 4096 -D 30 --rate 100M", "write -c UC -s 4096 -D 30 --verify --rate 100M", "write -b -s 4096 -D 30", "read -s 65536 -D 30",
	}
	d := &death{
		gobw: gobw, server: s, file: file, ofClient: random.IntN(2) == 0, way: []way{killed, stopped, silenced}[random.IntN(3)],
		test: tests[random.IntN(len(tests))], after: time.Duration(random.IntN(60)) * time.Millisecond, ended: make(chan error, 1),
	}
	if random.IntN(2) == 0 {
		d.after = time.Duration(60+random.IntN(600)) * time.Millisecond
	}
	return d
}

func (d *death) kind() string {
	if d.way == silenced {
		return "silence of the network"
	}
	return fmt.Sprintf("%s, the %s", d.way, map[bool]string{true: "client", false: "server's test"}[d.ofClient])
}

// run is the whole of it.
func (d *death) run(ctx context.Context) ending {
	e := ending{Kind: d.kind(), Test: d.test, After: d.after}
	for len(d.server.children()) > 0 && ctx.Err() == nil { // of the death before
		time.Sleep(lookEvery)
	}
	words := append(strings.Fields(d.test), "127.0.0.1", "-p", d.server.port, "-d", "roce0", "--cpu", "none", "--quiet", "--wait", "20s",
		"--peer-timeout", peerTimeout.String(), "--save", d.file)
	d.client = exec.Command(d.gobw, words...)
	d.client.Stdout, d.client.Stderr = &d.said, &d.said
	if err := d.client.Start(); err != nil {
		e.Wrong = err.Error()
		return e
	}
	go func() { d.ended <- d.client.Wait() }()
	defer func() { _ = d.client.Process.Kill() }()
	children, err := d.await(ctx)
	if err != nil {
		e.Wrong = err.Error()
		return e
	}
	if d.way == silenced {
		e.Late, e.Wrong = d.silence(ctx)
	} else {
		victims := children
		if d.ofClient {
			victims = []int{d.client.Process.Pid}
		}
		e.Late, e.Wrong = d.strike(victims)
	}
	if _, err := report.Load(d.file); err == nil {
		e.Loaded = true
	} else if !errors.Is(err, os.ErrNotExist) {
		e.Wrong += "; " + err.Error()
	}
	return e
}

// await waits for the moment: some time after the server's test has a process.
func (d *death) await(ctx context.Context) (children []int, err error) {
	early := func(err error) error { return fmt.Errorf("the client ended before: %w: %s", err, d.said.String()) }
	for children = d.server.children(); len(children) == 0 && ctx.Err() == nil; children = d.server.children() {
		select {
		case err := <-d.ended:
			return nil, early(err)
		case <-time.After(lookEvery):
		}
	}
	select {
	case err := <-d.ended:
		return nil, early(err)
	case <-time.After(d.after):
	case <-ctx.Done():
	}
	return children, ctx.Err()
}

// strike kills or stops an end, and waits for the other.
func (d *death) strike(victims []int) (time.Duration, string) {
	signal := syscall.SIGKILL
	if d.way == stopped {
		signal = syscall.SIGSTOP
	}
	for _, pid := range victims {
		_ = syscall.Kill(pid, signal)
	}
	struck := time.Now()
	defer func() {
		for _, pid := range victims {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	}()
	if !d.ofClient {
		return d.clientEnds(struck)
	}
	late, what := d.serverEnds(struck)
	if d.way == stopped && what == "" {
		_ = d.client.Process.Signal(syscall.SIGCONT)
		if _, what = d.clientEnds(time.Now()); what != "" {
			what = "the client, stopped and let go on: " + what
		}
	}
	return late, what
}

// silence drops all packets until both ends have ended.
func (d *death) silence(ctx context.Context) (late time.Duration, what string) {
	if err := silence(true); err != nil {
		return 0, err.Error()
	}
	struck := time.Now()
	defer func() {
		if err := silence(false); err != nil {
			what += err.Error()
		}
	}()
	late, what = d.clientEnds(struck)
	if server, wrong := d.serverEnds(struck); wrong != "" && ctx.Err() == nil {
		return max(late, server), what + wrong
	}
	return late, what
}

// clientEnds waits until the client has ended, and judges it.
func (d *death) clientEnds(struck time.Time) (time.Duration, string) {
	select {
	case err := <-d.ended:
		late := time.Since(struck)
		return late, d.judge(err, late)
	case <-time.After(hangLimit):
		_ = d.client.Process.Signal(syscall.SIGQUIT)
		return hangLimit, fmt.Sprintf("the client hung, %v: %s", <-d.ended, d.said.String())
	}
}

// serverEnds waits until the server's test has ended.
func (d *death) serverEnds(struck time.Time) (time.Duration, string) {
	for time.Since(struck) < hangLimit {
		if len(d.server.children()) == 0 {
			late := time.Since(struck)
			if late > deathLimit {
				return late, fmt.Sprintf("the server's test ended after %v", late)
			}
			return late, ""
		}
		time.Sleep(lookEvery)
	}
	return hangLimit, "the server's test hung:\n" + d.server.last(5)
}

// judge looks at the exit code and the words of a client whose peer died.
func (d *death) judge(err error, late time.Duration) string {
	var wrong []string
	code, said := 0, d.said.String()
	if status, is := errors.AsType[*exec.ExitError](err); is {
		code = status.ExitCode()
	}
	if code != 4 {
		wrong = append(wrong, fmt.Sprintf("exit status %d, want 4", code))
	}
	if !strings.Contains(said, "died") && !strings.Contains(said, "lost") {
		wrong = append(wrong, "no cause")
	}
	if late > deathLimit {
		wrong = append(wrong, fmt.Sprintf("after %v", late.Round(time.Millisecond)))
	}
	if len(wrong) == 0 {
		return ""
	}
	return strings.Join(wrong, "; ") + ": " + said
}
