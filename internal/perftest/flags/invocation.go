package flags

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
)

// Invocation is one command line of one tool, understood. The plan's zero fields are the defaults in force, which
// depend on the device (see [Invocation.Fit]) or on the engine.
type Invocation struct {
	Tool Tool
	Plan plan.Spec

	Host     string // empty: serve
	Device   string // empty: the first
	TCPPort  int
	IBPort   int    // counted from 1
	GIDIndex *int   // nil: chosen
	DLID     uint16 // --dlid: the peer's LID in place of what it tells; 0: that
	IPv6GID  bool   // prefer an IPv6 GID when choosing one
	Source   netip.Addr
	Network  string // "tcp4" (perftest's), "tcp6", or "tcp": either
	MTUBytes int    // -m, 0: the active one
	// ControlCM makes the control connection one by RDMA CM (-z; -R implies it).
	ControlCM bool

	Help    bool
	Version bool

	Gbits      bool     // --report_gbits
	ReportBoth bool     // --report-both
	Cycles     bool     // -C
	Histogram  bool     // -H
	Unsorted   bool     // -U
	Output     string   // --output: "", "bandwidth", "message_rate" or "latency"
	JSONFile   string   // --out_json_file; empty: none
	LimitBW    *float64 // -w, in the unit printed; nil: none
	LimitRate  *float64 // -y, in millions of messages per second; nil: none

	Counters    []string      // -W: device counters to print after each row
	Cores       []int         // --pin_cores; the measuring thread takes the first
	NUMANode    *int          // --numa_node; nil: the device's
	NoNUMA      bool          // --disable_numa
	WaitDestroy time.Duration // --wait_destroy: between the test and the end of the queue pairs

	PerftestVersion string // --perftest-version (ours): the version to advertise; empty: 6.27
	// --peer-timeout (ours): how long a silent peer, or one with which nothing moves, is borne; 0: the defaults
	PeerTimeout time.Duration

	Remarks  string   // stock's of its own choices, for stdout before it looks for a device
	Shrunk   string   // stock's for stderr, where UD's default size was above the MTU
	Warnings []string // for stderr, of Parse and Fit

	sizeGiven   bool
	margin      *int64 // -f, in seconds
	rate        float64
	rateUnit    string
	rateType    string
	warmUp      bool
	burst       int
	link        verbs.LinkLayer // --force-link; zero: the port's
	AdaptsPolls bool            // perftest would adapt the batch of its polls
}

// Server tells whether this end waits for a client.
func (v *Invocation) Server() bool { return v.Host == "" }

// Default sizes and counts.
const (
	impliedSeconds = 5
	mostBurst      = 15000
	moderatedBytes = 8192 // above, completions are asked for one by one
	// peakIterations is the count above which perftest drops the peak.
	peakIterations = 20000
	defaultJSON    = "perftest_out.json"
)

// DefaultVersion is the perftest version that we advertise: it talks to every perftest but 6.28.
const DefaultVersion = "6.27"

// Parse reads a tool's command line, without the program's name. All faults come back at once.
func Parse(tool Tool, args []string) (Invocation, error) {
	v := Invocation{
		Tool: tool, TCPPort: control.DefaultPort, IBPort: 1, Network: "tcp",
		Plan: plan.Spec{Operation: tool.Operation, Kind: tool.Kind, Transport: verbs.RC, InlineBytes: -1},
	}
	if tool.Kind == plan.Latency {
		v.Plan.TxDepth = 1 // where ours is deeper on a software device
	}
	table := flags(&v)
	found, operands, err := getopt(table, args)
	if err != nil {
		return v, &UnknownError{fmt.Errorf("%s: %w", tool.Name, err)}
	}
	var errs []error
	repeated, classic := "", ""
	for i, g := range found {
		if err := g.apply(&v, g.text); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", g, err))
		}
		if repeated == "" &&
			slices.ContainsFunc(found[:i], func(other given) bool { return other.perftestFlag == g.perftestFlag }) {
			repeated = strings.TrimPrefix(g.briefly(), "--")
		}
		if g.classic {
			classic = cmp.Or(classic, g.long)
		}
	}
	if v.Help || v.Version {
		return v, nil
	}
	if classic != "" && v.Style() == Modern {
		return v, &UnknownError{fmt.Errorf("%s: unrecognized option '--%s'", tool.Name, classic)}
	}
	if repeated != "" && v.Style() == Modern {
		errs = append(errs,
			&StockError{" Duplicated argument: " + repeated + " ", errors.New("from version 6.13 on an option is given once")})
	}
	switch len(operands) {
	case 0:
	case 1:
		v.Host = operands[0]
	default:
		errs = append(errs, &StockError{
			" Invalid Command line. Please check command rerun ",
			fmt.Errorf("%q: one host is enough", strings.Join(operands[1:], " ")),
		})
	}
	errs = append(errs, v.settle()...)
	return v, errors.Join(errs...)
}

