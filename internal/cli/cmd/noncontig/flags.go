package noncontig

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/measure"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/pattern"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/noncontig"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/render"
	"github.com/gobw/gobw/verbs"
)

// Flags are the flags of 'noncontig' as they were typed.
type Flags struct {
	typed                 Config // what stands there as it was typed
	blocks, nums, sizes   []int64
	strides, verify, only string
	layouts               []string
	descriptors, preset   string
	direction             string
	// ReadFile reads the files that flags name; nil: any file.
	ReadFile func(name string, most int64) ([]byte, error)
	wrong    cmdline.Faults // of what was typed

	measure.Flags
	set *pflag.FlagSet
}

// Config is a validated grid.
type Config struct {
	measure.Config
	Shapes     []string
	Layouts    []gridLayout
	Strategies []string // nil: all
	Cache      string   // "hot" or "cold"
	Window     int
	Segment    int64
	Runs       int
	MinTime    time.Duration
	Transport  verbs.Transport
	Verify     string
	Events     bool
	QPs        int
	MaxSGE     int // entries of a list, 0: as many as the device has
	List       *list
	Threshold  bool // of a list: look for the length from which the device's way pays
}

// gridLayout is a layout and its place in the grid; of a list of descriptors the mean length that it is scaled to.
type gridLayout struct {
	Layout pattern.Layout
	Stride string // as asked
	Held   string // "total" or "num"
	Mean   int    // 0: as it is

	called   string // the list; empty: a layout
	list     *plan.Descriptors
	transfer *pattern.Transfer
}

// name is the list's, or the layout's text.
func (g *gridLayout) name() string { return cmp.Or(g.called, g.Layout.String()) }

//go:embed help.txt
var help string

// NewCommand makes 'noncontig'.
func NewCommand(tool string, out output.Streams) *cobra.Command {
	flags := &Flags{}
	cmd := cmdline.Command(tool, help)
	cmd.Long += "\n  " + strings.ReplaceAll(pattern.Grammar, "\n", "\n  ")
	cmd.RunE = cmdline.Run(
		func(args []string) (Config, error) { return flags.Config(tool, args) },
		func(ctx context.Context, c Config) error {
			return c.Deliver(out, func() (*report.Document, error) { return Measure(ctx, out, c) })
		},
	)
	flags.Bind(cmd.Flags())
	cmdline.Brief(cmd, "shape", "blocks", "strides", "size", "device", "loopback", "save")
	return cmd
}

// Bind adds the flags to a command.
func (f *Flags) Bind(fs *pflag.FlagSet) {
	fs.SortFlags = false
	f.set = fs
	cmdline.Parsed(fs, &f.wrong, &f.typed.Shapes, "shape", "", "gather",
		"compare strategies of this `SHAPE`: gather (G-WR), scatter (S-RD), both (GSSR), all", parseShapes)
	cmdline.Parsed(fs, &f.wrong, &f.blocks, "blocks", "", "64:4K",
		"use blocks of these `SIZES`: 64:4K (each twice the one before), 64,100,1K", parseByteList)
	cmdline.Parsed(fs, &f.wrong, &f.sizes, "size", "s", "64K", "use messages of these `SIZES`: 16K,64K", parseByteList)
	cmdline.Parsed(fs, &f.wrong, &f.nums, "nums", "", "", "use these `NUMBERS` of blocks, instead of --size: 64,256",
		parseByteList)
	fs.StringVar(&f.strides, "strides", "2x", "`DISTANCE` between the starts of two blocks: 4K; 2x: twice the block size")
	fs.StringArrayVar(&f.layouts, "layout", nil, "measure this `LAYOUT` instead of a grid (see above); may be repeated")
	fs.StringVar(&f.descriptors, "descriptors", "", "move the list of pieces in `FILE` instead of a grid (see above)")
	fs.StringVar(&f.preset, "preset", "", "move a `LIST` made here: "+presetText()+"; --nums and --strides change it")
	fs.StringVar(&f.direction, "direction", "write", "`HOW` the client moves a list: write or read")
	fs.BoolVar(&f.typed.Threshold, "threshold", true,
		"scale the list to find the length from which the device is faster than packing")
	fs.StringVar(&f.only, "only", "", "measure only these `STRATEGIES`: gather-write,pack")
	cmdline.Group(fs, "Grid")
	cmdline.Parsed(fs, &f.wrong, &f.typed.Transport, "connection", "c", "RC",
		"use `TRANSPORT`: RC; UC (gather, both); UD (both)", cmdline.Text[verbs.Transport])
	fs.IntVarP(&f.typed.QPs, "qp", "q", 1, "queue pairs; a list is dealt out to them, of a grid each moves whole messages")
	fs.IntVarP(&f.typed.Window, "tx-depth", "t", 4, "messages in flight; 1 measures latency, and is the default of a list")
	fs.IntVar(&f.typed.MaxSGE, "max-sge",
		0, "use at most `N` entries of a scatter/gather list (0: as many as the device has)")
	cmdline.Parsed(fs, &f.wrong, &f.typed.MinTime, "duration", "D", "10ms",
		"measure each layout, strategy and round for `TIME`", plan.ParseTime)
	fs.IntVar(&f.typed.Runs, "runs", 20, "number of rounds; from 6 on there are 95 % intervals")
	fs.StringVar(&f.typed.Cache, "cache", "hot", "measure with `CACHE` hot, or cold (each block comes from memory)")
	fs.BoolVarP(&f.typed.Events, "events", "e", false,
		"sleep on events instead of polling; the CPU columns then have the CPU time of the whole processes, "+
			"else that of packing, unpacking, posting and polling")
	cmdline.Parsed(fs, &f.wrong, &f.typed.Segment, "segment", "", "16K",
		"pack `BYTES` at a time in pack-pipelined; of a list 64K", plan.ParseBytes)
	fs.StringVar(&f.verify, "verify", "ends", "check the data of `WHICH` messages: ends (first and last), all, none")
	cmdline.Group(fs, "Measuring")
	f.Flags.Bind(fs, render.DocumentFormats())
	f.Gate.Bind(fs, "'gather-write.bw >= pack.bw'")
	f.Output.Resumable(fs, "measure the rest of the grid in the --save file")
	cmdline.Group(fs, "Result")
}

