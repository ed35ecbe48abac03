package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gobw/gobw/report"
)

// Limits of a survivor: the peer timeout, and what ending takes.
const (
	deathLimit = 3 * time.Second
	hangLimit  = 30 * time.Second
)

// deaths lets either end of n tests die at a random moment and looks how the other ends.
func deaths(ctx context.Context, gobw string, n int, random *rand.Rand) error {
	dir, err := os.MkdirTemp("", "deaths")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	s, err := startServer(gobw, "--peer-timeout", "2s")
	if err != nil {
		return err
	}
	var took []time.Duration
	counts := map[string]int{}
	wrong, done := 0, 0
	for ; done < n && ctx.Err() == nil; done++ {
		d := death{
			gobw: gobw, server: s, file: filepath.Join(dir, fmt.Sprintf("%d.json", done)), ofClient: random.IntN(2) == 0, signal: syscall.SIGKILL,
			after: time.Duration(random.IntN(1500)) * time.Millisecond,
			test: []string{
				"write -s 4096 -D 30", "read -s 65536 -D 30", "send -s 64 -D 30", "write --sizes 64:64K -n 20000 --runs 50", "atomic -D 30",
				"send -c UD -s 1024 -D 30", "write -c UC -s 4096 -D 30", "write -b -s 4096 -D 30",
			}[random.IntN(8)],
		}
		if random.IntN(2) == 0 {
			d.signal = syscall.SIGSTOP
		}
		late, what := d.run(ctx)
		if ctx.Err() != nil {
			break
		}
		counts[d.kind()]++
		took = append(took, late)
		if what != "" {
			wrong++
			fmt.Printf("%s after %v, %s: %s\n", d.kind(), d.after, d.test, what)
		}
		_ = os.Remove(d.file)
		if done%100 == 99 {
			fmt.Printf("%d deaths, %d wrong\n", done+1, wrong)
		}
	}
	if err := s.stop(); err != nil {
		return fmt.Errorf("the server ended with %w:\n%s", err, s.last(20))
	}
	slices.Sort(took)
	if len(took) == 0 {
		return errors.New("nobody died")
	}
	at := func(share float64) time.Duration {
		return took[int(share*float64(len(took)-1))].Round(time.Millisecond)
	}
	fmt.Printf("%d deaths %v: survivors out after %v (median), %v (p99), %v (longest); %d wrong\n", len(took), counts, at(0.5), at(0.99), at(1), wrong)
	if wrong > 0 {
		return fmt.Errorf("%d survivors did not end as they should", wrong)
	}
	return nil
}

// death is one.
type death struct {
	gobw     string
	server   *server
	file     string
	test     string
	ofClient bool
	signal   syscall.Signal
	after    time.Duration
}

func (d *death) kind() string {
	return fmt.Sprintf("%v of the %s", d.signal, map[bool]string{true: "client", false: "server's test"}[d.ofClient])
}

// run is how long the survivor took to end, and what was wrong with that.
func (d *death) run(ctx context.Context) (late time.Duration, what string) {
	for len(d.server.children()) > 0 && ctx.Err() == nil { // of the death before
		time.Sleep(time.Millisecond)
	}
	var out bytes.Buffer
	words := append(strings.Fields(d.test), "127.0.0.1", "-p", d.server.port, "-d", "roce0", "--cpu", "none", "--quiet", "--wait", "20s",
		"--peer-timeout", "2s", "--save", d.file)
	client := exec.Command(d.gobw, words...)
	client.Stdout, client.Stderr = &out, &out
	if err := client.Start(); err != nil {
		return 0, err.Error()
	}
	ended := make(chan error, 1)
	go func() { ended <- client.Wait() }()
	victims := []int{client.Process.Pid}
	if !d.ofClient { // its process may not be there yet
		for victims = d.server.children(); len(victims) == 0 && ctx.Err() == nil; victims = d.server.children() {
			select {
			case err := <-ended:
				return 0, fmt.Sprintf("the client ended before: %v: %s", err, out.String())
			case <-time.After(time.Millisecond):
			}
		}
	}
	select {
	case err := <-ended:
		return 0, fmt.Sprintf("the client ended before: %v: %s", err, out.String())
	case <-time.After(d.after):
	case <-ctx.Done():
	}
	for _, pid := range victims {
		_ = syscall.Kill(pid, d.signal)
	}
	struck := time.Now()
	defer func() { // whoever was stopped goes, too
		for _, pid := range victims {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}()
	if d.ofClient {
		return d.serverEnds(struck)
	}
	select {
	case err := <-ended:
		late = time.Since(struck)
		return late, d.judge(err, out.String(), late)
	case <-time.After(hangLimit):
		_ = client.Process.Signal(syscall.SIGQUIT)
		if err := <-ended; err == nil {
			return hangLimit, "the client hung, and ended well when it was killed: " + out.String()
		}
		return hangLimit, "the client hung: " + out.String()
	}
}

// serverEnds waits until the server's test has ended.
func (d *death) serverEnds(struck time.Time) (time.Duration, string) {
	for time.Since(struck) < hangLimit {
		if len(d.server.children()) == 0 {
			late := time.Since(struck)
			if late > deathLimit+time.Second {
				return late, fmt.Sprintf("the server's test ended after %v", late)
			}
			return late, ""
		}
		time.Sleep(2 * time.Millisecond)
	}
	return hangLimit, "the server's test hung:\n" + d.server.last(5)
}

// judge looks at the exit code, the words and the file of a client whose peer died.
func (d *death) judge(err error, said string, late time.Duration) string {
	var wrong []string
	code := 0
	if status, is := errors.AsType[*exec.ExitError](err); is {
		code = status.ExitCode()
	}
	if code != 4 {
		wrong = append(wrong, fmt.Sprintf("exit status %d, want 4", code))
	}
	if !strings.Contains(said, "died") && !strings.Contains(said, "lost") {
		wrong = append(wrong, "no cause")
	}
	if late > deathLimit+time.Second {
		wrong = append(wrong, fmt.Sprintf("after %v", late.Round(time.Millisecond)))
	}
	if _, err := os.Stat(d.file); err == nil {
		if _, err := report.Load(d.file); err != nil {
			wrong = append(wrong, err.Error())
		}
	}
	if len(wrong) == 0 {
		return ""
	}
	return strings.Join(wrong, "; ") + ": " + said
}
