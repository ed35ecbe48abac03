package flags

import (
	_ "embed"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/verbs"
)

// options is the table of all options.
//
//go:embed options.txt
var options string

// perftestFlag is one of perftest's options, a row of [options]: how the help explains it, in which tools it acts and
// how, and what becomes of it in the others.
type perftestFlag struct {
	short   byte // 0: none
	long    string
	value   bool      // takes a value
	silent  bool      // where it is ignored, nothing is said: every script gives it
	checked bool      // where it is ignored its value is checked all the same
	exact   bool      // known by its whole name only
	classic bool      // 4.5 has it, and 6.29 does not know it
	group   string    // heading of the help
	head    string    // as the help writes it
	help    string    // empty: not in the help
	verbs   string    // letters of the operations where it acts; empty: all
	kind    plan.Kind // of the tests where it acts; empty: both

	set       func(value string) error // nil: it acts in no tool
	elsewhere Disposition              // in all other tools: Ignored or Refused, as stock perftest has it
	only      string                   // of an ignored option: this value is taken, and others refused
	why       string                   // it is ignored or refused

	// stock's first line: where a number is out of range, where a value is refused, where the option is
	noun, fault, stock string
}

// List is an option that posts several requests at once, as both ends know it.
type List struct {
	Number int
	Label  string // of the header
	Noun   string // stock's, where -n is no multiple of it
	Brief  string // the option as it is typed
	// of what is sent: the title names it, too, and without -Q it decides how often a completion is asked for
	Sends bool
}

// Lists are the options that are given and post several requests at once.
func (v *Invocation) Lists() []List {
	all := []List{
		{v.Plan.PostList, "Post List", "post list", "-l", true},
		{v.Plan.RecvList, "Recv Post List", "receive post list", "--recv_post_list", false},
	}
	return slices.DeleteFunc(all, func(l List) bool { return l.Number < 2 })
}

// StockError is a fault that stock perftest words, too: scripts look for its line.
type StockError struct {
	Line string
	Err  error
}

func (e *StockError) Error() string { return e.Err.Error() }

// Unwrap returns the fault in our words.
func (e *StockError) Unwrap() error { return e.Err }

// faults are the mistakes of a command line.
type faults struct{ plan.Faults }

// stock keeps a mistake where there is one, in stock's words and in ours.
func (f *faults) stock(is bool, line, format string, args ...any) {
	if is {
		f.Note(&StockError{line, fmt.Errorf(format, args...)})
	}
}

// inStockWords adds stock's line, if there is one.
func inStockWords(line string, err error) error {
	if line == "" || err == nil {
		return err
	}
	return &StockError{line, err}
}

// Disposition is what becomes of an option in a tool. There is no fourth kind: none is swallowed.
type Disposition uint8

// Dispositions.
const (
	Refused Disposition = iota // by name, with a sentence
	Ignored                    // as in stock perftest, with a line on stderr
	Acts
)

func (d Disposition) String() string { return [...]string{"refused", "ignored", "acts"}[d] }

// has tells whether a tool has the option.
func (f perftestFlag) has(tool Tool) bool {
	return (f.kind == "" || f.kind == tool.Kind) && (f.verbs == "" || strings.Contains(f.verbs, string(tool.Operation[0])))
}

// in tells what becomes of the option in a tool.
func (f perftestFlag) in(tool Tool) Disposition {
	if f.set != nil && f.has(tool) {
		return Acts
	}
	return f.elsewhere
}

func (f perftestFlag) apply(v *Invocation, value string) error {
	switch f.in(v.Tool) {
	case Acts:
		line, err := f.fault, f.set(value)
		if bounds, is := errors.AsType[*rangeError](err); is && f.noun != "" {
			line = fmt.Sprintf(" %s should be between %d and %d", f.noun, bounds.low, bounds.high)
		}
		return inStockWords(line, err)
	case Ignored:
		if f.only != "" && value != f.only && (f.kind == "" || f.kind != v.Tool.Kind) {
			return inStockWords(f.stock, fmt.Errorf("%s: this tool has %s and nothing else, as in perftest", value, f.only))
		}
		why := f.why
		if why == "" {
			why = "perftest takes it in this tool, and does nothing with it"
		}
		if !f.silent {
			v.warn("%s is ignored: %s", f, why)
		}
		if f.checked {
			return f.set(value)
		}
		return nil
	case Refused:
	}
	if f.why != "" {
		return errors.New(f.why)
	}
	return inStockWords(f.stock, errNotTool)
}