// gridTimeout is the code of the queue pairs' timeout: about a second, eight times over. A busy machine may keep a
// software peer from answering for half a second, and a grid of an hour should not end there; a dead peer shows in the
// control session.
const gridTimeout = 18

const (
	maxWindow     = 4096
	maxGridRuns   = 1000 // as many as verdicts weigh
	maxGridQPs    = 1024
	maxGridPoints = 100000
)

// Config checks the flags and names all mistakes at once.
func (f *Flags) Config(tool string, args []string) (Config, error) {
	c, wrong := f.typed, slices.Clone(f.wrong)
	var err error
	c.Config = f.Flags.Config(&wrong, tool, args)
	clash := f.exclusive()
	if wrong.Note(clash); clash == nil {
		c.List, err = f.list(&c)
		wrong.Note(err)
	}
	if c.List != nil {
		c.Shapes = []string{c.List.shape}
	}
	f.Judge(&wrong, &c.Config, plan.Bandwidth, c.Transport.String(), Names(c.Shapes)...)
	c.Strategies, err = parseStrategies(f.only, c.Shapes)
	wrong.Note(err)
	wrong.If(c.Cache != "cold" && c.Cache != "hot", "--cache %q: want hot or cold", c.Cache)
	wrong.If(!slices.Contains([]string{"ends", "all", "none", ""}, f.verify),
		"--verify %q: want ends, all or none", f.verify)
	c.Verify = plain.When(f.verify != "none", "%s", f.verify)
	wrong.If(c.MinTime > 0 && c.MinTime < time.Millisecond, "--duration (-D) %v: want at least 1ms", c.MinTime)
	wrong.Range("--tx-depth (-t)", c.Window, 1, maxWindow)
	wrong.Range("--runs", c.Runs, 1, maxGridRuns)
	wrong.Range("--qp (-q)", c.QPs, 1, maxGridQPs)
	wrong.Range("--max-sge", c.MaxSGE, 0, 1024)
	wrong.If(c.Segment < 64 || c.Segment > 1<<30, "--segment %d: want 64 bytes to 1 GiB", c.Segment)
	if clash == nil && f.descriptors+f.preset == "" {
		c.Layouts, err = f.grid()
		wrong.Note(err)
	}
	// nothing else is saved
	pictures := !slices.ContainsFunc(c.Output.Saves, func(s output.Save) bool { return s.Format != "svg" })
	if pictures && (len(f.layouts) > 0 || len(f.blocks) == 1 && c.List == nil || c.List != nil && !c.Threshold) {
		wrong.If(c.Output.Format == "svg", "print the result: %s", render.NoGridPicture)
		for _, s := range c.Output.Saves {
			wrong.If(true, "%s: cannot save: %s", s.Path, render.NoGridPicture)
		}
	}
	return c, errors.Join(wrong...)
}

// exclusive refuses flags that would have no effect beside another.
func (f *Flags) exclusive() error {
	list := f.descriptors+f.preset != ""
	for _, x := range []struct {
		given bool
		why   string
		flags []string
	}{
		{!list, "it is for --descriptors or --preset", []string{"direction", "threshold"}},
		{f.descriptors != "", "--descriptors says itself what is moved: leave it out", []string{"preset", "nums", "strides"}},
		{
			list, "a list of descriptors says itself what is moved: leave it out",
			[]string{"shape", "blocks", "size", "layout"},
		},
		{len(f.layouts) > 0, "--layout replaces it: leave it out", []string{"blocks", "size", "nums", "strides"}},
		{f.set.Changed("nums"), "--nums replaces it: leave it out", []string{"size"}},
	} {
		for _, name := range x.flags {
			if x.given && f.set.Changed(name) {
				return fmt.Errorf("--%s: %s", name, x.why)
			}
		}
	}
	return nil
}

