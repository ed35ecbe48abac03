package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/bench"
	"github.com/gobw/gobw/pattern"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/verbs"
)

// noncontigFlags are the flags of 'noncontig' as they were typed.
type noncontigFlags struct {
	shape, blocks, nums, strides, total, cache, footprint, minTime, maxTime, transport, verify, segment, listBytes, strategies string
	layouts, predict                                                                                                           []string
	window, runs                                                                                                               int
	seed                                                                                                                       uint64
	model, resume, quiet, events                                                                                               bool
	format, save                                                                                                               string

	device deviceFlags
	peer   peerFlags
	given  func(name string) bool // the flag stood on the command line
}

// noncontigConfig is a validated grid.
type noncontigConfig struct {
	Tool       string
	Args       []string
	Shapes     []string
	Layouts    []gridLayout
	Strategies []string // nil: all
	Cold       bool
	Footprint  int64 // 0: chosen when the caches are known
	Window     int
	Segment    int64
	ListBytes  int64 // -1: what suits the device
	Runs       int
	MinTime    time.Duration
	MaxTime    time.Duration
	Transport  verbs.Transport
	Verify     string
	Seed       uint64
	Model      bool
	Predict    []pattern.Layout
	Format     report.Format
	Save       string
	Resume     bool
	Quiet      bool
	Events     bool
	Device     deviceConfig
	Peer       peerConfig
	CPU        bench.CPUChoice
}

// gridLayout is a layout and its place in the grid.
type gridLayout struct {
	Layout pattern.Layout
	Stride string // as asked
	Held   string // "total" or "num"
}

func newNoncontigCommand(tool string, out Streams) *cobra.Command {
	flags := &noncontigFlags{}
	cmd := &cobra.Command{
		Use:   "noncontig [HOST]",
		Short: "Compare scatter/gather by the device with packing by the CPU",
		Long: "Compare the ways to move data that is not contiguous: scatter/gather lists,\n" +
			"packing into one buffer first, and a work request per block, with the contiguous\n" +
			"transfer as the bound. Every strategy of a shape moves the same bytes to the\nsame end state.\n\n" +
			"  gather   strided here, contiguous there (WRITE; the course's G-WR)\n" +
			"  scatter  contiguous there, strided here (READ; S-RD)\n" +
			"  both     strided at both ends (SEND; GSSR)\n\n" +
			"Layouts for --layout:\n  " + strings.ReplaceAll(pattern.Grammar, "\n", "\n  "),
		Example: "  " + tool + " noncontig --loopback\n" +
			"  " + tool + " noncontig alpha --shape all --blocks 64:8K --strides 2x,4K --save grid\n" +
			"  " + tool + " noncontig alpha --nums 64,256 --blocks 8:1K --cache cold --model\n" +
			"  " + tool + " noncontig alpha --layout subarray:dims=512x512x8,face=y",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := flags.config(tool, args)
			if err != nil {
				return usageError{err}
			}
			c.Args = commandLine(tool)
			return runNoncontig(cmd.Context(), out, c)
		},
	}
	flags.bind(cmd.Flags())
	hide(cmd.Flags(), "perftest-version") // a stock perftest knows no layouts
	groupFlags(cmd, noncontigGroups())
	return cmd
}

