//go:build unix

package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/bench"
	"github.com/gobw/gobw/internal/bench/drive"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/measure"
	"github.com/gobw/gobw/internal/cli/opendevice"
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/connect"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/internal/testrun"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce"
	"github.com/gobw/gobw/verbs/verbstest"
)

// victim is what the dying end is told: who it is, where to die and how.
type victim struct {
	Server  bool   // else it dials Address
	Address string // of the server, or to listen on
	Source  string
	Phase   string
	Signal  int // what it does to itself; 0: nothing, the line goes silent
	Plan    plan.Spec
}

func deathPeerTimeout() time.Duration {
	timeout, _, _ := deathLimits()
	return timeout
}

// deathLimits are the peer timeout, the time beyond it within which the survivor ends, and how often a cell may try: on
// a busy machine an end may be off the processor for as long as the peer timeout of 'make test-all'. In 'make test' no
// cell tries again: an end has seconds, and what the survivor says decides.
func deathLimits() (peerTimeout, grace time.Duration, attempts int) {
	if testrun.Whole() {
		return time.Second, 2 * time.Second, 4
	}
	return 5 * time.Second, 20 * time.Second, 1
}

// dying is a session that strikes at a phase.
type dying struct {
	control.Session
	phase  string
	strike func()
}

func (d *dying) at(phase string) {
	if phase == d.phase {
		d.strike()
	}
}

func (d *dying) Propose(ctx context.Context, p *plan.Spec) (*plan.Spec, error) {
	d.at("propose")
	return d.Session.Propose(ctx, p)
}

func (d *dying) Facts(ctx context.Context, f control.Facts) (control.Facts, error) {
	d.at("facts")
	return d.Session.Facts(ctx, f)
}

func (d *dying) Exchange(ctx context.Context, a []control.Address) ([]control.Address, error) {
	d.at("exchange")
	return d.Session.Exchange(ctx, a)
}

func (d *dying) Sync(ctx context.Context, p control.Phase, size int, last bool) error {
	d.at(p.String())
	return d.Session.Sync(ctx, p, size, last)
}

func (d *dying) Report(ctx context.Context, f control.Figures) (control.Figures, error) {
	d.at("report")
	return d.Session.Report(ctx, f)
}

