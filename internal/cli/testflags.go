package cli

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/bench"
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/verbs"
)

// testFlags are a test's flags as they were typed.
type testFlags struct {
	connection, atomicType, size, sizes, duration, margin, warmup, gap, rate, verify string
	all, bidirectional, reversed, srq, writeImm, sendImm, events, mrPerQP            bool
	iters                                                                            string
	runs, qps, txDepth, rxDepth, cqMod, postList, inline, outs, mtu                  int
	sl, tclass, pkey, timeout, retries                                               int
	tos                                                                              int
	noPeak, cpuTime, hugePages, rdmaCM, controlCM                                    bool
	limitBW, limitRate                                                               float64
	gbits, cpuFreq                                                                   bool
	expect                                                                           []string

	given  func(name string) bool // the flag stood on the command line
	device deviceFlags
	peer   peerFlags
	output outputFlags
}

// bind registers the flags of one operation; letters mean what they mean in perftest.
func (f *testFlags) bind(fs *pflag.FlagSet, op control.Operation, kind control.Kind) {
	fs.SortFlags = false
	f.given = fs.Changed
	bw := kind == control.Bandwidth
	sized := op != control.Atomic

	if sized {
		fs.StringVarP(&f.size, "size", "s", "", "bytes per message: 64, 4K, 1M ("+defaultSizeText(kind)+")")
		fs.StringVar(&f.sizes, "sizes", "", "several sizes: 64:1M (powers of two), 64,1000,4K")
		fs.BoolVarP(&f.all, "all", "a", false, "all sizes from 2 B to 8 MiB (UD: to the MTU)")
	}
	fs.StringVarP(&f.iters, "iters", "n", "", "messages per queue pair and size")
	fs.StringVarP(&f.duration, "duration", "D", "", "seconds to measure instead: 10, 0.5, 500ms")
	fs.StringVarP(&f.margin, "margin", "f", "", "seconds to leave out at both ends of -D (0)")
	fs.StringVar(&f.warmup, "warmup", "steady", "messages before measuring, or 'steady', or 0")
	fs.IntVar(&f.runs, "runs", 1, "repetitions of each size")
	if op == control.Atomic {
		fs.StringVarP(&f.atomicType, "atomic-type", "A", "FETCH_AND_ADD", "FETCH_AND_ADD or CMP_AND_SWAP")
	}
	if op != control.Atomic && op != control.Read {
		fs.StringVarP(&f.connection, "connection", "c", "RC", connectionText(op))
		fs.IntVarP(&f.inline, "inline", "I", -1, "bytes to send inline at most (-1: as perftest does)")
	}
	if bw {
		fs.IntVarP(&f.qps, "qp", "q", 1, "queue pairs")
		fs.BoolVarP(&f.bidirectional, "bidirectional", "b", false, "both directions at once")
		fs.BoolVar(&f.reversed, "reversed", false, "the server sends to the client")
		fs.IntVarP(&f.txDepth, "tx-depth", "t", 0, "messages in flight per queue pair (128)")
		fs.IntVarP(&f.cqMod, "cq-mod", "Q", 0, "signal every n-th message (100; 1 above 8 KiB)")
		fs.IntVarP(&f.postList, "post-list", "l", 1, "messages per post")
		fs.BoolVarP(&f.noPeak, "no-peak", "N", false, "do not look for the peak")
		fs.StringVar(&f.rate, "rate", "", "limit: 10G, 500M bits per second")
		fs.BoolVar(&f.mrPerQP, "mr-per-qp", false, "a memory region for each queue pair")
	} else {
		fs.StringVar(&f.gap, "gap", "", "least time between messages: 10us")
	}
	if limitedOp(op) {
		fs.IntVarP(&f.outs, "outs", "o", 0, "READs and atomics in flight (device maximum)")
	}
	if op == control.Send {
		fs.IntVarP(&f.rxDepth, "rx-depth", "r", 0, "receives posted per queue pair (512)")
		fs.BoolVar(&f.srq, "srq", false, "share one receive queue")
		fs.BoolVar(&f.sendImm, "send-imm", false, "SEND with immediate")
	}
	if op == control.Write {
		fs.BoolVar(&f.writeImm, "write-imm", false, "WRITE with immediate")
		fs.IntVarP(&f.rxDepth, "rx-depth", "r", 0, "receives posted, with --write-imm (512)")
	}
	fs.BoolVarP(&f.events, "events", "e", false, "sleep on completion events instead of polling")
	fs.StringVar(&f.verify, "verify", "", "compare the data: ends (first and last), all")
	fs.Lookup("verify").NoOptDefVal = "ends"
	fs.BoolVar(&f.cpuTime, "cpu-time", false, "account CPU time per message")

	f.device.bind(fs)
	fs.IntVarP(&f.mtu, "mtu", "m", 0, "path MTU in bytes (the smaller active one)")
	fs.IntVarP(&f.sl, "sl", "S", 0, "service level, 0 to 15")
	fs.IntVar(&f.tclass, "tclass", 0, "traffic class, 0 to 255")
	fs.IntVar(&f.pkey, "pkey", 0, "P_Key index")
	fs.IntVarP(&f.timeout, "qp-timeout", "u", 0, "4.096 us x 2^n until a resend, n 1 to 31 (14; roce0: 16)")
	fs.IntVar(&f.retries, "retries", 7, "resends before giving up, 1 to 7")
	fs.BoolVar(&f.hugePages, "huge-pages", false, "buffers from reserved huge pages")
	fs.BoolVarP(&f.rdmaCM, "rdma-cm", "R", false, "connect by RDMA CM (not roce0, not UC)")
	fs.BoolVarP(&f.controlCM, "comm-rdma-cm", "z", false, "to a perftest with -z (with -R: to one with -R): no TCP")
	fs.IntVarP(&f.tos, "tos", "T", 0, "type of service of the path, with -R: 0 to 255")

	f.peer.bind(fs)
	f.output.bind(fs)
	fs.StringArrayVar(&f.expect, "expect", nil, "fail unless: 'bw >= 90Gb/s', 'p99 <= 3us'")
	if bw {
		fs.Float64VarP(&f.limitBW, "limit-bw", "w", 0, "fail below this average, in Gb/s")
		fs.Float64VarP(&f.limitRate, "limit-msgrate", "y", 0, "fail below this rate, in million messages/s")
		fs.BoolVar(&f.gbits, "report-gbits", true, "ignored: figures name their units")
		hide(fs, "report-gbits")
	}
	fs.BoolVarP(&f.cpuFreq, "cpu-freq", "F", false, "ignored: time stamps need no CPU frequency")
	hide(fs, "cpu-freq")
}