func (f *noncontigFlags) bind(fs *pflag.FlagSet) {
	fs.SortFlags = false
	f.given = fs.Changed
	fs.StringVar(&f.shape, "shape", "gather", "gather, scatter, both, or all")
	fs.StringVar(&f.blocks, "blocks", "64:4K", "block sizes: 64:4K (powers of two), 64,100,1K")
	fs.StringVar(&f.total, "total", "64K", "message sizes, held while blocks grow: 16K,64K")
	fs.StringVar(&f.nums, "nums", "", "numbers of blocks, held instead of --total: 64,256")
	fs.StringVar(&f.strides, "strides", "2x", "from block to block: 2x of the block, or bytes: 2x,4x,4K")
	fs.StringArrayVar(&f.layouts, "layout", nil, "a layout instead of a grid; may be repeated (see above)")
	fs.StringVar(&f.strategies, "strategies", "", "only these: gather-write,pack (all)")
	fs.StringVar(&f.cache, "cache", "hot", "hot: few layouts, again and again; cold: more than the last-level cache")
	fs.StringVar(&f.footprint, "footprint", "", "bytes of layouts walked (hot: as few as are in flight; cold: twice the cache)")
	fs.IntVar(&f.window, "window", 4, "messages in flight; 1 measures latency")
	fs.BoolVarP(&f.events, "events", "e", false, "sleep on completion events instead of polling; tells process CPU time")
	fs.StringVar(&f.segment, "segment", "16K", "bytes per segment of pack-pipelined")
	fs.StringVar(&f.listBytes, "list-bytes", "", "payload at which chains of lists are cut (what suits the device; 0: max_sge)")
	fs.IntVar(&f.runs, "runs", 6, "repetitions, in shuffled order (6 or more give an interval)")
	fs.StringVar(&f.minTime, "min-time", "25ms", "time to measure each point, strategy and run")
	fs.StringVar(&f.maxTime, "max-time", "1h", "refuse a grid that would take longer")
	fs.StringVarP(&f.transport, "connection", "c", "RC", "transport: RC; UC for gather and both; UD for both")
	fs.StringVar(&f.verify, "verify", "ends", "check first and last message of each point (ends), every one (all), or none")
	fs.Uint64Var(&f.seed, "seed", 1, "of the shuffled order")
	fs.BoolVar(&f.model, "model", false, "print the fitted cost model and how well it predicts")
	fs.StringArrayVar(&f.predict, "predict", nil, "a layout whose time the model predicts; may be repeated")
	fs.StringVar(&f.format, "format", "table", strings.Join(gridFormats(), ", "))
	fs.StringVar(&f.save, "save", "", "directory for results, tables and pictures")
	fs.BoolVar(&f.resume, "resume", false, "complete the grid in the --save directory")
	fs.BoolVar(&f.quiet, "quiet", false, "no progress, no notes")
	f.device.bind(fs)
	f.peer.bind(fs)
}

// gridTimeout is the code of the queue pairs' timeout: about a second, eight times over. A busy machine may keep a
// software peer from answering for half a second, and a grid of an hour should not end there; a dead peer shows in the
// control session.
const gridTimeout = 18

const (
	maxWindow     = 4096
	maxGridRuns   = 64
	maxGridPoints = 100000
)

