package operation

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/measure"
	"github.com/gobw/gobw/internal/cli/opendevice"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/render"
	"github.com/gobw/gobw/verbs"
)

// flags are a test's flags as they were typed.
type flags struct {
	spec    plan.Spec // what stands there as it was typed
	cpuFreq bool
	mtu     int
	wrong   cmdline.Faults // of what was typed

	set *pflag.FlagSet
	measure.Flags
}

// bind registers the flags of one operation; letters mean what they mean in perftest.
func (f *flags) bind(fs *pflag.FlagSet, op plan.Operation, kind plan.Kind) {
	fs.SortFlags = false
	p, row, wrong := &f.spec, plan.RowOf(op), &f.wrong
	f.set, *p = fs, plan.Spec{Operation: op, Kind: kind, InlineBytes: -1}
	bandwidth := kind == plan.Bandwidth
	if !row.Counter {
		cmdline.Parsed(fs, wrong, &p.Sizes, "size", "s",
			"", "message `SIZE` in bytes: 4K, or 64,1000,4K, or 64:1M (each twice the one before) (default: "+
				defaultSizeText(kind)+")", plan.ParseSizes)
		fs.BoolVarP(&p.AllSizes, "all", "a", false,
			"all sizes from 2 B to 8 MiB"+plain.When(row.Supports(verbs.UD), " (UD: to the MTU)"))
		mix := "messages of these `SIZES` in turn: 64,4K; 64x4 is 64 bytes in 4 scatter/gather entries"
		if kind == plan.Latency {
			mix = "messages of this `SIZE` in pieces: 4Kx4 is 4K in all, in 4 scatter/gather entries"
		}
		cmdline.Parsed(fs, wrong, &p.Mix, "mix", "", "", mix, cmdline.Text[plan.Mix])
	}
	cmdline.Parsed(fs, wrong, &p.Transport, "connection", "c", "RC", "use `TRANSPORT`: "+row.TransportText(),
		func(text string) (verbs.Transport, error) {
			t, err := cmdline.Text[verbs.Transport](text)
			if err != nil {
				err = fmt.Errorf("%q: want %s", text, row.TransportText())
			}
			return t, err
		})
	if len(row.Transports) == 1 {
		cmdline.Hide(fs, "connection") // perftest's scripts give it
	}
	switch op {
	case plan.Atomic:
		cmdline.Parsed(fs, wrong, &p.AtomicType, "atomic-type", "A", "FETCH_AND_ADD",
			"use `TYPE`: FETCH_AND_ADD or CMP_AND_SWAP", parseAtomicType)
	case plan.Send:
		fs.BoolVar(&p.SendImm, "imm", false, "send immediate data")
	case plan.Write:
		fs.BoolVar(&p.WriteImm, "imm", false, "send immediate data")
	default:
	}
	f.bindFields(plan.GroupMessages)
	fs.StringVar((*string)(&p.Verify), "verify", "",
		"check the data of the first and the last message, or with `[=all]` of every message")
	fs.Lookup("verify").NoOptDefVal = "ends"
	cmdline.Group(fs, "Messages")

	f.bindLength(bandwidth, row.Counter)

	f.bindFields(plan.GroupQueues)
	cmdline.Parsed(fs, wrong, &p.PostAPI, "post-api", "", "auto",
		"post sends with `API`: post_send, wr (ibv_wr_*), auto (as perftest does)", cmdline.Text[verbs.PostAPI])
	if !bandwidth {
		fs.StringVar((*string)(&p.Timestamps), "timestamps", "host",
			"use `CLOCK` for the samples: host, or device (the clock of the NIC)")
	}
	cmdline.Group(fs, "Queues")

	f.Bind(fs, render.DocumentFormats())
	if bandwidth {
		f.Device.Several(fs)
	}
	f.Output.Resumable(fs, "continue the sweep in the --save file")
	example := "'bw >= 90Gb/s', 'worse<5% of FILE'"
	if !bandwidth {
		example = "'p50 <= 3us', 'p99 <= 5us', 'worse<5% of FILE'"
	}
	f.Gate.Bind(fs, example)
	cmdline.Group(fs, "Output and verdict")
	fs.IntVarP(&f.mtu, "mtu", "m", 0, "path MTU in bytes (default: the smaller of both ends)")
	f.bindFields(plan.GroupPath)
	cmdline.Group(fs, opendevice.Heading)
	fs.BoolVarP(&f.cpuFreq, "cpu-freq", "F", false, "ignored: time stamps need no CPU frequency")
}

// bindLength registers what says how long to measure.
func (f *flags) bindLength(bandwidth, oneSize bool) { //nolint:revive // what the test is
	fs, p, wrong := f.set, &f.spec, &f.wrong
	cmdline.Parsed(fs, wrong, &p.Iterations, "iters", "n",
		"", "send `N` messages "+plain.When(bandwidth, "per queue pair and size")+plain.When(!bandwidth, "of each size")+
			" (default: "+defaultLengthText(p.Kind, oneSize)+")", parseIterations)
	cmdline.Parsed(fs, wrong, &p.Duration, "duration", "D", "", "measure for this `TIME`: 10 (seconds), 0.5, 500ms",
		plan.ParseTime)
	cmdline.Parsed(fs, wrong, &p.Warmup, "warmup", "", "steady",
		"send `N` messages before the measurement, or steady (until the rate is steady)", f.parseWarmup)
	f.bindFields(plan.GroupLength)
	if bandwidth {
		cmdline.Parsed(fs, wrong, &p.RateBits, "rate", "", "", "send at most this `RATE` in bits per second: 10G, 500M",
			plan.ParseRate)
	} else {
		cmdline.Parsed(fs, wrong, &p.Gap, "gap", "", "", "wait this `TIME` before each message: 10us", plan.ParseSeconds)
	}
	cmdline.Group(fs, "Length")
}