// UnknownError is a command line that getopt does not understand, such as one with an unknown option.
type UnknownError struct{ Err error }

func (e *UnknownError) Error() string { return e.Err.Error() }

// Style is the version of perftest whose text, JSON and codes are ours: of 4.5,
// unless a version from 6.22 on is asked for.
func (v *Invocation) Style() Style {
	var major, minor int
	_, _ = fmt.Sscanf(v.PerftestVersion, "%d.%d", &major, &minor) // none: 0
	if major > 6 || major == 6 && minor >= 22 {
		return Modern
	}
	return Classic
}

// ClaimedVersion is the version whose text is ours, which -V prints: scripts choose by it how to read.
func (v *Invocation) ClaimedVersion() string {
	if v.Style() == Classic {
		return "6.06"
	}
	return v.PerftestVersion
}

// ParseLine reads a whole command line such as "ib_send_bw -c UD -s 1024".
func ParseLine(line string) (Invocation, error) {
	words := strings.Fields(line)
	if len(words) == 0 {
		return Invocation{}, errors.New("empty command line: want one such as 'ib_send_bw -c UD -s 1024'")
	}
	tool, ok := ToolNamed(words[0])
	if !ok {
		return Invocation{},
			fmt.Errorf("%q is none of perftest's tools: want one such as 'ib_send_bw -c UD -s 1024'", words[0])
	}
	v, err := Parse(tool, words[1:])
	if err == nil && v.Host != "" {
		err = fmt.Errorf("%q: a server's command line has no host", v.Host)
	}
	return v, err
}

// settle fills the defaults that depend on other flags, and checks what must fit together.
func (v *Invocation) settle() []error {
	p, wrong := &v.Plan, &faults{}
	row, err := p.Row()
	if err != nil {
		return []error{err}
	}
	for _, stage := range []func(plan.Row, *faults){v.refuse, v.settleLength} {
		if stage(row, wrong); len(wrong.Faults) > 0 {
			return wrong.Faults
		}
	}
	v.noteRemarks(row)
	v.settleOutput(wrong)
	v.settleRate(wrong, row)
	v.ControlCM = v.ControlCM || p.RDMACM
	if !row.NeedsReceive() && (p.RxDepth > 0 || p.RecvList > 1) {
		v.warn("-r and --recv_post_list are ignored: %s takes no receive", row.Text)
		p.RxDepth, p.RecvList = 0, 0
	}
	if p.Operation == plan.Send && !p.AllSizes && !p.Infinite {
		p.RxDepth += p.RxDepth % 2 // as perftest does
	}
	settled, err := plan.Settle(*p, plan.Limits{}, plan.Peer{}, plan.Policy{})
	if err != nil {
		return append(wrong.Faults, err)
	}
	if v.rateType == "SW" && p.RateBits > 0 && p.Burst == 0 {
		p.Burst = settled.Depths().Tx // as in perftest
	}
	if v.warmUp {
		p.Warmup = uint64(settled.Depths().Tx)
		if list := p.WholeBatches(1); list > 1 {
			p.Warmup = list
		}
	}
	return wrong.Faults
}

