package operation

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/bench/machine"
	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/gate"
	"github.com/gobw/gobw/internal/cli/measure"
	"github.com/gobw/gobw/internal/cli/opendevice"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/expect"
	"github.com/gobw/gobw/report/render"
	"github.com/gobw/gobw/verbs"
)

// groups orders the flags of a test for a person.
func groups() []cmdline.FlagGroup {
	return []cmdline.FlagGroup{
		{Title: "Messages", Names: []string{"size", "all", "connection", "atomic-type", "imm", "bidirectional", "reversed", "verify"}},
		{Title: "Length", Names: []string{"iters", "duration", "warmup", "runs", "rate", "gap"}},
		{Title: "Queues", Names: []string{
			"qp", "threads", "tx-depth", "rx-depth", "cq-mod", "post-list", "outs", "inline", "srq", "events",
			"cpu-time", "huge-pages",
			"post-api", "timestamps",
		}},
		opendevice.Group(),
		measure.PeerGroup(),
		{Title: "Output and verdict", Names: []string{"format", "save", "resume", "quiet", "expect", "accept"}},
	}
}

// flags are a test's flags as they were typed.
type flags struct {
	connection, atomicType, size, iters, duration, warmup, gap, rate, verify, timestamps, postAPI string
	all, bidirectional, reversed, srq, imm, events, cpuTime, hugePages, rdmaCM, cpuFreq, resume   bool
	runs, qps, threads, txDepth, rxDepth, cqMod, postList, inline, outs                           int
	mtu, sl, tclass, pkey, timeout                                                                int
	gate                                                                                          gate.Flags

	given  func(name string) bool // the flag stood on the command line
	device opendevice.Flags
	peer   measure.PeerFlags
	output output.Flags
}