func hide(fs *pflag.FlagSet, name string) {
	if f := fs.Lookup(name); f != nil {
		f.Hidden = true
	}
}

func limitedOp(op control.Operation) bool { return op == control.Read || op == control.Atomic }

func defaultSizeText(kind control.Kind) string {
	if kind == control.Latency {
		return "2"
	}
	return "64K"
}

func connectionText(op control.Operation) string {
	if op == control.Send {
		return "transport: RC, UC or UD"
	}
	return "transport: RC or UC"
}

// testConfig is a validated test.
type testConfig struct {
	Tool   string
	Args   []string     // the command line, for the document
	Plan   control.Plan // without sizes and length where they were left open
	Sized  bool         // -s, --sizes or -a was given
	Device deviceConfig
	Peer   peerConfig
	Output outputConfig
	CPU    bench.CPUChoice
	Expect []*report.Expectation
	Limits limitConfig
}

// limitConfig is perftest's -w and -y: judged for every record.
type limitConfig struct {
	BitsPerS     float64
	MessagesPerS float64
}

// config checks everything that needs no device and names all mistakes at once.
func (f *testFlags) config(tool string, op control.Operation, kind control.Kind, args []string) (testConfig, error) {
	var wrong faults
	c := testConfig{Tool: tool, Limits: limitConfig{f.limitBW * 1e9, f.limitRate * 1e6}}
	p := control.Plan{
		Operation: op, Kind: kind, Transport: verbs.RC, AllSizes: f.all, Runs: f.runs, QPs: f.qps, Bidirectional: f.bidirectional,
		Reversed: f.reversed, WriteImm: f.writeImm, SendImm: f.sendImm, TxDepth: f.txDepth, RxDepth: f.rxDepth, CQMod: f.cqMod,
		PostList: f.postList, InlineBytes: f.inline, Outstanding: f.outs, SRQ: f.srq, Events: f.events, MRPerQP: f.mrPerQP,
		Verify: f.verify, NoPeak: f.noPeak, CPU: f.cpuTime, SL: uint8(f.sl), TrafficClass: uint8(f.tclass), PKeyIndex: f.pkey,
		Timeout: uint8(f.timeout), Retries: uint8(f.retries), HugePages: f.hugePages, RDMACM: f.rdmaCM,
	}
	if f.given("tos") {
		tos := uint8(f.tos)
		p.TOS = &tos
	}
	if f.connection != "" {
		wrong.note(prefixed("--connection (-c)", p.Transport.UnmarshalText([]byte(f.connection))))
	}
	if op == control.Atomic {
		p.InlineBytes = 0
		switch strings.ToUpper(f.atomicType) {
		case "FETCH_AND_ADD", "FETCH_ADD":
			p.AtomicType = verbs.OpFetchAdd
		case "CMP_AND_SWAP", "CMP_SWAP":
			p.AtomicType = verbs.OpCompareSwap
		default:
			wrong.note(fmt.Errorf("--atomic-type (-A) %q: want FETCH_AND_ADD or CMP_AND_SWAP", f.atomicType))
		}
	}
	if op == control.Read {
		p.InlineBytes = 0
	}
	var err error
	p.Sizes, err = f.sizeList()
	wrong.note(err)
	c.Sized = len(p.Sizes) > 0 || f.all
	wrong.note(f.length(&p))
	if f.given("mtu") {
		p.MTU, err = verbs.ParseMTU(f.mtu)
		wrong.note(prefixed("--mtu (-m)", err))
	}
	for _, r := range []struct {
		name, letter string
		v, lo, hi    int
	}{
		{"sl", " (-S)", f.sl, 0, 15},
		{"tclass", "", f.tclass, 0, 255},
		{"tos", " (-T)", f.tos, 0, 255},
		{"pkey", "", f.pkey, 0, 65535},
		{"qp-timeout", " (-u)", f.timeout, 1, 31},
		{"retries", "", f.retries, 1, 7},
		{"runs", "", f.runs, 1, 100000},
		{"qp", " (-q)", f.qps, 1, 16384},
		{"tx-depth", " (-t)", f.txDepth, 1, 15000},
		{"rx-depth", " (-r)", f.rxDepth, 1, 16384},
		{"cq-mod", " (-Q)", f.cqMod, 1, 1024},
		{"post-list", " (-l)", f.postList, 1, 15000},
		{"outs", " (-o)", f.outs, 1, 65535},
		{"inline", " (-I)", f.inline, -1, 4096},
	} {
		if f.given(r.name) && (r.v < r.lo || r.v > r.hi) {
			wrong.note(fmt.Errorf("--%s%s %d: want %d to %d", r.name, r.letter, r.v, r.lo, r.hi))
		}
	}
	if op == control.Write && f.given("rx-depth") && !f.writeImm {
		wrong.note(errors.New("--rx-depth (-r): a WRITE takes no receive; it does with --write-imm"))
	}
	for _, l := range []struct {
		name  string
		limit float64
	}{{"limit-bw", f.limitBW}, {"limit-msgrate", f.limitRate}} {
		if f.given(l.name) && !(l.limit > 0) { // so is NaN refused
			wrong.note(fmt.Errorf("--%s %g: want more than 0", l.name, l.limit))
		}
	}
	if f.rate != "" {
		p.RateBits, err = parseRate(f.rate)
		wrong.note(prefixed("--rate", err))
	}
	if f.gap != "" {
		p.Gap, err = parseSeconds(f.gap)
		wrong.note(prefixed("--gap", err))
	}
	switch f.verify {
	case "", "ends", "all":
	default:
		wrong.note(fmt.Errorf("--verify %q: want ends or all", f.verify))
	}
	c.Plan = p
	c.Device, err = f.device.config()
	wrong.note(err)
	c.Device.Strict = len(f.expect) > 0
	c.CPU, err = f.device.cpuChoice()
	wrong.note(err)
	if f.verify == "ends" && slices.Contains(args, "all") {
		wrong.note(errors.New("\"all\" is taken for a host: write --verify=all"))
		args = slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "all" })
	}
	c.Peer, err = f.peer.config(tool, args)
	wrong.note(err)
	c.Peer.ControlCM = f.controlCM
	if f.controlCM && c.Peer.Loopback {
		wrong.note(errors.New("--comm-rdma-cm (-z) is for a perftest at the other end: leave it or --loopback out"))
	}
	c.Output, err = f.output.config()
	wrong.note(err)
	c.Expect, err = parseExpectations(f.expect, p)
	wrong.note(err)
	return c, errors.Join(wrong...)
}