// refuse names what stock refuses before it looks at lengths.
func (v *Invocation) refuse(row plan.Row, wrong *faults) {
	p, stock := &v.Plan, wrong.stock
	uc, ud := p.Transport == verbs.UC, p.Transport == verbs.UD
	stock((p.Events || p.Vector > 0) && !row.NeedsReceive() && !row.Responded,
		" Events feature not available on WRITE verb", "-e: a WRITE makes no event at the peer; add --write_with_imm")
	stock(v.Style() == Classic && p.RxDepth > 1 && p.Operation == plan.Write && !p.WriteImm,
		" On RDMA verbs rx depth can be only 1", "-r %d: a WRITE takes no receive", p.RxDepth)
	stock(p.TOS != nil && !p.RDMACM,
		" TOS only valid for rdma_cm based QP and RawEth QP ", "--tos (-T): it needs -R; --tclass works without")
	stock(p.RDMACM && uc, " UC is not supported in librdmacm", "-R: RDMA CM connects RC and UD, not UC")
	stock(uc && row.Responded, " UC connection not possible in READ/ATOMIC verbs", "UC has no %s: use RC", row.Text)
	stock(ud && p.Operation != plan.Send, " UD connection only possible in SEND verb", "UD has no %s: use RC", row.Text)
	stock(p.Duration > 0 && p.AllSizes,
		"Duration mode currently doesn't support running on all sizes.", "-D and -a exclude each other")
	stock(p.Duration > 0 && p.Events, "Duration mode doesn't work with events.", "-D and -e exclude each other")
}

// settleLength chooses the sizes, and the count or the time.
func (v *Invocation) settleLength(row plan.Row, wrong *faults) {
	p, stock := &v.Plan, wrong.stock
	switch {
	case p.Infinite:
		wrong.If(p.AllSizes, "--run_infinitely and -a exclude each other")
		line := " run_infinitely mode is not supported in SEND Bidirectional BW test"
		if v.Style() == Modern {
			line = " run_infinitely mode is not supported in SEND, SEND_IMM or WRITE_IMM Bidirectional BW test"
		}
		stock(!p.AllSizes && p.Operation == plan.Send && p.Bidirectional, line, "--run_infinitely does not work with send -b")
		p.Duration = cmp.Or(p.Duration, impliedSeconds*time.Second)
		p.Iterations = 0
	case p.Duration > 0:
		if p.Iterations > 0 {
			v.warn("-n %d is ignored: -D decides", p.Iterations)
		}
		p.Iterations, p.Margin = 0, p.Duration/4/time.Second*time.Second
		if v.margin != nil {
			p.Margin = time.Duration(*v.margin) * time.Second
		}
	default:
		p.Iterations = cmp.Or(p.Iterations, plan.DefaultIterations(row, p.Kind))
	}
	p.Outstanding = min(p.Outstanding, math.MaxUint8) // a queue pair has no more; Fit takes the device's
	v.settleMulticast()
	p.Choose(row)
	switch {
	case p.AllSizes:
		p.Sizes = plan.AllSizes()
	case !v.sizeGiven:
		p.Sizes = []int{plan.DefaultBytes(row, p.Kind)}
	}
	stock(p.Margin > 0 && p.Duration <= 2*p.Margin,
		"please check that DURATION > 2*MARGIN", "-D %v: want more than two margins (-f) of %v", p.Duration, p.Margin)
	for _, f := range v.Lists() {
		applies := f.Sends || row.NeedsReceive()
		stock(applies && p.Iterations%uint64(f.Number) != 0, "Number of iterations must be a multiple of "+f.Noun+" size",
			"-n %d is no multiple of %s %d", p.Iterations, f.Brief, f.Number)
	}
}

