package fabric

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/gate"
	"github.com/gobw/gobw/internal/cli/opendevice"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/fabric"
	"github.com/gobw/gobw/internal/fabric/judge"
	"github.com/gobw/gobw/internal/fabric/schedule"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/expect"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/render"
	"github.com/gobw/gobw/verbs"
)

// flags are the flags of 'fabric'.
type flags struct {
	kind   plan.Kind
	device opendevice.Flags
	output output.Flags

	pattern, duration, round, slow string
	coordinator, hosts, wait       string
	operation, transport, size     string
	qps                            int
	gate                           gate.Flags
	worker                         bool
}

// config is a validated run.
type config struct {
	run         fabric.Config
	coordinator string
	hosts       []string
	port        int // 0: by the job
	device      opendevice.Config
	deviceFlags *opendevice.Flags
	output      output.Config
	gate        gate.Config
	worker      bool
	command     []string
}

func (f *flags) bind(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.pattern, "pattern", "", "pair hosts by `PATTERN`: "+schedule.PatternText()+" (default: what fits --time)")
	fs.StringVar(&f.duration, "time", "5m", "planned `TIME` of the run; the run may take twice as long")
	fs.StringVar(&f.round, "round", "1s", "measure each round for `TIME`")
	fs.StringVar(&f.slow, "slow", "5%", "the smallest `DROP` that matters")
	cmdline.Group(fs, "What to test")
	fs.StringVar(&f.hosts, "hosts", "", "all hosts: a `FILE` with one per line, or node[1-4]; start the others with --coordinator")
	fs.StringVar(&f.coordinator, "coordinator", "", "find rank 0 at `ADDRESS`: HOST, HOST:PORT or :PORT; without a launcher: join the run there")
	fs.StringVar(&f.wait, "wait", "60s", "wait this `TIME` for ranks")
	cmdline.Group(fs, "Ranks")
	size, example := "64K", "'bw >= 90Gb/s'"
	if f.kind == plan.Latency {
		size, example = "8", "'p50 <= 3us'"
	}
	fs.StringVar(&f.operation, "op", "write", "test with `OPERATION`: write, read or send")
	fs.StringVarP(&f.transport, "connection", "c", "RC", "use `TRANSPORT`: RC, UC or UD")
	fs.StringVarP(&f.size, "size", "s", size, "messages of `SIZE` bytes")
	fs.IntVarP(&f.qps, "qp", "q", 1, "queue pairs of each flow")
	cmdline.Group(fs, "Between two hosts")
	f.device.Bind(fs)
	f.device.Several(fs)
	f.output.Bind(fs, render.DocumentFormats())
	f.gate.Bind(fs, example)
	cmdline.Group(fs, "Output and verdict")
	fs.BoolVar(&f.worker, "worker", false, "measure as told on standard input")
	cmdline.Hide(fs, "worker")
	cmdline.GroupFlags(cmd)
	cmdline.Brief(cmd, "time", "pattern", "hosts", "coordinator", "device", "expect", "save")
}

// config checks the flags and names all mistakes at once.
func (f *flags) config() (config, error) {
	c := config{
		coordinator: f.coordinator, worker: f.worker, deviceFlags: &f.device,
	}
	var wrong cmdline.Faults
	var err error
	c.device, err = f.device.Config()
	wrong.Note(err)
	c.run.Rails = strings.Split(c.device.Name, ",")
	c.output, err = f.output.Config()
	wrong.Note(err)
	if host, port, err := net.SplitHostPort(f.coordinator); err == nil {
		n, err := strconv.ParseUint(port, 10, 16)
		wrong.If(err != nil || n == 0, "--coordinator %s: want HOST, HOST:PORT or :PORT, with a port from 1 to 65535", f.coordinator)
		c.coordinator, c.port = host, int(n)
	}
	f.rounds(&c, &wrong)
	f.test(&c, &wrong)
	c.gate, err = f.gate.Config(expect.Options{Dir: "."}, func(e *expect.Expectation) error {
		return e.CheckTest(string(f.kind), c.run.Plan.Transport.String())
	})
	wrong.Note(err)
	return c, errors.Join(wrong...)
}

