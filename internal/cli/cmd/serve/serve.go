// Package serve is the command 'serve': the other end of tests.
package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/internal/bench/machine"
	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/measure"
	"github.com/gobw/gobw/internal/cli/opendevice"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/connect"
	perftest "github.com/gobw/gobw/internal/perftest/flags"
	"github.com/gobw/gobw/internal/plan"
)

// flags are the flags of 'serve'.
type flags struct {
	config           // what stands there as it was typed
	device           opendevice.Flags
	listen           string
	port             int
	allow, dataAllow []string
	testProcess      bool
	wrong            cmdline.Faults // of what was typed
}

// config is a validated server.
type config struct {
	order
	Tool     string
	Listen   control.Options
	Once     bool
	Child    bool // print the address on stdout and end with stdin
	Quiet    bool
	Perftest string // the command line that clients expect that do not tell theirs; empty: none
}

// NewCommand makes 'serve'.
func NewCommand(tool string, out output.Streams) *cobra.Command {
	flags := &flags{}
	cmd := &cobra.Command{
		Use: "serve", Short: "Run the server: the other end of tests",
		Long: "Run the server: the other end of tests. The client says which test\n" +
			"to run. perftest before 6.28 does not send its flags, and no perftest sends -b.\nFor these clients, " +
			"name the test with --perftest.",
		Example: "  " + tool + " serve\n  " + tool + " serve --listen 192.0.2.1 --allow 192.0.2.0/24\n" +
			"  " + tool + " serve --perftest 'ib_send_bw -c UD -s 1024'",
		Args: cmdline.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if flags.testProcess {
				return runTestProcess(cmd.Context())
			}
			out := output.Streams{Out: out.Out, Err: out.Err} // without progress
			c, err := flags.validated(tool, out)
			if err != nil {
				return exit.With(exit.Usage, err)
			}
			return run(cmd.Context(), out, &c)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&flags.listen, "listen", "", "listen on `ADDRESS`: HOST, HOST:PORT or :PORT (default: all)")
	fs.IntVarP(&flags.port, "port", "p", control.DefaultPort, "TCP port")
	fs.StringSliceVar(&flags.allow, "allow", nil, "serve only these `CLIENTS`: 192.0.2.0/24,2001:db8::/32")
	cmdline.Parsed(fs, &flags.wrong, &flags.Listen.Token, "token-file", "", "",
		"serve only clients that have the secret in `FILE`, and no perftest clients", func(path string) ([]byte, error) {
			return cmdline.ReadToken(path, "'(umask 077; openssl rand -hex 32 > "+path+")' makes one")
		})
	fs.IntVar(&flags.Listen.Clients, "clients", 1, "clients served at once (on roce0 one for each address of this host)")
	fs.BoolVar(&flags.Once, "once", false, "end after one client")
	fs.StringVar(&flags.Perftest, "perftest", "",
		"run `TEST` with clients that do not send their flags: perftest before 6.28, and any perftest with -b")
	cmdline.Parsed(fs, &flags.wrong, &flags.Listen.Timeouts.Peer, "peer-timeout", "", "3s",
		"give up if a client is silent for this `TIME`", plan.ParseTime)
	cmdline.Group(fs, "Clients")
	cmdline.Parsed(fs, &flags.wrong, &flags.Policy.Bytes, "max-memory", "", "",
		"a client's test may use `BYTES` of memory: 512M, 2G (default: half of the free memory)", parseMemory)
	cmdline.Parsed(fs, &flags.wrong, &flags.Policy.Duration, "max-duration", "", "1h",
		"a client's test may take this `TIME`: 10m, 1h; 0 is no limit", plan.ParseSeconds)
	fs.StringSliceVar(&flags.dataAllow, "data-allow", nil,
		"let tests send data to these `ADDRESSES`, not only to the client's: 198.51.100.0/24")
	cmdline.Group(fs, "Limits")
	flags.device.Bind(fs)
	flags.device.Several(fs)
	fs.BoolVar(&flags.Quiet, "quiet", false, "log nothing but errors")
	cmdline.Group(fs, "Output")
	fs.BoolVar(&flags.Child, "child", false, "print the address and end with standard input")
	cmdline.Hide(fs, "child")
	fs.BoolVar(&flags.testProcess, "test-process", false, "be the process of one test, which serve starts")
	cmdline.Hide(fs, "test-process")
	cmdline.Brief(cmd, "listen", "port", "allow", "token-file", "max-memory", "max-duration", "once", "device")
	return cmd
}