// errNotTool says that a tool does not have an option.
var errNotTool = errors.New("this tool does not have it")

// flags is the table of all options, bound to an invocation of a tool.
func flags(v *Invocation) (list []perftestFlag) {
	acts, group := v.fields(), ""
	for _, row := range plain.Rows(v.defaults().Replace(options)) {
		if len(row) == 1 { // the heading of a group, or a line of stock's for the option above
			key, quoted, _ := strings.Cut(row[0], " ")
			line, _ := strconv.Unquote(quoted)
			if key == "group" {
				group = line
				continue
			}
			f := &list[len(list)-1]
			*map[string]*string{"range": &f.noun, "fault": &f.fault, "stock": &f.stock}[key] = line
			continue
		}
		heads := []string{row[0]}
		if row[0][0] != '-' {
			heads = plain.Each(strings.Fields(row[0]), func(name string) string { return "--" + name })
		}
		for _, head := range heads {
			f := perftestFlag{head: head, group: group}
			name, takes, _ := strings.Cut(head, "=")
			if letter, long, both := strings.Cut(name, ", "); both {
				f.short, name = letter[1], long
			}
			f.long, f.value = name[2:], takes != ""
			if f.set = v.setter(acts[f.long]); f.set == nil {
				f.why = row[3]
			} else {
				f.help = row[3]
			}
			f.place(strings.Fields(row[1]), strings.Fields(row[2]))
			list = append(list, f)
		}
	}
	return list
}

// place takes the tools in which an option acts, and what becomes of it in the others.
func (f *perftestFlag) place(tools, elsewhere []string) {
	for _, word := range tools {
		switch word {
		case "bw":
			f.kind = plan.Bandwidth
		case "lat":
			f.kind = plan.Latency
		default:
			f.verbs = word
		}
	}
	marks := map[string]*bool{"silent": &f.silent, "checked": &f.checked, "classic": &f.classic, "exact": &f.exact}
	for _, word := range elsewhere {
		switch word, value, _ := strings.Cut(word, "="); word {
		case "ignored":
			f.elsewhere = Ignored
		case "only":
			f.only = value
		case "spelling":
			f.exact, f.help = true, ""
		default:
			*marks[word] = true
		}
	}
}

// defaults are the words of the table that depend on the tool.
func (v *Invocation) defaults() *strings.Replacer {
	row := plan.RowOf(v.Tool.Operation)
	depth, inline := 128, "0"
	if v.Tool.Kind == plan.Latency {
		depth, inline = 1, strconv.Itoa(row.Inline)
		if row.InlineUD > 0 {
			inline += fmt.Sprintf(", UD %d", row.InlineUD)
		}
	}
	receives, events := "; with --use-srq in all", ""
	if row.Addressed() && !row.Responded {
		receives, events = ", with --write_with_imm", "; with --write_with_imm"
	}
	return strings.NewReplacer(
		"{transports}", strings.Join(plain.Each(row.Transports, verbs.Transport.String), "/"), // wrappers read this line
		"{size}", strconv.Itoa(plan.DefaultBytes(row, v.Tool.Kind)),
		"{iters}", strconv.FormatUint(plan.DefaultIterations(row, v.Tool.Kind), 10),
		"{depth}", strconv.Itoa(depth), "{inline}", inline, "{receives}", receives, "{events}", events,
		"{implied}", strconv.Itoa(impliedSeconds), "{peak}", strconv.Itoa(peakIterations),
		"{port}", strconv.Itoa(control.DefaultPort), "{version}", DefaultVersion, "{json}", defaultJSON)
}

// setter makes of a field what sets it: a switch, a text, a number within the bounds of the
// plan, or what has a function of its own.
func (v *Invocation) setter(field any) func(value string) error {
	switch at := field.(type) {
	case *bool:
		return constant(at, true)
	case *string:
		return func(value string) error {
			*at = value
			return nil
		}
	case *int:
		least, most := plan.BoundsOf(&v.Plan, at)
		return integer(at, least, most)
	case func(string) error:
		return at
	}
	return nil
}