// settleOutput chooses what is printed.
func (v *Invocation) settleOutput(wrong *faults) {
	p, stock := &v.Plan, wrong.stock
	bandwidth := p.Kind == plan.Bandwidth
	p.NoPeak = p.NoPeak || bandwidth && (p.Iterations > peakIterations || p.Duration > 0)
	if p.CPU && p.Duration == 0 {
		v.warn("--cpu_util is ignored: it needs -D")
		p.CPU = false
	}
	wrong.If(v.NUMANode != nil && len(v.Cores) > 0, "--numa_node and --pin_cores exclude each other")
	if v.ReportBoth && !p.Bidirectional {
		v.warn("--report-both is ignored: it needs -b")
		v.ReportBoth = false
	}
	kinds := map[string]plan.Kind{
		"": p.Kind, "bandwidth": plan.Bandwidth, "message_rate": plan.Bandwidth, "latency": plan.Latency,
	}
	measures, known := kinds[v.Output]
	other := known && measures != p.Kind
	stock(!known, " Invalid verbosity level output flag. Please use bandwidth, latency, message_rate",
		"--output %q: want bandwidth, message_rate or latency", v.Output)
	stock(other && bandwidth, " Output verbosity level for BW can be: bandwidth, message_rate",
		"--output latency: %s measures bandwidth", v.Tool.Name)
	stock(other && !bandwidth, " Output verbosity level for LAT can be: latency",
		"--output %s: %s measures latency", v.Output, v.Tool.Name)
}

// noteRemarks collects what perftest says of its own choices, on stdout before anything else.
func (v *Invocation) noteRemarks(row plan.Row) {
	p := &v.Plan
	bandwidth := p.Kind == plan.Bandwidth
	if p.CQMod > 1 && p.LargestSize() > moderatedBytes && p.Transport != verbs.UD && !p.AllSizes && !p.Events {
		v.Remarks += Dashes +
			"Warning: Large message requested and CQ moderation enabled\nWarning: It can lead to inaccurate results\n"
	}
	for _, f := range v.Lists() {
		if f.Sends && p.CQMod == 0 {
			v.Remarks += Dashes + f.Label + " requested - CQ moderation will be the size of the " + f.Noun + "\n"
		}
	}
	if v.Style() == Classic {
		return
	}
	receiver := v.Server() != p.Reversed && row.NeedsReceive() && !p.Bidirectional
	if bandwidth && !p.NoPeak && (p.Iterations > peakIterations || p.Duration > 0 || receiver) {
		v.Remarks += " WARNING: BW peak won't be measured in this run.\n"
	}
	if v.AdaptsPolls = bandwidth && (p.Duration > 0 || p.Iterations >= 3000) &&
		(!p.Bidirectional || !row.NeedsReceive()); !v.AdaptsPolls {
		v.Remarks += "Disabling dynamic polling\n"
	}
}

// settleMulticast takes UD for multicast, whatever -c says.
func (v *Invocation) settleMulticast() {
	p := &v.Plan
	switch {
	case p.Multicast:
		p.Transport = verbs.UD
	case p.MGID != nil:
		v.warn("-M is ignored: it needs -g")
		p.MGID = nil
	}
}

// hardwareRates are the static rates of an address handle (ibv_rate), in Gb/s, that perftest knows.
//
//nolint:gochecknoglobals // a table
var hardwareRates = []float64{
	2.5, 5, 10, 14, 20, 25, 28, 30, 40, 50, 56, 60, 80, 100, 112, 120, 168, 200, 300, 400, 600,
}

