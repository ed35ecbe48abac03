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
	"github.com/gobw/gobw/internal/cli/measure"
	"github.com/gobw/gobw/internal/fabric/judge"
	"github.com/gobw/gobw/internal/fabric/launch"
	"github.com/gobw/gobw/internal/fabric/rankzero"
	"github.com/gobw/gobw/internal/fabric/schedule"
	"github.com/gobw/gobw/internal/fabric/worker"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/render"
	"github.com/gobw/gobw/verbs"
)

// config is a run.
type config struct {
	measure.Config
	run         rankzero.Config
	coordinator string
	hosts       []string
	port        int      // 0: by the job
	deviceWords []string // for the processes that measure
	worker      bool
}

// flags are the flags of 'fabric'. The run is set as they are read.
type flags struct {
	config config
	measure.Flags
	wrong cmdline.Faults // of what was typed
}

func (f *flags) bind(cmd *cobra.Command, kind plan.Kind) {
	fs, c, wrong := cmd.Flags(), &f.config, &f.wrong
	fs.SortFlags = false
	r, p := &c.run, &c.run.Plan
	*p = plan.Spec{Kind: kind, Duration: time.Hour}
	r.Judge = judge.Config{Seed: 1, Latency: kind == plan.Latency}
	patterns := "pairs or incast"
	if kind == plan.Latency {
		patterns = "pairs"
	}
	cmdline.Parsed(fs, wrong, &r.Pattern, "pattern", "", "pairs", "pair hosts by `PATTERN`: "+patterns,
		oneOf(schedule.Pairs, schedule.Incast))
	cmdline.Parsed(fs, wrong, &r.Time, "time", "", "5m", "planned `TIME` of the run; the run may take twice as long",
		atLeast(time.Second))
	cmdline.Parsed(fs, wrong, &r.Measure, "round", "", "1s", "measure each round for `TIME`", atLeast(10*time.Millisecond))
	cmdline.Parsed(fs, wrong, &r.Judge.Slow, "slow", "", "5%", "the smallest `DROP` that matters",
		func(text string) (float64, error) {
			number, percent := strings.CutSuffix(text, "%")
			slow, err := strconv.ParseFloat(number, 64)
			if err != nil || !percent || !(slow >= 0.5 && slow <= 90) {
				return 0, fmt.Errorf("%q: want 0.5%% to 90%%", text)
			}
			return slow / 100, nil
		})
	cmdline.Group(fs, "What to test")
	cmdline.Parsed(fs, wrong, &c.hosts, "hosts", "",
		"", "all hosts: a `FILE` with one per line, or node[1-4]; start the others with --coordinator", readHosts)
	cmdline.Parsed(fs, wrong, &c.coordinator, "coordinator", "",
		"", "rank 0 is at this `ADDRESS`: HOST or HOST:PORT; at rank 0 itself: listen on :PORT",
		func(text string) (string, error) {
			host, port, err := net.SplitHostPort(text)
			if err != nil {
				c.port = 0
				return text, nil //nolint:nilerr // a host alone
			}
			n, err := strconv.ParseUint(port, 10, 16)
			if c.port = int(n); err != nil || n == 0 {
				return "", fmt.Errorf("%s: want HOST, HOST:PORT or :PORT, with a port from 1 to 65535", text)
			}
			return host, nil
		})
	cmdline.Parsed(fs, wrong, &r.Wait, "wait", "", "60s", "wait this `TIME` for ranks", atLeast(time.Second))
	cmdline.Group(fs, "Ranks")
	size, example := "64K", "'bw >= 90Gb/s'"
	if kind == plan.Latency {
		size, example, p.InlineBytes = "8", "'p50 <= 3us'", -1
	}
	cmdline.Parsed(fs, wrong, &p.Operation, "op", "", "write", "test with `OPERATION`: write, read or send",
		oneOf(worker.Operations()...))
	cmdline.Parsed(fs, wrong, &p.Transport, "connection", "c", "RC", "use `TRANSPORT`: RC, UC or UD",
		func(text string) (verbs.Transport, error) {
			return cmdline.Text[verbs.Transport](strings.ToUpper(text))
		})
	cmdline.Parsed(fs, wrong, &p.Sizes, "size", "s", size, "messages of `SIZE` bytes", func(text string) ([]int, error) {
		n, err := plan.ParseSize(text)
		return []int{n}, err
	})
	fs.IntVarP(&p.QPs, "qp", "q", 1, "queue pairs of each flow")
	cmdline.Parsed(fs, wrong, &r.DataAllow, "data-allow", "", "",
		"send data to these `ADDRESSES`, too, not only to the hosts' own: 198.51.100.0/24", cmdline.ParsePrefixes)
	cmdline.Group(fs, "Between two hosts")
	f.Device.Bind(fs)
	f.Device.Several(fs)
	f.Output.Bind(fs, render.DocumentFormats())
	f.Gate.Bind(fs, example)
	cmdline.Group(fs, "Output and verdict")
	fs.BoolVar(&c.worker, "worker", false, "measure as told on standard input")
	cmdline.Hide(fs, "worker")
	cmdline.Brief(cmd, "time", "pattern", "hosts", "coordinator", "device", "expect", "save")
}

