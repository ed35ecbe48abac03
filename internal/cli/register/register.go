// Package register is the commands 'register' and 'connect': how long what comes before the first message takes.
package register

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/internal/bench"
	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/hostmemory"
	"github.com/gobw/gobw/internal/cli/measure"
	"github.com/gobw/gobw/internal/cli/opendevice"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/verbs"
)

// flags are the flags as they were typed.
type flags struct {
	size, iters      string
	threads          int
	hugePages, paged bool
	device           opendevice.Flags
	end              endFlags
}

// config is what to measure.
type config struct {
	Sizes            []int64
	Count            int // of each size and thread; 0: as many as half a second takes, 10 to 1000
	Threads          int
	HugePages, Paged bool
	Device           opendevice.Config
	end              end
	Args             []string
}

// NewCommand makes 'register'.
func NewCommand(tool string, out output.Streams) *cobra.Command {
	f := &flags{}
	cmd := &cobra.Command{
		Use: "register", Short: "Measure how long registering memory takes",
		Long: "Measure how long a device takes to register memory and to deregister it, by size\n" +
			"and by several threads at once. No other host is needed. The memory is touched\n" +
			"before. Two records a size: 'register' and 'deregister'.",
		Example: "  " + tool + " register -d roce0\n" +
			"  " + tool + " register -s 4K:1G --threads 4 --save mr.json\n" +
			"  " + tool + " register -s 1G --huge-pages --expect 'p50 <= 20ms'",
		Args: cmdline.NoArguments,
		RunE: cmdline.Run(
			func([]string) (config, error) { return f.config(tool) },
			func(ctx context.Context, c config) error { return run(ctx, out, tool, c) },
		),
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVarP(&f.size, "size", "s", "4K:64M", "bytes to register: 1M, 4K:1G (powers of two), 4K,1M")
	fs.StringVarP(&f.iters, "iters", "n", "", "registrations of each size and thread (10 to 1000, half a second)")
	fs.IntVar(&f.threads, "threads", 1, "threads that register at once, each its own memory")
	fs.BoolVar(&f.hugePages, "huge-pages", false, "memory from reserved huge pages")
	fs.BoolVar(&f.paged, "odp", false, "on-demand paging: the device brings pages as it needs them")
	f.device.Bind(fs)
	cmdline.Hide(fs, "emulate") // registering sends nothing
	cmdline.Hide(fs, "pcap")
	f.end.bind(fs)
	cmdline.GroupFlags(cmd, []cmdline.FlagGroup{
		{Title: "Memory", Names: []string{"size", "iters", "threads", "huge-pages", "odp"}},
		opendevice.Group(),
		endGroup(),
	})
	cmdline.Brief(cmd, "size", "iters", "threads", "huge-pages", "device", "expect", "save")
	return cmd
}

// config checks the flags and names all mistakes at once.
func (f *flags) config(tool string) (config, error) {
	c := config{Threads: f.threads, HugePages: f.hugePages, Paged: f.paged, Args: measure.CommandLine(tool)}
	var wrong cmdline.Faults
	var err error
	c.Sizes, err = plan.ParseLadder(f.size)
	wrong.Note(cmdline.Prefixed("--size (-s)", err))
	if f.iters != "" {
		c.Count, err = strconv.Atoi(f.iters)
		wrong.If(err != nil || c.Count < 1 || c.Count > 1e7, "--iters (-n) %q: want 1 to 10000000", f.iters)
	}
	wrong.Range("--threads", f.threads, 1, 1024)
	if err == nil && len(c.Sizes) > 0 && f.threads > 0 {
		need, free := slices.Max(c.Sizes)*int64(f.threads), hostmemory.Available()
		wrong.If(free > 0 && need > free*9/10, "--size (-s) %s with --threads %d: that is %s of memory, %s are available",
			f.size, f.threads, plain.Bytes(float64(need)), plain.Bytes(float64(free)))
	}
	c.Device, err = f.device.Config()
	wrong.Note(err)
	c.end, err = f.end.config()
	wrong.Note(err)
	wrong.If(c.Device.Emulate+c.Device.Pcap != "", "--emulate and --pcap are for messages: registering sends none")
	c.Device.Strict = f.end.gate.Given()
	return c, errors.Join(wrong...)
}

// run measures, prints and saves, and judges.
func run(ctx context.Context, out output.Streams, tool string, c config) error {
	if err := c.end.output.CheckWritable(); err != nil {
		return err
	}
	dev, err := opendevice.Open(c.Device)
	if err != nil {
		return err
	}
	if dev.Note != "" && dev.Note != opendevice.SoftwareNote && !c.end.output.Quiet {
		fmt.Fprintf(out.Err, "%s: %s\n", tool, dev.Note)
	}
	doc, info := measure.NewDocument(tool, c.Args), dev.Info()
	doc.Label, doc.Client.Device, doc.Client.Provider, doc.Client.Software = bench.Label(info), info.Name, info.Provider, info.Software
	doc.Client.Driver, doc.Client.Firmware, doc.Client.NUMANode, doc.Client.PinnedCPU = info.Driver, info.Firmware, info.NUMANode, -1
	for _, size := range c.Sizes {
		var records []report.Record
		if records, err = c.size(ctx, dev, int(size)); err != nil {
			break
		}
		doc.Records = append(doc.Records, records...)
	}
	err = errors.Join(err, dev.Close())
	doc.Finish(err)
	return c.end.deliver(out, doc.Document, err)
}

// size measures one size: each thread registers and deregisters memory of its own, again and again.
func (c *config) size(ctx context.Context, dev verbs.Device, size int) (_ []report.Record, err error) {
	pd, err := dev.AllocPD()
	if err != nil {
		return nil, exit.SetupError{Err: err}
	}
	defer func() { err = errors.Join(err, pd.Close()) }()
	access := verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead
	if c.Paged {
		access |= verbs.AccessOnDemand
	}
	buffers := make([]*verbs.Buffer, c.Threads)
	for i := range buffers { // all of it is there before the first is timed
		if buffers[i], err = verbs.Alloc(size, verbs.MemoryOptions{HugePages: c.HugePages, Touch: true}); err != nil {
			return nil, exit.SetupError{Err: err}
		}
		defer func() { err = errors.Join(err, buffers[i].Close()) }()
	}
	made, undone := make([][]int64, c.Threads), make([][]int64, c.Threads)
	errs := make([]error, c.Threads)
	start := time.Now()
	var wg sync.WaitGroup
	for i, b := range buffers {
		wg.Go(func() { made[i], undone[i], errs[i] = c.times(ctx, pd, b.Bytes(), access, start) })
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
		record("register", settings, slices.Concat(made...), c.Threads), record("deregister", settings, slices.Concat(undone...), c.Threads),
	}, nil
}

// times are how long each registration took, and undoing it, in nanoseconds.
func (c *config) times(ctx context.Context, pd verbs.ProtectionDomain, b []byte, access verbs.Access, start time.Time) (made, undone []int64, err error) {
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
		mr, err := pd.RegisterMemory(b, access)
		between := time.Now()
		if err != nil {
			return nil, nil, exit.SetupError{Err: err}
		}
		if err := mr.Close(); err != nil {
			return nil, nil, exit.SetupError{Err: err}
		}
		made, undone = append(made, int64(between.Sub(from))), append(undone, int64(time.Since(between)))
	}
	return made, undone, nil
}