// settleRate turns --rate_limit and its unit into bits per second.
func (v *Invocation) settleRate(wrong *faults, row plan.Row) {
	p, stock, kind := &v.Plan, wrong.stock, v.rateType
	if kind == "" && v.rate > 0 {
		kind = "HW"
	}
	unit, known := map[string]float64{"M": 8 * (1 << 20), "": 1e9, "g": 1e9, "p": 8 * float64(p.LargestSize())}[v.rateUnit]
	stock(!known, " Invalid rate limit units. Please use M,g or p",
		"--rate_units %q: want M (MiB/s), g (Gb/s) or p (packets/s)", v.rateUnit)
	stock(v.burst > 0 && kind == "", " Can't enable burst mode when rate limiter is off",
		"--burst_size %d: it needs --rate_limit", v.burst)
	switch kind {
	case "":
		return
	case "HW":
		packets := v.rateUnit == "p"
		stock(p.RDMACM || v.ControlCM, " HW rate limit isn't supported yet with rdma_cm scenarios",
			"--rate_limit with -R or -z: it needs --rate_limit_type SW")
		stock(packets, " Failed: pps rate limit units is not supported when setting HW rate limit",
			"--rate_units p: it needs --rate_limit_type SW")
		stock(!packets && v.rate > 0 && !slices.Contains(hardwareRates, v.rate), " Failed: Unknown rate limit value",
			"--rate_limit %g: a device has %v Gb/s; --rate_limit_type SW has any", v.rate, hardwareRates)
		if v.burst > 0 && p.Kind == plan.Bandwidth {
			v.warn("--burst_size is ignored: it needs --rate_limit_type SW, as in perftest")
		}
		if p.Kind == plan.Latency {
			return
		}
		v.warn("--rate_limit: the rate is kept in software, not by the device")
	case "SW":
		none := p.Kind == plan.Latency || row.Counter || p.Operation == plan.Send && p.Bidirectional
		stock(none, "SW Rate limiter cann't be executed on non-BW, ATOMIC or bidirectional SEND / SEND_IMM tests",
			"--rate_limit_type SW: latency tests, atomics and sends in both directions have none")
		p.Burst = min(v.burst, mostBurst)
		if v.rate == 0 || none {
			p.Burst = 0
			return
		}
	case "PP":
		wrong.Add("--rate_limit_type PP (packet pacing) is not there: use SW")
	default:
		stock(true, " Invalid rate limit type flag. Please use HW, SW or PP.", "--rate_limit_type %q: want SW or HW",
			v.rateType)
	}
	p.RateBits = v.rate * unit
}

func (v *Invocation) warn(format string, args ...any) {
	v.Warnings = append(v.Warnings, fmt.Sprintf(format, args...))
}

// Fit adapts the plan to the device as perftest does before it connects: an MTU or a number of outstanding reads that
// the device does not have gives way with a warning, UD's default size shrinks to the MTU.
func (v *Invocation) Fit(info verbs.DeviceInfo, port verbs.PortInfo) error {
	p := &v.Plan
	if v.link != 0 && v.link != port.LinkLayer {
		return fmt.Errorf("--force-link: port %d of %s is %v, and no other can be forced on it", port.Number, info.Name,
			port.LinkLayer)
	}
	mtu := port.ActiveMTU
	if v.MTUBytes > 0 && p.RDMACM {
		v.warn("-m %d: RDMA CM takes the path's MTU", v.MTUBytes)
	} else if v.MTUBytes > 0 {
		switch m, err := verbs.ParseMTU(v.MTUBytes); {
		case err != nil:
			v.warn("-m %d is no MTU: the active one, %d, is used", v.MTUBytes, mtu.Bytes())
		case mtu != 0 && m > mtu:
			v.warn("-m %d: port %d of %s has %d, which is used", v.MTUBytes, port.Number, info.Name, mtu.Bytes())
		default:
			mtu, p.MTU = m, m
		}
	}
	most := max(min(info.Limits.MaxRDAtomic, info.Limits.MaxInitRDAtomic), 1)
	if p.Outstanding > most {
		v.warn("-o %d: %s has %d, which is used", p.Outstanding, info.Name, most)
		p.Outstanding = most
	}
	switch limit := mtu.Bytes(); {
	case p.Transport != verbs.UD || p.AllSizes || limit == 0 || p.LargestSize() <= limit:
	case v.sizeGiven:
		return fmt.Errorf("-s %d: a UD message is one packet, at most the MTU of %d bytes", p.LargestSize(), limit)
	default:
		v.Shrunk = fmt.Sprintf(" Max msg size in UD is MTU %d\n Changing to this MTU\n", limit)
		p.Sizes = []int{limit}
	}
	return nil
}
