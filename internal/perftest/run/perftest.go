// Package run runs this program under one of perftest's names.
package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/gobw/gobw/internal/bench"
	"github.com/gobw/gobw/internal/bench/endpoint"
	"github.com/gobw/gobw/internal/bench/machine"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/measure"
	"github.com/gobw/gobw/internal/cli/opendevice"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/connect"
	"github.com/gobw/gobw/internal/control/rdmacm"
	"github.com/gobw/gobw/internal/perftest/flags"
	"github.com/gobw/gobw/internal/perftest/text"
	"github.com/gobw/gobw/internal/perftest/wire"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/tick"
)

// Exit codes under perftest's names.
const (
	PerftestOK         = 0
	PerftestFailed     = 1
	perftestCompletion = 17 // a failed completion, in some of the tools
	perftestNoDevice   = 7  // in the bandwidth tools of READ and atomics
)

// AsTool takes the command line where the program was started under one of perftest's names.
func AsTool(ctx context.Context, args []string, out output.Streams) (status int, taken bool) {
	tool, is := flags.ToolNamed(args[0])
	if !is {
		return 0, false
	}
	return Main(ctx, tool, args[1:], out), true
}

// Main is one of perftest's programs: its command line, its text, its exit codes.
func Main(ctx context.Context, tool flags.Tool, args []string, out output.Streams) int {
	v, err := flags.Parse(tool, args)
	asked := ""
	switch {
	case err != nil:
		explainUsage(tool, err, out)
		return PerftestFailed
	case v.Help:
		asked = flags.Usage(tool)
	case v.Version:
		asked = fmt.Sprintf("Version: %s\n", v.ClaimedVersion())
	}
	if asked != "" {
		_, err = io.WriteString(out.Out, asked)
		exit.Complain(out.Err, tool.Name, err)
		return PerftestFailed
	}
	if _, err := wire.Advertised(v.PerftestVersion); err != nil {
		fmt.Fprintf(out.Err, " --perftest-version: %v\n", err)
		return PerftestFailed
	}
	r := testRun{v: v, out: out, clock: tick.Start()}
	if err := r.run(ctx); err != nil {
		r.explain(err)
		return r.status(err)
	}
	return r.judge()
}

// explainUsage says what is wrong with a command line: each fault in stock's words, where it has some, and in ours.
func explainUsage(tool flags.Tool, err error, out output.Streams) {
	if unknown, is := errors.AsType[*flags.UnknownError](err); is {
		fmt.Fprintf(out.Err, "%v\n", unknown)
		_, err := fmt.Fprint(out.Out, flags.Usage(tool))
		exit.Complain(out.Err, tool.Name, err)
		fmt.Fprintf(out.Err, " Invalid Command or flag.\n Please check command line and run again.\n\n")
	} else {
		for _, e := range exit.EachOf(err) {
			if stock, is := errors.AsType[*flags.StockError](e); is {
				fmt.Fprintln(out.Err, stock.Line)
			}
			fmt.Fprintf(out.Err, " %v\n", e)
		}
	}
	fmt.Fprintf(out.Err, " Parser function exited with Error\n")
}

// testRun is one run under one of perftest's names.
type testRun struct {
	v         flags.Invocation
	out       output.Streams
	clock     tick.Clock
	text      *text.Text
	json      *text.Document
	providers []verbs.Provider // of devices; nil: those of this machine
	plan      plan.Spec
	row       plan.Row
	peersView bool // records are the other end's view: the target's, with gobw there

	missed []string // what -w and -y say of the rows
	failed error    // of a file or stream, noticed while a row was written
}

func (r *testRun) run(ctx context.Context) (err error) {
	if r.v.NUMANode != nil {
		if err := machine.CheckNUMANode(*r.v.NUMANode); err != nil {
			return fmt.Errorf("--numa_node: %w", err)
		}
	}
	if len(r.v.Cores) > 0 {
		if err := r.cpu().Check(); err != nil {
			return fmt.Errorf("--pin_cores: %w", err)
		}
	}
	_, r.failed = io.WriteString(r.out.Out, r.v.Remarks) // a reader that is gone ends no test, as in perftest
	if path := r.v.JSONFile; path != "" {
		if err := report.CheckWritable(path); err != nil {
			return fmt.Errorf("--out_json_file: %w", err)
		}
	}
	d, err := r.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	r.text = text.NewText(r.out.Out, r.v, float64(r.clock.PerNanosecond()))
	s, err := r.connect(ctx, d)
	if err != nil {
		return err
	}
	port, err := r.fit(s, d)
	if err != nil {
		s.Fail(err)
		return err
	}
	o := r.options(d.Device, port.Number, s.LocalAddr())
	o.Connected, o.Lingering = func(p *plan.Settled, end *endpoint.Endpoint) { r.connected(s, p, end) }, r.text.Finish
	o.Measured = r.measured
	spec := r.v.Plan
	if _, err = bench.Run(ctx, s, &spec, d.Device, o); err != nil && !r.endless(err) {
		return err
	}
	if r.v.WaitDestroy == 0 {
		r.text.Finish()
	}
	return errors.Join(s.Close(), r.text.Err(), r.failed)
}