// config checks the flags and names all mistakes at once.
func (f *noncontigFlags) config(tool string, args []string) (noncontigConfig, error) {
	c := noncontigConfig{
		Tool: tool, Window: f.window, Runs: f.runs, Seed: f.seed, Model: f.model || len(f.predict) > 0, Save: f.save, Resume: f.resume, Quiet: f.quiet,
		Events: f.events,
	}
	var wrong faults
	var err error
	c.Device, err = f.device.config()
	wrong.note(err)
	c.CPU, err = f.device.cpuChoice()
	wrong.note(err)
	c.Peer, err = f.peer.config(tool, args)
	wrong.note(err)
	c.Format, err = gridFormat(f.format)
	wrong.note(prefixed("--format", err))
	c.Shapes, err = parseShapes(f.shape)
	wrong.note(err)
	c.Strategies, err = parseStrategies(f.strategies, c.Shapes)
	wrong.note(err)
	wrong.note(prefixed("--connection (-c)", c.Transport.UnmarshalText([]byte(f.transport))))
	switch f.cache {
	case "hot", "cold":
		c.Cold = f.cache == "cold"
	default:
		wrong.note(fmt.Errorf("--cache %q: want hot or cold", f.cache))
	}
	switch f.verify {
	case "ends", "all":
		c.Verify = f.verify
	case "none", "":
	default:
		wrong.note(fmt.Errorf("--verify %q: want ends, all or none", f.verify))
	}
	if f.footprint != "" {
		c.Footprint, err = pattern.ParseBytes(f.footprint)
		wrong.note(prefixed("--footprint", err))
	}
	c.Segment, err = pattern.ParseBytes(f.segment)
	wrong.note(prefixed("--segment", err))
	if err == nil && (c.Segment < 64 || c.Segment > 1<<30) {
		wrong.note(fmt.Errorf("--segment %s: want 64 bytes to 1 GiB", f.segment))
	}
	c.ListBytes = -1
	if f.listBytes != "" {
		c.ListBytes, err = pattern.ParseBytes(f.listBytes)
		wrong.note(prefixed("--list-bytes", err))
		if err == nil && c.ListBytes > 1<<31 {
			wrong.note(fmt.Errorf("--list-bytes %s: want at most 2 GiB, or 0", f.listBytes))
		}
	}
	if c.MinTime, err = parseSeconds(f.minTime); err != nil || c.MinTime < time.Millisecond {
		wrong.note(fmt.Errorf("--min-time %q: want at least 1ms", f.minTime))
	}
	if c.MaxTime, err = parseSeconds(f.maxTime); err != nil || c.MaxTime <= 0 {
		wrong.note(fmt.Errorf("--max-time %q: want a time, like 10m", f.maxTime))
	}
	inRange := func(name string, v, most int) {
		if v < 1 || v > most {
			wrong.note(fmt.Errorf("%s %d: want 1 to %d", name, v, most))
		}
	}
	inRange("--window", f.window, maxWindow)
	inRange("--runs", f.runs, maxGridRuns)
	if f.resume && f.save == "" {
		wrong.note(errors.New("--resume: name the directory with --save"))
	}
	c.Layouts, err = f.grid()
	wrong.note(err)
	for _, text := range f.predict {
		l, err := parseLayout(text)
		wrong.note(prefixed("--predict", err))
		c.Predict = append(c.Predict, l)
	}
	return c, errors.Join(wrong...)
}

// parseLayout reads a layout; an unknown word is answered with the nearest that the grammar has.
func parseLayout(text string) (pattern.Layout, error) {
	l, err := pattern.Parse(text, pattern.ParseOptions{ReadFile: os.ReadFile})
	if unknown, ok := errors.AsType[*pattern.UnknownWordError](err); ok {
		if near := report.Nearest(unknown.Word, unknown.Known); near != "" {
			err = fmt.Errorf("%w; did you mean %q?", err, near)
		}
	}
	return l, err
}

// exclusive refuses flags of which one would have no effect.
func (f *noncontigFlags) exclusive() error {
	var idle []string
	for _, name := range []string{"blocks", "total", "nums", "strides"} {
		if len(f.layouts) > 0 && f.given(name) {
			idle = append(idle, "--"+name)
		}
	}
	switch {
	case len(idle) > 0:
		return fmt.Errorf("--layout takes the place of a grid: leave out %s", strings.Join(idle, " and "))
	case f.given("nums") && f.given("total"):
		return errors.New("--nums and --total exclude each other: one is held while the blocks grow")
	}
	return nil
}

