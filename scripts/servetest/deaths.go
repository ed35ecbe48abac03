//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Limits of a survivor: the peer timeout, and what ending takes.
const (
	peerTimeout = time.Second
	deathLimit  = 3 * time.Second
	hangLimit   = 30 * time.Second
)

// ending is one death as its house tells it.
type ending struct {
	Kind   string        `json:"kind"`
	Test   string        `json:"test"`
	After  time.Duration `json:"after"`
	Late   time.Duration `json:"late"`             // how long the survivor took
	Loaded bool          `json:"loaded,omitempty"` // a partial result that loads
	Wrong  string        `json:"wrong,omitempty"`
}

// tally counts endings.
type tally struct {
	mu     sync.Mutex
	kinds  map[string]int
	took   []time.Duration
	loaded int
	wrong  int
}

// deaths lets either end of n tests die at a random moment and looks how the other ends. Each house is a network namespace
// with a server of its own, because a death of the network is one for all that is in it.
func deaths(ctx context.Context, gobw string, n, houses int, random *rand.Rand) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	t := &tally{kinds: map[string]int{}}
	var wg sync.WaitGroup
	errs := make([]error, houses)
	for i := range houses {
		share := n / houses
		if i < n%houses {
			share++
		}
		seed := random.Uint64()
		wg.Go(func() { errs[i] = t.house(ctx, self, gobw, share, seed) })
	}
	stop := make(chan struct{})
	go t.tell(stop)
	wg.Wait()
	close(stop)
	return errors.Join(t.sum(), errors.Join(errs...))
}

// house runs a share of the deaths in a namespace of its own.
func (t *tally) house(ctx context.Context, self, gobw string, n int, seed uint64) error {
	cmd := exec.CommandContext(ctx, self, "house", "-gobw", gobw, "-n", strconv.Itoa(n), "-seed", strconv.FormatUint(seed, 10))
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("a network namespace of its own (this wants root): %w", err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var e ending
		if json.Unmarshal(lines.Bytes(), &e) == nil {
			t.add(e)
		}
	}
	if err := cmd.Wait(); ctx.Err() == nil {
		return err
	}
	return nil
}

func (t *tally) add(e ending) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kinds[e.Kind]++
	t.took = append(t.took, e.Late)
	if e.Loaded {
		t.loaded++
	}
	if e.Wrong != "" {
		t.wrong++
		fmt.Printf("%s after %v, %s: %s\n", e.Kind, e.After, e.Test, e.Wrong)
	}
}

func (t *tally) tell(stop <-chan struct{}) {
	for tick := time.NewTicker(time.Minute); ; {
		select {
		case <-stop:
			return
		case <-tick.C:
			t.mu.Lock()
			fmt.Printf("%d deaths, %d wrong\n", len(t.took), t.wrong)
			t.mu.Unlock()
		}
	}
}

// sum writes the result.
func (t *tally) sum() error {
	if len(t.took) == 0 {
		return errors.New("nobody died")
	}
	slices.Sort(t.took)
	at := func(share float64) time.Duration {
		return t.took[int(share*float64(len(t.took)-1))].Round(time.Millisecond)
	}
	names := make([]string, 0, len(t.kinds))
	for k := range t.kinds {
		names = append(names, k)
	}
	slices.Sort(names)
	fmt.Printf("%d deaths; survivors out after %v (median), %v (p99), %v (p99.9), %v (longest) at a peer timeout of %v; %d partial results loaded; %d wrong\n",
		len(t.took), at(0.5), at(0.99), at(0.999), at(1), peerTimeout, t.loaded, t.wrong)
	for _, k := range names {
		fmt.Printf("  %-40s %6d\n", k, t.kinds[k])
	}
	if t.wrong > 0 {
		return fmt.Errorf("%d survivors did not end as they should", t.wrong)
	}
	return nil
}

// house is what runs in a namespace: a server, and n tests one after another that end early.
func house(ctx context.Context, gobw string, n int, random *rand.Rand) error {
	if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		return fmt.Errorf("ip link set lo up: %w: %s", err, out)
	}
	dir, err := os.MkdirTemp("", "deaths")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	s, err := startServer(gobw, "--peer-timeout", peerTimeout.String())
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	for i := 0; i < n && ctx.Err() == nil; i++ {
		d := newDeath(gobw, s, fmt.Sprintf("%s/%d.json", dir, i), random)
		e := d.run(ctx)
		if ctx.Err() != nil {
			break
		}
		if err := out.Encode(e); err != nil {
			return err
		}
		_ = os.Remove(d.file)
	}
	if err := s.stop(); err != nil {
		return fmt.Errorf("the server ended with %w:\n%s", err, s.last(20))
	}
	return nil
}

// silence drops every packet that arrives in this namespace, or lets them through again.
func silence(on bool) error {
	what := "-D"
	if on {
		what = "-I"
	}
	if out, err := exec.Command("iptables", "-w", what, "INPUT", "-j", "DROP").CombinedOutput(); err != nil {
		return fmt.Errorf("iptables: %w: %s", err, out)
	}
	return nil
}