// bind registers the flags of one operation; letters mean what they mean in perftest.
func (f *flags) bind(fs *pflag.FlagSet, op plan.Operation, kind plan.Kind) {
	fs.SortFlags = false
	f.given = fs.Changed
	f.inline, f.qps, f.postList = -1, 1, 1 // where the operation has no flag for them
	bw, row := kind == plan.Bandwidth, plan.RowOf(op)
	sized := !row.Counter

	if sized {
		fs.StringVarP(&f.size, "size", "s", "", "bytes per message: 4K; several: 64,1000,4K, 64:1M (powers of two) ("+defaultSizeText(kind)+")")
		fs.BoolVarP(&f.all, "all", "a", false, "all sizes from 2 B to 8 MiB (UD: to the MTU)")
	}
	fs.StringVarP(&f.iters, "iters", "n", "", "messages per queue pair and size ("+defaultLengthText(kind)+")")
	fs.StringVarP(&f.duration, "duration", "D", "", "seconds to measure instead: 10, 0.5, 500ms")
	fs.StringVar(&f.warmup, "warmup", "steady", "messages before measuring, or 'steady', or 0")
	fs.IntVar(&f.runs, "runs", 1, "repetitions of each size")
	if row.Counter {
		fs.StringVarP(&f.atomicType, "atomic-type", "A", "FETCH_AND_ADD", "FETCH_AND_ADD or CMP_AND_SWAP")
	}
	if row.MayInline() {
		fs.StringVarP(&f.connection, "connection", "c", "RC", "transport: "+row.TransportText())
		fs.IntVarP(&f.inline, "inline", "I", -1, "bytes to send inline at most (-1: as perftest does)")
	}
	if bw {
		fs.IntVarP(&f.qps, "qp", "q", 1, "queue pairs")
		fs.IntVar(&f.threads, "threads", 1, "threads that share an end's queue pairs (not roce0)")
		fs.BoolVarP(&f.bidirectional, "bidirectional", "b", false, "both directions at once")
		fs.BoolVar(&f.reversed, "reversed", false, "the server sends to the client")
		fs.IntVarP(&f.txDepth, "tx-depth", "t", 0, "messages in flight per queue pair (128)")
		fs.IntVarP(&f.cqMod, "cq-mod", "Q", 0, "signal every n-th message (100; 1 above 8 KiB)")
		fs.IntVarP(&f.postList, "post-list", "l", 1, "messages per post")
		fs.StringVar(&f.rate, "rate", "", "limit: 10G, 500M bits per second")
	} else {
		if row.MayInline() && !row.Responded {
			fs.IntVarP(&f.txDepth, "tx-depth", "t", 0, "messages in flight: 1 has each acknowledged apart (64 on roce0 over RC, else 1)")
		}
		fs.StringVar(&f.gap, "gap", "", "least time between messages: 10us")
		fs.StringVar(&f.timestamps, "timestamps", "host", "whose clock: host, or device (stamps of completions)")
	}
	if row.Responded {
		fs.IntVarP(&f.outs, "outs", "o", 0, "READs and atomics in flight (device maximum)")
	}
	if op == plan.Send {
		fs.IntVarP(&f.rxDepth, "rx-depth", "r", 0, "receives posted per queue pair (512)")
		fs.BoolVar(&f.srq, "srq", false, "share one receive queue")
	}
	if op == plan.Write {
		fs.IntVarP(&f.rxDepth, "rx-depth", "r", 0, "receives posted, with --imm (512)")
	}
	if op == plan.Send || op == plan.Write {
		fs.BoolVar(&f.imm, "imm", false, "with immediate data")
	}
	fs.StringVar(&f.postAPI, "post-api", "auto", "how sends are posted: post_send, wr (ibv_wr_*), auto (as perftest does)")
	fs.BoolVarP(&f.events, "events", "e", false, "sleep on completion events instead of polling")
	fs.StringVar(&f.verify, "verify", "", "compare the data: ends (first and last), all")
	fs.Lookup("verify").NoOptDefVal = "ends"
	fs.BoolVar(&f.cpuTime, "cpu-time", false, "account CPU time per message")

	f.device.Bind(fs)
	f.bindPath(fs)
	f.peer.Bind(fs)
	f.output.Bind(fs, render.DocumentFormats())
	fs.BoolVar(&f.resume, "resume", false, "go on after the last point that the --save file holds")
	f.gate.Bind(fs, "'bw >= 90Gb/s', 'p99 <= 3us', 'worse<5% of FILE'")
	fs.BoolVarP(&f.cpuFreq, "cpu-freq", "F", false, "ignored: time stamps need no CPU frequency")
	cmdline.Hide(fs, "cpu-freq")
}

// bindPath registers what the packets and the queue pairs' connection are.
func (f *flags) bindPath(fs *pflag.FlagSet) {
	fs.IntVarP(&f.mtu, "mtu", "m", 0, "path MTU in bytes (default: the smaller of both ends)")
	fs.IntVarP(&f.sl, "sl", "S", 0, "service level, 0 to 15")
	fs.IntVar(&f.tclass, "tclass", 0, "traffic class, 0 to 255")
	fs.IntVar(&f.pkey, "pkey", 0, "P_Key index")
	fs.IntVarP(&f.timeout, "qp-timeout", "u", 0, "4.096 us x 2^n until a resend, n 1 to 31 (14; roce0: 16)")
	fs.BoolVar(&f.hugePages, "huge-pages", false, "buffers from reserved huge pages")
	fs.BoolVarP(&f.rdmaCM, "rdma-cm", "R", false, "connect by RDMA CM (not roce0, not UC)")
}

func defaultLengthText(kind plan.Kind) string {
	if kind == plan.Latency {
		return "10000; above 64K 1000"
	}
	return "5000; above 64K for 1 s; of several sizes for 0.5 s each"
}

func defaultSizeText(kind plan.Kind) string {
	if kind == plan.Latency {
		return "2"
	}
	return "64K"
}

