package setup

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/internal/bench"
	"github.com/gobw/gobw/internal/bench/machine"
	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/measure"
	"github.com/gobw/gobw/internal/cli/opendevice"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/verbs"
)

// config is what to measure.
type config struct {
	measure.Config
	Sizes            []int64
	Count            int // of each size and thread; 0: as many as half a second takes, 10 to 1000
	Threads          int
	HugePages, Paged bool
}

//go:embed register.txt
var registerHelp string

// NewCommand makes 'register'.
func NewCommand(tool string, out output.Streams) *cobra.Command {
	f := &flags{}
	c := config{}
	var wrong cmdline.Faults // of what was typed
	cmd := cmdline.Command(tool, registerHelp)
	cmd.Args = cmdline.NoArguments
	cmd.RunE = cmdline.Run(
		func([]string) (config, error) {
			c.Config = f.config(tool, nil, &wrong)
			wrong.Range("--threads", c.Threads, 1, 1024)
			if len(c.Sizes) > 0 && c.Threads > 0 {
				need, free := slices.Max(c.Sizes)*int64(c.Threads), machine.AvailableMemory()
				wrong.If(free > 0 && need > free*9/10, "--size (-s) with --threads %d: that is %s of memory, %s are available",
					c.Threads, plain.Bytes(float64(need)), plain.Bytes(float64(free)))
			}
			return c, errors.Join(wrong...)
		},
		func(ctx context.Context, c config) error {
			return c.Deliver(out, func() (*report.Document, error) { return c.run(ctx, out) })
		},
	)
	fs := cmd.Flags()
	cmdline.Parsed(fs, &wrong, &c.Sizes, "size", "s", "4K:64M",
		"register `BYTES`: 1M, 4K:1G (each twice the one before), 4K,1M", plan.ParseLadder)
	cmdline.Parsed(fs, &wrong, &c.Count, "iters", "n", "",
		"register each size `N` times in each thread (default: as many as fit in 0.5 s, at least 10, at most 1000)",
		func(text string) (int, error) {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 || n > 1e7 {
				return 0, fmt.Errorf("%q: want 1 to 10000000", text)
			}
			return n, nil
		})
	fs.IntVar(&c.Threads, "threads", 1, "threads that register at the same time")
	fs.BoolVar(&c.HugePages, "huge-pages", false, "take memory from reserved huge pages")
	fs.BoolVar(&c.Paged, "odp", false, "on-demand paging: the device loads pages when it needs them")
	f.Device.BindName(fs)
	cmdline.Group(fs, "Memory")
	f.finish(cmd, "size", "iters", "threads", "huge-pages", "odp", "device")
	return cmd
}

// run measures each size.
func (c *config) run(ctx context.Context, out output.Streams) (*report.Document, error) {
	dev, err := opendevice.Open(c.Device)
	if err != nil {
		return nil, err
	}
	if dev.Note != "" && dev.Note != opendevice.SoftwareNote && !c.Output.Quiet {
		fmt.Fprintf(out.Err, "%s: %s\n", c.Tool, dev.Note)
	}
	doc, info := measure.NewDocument(c.Tool, c.Command), dev.Info()
	doc.Label, doc.Client.Device, doc.Client.Provider, doc.Client.Software = bench.Label(info), info.Name, info.Provider,
		info.Software
	doc.Client.Driver, doc.Client.Firmware, doc.Client.NUMANode, doc.Client.PinnedCPU = info.Driver, info.Firmware,
		info.NUMANode, -1
	for _, size := range c.Sizes {
		var records []report.Record
		if records, err = c.size(ctx, dev.Device, int(size)); err != nil {
			break
		}
		doc.Records = append(doc.Records, records...)
	}
	err = errors.Join(err, dev.Close())
	doc.Finish(err)
	return doc.Document, err
}

// size measures one size: each thread registers and deregisters memory of its own, again and again.
func (c *config) size(ctx context.Context, dev verbs.Device, size int) (_ []report.Record, err error) {
	pd, err := dev.AllocPD()
	if err != nil {
		return nil, exit.With(exit.Setup, err)
	}
	defer func() { err = errors.Join(err, pd.Close()) }()
	access := verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead
	if c.Paged {
		access |= verbs.AccessOnDemand
	}
	buffers := make([]*verbs.Buffer, c.Threads)
	for i := range buffers { // all of it is there before the first is timed
		if buffers[i], err = verbs.Alloc(size, verbs.MemoryOptions{HugePages: c.HugePages, Touch: true}); err != nil {
			return nil, exit.With(exit.Setup, err)
		}
		defer func() { err = errors.Join(err, buffers[i].Close()) }()
	}
	made, undone, errs := make([][]int64, c.Threads), make([][]int64, c.Threads), make([]error, c.Threads)
	start := time.Now()
	var wg sync.WaitGroup
	for i, b := range buffers {
		wg.Go(func() { made[i], undone[i], errs[i] = c.times(ctx, pd, b, access, start) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	settings := report.Plan{SizeBytes: uint64(size), QPs: 1, HugePages: c.HugePages, OnDemand: c.Paged}
	if c.Threads > 1 {
		settings.Threads = c.Threads
	}
	return []report.Record{
		record("register", settings, slices.Concat(made...), c.Threads),
		record("deregister", settings, slices.Concat(undone...), c.Threads),
	}, nil
}

// times are how long each registration took, and undoing it, in nanoseconds.
func (c *config) times(ctx context.Context, pd verbs.ProtectionDomain, b *verbs.Buffer, access verbs.Access,
	start time.Time,
) (made, undone []int64, err error) {
	const least, most, enough = 10, 1000, time.Second / 2
	more := func(n int) bool {
		if c.Count > 0 {
			return n < c.Count
		}
		return n < least || n < most && time.Since(start) < enough
	}
	for n := 0; more(n); n++ {
		if err := context.Cause(ctx); err != nil {
			return nil, nil, err
		}
		from := time.Now()
		mr, err := pd.RegisterMemory(b, 0, b.Len(), access)
		between := time.Now()
		if err != nil {
			return nil, nil, exit.With(exit.Setup, err)
		}
		if err := mr.Close(); err != nil {
			return nil, nil, exit.With(exit.Setup, err)
		}
		made, undone = append(made, int64(between.Sub(from))), append(undone, int64(time.Since(between)))
	}
	return made, undone, nil
}