// validated checks the flags and names all mistakes at once.
func (f *flags) validated(tool string, out output.Streams) (config, error) {
	c, wrong := f.config, slices.Clone(f.wrong)
	c.Tool = tool
	c.Device = f.device.Config(&wrong)
	c.Device.Several = true
	c.Device.CPU.Last *= 2 // the last but one, beside a client on this host
	wrong.Range("--port (-p)", f.port, 1, 65535)
	c.Listen.Address = listenAddress(f.listen, f.port)
	_, port, err := net.SplitHostPort(c.Listen.Address)
	wrong.If(err == nil && f.port != control.DefaultPort && port != strconv.Itoa(f.port),
		"--listen %s has a port: leave --port %d (-p) out", f.listen, f.port)
	prefixes := func(name string, texts []string) (list []netip.Prefix) {
		for _, text := range texts {
			prefix, err := cmdline.ParsePrefix(text)
			wrong.Note(cmdline.Prefixed(name, err))
			list = append(list, prefix)
		}
		return list
	}
	c.Listen.Allow, c.DataAllow = prefixes("--allow", f.allow), prefixes("--data-allow", f.dataAllow)
	c.Policy.Bytes = cmp.Or(c.Policy.Bytes, uint64(machine.AvailableMemory()/2))
	c.Policy.QueuePairs, c.Policy.Rounds, c.Policy.Records = maxQPs, maxRounds, maxRecords
	if c.Child { // the client is the process that started this
		c.Policy = plan.Policy{Bytes: c.Policy.Bytes}
		c.Device.CPU.OtherEnd = os.Getppid()
		c.DataAllow = []netip.Prefix{
			netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0),
		}
	}
	wrong.Range("--clients", c.Listen.Clients, 1, 1024)
	c.Listen.Program = tool + " " + machine.Version()
	level := slog.LevelInfo
	if c.Quiet {
		level = slog.LevelError
	}
	c.Listen.Log = slog.New(newLimited(slog.NewTextHandler(out.Err, &slog.HandlerOptions{Level: level})))
	if c.Perftest != "" {
		c.Device.Strict = true // stock perftest takes its rows for a NIC's
		v, err := perftest.ParseLine(c.Perftest)
		wrong.Note(cmdline.Prefixed("--perftest", err))
		c.Listen.Perftest.Gbits, c.Gbits = v.Gbits, v.Gbits
		wrong.If(v.ControlCM,
			"--perftest with -z or -R: start %s itself on this host ('gobw version --install-links DIR' makes it)", v.Tool.Name)
	}
	return c, errors.Join(wrong...)
}

// Bounds that no flag sets: more than any test that is meant, and little enough to be kept.
const (
	maxQPs     = 1024
	maxRounds  = 1 << 24
	maxRecords = 1 << 16
)

// parseMemory reads what a client's test may take, in bytes.
func parseMemory(text string) (uint64, error) {
	n, err := plan.ParseBytes(text)
	if err == nil && n < 1<<20 {
		err = fmt.Errorf("%s: %d bytes, too few for a test: write a unit, such as 512M", text, n)
	}
	return uint64(n), err
}

// listenAddress completes an address with the port.
func listenAddress(s string, port int) string {
	if s == "" {
		return fmt.Sprintf(":%d", port)
	}
	return control.HostPort(s, port)
}

// run serves until a signal, or one client with --once.
func run(ctx context.Context, out output.Streams, c *config) error {
	if c.Child {
		ctx, _ = endWithInput(ctx, "the starting process has ended")
	}
	note, err := c.probe(c.Perftest)
	if err != nil {
		return err
	}
	c.Timeouts, c.Listen.LocalFacts = c.Listen.Timeouts.WithDefaults(), c.localFacts
	apart := runtime.GOOS == "linux" && !c.Once && !c.Child
	if apart {
		c.Listen.Seats, c.Listen.Perftest.Told = seats, c.Told != nil
	} else {
		c.Listen.Admit = c.admit
	}
	l, err := connect.Listen(c.Listen)
	if err != nil {
		return exit.With(exit.Setup, measure.PortTaken(err))
	}
	defer func() { _ = l.Close() }()
	if err := c.announce(out, l.Addr(), note); err != nil {
		return err
	}
	if apart {
		status := make(chan os.Signal, 1)
		output.NotifyStatus(status)
		defer signal.Stop(status)
		go c.tellStatus(ctx, status, l)
		var tests sync.WaitGroup
		defer tests.Wait()
		for {
			client, err := l.Next(ctx)
			if err != nil {
				return stopped(ctx, err)
			}
			tests.Go(func() { c.serveOne(ctx, client) })
		}
	}
	return c.serveHere(ctx, l)
}

// tellStatus logs, on a signal, who is served since when, and how large the server is.
func (c *config) tellStatus(ctx context.Context, asked <-chan os.Signal, l *connect.Listener) {
	for {
		select {
		case <-asked:
			c.Listen.Log.Info("status", "test", l.Status(), "goroutines", runtime.NumGoroutine())
		case <-ctx.Done():
			return
		}
	}
}

// announce says where the server listens, and once what it means that everybody may come.
func (c *config) announce(out output.Streams, at netip.AddrPort, note string) error {
	switch {
	case c.Child:
		_, err := fmt.Fprintln(out.Out, at)
		return err
	case c.Quiet:
		return nil
	}
	fmt.Fprintf(out.Err, "%s: serving on %v\n", c.Tool, at)
	if note != "" {
		fmt.Fprintf(out.Err, "%s: %s\n", c.Tool, note)
	}
	if c.Listen.Token == nil && len(c.Listen.Allow) == 0 && !at.Addr().IsLoopback() {
		fmt.Fprintf(out.Err,
			"%s: all who reach this port may run tests here: --allow CLIENTS or --token-file FILE keeps strangers out\n", c.Tool)
	}
	return nil
}

// serveHere serves in this process, one client after another: it was started for one client, or cannot start others.
func (c *config) serveHere(ctx context.Context, l *connect.Listener) error {
	for {
		s, err := l.Accept(ctx)
		if err != nil {
			return stopped(ctx, err)
		}
		log := c.Listen.Log.With("client", s.RemoteAddr())
		c.tell = func(e event) { e.log(log) }
		err = c.serve(ctx, s)
		if ctx.Err() != nil {
			return stopped(ctx, context.Cause(ctx))
		}
		if c.Once {
			return err
		}
	}
}

// stopped is the end of a server: SIGTERM is a good one, another signal is itself.
func stopped(ctx context.Context, err error) error {
	if sig, is := errors.AsType[exit.SignalError](context.Cause(ctx)); is {
		if sig.Signal == syscall.SIGTERM { // the way to end a server
			return nil
		}
		return sig
	}
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
