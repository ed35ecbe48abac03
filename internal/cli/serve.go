package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/internal/bench"
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/perftest"
	"github.com/gobw/gobw/verbs"
)

// serveFlags are the flags of 'serve'.
type serveFlags struct {
	device      deviceFlags
	listen      string
	port        int
	allow       []string
	maxMemory   string
	once        bool
	child       bool
	perftest    string
	peerTimeout string
	quiet       bool
}

// serveConfig is a validated server.
type serveConfig struct {
	Tool      string
	Listen    control.ListenOptions
	Device    deviceConfig
	CPU       bench.CPUChoice
	Once      bool
	Child     bool // print the address on stdout and end with stdin
	Quiet     bool
	Perftest  *perftestServer // a plan for clients that do not tell theirs
	MaxMemory uint64
	End       json.RawMessage // what a doctor at the other end is told
}

func newServeCommand(tool string, out Streams) *cobra.Command {
	flags := &serveFlags{}
	cmd := &cobra.Command{
		Use: "serve", Short: "Be the other end of tests, one client after another",
		Long: "Be the other end of tests, one client after another. The client says what to\n" +
			"do; only a perftest before 6.29 does not: for such clients say it with\n" +
			"--perftest.",
		Example: "  " + tool + " serve\n  " + tool + " serve --listen 192.0.2.1 --allow 192.0.2.0/24\n" +
			"  " + tool + " serve --perftest 'ib_send_bw -c UD -s 1024'",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := flags.config(tool, out)
			if err != nil {
				return usageError{err}
			}
			return runServe(cmd.Context(), out, c)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&flags.listen, "listen", "", "address to listen on: HOST, HOST:PORT or :PORT (all)")
	fs.IntVarP(&flags.port, "port", "p", control.DefaultPort, "TCP port")
	fs.StringSliceVar(&flags.allow, "allow", nil, "clients admitted: 192.0.2.0/24,2001:db8::/32 (all)")
	fs.StringVar(&flags.maxMemory, "max-memory", "", "most buffer memory for a client: 512M, 2G (half of what is free)")
	fs.BoolVar(&flags.once, "once", false, "end after one client")
	fs.StringVar(&flags.perftest, "perftest", "", "the command line that clients before 6.29 expect here")
	fs.StringVar(&flags.peerTimeout, "peer-timeout", "3s", "how long a silent client is borne")
	flags.device.bind(fs)
	fs.BoolVar(&flags.quiet, "quiet", false, "log nothing but errors")
	fs.BoolVar(&flags.child, "child", false, "print the address and end with standard input")
	hide(fs, "child")
	groupFlags(cmd, serveGroups())
	return cmd
}

// config checks the flags and names all mistakes at once.
func (f *serveFlags) config(tool string, out Streams) (serveConfig, error) {
	c := serveConfig{Tool: tool, Once: f.once, Child: f.child, Quiet: f.quiet}
	var wrong faults
	var err error
	c.Device, err = f.device.config()
	wrong.note(err)
	c.CPU, err = parseCPU(f.device.cpu, 2)
	wrong.note(err)
	if f.port < 1 || f.port > 65535 {
		wrong.note(fmt.Errorf("--port (-p) %d: want 1 to 65535", f.port))
	}
	c.Listen.Address = listenAddress(f.listen, f.port)
	for _, a := range f.allow {
		prefix, err := parsePrefix(a)
		wrong.note(prefixed("--allow", err))
		c.Listen.Allow = append(c.Listen.Allow, prefix)
	}
	c.Listen.MaxMemory = uint64(availableMemory() / 2)
	if f.maxMemory != "" {
		n, err := parseBytes(f.maxMemory)
		wrong.note(prefixed("--max-memory", err))
		c.Listen.MaxMemory = n
	}
	if c.Listen.Timeouts.Peer, err = parseSeconds(f.peerTimeout); err != nil || c.Listen.Timeouts.Peer <= 0 {
		wrong.note(fmt.Errorf("--peer-timeout %q: want more than 0 seconds", f.peerTimeout))
	}
	c.Listen.Program = tool + " " + bench.Version()
	level := slog.LevelInfo
	if f.quiet {
		level = slog.LevelError
	}
	c.Listen.Log = slog.New(slog.NewTextHandler(out.Err, &slog.HandlerOptions{Level: level}))
	c.Perftest, err = parsePerftestServer(f.perftest)
	wrong.note(prefixed("--perftest", err))
	if c.Perftest != nil {
		c.Listen.Perftest.Gbits = c.Perftest.Gbits
	}
	return c, errors.Join(wrong...)
}

// listenAddress completes an address with the port.
func listenAddress(s string, port int) string {
	if s == "" {
		return fmt.Sprintf(":%d", port)
	}
	if a, err := netip.ParseAddr(strings.Trim(s, "[]")); err == nil {
		return netip.AddrPortFrom(a, uint16(port)).String()
	}
	if strings.Contains(s, ":") {
		return s
	}
	return fmt.Sprintf("%s:%d", s, port)
}

func parsePrefix(s string) (netip.Prefix, error) {
	if p, err := netip.ParsePrefix(s); err == nil {
		return p.Masked(), nil
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%q: want an address or a prefix such as 192.0.2.0/24", s)
	}
	return netip.PrefixFrom(a, a.BitLen()), nil
}