// victimMain is the dying process: it says "now" on standard output just before it dies.
func victimMain(spec string) int {
	var v victim
	if err := json.Unmarshal([]byte(spec), &v); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	strike := sync.OnceFunc(func() {
		fmt.Fprintln(os.Stdout, "now")
		if v.Signal == 0 {
			select {} // the proxy has gone silent, and so do we
		}
		_ = syscall.Kill(os.Getpid(), syscall.Signal(v.Signal))
		select {}
	})
	if err := v.run(strike); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (v victim) run(strike func()) error {
	ctx := context.Background()
	var s control.Session
	var err error
	timeouts := control.Timeouts{Peer: deathPeerTimeout()}
	if v.Server {
		l, err := connect.Listen(control.Options{Address: v.Address, Timeouts: timeouts})
		if err != nil {
			return err
		}
		fmt.Fprintln(os.Stdout, l.Addr())
		if s, err = l.Accept(ctx); err != nil {
			return err
		}
	} else if s,
		err = connect.Dial(ctx, v.Address,
		control.Options{Timeouts: timeouts, Source: netip.MustParseAddr(v.Source)}); err != nil {
		return err
	}
	dev, err := openBound(s)
	if err != nil {
		return err
	}
	o := bench.Options{}
	if v.Phase == "measuring" {
		o.Progress = func(p drive.Progress) {
			if !p.Warmup && p.Messages > 500 {
				strike()
			}
		}
	}
	var plan *plan.Spec
	if !v.Server {
		plan = &v.Plan
	}
	_, err = bench.Run(ctx, &dying{Session: s, phase: v.Phase, strike: strike}, plan, dev, o)
	return err
}

// openBound opens the software device at the session's address.
func openBound(s control.Session) (verbs.Device, error) {
	dev, err := roce.New(roce.Options{}).Open(roce.DeviceName)
	if err != nil {
		return nil, err
	}
	_, err = (&opendevice.Device{Device: dev}).Bind(s.LocalAddr())
	return dev, err
}

// TestPeerDeath kills, stops and silences either end at each phase: the survivor ends in time, with the cause, exit
// code 4, and what it had measured. Silence lasts a real peer timeout, as it is between two processes; 'make quick'
// leaves it to the sessions' own tests (internal/control/connect, in virtual time) and to 'make test'.
func TestPeerDeath(t *testing.T) {
	phases := []string{"propose", "facts", "exchange", "connected", "ready", "measuring", "done", "report", "finished"}
	if !testrun.Whole() {
		phases = []string{"exchange", "measuring"}
	}
	peerTimeout, grace, attempts := deathLimits()
	ways := []struct {
		name   string
		signal syscall.Signal
		limit  time.Duration
	}{
		{"killed", syscall.SIGKILL, grace + time.Second},
		{"stopped", syscall.SIGSTOP, peerTimeout + grace},
		{"silent", 0, peerTimeout + grace},
	}
	if testing.Short() {
		ways = ways[:1]
	}
	for _, way := range ways {
		for _, phase := range phases {
			for _, server := range []bool{true, false} {
				end := map[bool]string{true: "server", false: "client"}[server]
				t.Run(way.name+"/"+phase+"/"+end, func(t *testing.T) {
					t.Parallel()
					for attempt := 1; ; attempt++ {
						d := death{t: t, signal: way.signal, limit: way.limit}
						d.server, d.client = verbstest.Address(), verbstest.Address()
						d.victim = victim{
							Server: server, Phase: phase, Signal: int(way.signal), Source: d.client.String(), Plan: deathPlan(phase),
						}
						late := d.run()
						if late == nil {
							testrun.Later(t, t.Name(), attempt)
							return
						}
						if attempt == attempts {
							t.Fatal(late)
						}
						t.Logf("attempt %d: %v", attempt, late)
					}
				})
			}
		}
	}
}

// deathPlan is long enough for the phase to be met and short otherwise.
func deathPlan(phase string) plan.Spec {
	p := plan.Spec{Operation: plan.Write, Kind: plan.Bandwidth, Transport: verbs.RC, Sizes: []int{4096}, Iterations: 50}
	if phase == "measuring" {
		p.Operation = plan.Send
		p.Iterations, p.Duration = 0, 20*time.Second
	}
	return p
}

// death is one cell of the table.
type death struct {
	t      *testing.T
	victim victim
	signal syscall.Signal
	limit  time.Duration

	server, client netip.Addr

	silent atomic.Bool // the proxy forwards nothing any more
}

// run kills the victim and judges the survivor; late is what may be the machine's fault.
func (d *death) run() (late error) {
	t := d.t
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var listener *connect.Listener
	if d.victim.Server {
		d.victim.Address = netip.AddrPortFrom(d.server, 0).String()
	} else {
		var err error
		listener, err = connect.Listen(control.Options{
			Address: netip.AddrPortFrom(d.server, 0).String(), Timeouts: control.Timeouts{Peer: deathPeerTimeout()},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = listener.Close() }()
		d.victim.Address = d.proxy(listener.Addr().String())
	}
	lines, stop := d.start()
	defer stop()
	var s control.Session
	var err error
	if d.victim.Server {
		address, open := <-lines
		if !open {
			t.Fatal("the victim did not start")
		}
		s, err = connect.Dial(ctx, d.proxy(address), control.Options{
			Timeouts: control.Timeouts{Peer: deathPeerTimeout()}, Source: d.client,
		})
	} else {
		s, err = listener.Accept(ctx)
	}
	if err != nil {
		return err
	}
	dev, err := openBound(s)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := dev.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	var struck atomic.Int64
	read := make(chan struct{})
	go func() {
		defer close(read)
		for line := range lines {
			if line == "now" {
				struck.Store(time.Now().UnixNano())
				if d.signal == 0 {
					d.silent.Store(true)
				}
			}
		}
	}()
	var plan *plan.Spec
	if d.victim.Server {
		plan = &d.victim.Plan
	}
	res, err := bench.Run(ctx, s, plan, dev, bench.Options{})
	ended := time.Now()
	if d.signal == syscall.SIGKILL { // its last line may still be on its way
		<-read
	}
	took := ended.Sub(time.Unix(0, struck.Load()))
	if err == nil && d.victim.Phase == "finished" {
		return nil // the survivor had everything already
	}
	if struck.Load() == 0 {
		return fmt.Errorf("ended before the blow: %w", err)
	}
	if got := exit.Code(measure.Classify(err)); got != exit.PeerLost {
		t.Errorf("exit code %d, want %d (error: %v)", got, exit.PeerLost, err)
	}
	if !errors.Is(err, control.ErrPeerLost) {
		t.Errorf("error %v does not say that the peer was lost", err)
	}
	if d.victim.Phase == "measuring" && (res == nil || len(res.Records) == 0 || res.Records[0].Messages == 0) {
		t.Error("the survivor kept no partial result")
	}
	if took > d.limit {
		return fmt.Errorf("survivor took %v, want at most %v (error: %w)", took, d.limit, err)
	}
	return nil
}

// start runs the victim and returns its lines.
func (d *death) start() (lines <-chan string, stop func()) {
	d.t.Helper()
	spec, err := json.Marshal(d.victim)
	if err != nil {
		d.t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "GOBW_TEST_VICTIM="+string(spec))
	out, err := cmd.StdoutPipe()
	if err != nil {
		d.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	ch := make(chan string, 4)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(ch)
		for s := bufio.NewScanner(out); s.Scan(); {
			ch <- s.Text()
		}
	})
	return ch, func() {
		_ = cmd.Process.Kill()
		wg.Wait()
		_ = cmd.Wait()
	}
}

// proxy forwards to an address until the line goes silent, and returns its own address.
func (d *death) proxy(to string) string {
	d.t.Helper()
	if d.signal != 0 {
		return to
	}
	l, err := net.Listen("tcp", netip.AddrPortFrom(d.server, 0).String())
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = l.Close() })
	go func() {
		in, err := l.Accept()
		if err != nil {
			return
		}
		d.t.Cleanup(func() { _ = in.Close() })
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: d.client.AsSlice()}}
		out, err := dialer.Dial("tcp", to)
		if err != nil {
			return
		}
		d.t.Cleanup(func() { _ = out.Close() })
		pump := func(to io.Writer, from io.Reader) {
			b := make([]byte, 4096)
			for {
				n, err := from.Read(b)
				if err != nil {
					return
				}
				if !d.silent.Load() {
					_, _ = to.Write(b[:n])
				}
			}
		}
		go pump(out, in)
		pump(in, out)
	}()
	return l.Addr().String()
}
