package fabric

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/internal/cli/agent"
	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/opendevice"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/fabric/coordinate"
	"github.com/gobw/gobw/internal/fabric/hostlist"
	"github.com/gobw/gobw/internal/fabric/judge"
	"github.com/gobw/gobw/internal/fabric/rank"
	"github.com/gobw/gobw/internal/fabric/schedule"
	"github.com/gobw/gobw/internal/fabric/simulate"
	"github.com/gobw/gobw/internal/fabric/summary"
	"github.com/gobw/gobw/internal/fabric/topology"
	"github.com/gobw/gobw/internal/plan"
	results "github.com/gobw/gobw/report"
	report "github.com/gobw/gobw/report/fabric"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/verbs"
)

// flags are the flags of 'fabric'.
type flags struct {
	kind   plan.Kind
	given  func(name string) bool // the flag stood on the command line
	device opendevice.Flags
	secret agent.Secret

	pattern, custom, topology, duration, measure, wait    string
	slow, alpha, baseline                                 string
	oneWay                                                bool
	seed                                                  uint64
	rank, ranks, port                                     int
	coordinator, hosts                                    string
	operation, transport, size                            string
	qps, txDepth                                          int
	noVerify                                              bool
	simulate, leafSize                                    int
	plant, noise                                          string
	html, junit, json, jsonl, csv, openMetrics, nodesFile string
	quiet                                                 bool
}

// files are where results go; empty: nowhere.
type files struct{ html, junit, json, jsonl, csv, openMetrics, nodes string }

// config is a validated run.
type config struct {
	command     string
	flags       rank.Flags
	hosts       []string
	port        int
	wait        time.Duration
	secret      agent.Secret
	rails       []string
	workerFlags []string
	plan        plan.Spec
	pattern     schedule.Pattern // empty: chosen
	custom      []byte
	leaf        map[string]string
	time        time.Duration
	measure     time.Duration
	judge       judge.Config
	oneWay      bool
	files       files
	quiet       bool
	baseline    string // file

	simulated, leafSize int
	plants              []simulate.Plant
	noise               float64
}