func parseBytes(s string) (uint64, error) {
	if n, err := parseSize(s); err == nil {
		return uint64(n), nil
	}
	digits, is := strings.CutSuffix(strings.TrimSuffix(strings.ToUpper(s), "B"), "G")
	if is {
		var n uint64
		if _, err := fmt.Sscanf(digits, "%d", &n); err == nil && n > 0 && n < 1<<20 {
			return n << 30, nil
		}
	}
	return 0, fmt.Errorf("%q: want bytes, such as 512M or 2G", s)
}

// runServe serves until a signal, or one client with --once.
func runServe(ctx context.Context, out Streams, c serveConfig) error {
	if c.Child {
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(ctx)
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			cancel(errors.New("the starting process has ended"))
		}()
	}
	note, err := c.probe()
	if err != nil {
		return err
	}
	if c.Perftest != nil || c.Listen.LocalFacts == nil {
		c.Listen.LocalFacts = c.localFacts
	}
	if c.Perftest != nil && c.Perftest.ControlCM { // such clients come by RDMA CM alone
		d, err := openDevice(c.Device)
		if err != nil {
			return err
		}
		defer func() { _ = d.Close() }()
		c.Listen.RDMA = d.Device
	}
	l, err := control.Listen(c.Listen)
	if err != nil {
		return setupError{portTaken(err)}
	}
	defer func() { _ = l.Close() }()
	if end, err := examineEnd(c.Device); err == nil {
		end.Name = "peer"
		c.End, _ = json.Marshal(end) // nothing in it can fail
	}
	if c.Child {
		if _, err := fmt.Fprintln(out.Out, l.Addr()); err != nil {
			return err
		}
	} else if !c.Quiet {
		fmt.Fprintf(out.Err, "%s: serving on %v\n", c.Tool, l.Addr())
		if note != "" {
			fmt.Fprintf(out.Err, "%s: %s\n", c.Tool, note)
		}
	}
	for {
		s, err := l.Accept(ctx)
		if err != nil {
			return stopped(ctx, err)
		}
		err = c.serveClient(ctx, s)
		_, remote := endpoints(s)
		switch {
		case ctx.Err() != nil:
			return stopped(ctx, context.Cause(ctx))
		case err != nil:
			c.Listen.Log.Error("test", "client", remote, "err", err)
		default:
			c.Listen.Log.Info("done", "client", remote)
		}
		if c.Once {
			return err
		}
	}
}

// stopped is the end of a server: by a signal, that signal.
func stopped(ctx context.Context, err error) error {
	if sig, is := errors.AsType[signalError](context.Cause(ctx)); is {
		return sig
	}
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func portTaken(err error) error {
	if strings.Contains(err.Error(), "address already in use") {
		return fmt.Errorf("%w: another server runs here; stop it, or choose a port with -p", err)
	}
	return err
}

// probe finds out before the first client whether there is a device.
func (c serveConfig) probe() (note string, err error) {
	d, err := openDevice(c.Device.toLookAt())
	if err != nil {
		return "", err
	}
	return d.Note, d.Close()
}

// localFacts describes this end for clients that negotiate before a plan is known.
func (c serveConfig) localFacts() (control.Facts, error) {
	d, err := openDevice(c.Device.toLookAt())
	if err != nil {
		return control.Facts{}, err
	}
	f, err := bench.LocalFacts(d, c.Device.Port)
	return f, errors.Join(err, d.Close())
}

// serveClient runs a client's tests, one plan after another, on a device of their own.
func (c serveConfig) serveClient(ctx context.Context, s control.Session) (err error) {
	d, err := openDevice(c.Device)
	if err != nil {
		s.Fail(err)
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	local, remote := endpoints(s)
	if err := bindDevice(d, local); err != nil {
		s.Fail(err)
		return err
	}
	o := bench.Options{CPU: c.CPU, Port: c.Device.Port, GIDIndex: c.Device.GID, Local: local, Remote: remote, End: c.End}
	var plan *control.Plan
	if s.Dialect() == control.Perftest {
		if plan, err = c.Perftest.plan(d, c.Device.Port); err != nil {
			s.Fail(err)
			return err
		}
	}
	for {
		res, err := bench.Run(ctx, s, plan, d.Device, o)
		if err != nil {
			return classify(err) // bench has told the peer and closed
		}
		if res == nil || s.Dialect() == control.Perftest {
			return s.Close()
		}
		for _, r := range res.Records {
			c.Listen.Log.Info("measured", "client", remote, "test", r.Point().String(), "bandwidth", bandwidthText(r.Bandwidth.AverageBitsPerS))
		}
	}
}

// perftestServer is a test that a client of perftest before 6.29 expects; nil: none was told.
type perftestServer struct{ perftest.Invocation }

// plan adapts the test to the device.
func (p *perftestServer) plan(d verbs.Device, port int) (*control.Plan, error) {
	if p == nil {
		return nil, nil //nolint:nilnil // no plan was given
	}
	info, err := bench.ChoosePort(d, port)
	if err != nil {
		return nil, err
	}
	v := p.Invocation
	if err := v.Fit(d.Info(), info); err != nil {
		return nil, err
	}
	return &v.Plan, nil
}

// parsePerftestServer reads --perftest 'ib_send_bw -c UD -s 1024'.
func parsePerftestServer(line string) (*perftestServer, error) {
	if line == "" {
		return nil, nil //nolint:nilnil // no plan was given
	}
	v, err := perftest.ParseLine(line)
	return &perftestServer{v}, err
}