// Config is a validated test.
type Config struct {
	Tool   string
	Args   []string  // the command line, for the document
	Plan   plan.Spec // without sizes and length where they were left open
	Device opendevice.Config
	Peer   measure.PeerConfig
	Output output.Config
	CPU    machine.CPUChoice
	Gate   gate.Config

	before *report.Document // of --resume; nil: from the start
}

// config checks everything that needs no device and names all mistakes at once.
func (f *flags) config(tool string, op plan.Operation, kind plan.Kind, args []string) (Config, error) {
	var wrong cmdline.Faults
	c := Config{Tool: tool}
	p := plan.Spec{
		Operation: op, Kind: kind, Transport: verbs.RC, AllSizes: f.all, Runs: f.runs, QPs: f.qps, Bidirectional: f.bidirectional,
		Reversed: f.reversed, WriteImm: f.imm && op == plan.Write, SendImm: f.imm && op == plan.Send, TxDepth: f.txDepth, RxDepth: f.rxDepth, CQMod: f.cqMod,
		PostList: f.postList, InlineBytes: f.inline, Outstanding: f.outs, SRQ: f.srq, Events: f.events,
		Verify: plan.Verify(f.verify), CPU: f.cpuTime, SL: uint8(f.sl), TrafficClass: uint8(f.tclass), PKeyIndex: f.pkey,
		Timeout: uint8(f.timeout), HugePages: f.hugePages, RDMACM: f.rdmaCM,
	}
	if f.connection != "" {
		wrong.Note(cmdline.Prefixed("--connection (-c)", p.Transport.UnmarshalText([]byte(f.connection))))
	}
	if op == plan.Atomic {
		kind, known := atomicType(f.atomicType)
		wrong.If(!known, "--atomic-type (-A) %q: want FETCH_AND_ADD or CMP_AND_SWAP", f.atomicType)
		p.AtomicType = kind
	}
	wrong.Note(cmdline.Prefixed("--post-api", p.PostAPI.UnmarshalText([]byte(f.postAPI))))
	var err error
	p.Sizes, err = f.sizeList()
	wrong.Note(err)
	wrong.Note(f.length(&p))
	c.Device, err = f.device.Config()
	wrong.Note(err)
	c.Device.Several = true
	if rails := len(c.Device.Names()); rails > 1 {
		p.Rails = rails
		if kind == plan.Bandwidth && !f.given("qp") {
			p.QPs = rails
		}
	}
	if f.given("threads") {
		p.Threads = f.threads
	}
	if f.given("mtu") {
		p.MTU, err = verbs.ParseMTU(f.mtu)
		wrong.Note(cmdline.Prefixed("--mtu (-m)", err))
	}
	f.checkNumbers(&wrong)
	if f.rate != "" {
		p.RateBits, err = plan.ParseRate(f.rate)
		wrong.Note(cmdline.Prefixed("--rate", err))
	}
	if f.gap != "" {
		p.Gap, err = plan.ParseSeconds(f.gap)
		wrong.Note(cmdline.Prefixed("--gap", err))
	}
	if f.timestamps != "host" {
		p.Timestamps = plan.Clock(f.timestamps)
	}
	_, err = plan.Settle(p, plan.Limits{Dialled: true}, plan.Peer{}, plan.Policy{})
	wrong.Note(err)
	c.Plan = p
	c.Device.Strict = f.gate.Given() // no gate passes on the software device unless it was named
	c.CPU, err = f.device.CPUChoice(1)
	wrong.Note(err)
	f.configAround(&c, &wrong, args)
	return c, errors.Join(wrong...)
}