func (f *flags) bind(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.SortFlags = false
	f.given = fs.Changed
	names := plain.Each(schedule.Patterns(), func(p schedule.Pattern) string { return string(p) })
	fs.StringVar(&f.pattern, "pattern", "", strings.Join(names, ", ")+" (what fits --time)")
	fs.StringVar(&f.custom, "custom", "", "file of rounds: 'ROUND HOST1 HOST2' lines, or 'a,b;c,d' lines")
	fs.StringVar(&f.topology, "topology", "", "file of leaves: topology.conf, or 'HOST LEAF' lines (what Slurm tells)")
	fs.StringVar(&f.duration, "time", "5m", "how long it may take; chooses the pattern and the re-tests")
	fs.StringVar(&f.measure, "round", "1s", "measured time of a round")
	fs.StringVar(&f.slow, "slow", "5%", "the least drop that matters")
	fs.StringVar(&f.alpha, "alpha", "1%", "chance that a run accuses any healthy host or link")
	fs.StringVar(&f.baseline, "baseline", "", "a run's --json to hold this one to (the run itself alone)")
	fs.BoolVar(&f.oneWay, "one-way", false, "each direction of a pair in a round of its own")
	fs.Uint64Var(&f.seed, "seed", 1, "of the random patterns")
	fs.StringVar(&f.hosts, "hosts", "", "file of hosts, one a line, or a list node[1-4]: agents are started elsewhere")
	fs.IntVar(&f.rank, "rank", -1, "this process's rank (the launcher's)")
	fs.IntVar(&f.ranks, "ranks", 0, "how many ranks there are (the launcher's)")
	fs.StringVar(&f.coordinator, "coordinator", "", "HOST[:PORT] of rank 0 (the launcher's first host)")
	fs.IntVarP(&f.port, "port", "p", 0, "TCP port of rank 0 (by the job's number)")
	fs.StringVar(&f.wait, "wait", "60s", "how long ranks may take to come")
	f.secret.Bind(fs)
	operation, size := "write", "64K"
	if f.kind == plan.Latency {
		size = "8"
	}
	fs.StringVar(&f.operation, "op", operation, "write, read or send")
	fs.StringVarP(&f.transport, "connection", "c", "RC", "RC, UC or UD")
	fs.StringVarP(&f.size, "size", "s", size, "message size")
	fs.IntVarP(&f.qps, "qp", "q", 1, "queue pairs of each flow")
	fs.IntVarP(&f.txDepth, "tx-depth", "t", 0, "messages in flight of each queue pair (128)")
	fs.BoolVar(&f.noVerify, "no-verify", false, "do not look at the data that arrives")
	f.device.Bind(fs)
	fs.StringVar(&f.html, "html", "", "write a page with tables and heat maps")
	fs.StringVar(&f.junit, "junit", "", "write JUnit XML, a case per host")
	fs.StringVar(&f.json, "json", "", "write the whole document")
	fs.StringVar(&f.jsonl, "jsonl", "", "write a line of JSON per cell, as rounds end")
	fs.StringVar(&f.csv, "csv", "", "write a row per cell")
	fs.StringVar(&f.openMetrics, "openmetrics", "", "write OpenMetrics")
	fs.StringVar(&f.nodesFile, "nodes", "", "write the good hosts, one a line")
	fs.BoolVar(&f.quiet, "quiet", false, "no progress")
	fs.IntVar(&f.simulate, "simulate", 0, "judge a simulated fabric of so many hosts instead")
	fs.StringVar(&f.plant, "plant", "", "its faults: host=17:-20%,link=3-900:-50%,trunk=0-1:-30%,dead=5")
	fs.StringVar(&f.noise, "noise", "1%", "its noise: the standard deviation of a cell")
	fs.IntVar(&f.leafSize, "leaf-size", 0, "its hosts per leaf (one leaf)")
	cmdline.GroupFlags(cmd, []cmdline.FlagGroup{
		{Title: "What to test", Names: []string{"pattern", "custom", "topology", "time", "round", "slow", "alpha", "baseline", "one-way", "seed"}},
		{Title: "Ranks", Names: []string{"hosts", "rank", "ranks", "coordinator", "port", "wait", "token-file"}},
		{Title: "Between two hosts", Names: []string{"op", "connection", "size", "qp", "tx-depth", "no-verify"}},
		opendevice.Group(),
		{Title: "Output", Names: []string{"html", "junit", "json", "jsonl", "csv", "openmetrics", "nodes", "quiet"}},
		{Title: "Simulation", Names: []string{"simulate", "plant", "noise", "leaf-size"}},
	})
}

// config checks the flags and names all mistakes at once.
func (f *flags) config(string, output.Streams) (config, error) {
	c := config{
		flags: rank.Flags{Rank: f.rank, Size: f.ranks, Coordinator: f.coordinator}, port: f.port, secret: f.secret, oneWay: f.oneWay, quiet: f.quiet,
		files: files{f.html, f.junit, f.json, f.jsonl, f.csv, f.openMetrics, f.nodesFile}, simulated: f.simulate, leafSize: f.leafSize,
		workerFlags: f.device.Words(),
	}
	var wrong cmdline.Faults
	device, err := f.device.Config()
	wrong.Note(err)
	c.rails = strings.Split(device.Name, ",")
	wrong.If(f.rank < -1 || f.ranks < 0 || f.ranks > 1<<16,
		"--rank %d --ranks %d: want a rank from 0 and at most %d ranks", f.rank, f.ranks, 1<<16)
	wrong.If(f.rank >= 0 && f.ranks == 0, "--rank needs --ranks: how many there are")
	wrong.If(f.port < 0 || f.port > 65535, "--port (-p) %d: want 1 to 65535", f.port)
	f.rounds(&c, &wrong)
	f.test(&c, &wrong)
	f.simulation(&c, &wrong)
	if f.baseline != "" && len(wrong) == 0 {
		wrong.Note(cmdline.Prefixed("--baseline "+f.baseline, c.holdTo(f.baseline)))
	}
	return c, errors.Join(wrong...)
}