// sizeList reads -s, --sizes and -a, which exclude each other.
func (f *testFlags) sizeList() ([]int, error) {
	var given []string
	for name, set := range map[string]bool{"--size (-s)": f.size != "", "--sizes": f.sizes != "", "--all (-a)": f.all} {
		if set {
			given = append(given, name)
		}
	}
	slices.Sort(given)
	if len(given) > 1 {
		return nil, fmt.Errorf("%s exclude each other", strings.Join(given, " and "))
	}
	switch {
	case f.size != "":
		n, err := parseSize(f.size)
		return []int{n}, prefixed("--size (-s)", err)
	case f.sizes != "":
		list, err := parseSizes(f.sizes)
		return list, prefixed("--sizes", err)
	default:
		return nil, nil
	}
}

// length reads -n, -D, -f and --warmup.
func (f *testFlags) length(p *control.Plan) error {
	var errs []error
	if f.iters != "" {
		n, err := strconv.ParseUint(f.iters, 0, 64)
		if err != nil || n < 1 {
			errs = append(errs, fmt.Errorf("--iters (-n) %q: want a whole number of at least 1, such as 5000", f.iters))
		}
		p.Iterations = n
	}
	if f.duration != "" {
		d, err := parseSeconds(f.duration)
		if err == nil && d <= 0 {
			err = fmt.Errorf("%q: want more than 0 seconds", f.duration)
		}
		errs = append(errs, prefixed("--duration (-D)", err))
		p.Duration = d
	}
	if f.margin != "" {
		d, err := parseSeconds(f.margin)
		errs = append(errs, prefixed("--margin (-f)", err))
		p.Margin = d
	}
	if f.iters != "" && f.duration != "" {
		errs = append(errs, errors.New("--iters (-n) and --duration (-D) exclude each other"))
	}
	switch f.warmup {
	case "steady", "":
		p.WarmupSteady = true
	default:
		n, err := strconv.ParseUint(f.warmup, 0, 64)
		if err != nil {
			errs = append(errs, fmt.Errorf("--warmup %q: want a count of messages, or 'steady'", f.warmup))
		}
		p.Warmup = n
	}
	return errors.Join(errs...)
}