// bindFields registers the flags of a group in the table of settings.
func (f *flags) bindFields(group plan.Group) {
	row := plan.RowOf(f.spec.Operation)
	for _, x := range plan.Fields() {
		help := x.HelpFor(row, f.spec.Kind)
		if x.Group != group || help == "" {
			continue
		}
		switch at := x.At(&f.spec).(type) {
		case *int:
			f.set.IntVarP(at, x.Name, x.Letter, *at, help)
		case *uint8:
			f.set.Uint8VarP(at, x.Name, x.Letter, *at, help)
		case *bool:
			f.set.BoolVarP(at, x.Name, x.Letter, false, help)
		}
	}
}

func defaultLengthText(kind plan.Kind, oneSize bool) string {
	switch {
	case oneSize && kind == plan.Latency:
		return "10000"
	case oneSize:
		return "5000"
	case kind == plan.Latency:
		return "10000; 1000 above 64K; if one of several sizes is above 64K, as many as fit in 0.5 s each"
	}
	return "5000; above 64K, as many as fit in 1 s; with several sizes, as many as fit in 0.5 s each"
}

func defaultSizeText(kind plan.Kind) string {
	if kind == plan.Latency {
		return "2"
	}
	return "64K"
}

// Config is a validated test. Its plan is without sizes and length where they were left open.
type Config struct {
	measure.Config
	before *report.Document // of --resume; nil: from the start
}

// config checks everything that needs no device and names all mistakes at once.
func (f *flags) config(tool string, args []string) (Config, error) {
	wrong := slices.Clone(f.wrong)
	args = cmdline.MeantAsValue(&wrong, f.set.Lookup("verify"), args,
		func(word string) bool { return word == "all" || word == "ends" })
	c, p := Config{Config: f.Config(&wrong, tool, args)}, f.spec
	if p.Timestamps == "host" {
		p.Timestamps = plan.HostClock
	}
	wrong.If(p.AllSizes && len(p.Sizes) > 0, "--all (-a) and --size (-s) exclude each other")
	wrong.If(len(p.Mix) > 0 && len(p.Sizes) > 0,
		"--mix %v: it names the sizes: leave out --size (-s) and --all (-a)", p.Mix)
	c.Device.Several = true
	if rails := len(c.Device.Names()); rails > 1 {
		p.Rails = rails
	}
	if f.set.Changed("mtu") {
		mtu, err := verbs.ParseMTU(f.mtu)
		wrong.Note(cmdline.Prefixed("--mtu (-m)", err))
		p.MTU = mtu
	}
	// the packets of the test, and not a thousand times as many before it
	if c.Device.Pcap != "" && !f.set.Changed("warmup") {
		p.Warmup, p.WarmupSteady = 0, false
	}
	f.refuseZeros(&wrong)
	_, err := plan.Settle(p, plan.Limits{Dialled: true}, plan.Peer{}, plan.Policy{})
	wrong.Note(err)
	c.Plan = p
	f.Judge(&wrong, &c.Config, p.Kind, p.Transport.String())
	wrong.If(len(c.Gate.Accept) > 0 && !f.Gate.Given(), "--accept needs --expect: without it nothing is judged")
	return c, errors.Join(wrong...)
}

// refuseZeros refuses a typed 0 where a plan takes it for "not said".
func (f *flags) refuseZeros(wrong *cmdline.Faults) {
	f.set.Visit(func(x *pflag.Flag) {
		number := x.Value.Type() == "int" || x.Value.Type() == "uint8"
		if number && x.Value.String() == "0" &&
			!slices.Contains([]string{"sl", "tclass", "pkey", "gid-index", "inline", "mtu", "port"}, x.Name) {
			wrong.Add("%s 0: want 1 or more", cmdline.FlagName(x))
		}
	})
}

// parseIterations reads -n.
func parseIterations(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 0, 64)
	if err != nil || n < 1 {
		err = fmt.Errorf("%q: want a whole number of at least 1, such as 5000", text)
	}
	return n, err
}

// parseWarmup reads --warmup.
func (f *flags) parseWarmup(text string) (n uint64, err error) {
	if f.spec.WarmupSteady = text == "steady"; !f.spec.WarmupSteady {
		if n, err = strconv.ParseUint(text, 0, 64); err != nil {
			err = fmt.Errorf("%q: want a count of messages, or 'steady'", text)
		}
	}
	return n, err
}

// parseAtomicType reads the name of an atomic operation, as perftest has it or shorter.
func parseAtomicType(text string) (verbs.Opcode, error) {
	for _, r := range plan.Rows() {
		if name := r.Perftest.Name; name != "" &&
			(strings.EqualFold(text, name) || strings.EqualFold(text, strings.Replace(name, "_AND_", "_", 1))) {
			return r.Opcode, nil
		}
	}
	return 0, fmt.Errorf("%q: want FETCH_AND_ADD or CMP_AND_SWAP", text)
}