// holdTo takes what an earlier run has learnt for this one's criterion.
func (c *config) holdTo(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	d, err := report.Read(file)
	if err != nil {
		return err
	}
	c.judge.Baseline, err = summary.Baseline(d, c.facts(time.Time{}, coordinate.Outcome{}))
	c.baseline = fmt.Sprintf("%s of %s", path, d.Began.Format(time.DateOnly))
	return err
}

// rounds checks what decides which rounds are run.
func (f *flags) rounds(c *config, wrong *cmdline.Faults) {
	var err error
	seconds := func(name, text string, least time.Duration) time.Duration {
		d, err := plan.ParseSeconds(text)
		wrong.If(err != nil || d < least, "%s %q: want a time of %v or more, such as 90s or 20m", name, text, least)
		return d
	}
	c.time, c.measure, c.wait = seconds("--time", f.duration, time.Second), seconds("--round", f.measure, 10*time.Millisecond), seconds("--wait", f.wait, time.Second)
	if f.pattern != "" {
		c.pattern, err = schedule.ParsePattern(f.pattern)
		wrong.Note(cmdline.Prefixed("--pattern", err))
	}
	if f.custom != "" {
		wrong.If(c.pattern != "" && c.pattern != schedule.Custom, "--custom and --pattern %s exclude each other", c.pattern)
		c.pattern = schedule.Custom
		c.custom, err = results.ReadFile(f.custom, mostListed)
		wrong.Note(cmdline.Prefixed("--custom", err))
	} else if c.pattern == schedule.Custom {
		wrong.Note(errors.New("--pattern custom: name its file with --custom"))
	}
	if f.topology != "" {
		b, err := results.ReadFile(f.topology, mostListed)
		if err == nil {
			c.leaf, err = topology.Read(bytes.NewReader(b))
		}
		wrong.Note(cmdline.Prefixed("--topology", err))
	}
	if f.hosts != "" {
		c.hosts, err = readHosts(f.hosts)
		wrong.Note(cmdline.Prefixed("--hosts", err))
	}
	slow, err := cmdline.ParsePercent(f.slow)
	wrong.If(err != nil || slow < 0.005 || slow > 0.9, "--slow %q: want 0.5%% to 90%%", f.slow)
	alpha, err := cmdline.ParsePercent(f.alpha)
	wrong.If(err != nil || alpha <= 0 || alpha > 0.5, "--alpha %q: want more than 0%%, at most 50%%", f.alpha)
	c.judge = judge.Config{Slow: slow, Alpha: alpha, OneWay: f.oneWay, Seed: f.seed, Latency: f.kind == plan.Latency}
}

// test checks what runs between two hosts.
func (f *flags) test(c *config, wrong *cmdline.Faults) {
	c.plan = plan.Spec{Operation: plan.Operation(f.operation), Kind: f.kind, QPs: f.qps, TxDepth: f.txDepth, Duration: time.Hour, InlineBytes: 0}
	if f.kind == plan.Latency {
		c.plan.InlineBytes = -1
	}
	wrong.If(!slices.Contains([]plan.Operation{plan.Write, plan.Read, plan.Send}, c.plan.Operation),
		"--op %q: want write, read or send", f.operation)
	if err := c.plan.Transport.UnmarshalText([]byte(strings.ToUpper(f.transport))); err != nil {
		wrong.Note(cmdline.Prefixed("--connection (-c)", err))
	}
	size, err := plan.ParseSize(f.size)
	wrong.Note(cmdline.Prefixed("--size (-s)", err))
	c.plan.Sizes = []int{size}
	if size >= 1024 { // a slow path has few completions in a round: each is looked at
		c.plan.CQMod = 1
	}
	wrong.Range("--qp (-q)", f.qps, 1, 256)
	wrong.If(f.txDepth < 0 || f.txDepth > 15000, "--tx-depth (-t) %d: want 1 to 15000", f.txDepth)
	if c.plan.Operation == plan.Write && f.kind == plan.Bandwidth && c.plan.Transport == verbs.RC && f.qps == 1 && !f.noVerify {
		c.plan.Verify = "ends"
	}
	known := slices.Contains([]plan.Operation{plan.Write, plan.Read, plan.Send}, c.plan.Operation)
	wrong.If(known && !plan.RowOf(c.plan.Operation).Supports(c.plan.Transport), "--op %s: %v does not carry it: use --connection RC, or --op send", f.operation, c.plan.Transport)
	wrong.If(c.plan.Operation == plan.Write && c.plan.Transport == verbs.UC, "--op write over UC: nobody knows how much arrives: use --op send, or --connection RC")
	if f.kind == plan.Latency && c.plan.Operation == plan.Read {
		c.oneWay, c.judge.OneWay = true, true // a host measures one pair at a time
	}
	wrong.If(f.kind == plan.Latency && slices.Contains([]schedule.Pattern{schedule.Shift, schedule.Incast, schedule.AllToAll, schedule.Ring}, c.pattern),
		"--pattern %s: a latency test has one partner a round: pairs, quick, bisection, leaves, random or custom", c.pattern)
}