// oneOf parses a name out of some.
func oneOf[S ~string](names ...S) func(text string) (S, error) {
	return func(text string) (S, error) {
		if !slices.Contains(names, S(text)) {
			return "", fmt.Errorf("%q is none%s", text, plain.Choices(text, names))
		}
		return S(text), nil
	}
}

// atLeast parses a time.
func atLeast(least time.Duration) func(text string) (time.Duration, error) {
	return func(text string) (time.Duration, error) {
		d, err := plan.ParseSeconds(text)
		if err != nil || d < least {
			err = fmt.Errorf("%q: want a time in s, m or h, %v or more, such as 90s or 20m", text, least)
		}
		return d, err
	}
}

// check names all mistakes at once.
func (f *flags) check(tool string) (config, error) {
	c, wrong := f.config, slices.Clone(f.wrong)
	c.Config = f.Config(&wrong, tool, nil)
	c.deviceWords, c.run.Rails, c.run.Software = f.Device.Words(), c.Device.Names(), c.Device.Software()
	p := &c.run.Plan
	latency := p.Kind == plan.Latency
	if p.Sizes[0] >= 1024 { // a slow path has few completions in a round: each is looked at
		p.CQMod = 1
	}
	wrong.If(c.run.Measure > time.Hour, "--round %v: want an hour or less", c.run.Measure)
	wrong.Range("--qp (-q)", p.QPs, 1, 256)
	if p.Operation == plan.Write && !latency && p.Transport == verbs.RC && p.QPs == 1 {
		p.Verify = "ends"
	}
	wrong.If(p.Operation != "" && !plan.RowOf(p.Operation).Supports(p.Transport),
		"--op %s: %v does not carry it: use --connection RC, or --op send", p.Operation, p.Transport)
	wrong.If(p.Operation == plan.Write && p.Transport == verbs.UC,
		"--op write over UC: nobody can count what arrives: use --op send, or --connection RC")
	wrong.If(latency && c.run.Pattern == schedule.Incast,
		"--pattern incast: a latency test needs one partner per round: use pairs")
	f.Judge(&wrong, &c.Config, p.Kind, p.Transport.String())
	has, figure := &report.Record{
		Plan: report.Plan{Kind: string(p.Kind)}, Bandwidth: report.Bandwidth{AverageBitsPerS: 1},
	}, "bw"
	if latency {
		has.Latency, figure = &report.Latency{Samples: 1, MinNs: 1, P50Ns: 1, MaxNs: 1, MeanNs: 1}, "p50"
	}
	for _, e := range c.Gate.Expect {
		wrong.Note(e.CheckFigures(has, figure))
	}
	return c, errors.Join(wrong...)
}

// mostListed bounds a file of hosts.
const mostListed = 64 << 20

// readHosts reads a file of hosts, or a list as Slurm's.
func readHosts(s string) ([]string, error) {
	b, err := report.ReadFile(s, mostListed)
	var hosts []string
	switch {
	case err == nil:
		hosts, err = launch.ReadHosts(b)
	case errors.Is(err, os.ErrNotExist) && strings.ContainsAny(s, "[,"):
		hosts, err = launch.ExpandHosts(s)
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