// finishPlan fills what depends on the device's port and on who is at the other end: sizes of UD, the default length.
// perftest's defaults hold where a stock perftest expects them.
func (c testConfig) finishPlan(dialect control.Dialect, port verbs.PortInfo) control.Plan {
	p := c.Plan
	mtu := port.ActiveMTU
	if p.MTU != 0 {
		mtu = min(mtu, p.MTU)
	}
	switch {
	case p.Operation == control.Atomic:
		p.Sizes = []int{8}
	case p.AllSizes:
		largest := 8 << 20
		if p.Transport == verbs.UD {
			largest = max(mtu.Bytes(), 2)
		}
		p.Sizes = powersOfTwo(2, largest)
	case len(p.Sizes) == 0 && p.Kind == control.Latency:
		p.Sizes = []int{2}
	case len(p.Sizes) == 0 && p.Transport == verbs.UD:
		p.Sizes = []int{mtu.Bytes()}
	case len(p.Sizes) == 0:
		p.Sizes = []int{65536}
	}
	if p.Iterations == 0 && p.Duration == 0 {
		p.Iterations = 1000
		if p.Kind == control.Bandwidth && p.Operation == control.Write {
			p.Iterations = 5000
		}
		largest := slices.Max(p.Sizes)
		switch {
		case dialect != control.Ours || p.Verify == "all":
		case p.Kind == control.Bandwidth && len(p.Sizes) > 1: // a sweep: the same time for each
			p.Iterations, p.Duration = 0, 500*time.Millisecond
		case p.Kind == control.Bandwidth && largest > 1<<16:
			p.Iterations, p.Duration = 0, time.Second
		case p.Kind == control.Bandwidth && p.Iterations < 5000:
			p.Iterations = 5000
		case p.Kind == control.Latency && largest <= 1<<16:
			p.Iterations = 10000 // enough for p99.9
		}
		if p.PostList > 1 && p.Iterations > 0 {
			p.Iterations = (p.Iterations + uint64(p.PostList) - 1) / uint64(p.PostList) * uint64(p.PostList)
		}
	}
	if dialect != control.Ours {
		p.Warmup, p.WarmupSteady, p.Runs = 0, false, 1
	}
	return p
}