func (f *flags) simulation(c *config, wrong *cmdline.Faults) {
	idle, why := []string{"plant", "noise", "leaf-size"}, "only a simulated fabric (--simulate N) has it"
	if f.given("simulate") {
		idle, why = []string{"hosts", "rank", "ranks", "coordinator", "port", "wait", "token-file", "topology"}, "a simulated fabric has no ranks; its leaves are --leaf-size"
	}
	for _, name := range idle {
		wrong.If(f.given(name), "--%s: %s", name, why)
	}
	if !f.given("simulate") {
		return
	}
	if f.simulate < 2 || f.simulate > 20000 {
		wrong.Note(fmt.Errorf("--simulate %d: want 2 to 20000 hosts", f.simulate))
		return
	}
	if f.leafSize < 0 || f.leafSize > f.simulate {
		wrong.Note(fmt.Errorf("--leaf-size %d: want 1 to %d", f.leafSize, f.simulate))
		return
	}
	leaves := 1
	if f.leafSize > 0 {
		leaves = (f.simulate + f.leafSize - 1) / f.leafSize
	}
	var err error
	c.plants, err = simulate.ParsePlants(f.plant, simulate.Size{Hosts: f.simulate, Leaves: leaves, Rails: len(c.rails)})
	wrong.Note(cmdline.Prefixed("--plant", err))
	wrong.If(f.kind == plan.Bandwidth && slices.ContainsFunc(c.plants, func(p simulate.Plant) bool { return p.Kind == simulate.PlantTail }),
		"--plant tail=...: only latencies have a tail: golat fabric")
	if c.noise, err = cmdline.ParsePercent(f.noise); err != nil || c.noise < 0 || c.noise > 0.5 {
		wrong.Note(fmt.Errorf("--noise %q: want 0%% to 50%%", f.noise))
	}
}

// mostListed bounds a file of hosts, leaves or rounds.
const mostListed = 64 << 20

// readHosts reads a file of hosts, one a line (what follows on it is ignored: mpirun's "slots=2"), or a list as Slurm's.
func readHosts(s string) ([]string, error) {
	b, err := results.ReadFile(s, mostListed)
	var hosts []string
	switch {
	case err == nil:
		if err := hostlist.Lines(bytes.NewReader(b), func(text string) error {
			some, err := hostlist.Expand(strings.Fields(text)[0])
			hosts = append(hosts, some...)
			return err
		}); err != nil {
			return nil, err
		}
	case errors.Is(err, os.ErrNotExist) && strings.ContainsAny(s, "[,"):
		if hosts, err = hostlist.Expand(s); err != nil {
			return nil, err
		}
	default:
		return nil, err
	}
	seen := map[string]bool{}
	for _, h := range hosts {
		if seen[h] {
			return nil, fmt.Errorf("%s is there twice: one rank a host", h)
		}
		seen[h] = true
	}
	if len(hosts) < 2 {
		return nil, fmt.Errorf("%d hosts: a fabric test needs two or more", len(hosts))
	}
	return hosts, nil
}