// allowSoftware names the environment variable that lets the software device stand in where no device is named.
const allowSoftware = "GOBW_ALLOW_SOFTWARE"

// open is the device named, or the first one, as in perftest. A dead port or a missing driver is an
// error: scripts take a row for a NIC's.
func (r *testRun) open() (*opendevice.Device, error) {
	c := opendevice.Config{Name: r.v.Device, Port: r.v.IBPort, GID: r.v.GIDIndex, Providers: r.providers}
	if os.Getenv(allowSoftware) != "1" {
		c.Strict, c.First = true, true
	}
	d, err := opendevice.Open(c)
	if err != nil {
		return nil, err
	}
	if d.Note != "" {
		fmt.Fprintf(r.out.Err, " %s\n", d.Note)
	}
	if d.Info().Software { // its port and its table come with its address
		return d, nil
	}
	port, err := endpoint.ChoosePort(d.Device, r.v.IBPort)
	if err == nil && r.v.GIDIndex != nil {
		var table []verbs.GIDEntry
		if table, err = d.Device.GIDs(port.Number); err == nil {
			_, err = endpoint.GIDWithIndex(table, *r.v.GIDIndex)
		}
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// options are what the command line says of this end alone.
func (r *testRun) options(d verbs.Device, port int, local netip.Addr) bench.Options {
	o := bench.Options{
		CPU: r.cpu(), Port: port, GIDIndex: r.v.GIDIndex, DLID: r.v.DLID, NUMANode: r.v.NUMANode, Stall: r.v.PeerTimeout,
		Linger:   r.v.WaitDestroy,
		WhatLeft: true,
	}
	if r.v.NoNUMA {
		o.NUMANode = new(-1)
	}
	if o.GIDIndex == nil && r.v.IPv6GID {
		o.GIDIndex = ipv6GID(d, port, local)
	}
	return o
}

// cpu is where the measuring thread runs: on the first of the cores asked for that there is, else on one of the last.
func (r *testRun) cpu() machine.CPUChoice {
	switch {
	case len(r.v.Cores) > 0:
		return machine.CPUChoice{CPUs: r.v.Cores, AnyMask: true}
	case r.v.Server():
		return machine.CPUChoice{Last: 2}
	}
	return machine.CPUChoice{Last: 1}
}

// endless tells the normal end of a test that runs until it is killed: the client's signal, or at its server the end of
// the connection.
func (r *testRun) endless(err error) bool {
	return r.plan.Infinite && (errors.Is(err, context.Canceled) || r.v.Server() && errors.Is(err, control.ErrPeerLost))
}

// fit adapts the plan to the device. The software device gets its address first.
func (r *testRun) fit(s control.Session, d *opendevice.Device) (verbs.PortInfo, error) {
	if err := d.Meet(s); err != nil {
		return verbs.PortInfo{}, err
	}
	port, err := endpoint.ChoosePort(d.Device, r.v.IBPort)
	if err != nil {
		return port, err
	}
	err = errors.Join(r.v.Fit(d.Info(), port), r.checkCounters(d.Device, port.Number))
	fmt.Fprint(r.out.Err, r.v.Shrunk)
	for _, w := range r.v.Warnings {
		fmt.Fprintf(r.out.Err, " Warning: %s\n", w)
	}
	return port, err
}

// checkCounters refuses names that the device does not count before the test, not after.
func (r *testRun) checkCounters(d verbs.Device, port int) error {
	if len(r.v.Counters) == 0 {
		return nil
	}
	known, err := d.Counters(port)
	if err != nil {
		return fmt.Errorf("-W: %w", err)
	}
	for _, name := range r.v.Counters {
		if _, is := known[path.Base(name)]; !is {
			return fmt.Errorf("-W %s: %s has %s", name, d.Info().Name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
	}
	return nil
}

// connect is both roles: wait for a client, or go to the server.
func (r *testRun) connect(ctx context.Context, d *opendevice.Device) (control.Session, error) {
	dial := r.dialOptions()
	if r.v.ControlCM {
		if _, err := rdmacm.ConnectionManagerOf(d.Device); err != nil {
			return nil, err
		}
		dial.RDMA = d.Device
	}
	if !r.v.Server() {
		r.text.Begin(d.Info())
		return connect.Dial(ctx, control.HostPort(control.Host(r.v.Host), r.v.TCPPort), dial)
	}
	listen, host := dial, ""
	if r.v.Source.IsValid() {
		host = r.v.Source.String()
	}
	listen.Address = net.JoinHostPort(host, strconv.Itoa(r.v.TCPPort))
	listen.Log = slog.New(slog.NewTextHandler(r.out.Err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	listen.LocalFacts = func() (control.Facts, error) { return endpoint.LocalFacts(d.Device, r.v.IBPort) }
	l, err := connect.Listen(listen)
	if err != nil {
		return nil, measure.PortTaken(err)
	}
	defer func() { _ = l.Close() }() // with -R the test's queue pairs want its port
	r.text.Begin(d.Info())
	return l.Accept(ctx)
}

// dialOptions are how a client reaches its server, and what it says of itself. A server speaks perftest's dialect with
// every client, so that each end's options are its own: two ends of ours then do what two of perftest's do.
func (r *testRun) dialOptions() control.Options {
	wait := r.v.PeerTimeout // every one
	return control.Options{
		Perftest: control.PerftestOptions{Version: r.v.PerftestVersion, Gbits: r.v.Gbits, NoMarker: r.v.Server()},
		Program:  r.v.Tool.Name + " (gobw " + machine.Version() + ")", Source: r.v.Source, Network: r.v.Network,
		Timeouts: control.Timeouts{Peer: wait, Hello: wait, Phase: wait},
	}
}

// connected prints the header, once both ends are known.
func (r *testRun) connected(s control.Session, p *plan.Settled, end *endpoint.Endpoint) {
	r.plan, r.row = p.Spec, p.Row
	r.peersView = p.Role == plan.Target && s.Dialect() == control.Ours
	rails := end.Rails
	device := rails[0].Device.Info()
	f := text.Facts{
		Device: device, Port: rails[0].Port, MTU: end.MTU, Inline: end.Inline, Outstanding: p.Outstanding,
		NUMANode: r.node(device), Local: end.Addresses(), Remote: end.Peer(), Plan: p, PostAPI: end.PostAPI(),
	}
	if rails[0].UseGID {
		f.GID = &rails[0].GID
	}
	for _, note := range p.Notes {
		fmt.Fprintf(r.out.Err, " Warning: %s\n", note)
	}
	counted := p.Row.NeedsReceive() && (s.Dialect() == control.Ours || !p.Sends()) // by the receiver
	if r.plan.Kind == plan.Bandwidth && r.plan.Transport != verbs.RC && !counted {
		fmt.Fprintf(r.out.Err,
			" Note: %v may lose messages, and nobody counts them: the figures are of what left the sender\n", r.plan.Transport)
	}
	r.text.Header(f)
	r.json = text.NewDocument(f, r.v)
}

// node is the NUMA node on which this end measures; -1: unknown.
func (r *testRun) node(d verbs.DeviceInfo) int {
	switch {
	case r.v.NUMANode != nil:
		return *r.v.NUMANode
	case d.NUMANode >= 0 && !r.v.NoNUMA:
		return d.NUMANode
	}
	return machine.CurrentNode()
}

// measured prints a row, writes the file and compares with the limits.
func (r *testRun) measured(rec report.Record, samples report.Samples) {
	if r.v.Server() && r.plan.AllSizes && rec.Messages == 0 {
		return // with -a a one-sided client tells its server of the last size alone
	}
	if r.peersView { // CPU time and counters are printed as this end's own
		rec.CPU, rec.Counters = rec.PeerCPU, rec.PeerCounters
	}
	row := r.text.Measured(rec, samples)
	if r.v.JSONFile != "" {
		r.failed = cmp.Or(r.failed, r.json.Write(r.v.JSONFile, row))
	}
	if r.v.Server() && r.row.Addressed() && !r.plan.Bidirectional {
		return // the client judges what it measured
	}
	if r.v.LimitBW != nil && row.Average < *r.v.LimitBW {
		r.missed = plain.AddNew(r.missed, "BW result is below bw limit")
	}
	if r.v.LimitRate != nil && row.MsgRate < *r.v.LimitRate {
		r.missed = plain.AddNew(r.missed, "Msg rate  is below msg_rate limit")
	}
}

// judge is the exit status of a run that went well.
func (r *testRun) judge() int {
	if len(r.missed) == 0 {
		return PerftestOK
	}
	slices.Sort(r.missed)
	fmt.Fprintf(r.out.Err, "Error: %s\n", strings.Join(r.missed, "\nError: "))
	return PerftestFailed
}

// status is the exit status of a run that failed.
func (r *testRun) status(err error) int {
	_, failed := errors.AsType[*verbs.CompletionError](err)
	_, port := errors.AsType[*endpoint.PortError](err)
	p := r.v.Plan
	noDevice := r.text == nil && exit.Has(err, exit.Setup) && !port
	tells := p.Operation == plan.Send || p.Kind == plan.Latency && p.Operation != plan.Write ||
		p.Operation == plan.Read && p.AllSizes
	if sig, is := errors.AsType[exit.SignalError](err); is {
		return exit.Code(sig)
	}
	switch {
	case noDevice && p.Kind == plan.Bandwidth && plan.RowOf(p.Operation).Responded:
		return perftestNoDevice
	case failed && tells:
		return perftestCompletion
	}
	return PerftestFailed
}

// explain writes an error: the line that scripts know from perftest where it has one, then ours.
func (r *testRun) explain(err error) {
	var completion *verbs.CompletionError
	var port *endpoint.PortError
	var mismatch *wire.MismatchError
	var op *net.OpError
	said := ""
	switch {
	case errors.As(err, &completion):
		c := completion.Completion
		said = fmt.Sprintf(" Completion with error at %s\n Failed status %d: wr_id %d syndrom 0x%x\nscnt=%d, ccnt=%d\n",
			map[bool]string{true: "server", false: "client"}[r.v.Server()], uint32(c.Status), c.ID, c.VendorError,
			completion.Sent, completion.Done)
	case errors.As(err, &mismatch):
		said = fmt.Sprintf(" %s\n Failed to negotiate parameters\n", mismatch.Lines[0])
	case errors.Is(err, syscall.ECONNREFUSED), !r.v.Server() && errors.As(err, &op) && op.Op == "dial":
		between := map[flags.Style]string{flags.Modern: "\n"}[r.v.Style()]
		said = fmt.Sprintf("Couldn't connect to %s:%d\nUnable to open file descriptor for socket connection%s Unable to "+
			"init the socket connection\n", r.v.Host, r.v.TCPPort, between)
	case errors.Is(err, control.ErrPeerLost):
		said = "ethernet_read_keys: Couldn't read remote address\n Unable to read from socket/rdma_cm\n"
	case errors.As(err, &port) && port.Number > port.Ports:
		said = fmt.Sprintf(" Unable to query port %d attributes\n Couldn't set the link layer\n Couldn't get context for "+
			"the device\n", port.Number)
	case errors.As(err, &port):
		state := port.State.String()
		said = fmt.Sprintf(" Port number %d state is %s\n Couldn't set the link layer\n Couldn't get context for "+
			"the device\n", port.Number, state[:1]+strings.ToLower(state[1:]))
	case exit.Has(err, exit.Setup) && r.text == nil && r.v.Device != "":
		said = fmt.Sprintf("IB device %s not found\n Unable to find the Infiniband/RoCE device\n", r.v.Device)
	case exit.Has(err, exit.Setup) && r.text == nil:
		said = " Did not detect devices \n If device exists, check if driver is up\n Unable to find the " +
			"Infiniband/RoCE device\n"
	}
	_, _ = io.WriteString(r.out.Err, said)
	exit.Complain(r.out.Err, r.v.Tool.Name, err)
}

// ipv6GID is the RoCE v2 line with an IPv6 address that the peer reaches best: the local address of the control
// connection, one of the same interface, a global one before a link-local one. It is nil if there is none, and on
// loopback, which has one such address for two ends.
func ipv6GID(d verbs.Device, port int, local netip.Addr) *int {
	table, _ := d.GIDs(port) // its error comes again where the address is chosen
	local = local.Unmap().WithZone("")
	used := slices.IndexFunc(table, func(e verbs.GIDEntry) bool { return e.GID.Addr() == local })
	best, most := (*int)(nil), 0
	for _, e := range table {
		if e.Type != verbs.GIDRoCEv2 || e.GID.Addr().Is4() || e.GID.Addr().IsLoopback() {
			continue
		}
		score := 1
		switch {
		case e.GID.Addr() == local:
			score += 4
		case used >= 0 && e.NetInterface != "" && e.NetInterface == table[used].NetInterface:
			score += 2
		}
		if !e.GID.IsLinkLocal() {
			score++
		}
		if score > most {
			best, most = &e.Index, score
		}
	}
	return best
}