// checkNumbers refuses numbers that a plan cannot hold, or would take for none.
func (f *flags) checkNumbers(wrong *cmdline.Faults) {
	for _, r := range []struct {
		name, letter string
		v, lo, hi    int
	}{
		{"sl", " (-S)", f.sl, 0, 15},
		{"tclass", "", f.tclass, 0, 255},
		{"qp-timeout", " (-u)", f.timeout, 1, 31},
	} { // they are narrow in a plan
		wrong.If(f.given(r.name) && (r.v < r.lo || r.v > r.hi), "--%s%s %d: want %d to %d", r.name, r.letter, r.v, r.lo, r.hi)
	}
	for _, r := range []struct {
		name, letter string
		v            int
	}{ // 0 is "not said" in a plan
		{"runs", "", f.runs},
		{"qp", " (-q)", f.qps},
		{"threads", "", f.threads},
		{"tx-depth", " (-t)", f.txDepth},
		{"rx-depth", " (-r)", f.rxDepth},
		{"cq-mod", " (-Q)", f.cqMod},
		{"post-list", " (-l)", f.postList},
		{"outs", " (-o)", f.outs},
	} {
		wrong.If(f.given(r.name) && r.v == 0, "--%s%s 0: want 1 or more", r.name, r.letter)
	}
}

// configAround checks what is about the other end, the result and the verdict.
func (f *flags) configAround(c *Config, wrong *cmdline.Faults, args []string) {
	for _, word := range []string{"all", "ends"} {
		if f.verify == "ends" && slices.Contains(args, word) {
			wrong.Note(fmt.Errorf("%q is taken for a host: write --verify=%s", word, word))
			args = slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == word })
		}
	}
	var err error
	c.Peer, err = f.peer.Config(c.Tool, args)
	wrong.Note(err)
	c.Output, err = f.output.Config()
	wrong.Note(err)
	wrong.If(f.resume && c.Output.Document() == "", "--resume: name the file to go on with: --save result.json")
	c.Gate, err = f.gate.Config(expect.Options{Dir: "."}, func(e *expect.Expectation) error { return e.CheckTest(string(c.Plan.Kind), c.Plan.Transport.String()) })
	wrong.Note(err)
	wrong.If(len(c.Gate.Accept) > 0 && !f.gate.Given(), "--accept is for --expect: without one nothing is judged that could pass")
}

// sizeList reads -s, which -a excludes.
func (f *flags) sizeList() ([]int, error) {
	switch {
	case f.size == "":
		return nil, nil
	case f.all:
		return nil, errors.New("--all (-a) and --size (-s) exclude each other")
	}
	list, err := plan.ParseSizes(f.size)
	return list, cmdline.Prefixed("--size (-s)", err)
}

// length reads -n, -D and --warmup.
func (f *flags) length(p *plan.Spec) error {
	var wrong cmdline.Faults
	var err error
	if f.iters != "" {
		p.Iterations, err = strconv.ParseUint(f.iters, 0, 64)
		wrong.If(err != nil || p.Iterations < 1, "--iters (-n) %q: want a whole number of at least 1, such as 5000", f.iters)
	}
	if f.duration != "" {
		p.Duration, err = plan.ParseSeconds(f.duration)
		wrong.Note(cmdline.Prefixed("--duration (-D)", err))
		wrong.If(err == nil && p.Duration <= 0, "--duration (-D): %q: want more than 0 seconds", f.duration)
	}
	if p.WarmupSteady = f.warmup == "steady" || f.warmup == ""; !p.WarmupSteady {
		p.Warmup, err = strconv.ParseUint(f.warmup, 0, 64)
		wrong.If(err != nil, "--warmup %q: want a count of messages, or 'steady'", f.warmup)
	}
	return errors.Join(wrong...)
}

// atomicType reads the name of an atomic operation, as perftest has it or shorter.
func atomicType(s string) (verbs.Opcode, bool) {
	for _, r := range plan.Rows() {
		if name := r.Perftest.Name; name != "" && (strings.EqualFold(s, name) || strings.EqualFold(s, strings.Replace(name, "_AND_", "_", 1))) {
			return r.Opcode, true
		}
	}
	return 0, false
}