// mostListed bounds a file of hosts.
const mostListed = 64 << 20

// rounds checks what decides which rounds are run.
func (f *flags) rounds(c *config, wrong *cmdline.Faults) {
	seconds := func(name, text string, least time.Duration) time.Duration {
		d, err := plan.ParseSeconds(text)
		wrong.If(err != nil || d < least, "%s %q: want a time in s, m or h, %v or more, such as 90s or 20m", name, text, least)
		return d
	}
	r := &c.run
	r.Time, r.Measure, r.Wait = seconds("--time", f.duration, time.Second), seconds("--round", f.round, 10*time.Millisecond), seconds("--wait", f.wait, time.Second)
	wrong.If(r.Measure > time.Hour, "--round %s: want an hour or less", f.round)
	var err error
	if f.pattern != "" {
		r.Pattern, err = schedule.ParsePattern(f.pattern)
		wrong.Note(cmdline.Prefixed("--pattern", err))
	}
	if f.hosts != "" {
		c.hosts, err = readHosts(f.hosts)
		wrong.Note(cmdline.Prefixed("--hosts", err))
	}
	slow, err := cmdline.ParsePercent(f.slow)
	wrong.If(err != nil || slow < 0.005 || slow > 0.9, "--slow %q: want 0.5%% to 90%%", f.slow)
	r.Judge = judge.Config{Slow: slow, Seed: 1, Latency: f.kind == plan.Latency}
}

// test checks what runs between two hosts.
func (f *flags) test(c *config, wrong *cmdline.Faults) {
	p := plan.Spec{Operation: plan.Operation(f.operation), Kind: f.kind, QPs: f.qps, Duration: time.Hour}
	if f.kind == plan.Latency {
		p.InlineBytes = -1
	}
	if err := p.Transport.UnmarshalText([]byte(strings.ToUpper(f.transport))); err != nil {
		wrong.Note(cmdline.Prefixed("--connection (-c)", err))
	}
	size, err := plan.ParseSize(f.size)
	wrong.Note(cmdline.Prefixed("--size (-s)", err))
	p.Sizes = []int{size}
	if size >= 1024 { // a slow path has few completions in a round: each is looked at
		p.CQMod = 1
	}
	wrong.Range("--qp (-q)", f.qps, 1, 256)
	if p.Operation == plan.Write && f.kind == plan.Bandwidth && p.Transport == verbs.RC && f.qps == 1 {
		p.Verify = "ends"
	}
	known := slices.Contains(fabric.Operations(), p.Operation)
	wrong.If(!known, "--op %q: want write, read or send", f.operation)
	wrong.If(known && !plan.RowOf(p.Operation).Supports(p.Transport), "--op %s: %v does not carry it: use --connection RC, or --op send", f.operation, p.Transport)
	wrong.If(p.Operation == plan.Write && p.Transport == verbs.UC, "--op write over UC: nobody can count what arrives: use --op send, or --connection RC")
	wrong.If(f.kind == plan.Latency && c.run.Pattern == schedule.Incast, "--pattern incast: a latency test needs one partner per round: use pairs, leaves or random")
	c.run.Plan = p
}

// readHosts reads a file of hosts, or a list as Slurm's.
func readHosts(s string) ([]string, error) {
	b, err := report.ReadFile(s, mostListed)
	var hosts []string
	switch {
	case err == nil:
		hosts, err = fabric.ReadHosts(b)
	case errors.Is(err, os.ErrNotExist) && strings.ContainsAny(s, "[,"):
		hosts, err = fabric.ExpandHosts(s)
	case errors.Is(err, os.ErrNotExist):
		err = fmt.Errorf("%q is no file: want a file of hosts, or two hosts or more: a,b or node[1-4]", s)
	}
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, h := range hosts {
		if seen[h] {
			return nil, fmt.Errorf("%s is in the list twice: start one rank per host", h)
		}
		seen[h] = true
	}
	if len(hosts) < 2 {
		return nil, fmt.Errorf("%s: a fabric test needs two or more", plain.Plural(len(hosts), "host"))
	}
	return hosts, nil
}