// fields are what the options set, by their long names.
func (v *Invocation) fields() map[string]any {
	p := &v.Plan
	return map[string]any{
		"size": v.setSize, "all": &p.AllSizes, "connection": v.setConnection,
		"atomic_type":    parsed(&p.AtomicType, parseAtomic),
		"write_with_imm": &p.WriteImm, "send_with_imm": &p.SendImm, "bidirectional": &p.Bidirectional,
		"reversed": &p.Reversed,

		"iters": integer(&p.Iterations, 5, 1<<32), "duration": v.setDuration, "margin": optional(&v.margin, 0, 1<<30),
		"run_infinitely": &p.Infinite, "perform_warm_up": &v.warmUp, "rate_limit": v.number(&v.rate, ""),
		"rate_units": &v.rateUnit, "rate_limit_type": &v.rateType, "burst_size": integer(&v.burst, 0, 1<<31-1),
		"latency_gap": span(&p.Gap, time.Microsecond, 1<<40),

		"qp": &p.QPs, "tx-depth": &p.TxDepth, "rx-depth": &p.RxDepth, "outs": integer(&p.Outstanding, 1, 1<<16),
		"cq-mod": &p.CQMod, "post_list": &p.PostList, "recv_post_list": &p.RecvList,
		"inline_size": integer(&p.InlineBytes, 0, 1024), "use-srq": &p.SRQ, "mcg": &p.Multicast,
		"MGID": parsed(&p.MGID, parseGroup), "mr_per_qp": &p.MRPerQP, "events": &p.Events,
		"vector": integer(&p.Vector, 0, 2048), "use_hugepages": &p.HugePages, "odp": &p.OnDemand,
		"disable_pcie_relaxed": &p.StrictOrdering, "wait_destroy": span(&v.WaitDestroy, time.Second, 1<<20),

		"ib-dev": &v.Device, "force-link": parsed(&v.link, parseLink), "ib-port": integer(&v.IBPort, 1, 255),
		"gid-index": optional(&v.GIDIndex, 0, 64), "ipv6": &v.IPv6GID, "mtu": integer(&v.MTUBytes, 0, 1<<20),
		"sl": integer(&p.SL, 0, 15), "tclass": v.masked(&p.TrafficClass), "flow_label": v.setFlowLabels,
		"dlid": integer(&v.DLID, 0, 1<<16-1), "pkey_index": integer(&p.PKeyIndex, 0, 65535),
		"qp-timeout": v.setTimeout, "retry_count": v.setRetries, "rdma_cm": &p.RDMACM, "tos": optional(&p.TOS, 0, 255),
		"comm_rdma_cm": &v.ControlCM, "com_rdma_cm": &v.ControlCM, "pin_cores": parsed(&v.Cores, plan.ParseCPUs),
		"numa_node": optional(&v.NUMANode, 0, 1<<20), "disable_numa": &v.NoNUMA,

		"port": integer(&v.TCPPort, 1, 65535), "ipv6-addr": constant(&v.Network, "tcp6"),
		"bind_source_ip": parsed(&v.Source, netip.ParseAddr), "source_ip": parsed(&v.Source, netip.ParseAddr),
		"perftest-version": &v.PerftestVersion, "peer-timeout": parsed(&v.PeerTimeout, plan.ParseTime),

		"report_gbits": &v.Gbits, "report-both": &v.ReportBoth, "noPeak": &p.NoPeak, "report-cycles": &v.Cycles,
		"report-histogrm": &v.Histogram, "report-histogram": &v.Histogram, "report-unsorted": &v.Unsorted,
		"report-counters": parsed(&v.Counters, parseCounters), "cpu_util": &p.CPU, "output": &v.Output,
		"out_json": v.setJSON, "out_json_file": &v.JSONFile, "limit_bw": v.limit(&v.LimitBW, "-w"),
		"limit_msgrate": v.limit(&v.LimitRate, "-y"), "version": &v.Version, "help": &v.Help,
		"use_old_post_send": constant(&p.PostAPI, verbs.PostSend),
	}
}