// grid makes the layouts of the grid, or of --layout.
func (f *noncontigFlags) grid() ([]gridLayout, error) {
	var out []gridLayout
	var errs []error
	if err := f.exclusive(); err != nil {
		return nil, err
	}
	if len(f.layouts) > 0 {
		for _, text := range f.layouts {
			l, err := parseLayout(text)
			if err != nil {
				errs = append(errs, fmt.Errorf("--layout: %w", err))
				continue
			}
			out = append(out, gridLayout{Layout: l, Stride: "as given", Held: "total"})
		}
		return out, errors.Join(errs...)
	}
	list := func(name, text string) []int64 {
		v, err := parseByteList(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		return v
	}
	blocks := list("--blocks", f.blocks)
	held, name := list("--total", f.total), "total"
	if f.nums != "" {
		held, name = list("--nums", f.nums), "num"
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	for stride := range strings.SplitSeq(f.strides, ",") {
		for _, h := range held {
			for _, block := range blocks {
				l, err := gridVector(name, block, h, strings.TrimSpace(stride))
				if err != nil {
					errs = append(errs, err)
					continue
				}
				out = append(out, gridLayout{Layout: l, Stride: strings.TrimSpace(stride), Held: name})
			}
		}
	}
	if len(out) > maxGridPoints {
		errs = append(errs, fmt.Errorf("a grid of %d layouts: at most %d", len(out), maxGridPoints))
	}
	return out, errors.Join(brief(errs)...)
}

// gridVector is one layout of the grid; faults name the nearest thing that would work.
func gridVector(name string, block, held int64, stride string) (pattern.Layout, error) {
	num := held
	if name == "total" {
		if block > held {
			return pattern.Layout{}, fmt.Errorf("--blocks %d: larger than the message of --total %d; leave it out or use --total %d", block, held, block)
		}
		if held%block != 0 {
			return pattern.Layout{}, fmt.Errorf("--total %d is not a multiple of --blocks %d: the nearest is %d", held, block, max((held+block/2)/block, 1)*block)
		}
		num = held / block
	}
	step, err := parseStride(stride, block)
	if err != nil {
		return pattern.Layout{}, err
	}
	return pattern.Vector(block, num, step)
}

func parseStride(text string, block int64) (int64, error) {
	if factor, ok := strings.CutSuffix(text, "x"); ok {
		v, err := strconv.ParseFloat(factor, 64)
		if err != nil || v < 1 || v > 1e9 {
			return 0, fmt.Errorf("--strides %s: want a factor of 1 or more, like 2x", text)
		}
		return int64(v * float64(block)), nil
	}
	step, err := pattern.ParseBytes(text)
	if err != nil {
		return 0, fmt.Errorf("--strides: %w (or a factor, like 2x)", err)
	}
	if step < block {
		return 0, fmt.Errorf("--strides %s is smaller than a block of %d bytes, which would overlap: use --strides %d, a factor like 2x, or smaller --blocks", text, block, block)
	}
	return step, nil
}

// parseByteList reads 64,100,1K and 64:4K, the powers of two between.
func parseByteList(text string) ([]int64, error) {
	var out []int64
	for item := range strings.SplitSeq(text, ",") {
		low, high, isRange := strings.Cut(item, ":")
		a, err := pattern.ParseBytes(low)
		if err != nil {
			return nil, err
		}
		if a < 1 {
			return nil, fmt.Errorf("%q: want 1 or more", item)
		}
		if !isRange {
			out = append(out, a)
			continue
		}
		b, err := pattern.ParseBytes(high)
		if err != nil {
			return nil, err
		}
		if b < a || b > 1<<40 {
			return nil, fmt.Errorf("%q: want the smaller first", item)
		}
		for ; a <= b; a *= 2 {
			out = append(out, a)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

func parseShapes(text string) ([]string, error) {
	if text == "all" {
		return bench.Shapes(), nil
	}
	var out []string
	for s := range strings.SplitSeq(text, ",") {
		if !slices.Contains(bench.Shapes(), s) {
			return nil, fmt.Errorf("--shape %q: want %s, or all", s, strings.Join(bench.Shapes(), ", "))
		}
		out = append(out, s)
	}
	return out, nil
}

func parseStrategies(text string, shapes []string) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	var known []string
	for _, shape := range shapes {
		for _, s := range bench.Strategies(shape) {
			if !slices.Contains(known, s.Name) {
				known = append(known, s.Name)
			}
		}
	}
	names := strings.Split(text, ",")
	for _, n := range names {
		if !slices.Contains(known, n) {
			return nil, fmt.Errorf("--strategies %q: want some of %s", n, strings.Join(known, ", "))
		}
	}
	return names, nil
}