// grid makes the layouts of the grid, or of --layout.
func (f *Flags) grid() ([]gridLayout, error) {
	var out []gridLayout
	var wrong cmdline.Faults
	if len(f.layouts) > 0 {
		read := f.ReadFile
		if read == nil {
			read = report.ReadFile
		}
		for _, text := range f.layouts {
			l, err := plan.ParseLayout(text, read)
			wrong.Note(cmdline.Prefixed("--layout", err))
			out = append(out, gridLayout{Layout: l, Stride: noncontig.AsGiven, Held: "total"})
		}
		return out, errors.Join(wrong...)
	}
	held, name := f.sizes, "total"
	if f.nums != nil {
		held, name = f.nums, "num"
	}
	if len(f.blocks) == 0 || len(held) == 0 { // what was typed is no list
		return nil, nil
	}
	for stride := range strings.SplitSeq(f.strides, ",") {
		stride = strings.TrimSpace(stride)
		if _, err := parseStride(stride, slices.Max(f.blocks)); err != nil {
			wrong.Note(err)
			continue
		}
		for _, h := range held {
			for _, block := range f.blocks {
				if f.nums == nil && block > h {
					return nil, errors.Join(append(wrong, fmt.Errorf("--blocks %d: larger than the message of --size (-s) %d; "+
						"leave it out or use -s %d", block, h, slices.Max(f.blocks)))...)
				}
				l, err := gridVector(name, block, h, stride)
				if err != nil {
					return nil, errors.Join(append(wrong, err)...)
				}
				out = append(out, gridLayout{Layout: l, Stride: stride, Held: name})
			}
		}
	}
	wrong.If(len(out) > maxGridPoints, "a grid of %d layouts: at most %d", len(out), maxGridPoints)
	return out, errors.Join(wrong...)
}

// gridVector is one layout of the grid; faults name the nearest thing that would work.
func gridVector(name string, block, held int64, stride string) (pattern.Layout, error) {
	num := held
	if name == "total" {
		if held%block != 0 {
			return pattern.Layout{}, fmt.Errorf("--size (-s) %d is not a multiple of --blocks %d: the nearest is %d", held,
				block, max((held+block/2)/block, 1)*block)
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
			return 0, fmt.Errorf("--strides %s: want a factor above 1, like 2x", text)
		}
		return int64(v * float64(block)), nil
	}
	step, err := plan.ParseBytes(text)
	if err != nil {
		return 0, fmt.Errorf("--strides: %w (or a factor, like 2x)", err)
	}
	if step < block {
		return 0, fmt.Errorf("--strides %s means %[1]s bytes: blocks of %[2]d bytes would overlap; try --strides 2x, "+
			"or --strides %[3]d", text, block, 2*block)
	}
	return step, nil
}

// parseByteList reads sizes and ladders of them, in rising order.
func parseByteList(text string) ([]int64, error) {
	out, err := plan.ParseLadder(text)
	slices.Sort(out)
	return slices.Compact(out), err
}

func parseShapes(text string) ([]string, error) {
	if text == "all" {
		return plan.Shapes(), nil
	}
	for name, shape := range noncontig.CourseNames() {
		text = strings.ReplaceAll(strings.ToUpper(text), name, strings.ToUpper(shape))
	}
	out, err := chosen(strings.ToLower(text), plan.Shapes())
	if err != nil {
		err = fmt.Errorf("%w (or G-WR, S-RD, GSSR), or all", err)
	}
	return out, err
}

// Names are those of the strategies of some shapes.
func Names(shapes []string) (names []string) {
	for _, shape := range shapes {
		for _, s := range plan.Strategies(shape) {
			names = plain.AddNew(names, s.Name)
		}
	}
	return names
}

func parseStrategies(text string, shapes []string) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	known := Names(shapes)
	for w := range strings.SplitSeq(text, ",") {
		for _, shape := range plan.Shapes() {
			if !slices.Contains(known, w) && slices.Contains(Names([]string{shape}), w) {
				return nil, fmt.Errorf("--only: %q belongs to --shape %s; --shape %s has %s", w, shape, strings.Join(shapes, ","),
					strings.Join(known, ", "))
			}
		}
	}
	out, err := chosen(text, known)
	return out, cmdline.Prefixed("--only", err)
}

// chosen reads a list of words that are known.
func chosen(text string, known []string) ([]string, error) {
	words := strings.Split(text, ",")
	for _, w := range words {
		if !slices.Contains(known, w) {
			return nil, fmt.Errorf("%q: want some of %s", w, strings.Join(known, ", "))
		}
	}
	return words, nil
}