func powersOfTwo(low, high int) []int {
	var out []int
	for n := low; n <= high; n *= 2 {
		out = append(out, n)
	}
	return out
}

func prefixed(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}

// parseSize reads bytes with an optional K, M or G (powers of 1024).
func parseSize(s string) (int, error) {
	digits, shift := s, 0
	trimmed := strings.TrimSuffix(strings.TrimSuffix(s, "B"), "i")
	if n := len(trimmed); n > 0 {
		switch trimmed[n-1] {
		case 'K', 'k':
			digits, shift = trimmed[:n-1], 10
		case 'M', 'm':
			digits, shift = trimmed[:n-1], 20
		case 'G', 'g':
			digits, shift = trimmed[:n-1], 30
		}
	}
	n, err := strconv.ParseInt(digits, 0, 64)
	if err != nil || n < 1 || n > math.MaxInt32>>shift {
		return 0, fmt.Errorf("%q: want 1 to %d bytes, such as 64, 4K or 1M", s, math.MaxInt32)
	}
	return int(n) << shift, nil
}

// parseSizes reads a list of sizes and ranges; a range goes up by a factor of 2, or by the one after a second colon.
func parseSizes(s string) ([]int, error) {
	var out []int
	for part := range strings.SplitSeq(s, ",") {
		fields := strings.Split(part, ":")
		if len(fields) > 3 {
			return nil, fmt.Errorf("%q: want FROM:TO or FROM:TO:FACTOR", part)
		}
		low, err := parseSize(fields[0])
		if err != nil {
			return nil, err
		}
		high, factor := low, 2
		if len(fields) > 1 {
			if high, err = parseSize(fields[1]); err != nil {
				return nil, err
			}
		}
		if len(fields) > 2 {
			if factor, err = strconv.Atoi(fields[2]); err != nil || factor < 2 {
				return nil, fmt.Errorf("%q: want a factor of at least 2", part)
			}
		}
		if high < low {
			return nil, fmt.Errorf("%q: ends below its start", part)
		}
		for n := low; n <= high; n *= factor {
			out = append(out, n)
		}
	}
	return out, nil
}

// parseSeconds reads seconds, or a duration with a unit.
func parseSeconds(s string) (time.Duration, error) {
	if v, err := strconv.ParseFloat(s, 64); err == nil {
		if v < 0 || v > 1e6 || math.IsNaN(v) {
			return 0, fmt.Errorf("%q: want 0 to 1000000 seconds", s)
		}
		return time.Duration(v * 1e9), nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q: want seconds, or 500ms, 10s, 2m", s)
	}
	return d, nil
}

// parseRate reads bits per second with an optional K, M, G or T (powers of 1000).
func parseRate(s string) (float64, error) {
	unit := 1.0
	digits := strings.TrimSuffix(strings.TrimSuffix(s, "b/s"), "bit/s")
	for suffix, u := range map[string]float64{"K": 1e3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12} {
		if d, is := strings.CutSuffix(digits, suffix); is {
			digits, unit = d, u
			break
		}
	}
	v, err := strconv.ParseFloat(digits, 64)
	switch {
	case err != nil || v <= 0 || math.IsInf(v, 0):
		return 0, fmt.Errorf("%q: want bits per second, such as 10G or 500M", s)
	case v*unit < 1000: // 25 was meant to be gigabits, and a limit of 25 bits passes everything
		return 0, fmt.Errorf("%q is %g bits per second: write a unit, such as %sG or 500M", s, v*unit, digits)
	}
	return v * unit, nil
}
