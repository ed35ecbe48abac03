package flags

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
)

// perftestFlag is one of perftest's options: how the help explains it, in which tools it acts and how, and what becomes of it in the others.
type perftestFlag struct {
	short     byte // 0: none
	long      string
	value     bool      // takes a value
	silent    bool      // where it is ignored, nothing is said: every script gives it
	checked   bool      // where it is ignored its value is checked all the same
	exact     bool      // known by its whole name only, so that older abbreviations stay unambiguous
	group     string    // heading of the help; the flags behind it are below it, too
	head      string    // as the help writes it
	help      string    // what it does, with the default; empty: not in the help
	verbs     string    // letters of the operations where it acts (s, w, r, a); empty: all
	kind      plan.Kind // of the tests where it acts; empty: both
	set       func(value string) error
	elsewhere Disposition // in all other tools: Ignored or Refused, as stock perftest has it
	only      string      // elsewhere (where kind is set: in tests of the other kind) this value is taken, and others refused
	why       string      // it is ignored or refused
	classic   bool        // 4.5 has it, and 6.29 does not know it
	noun      string      // stock's, of a range
	fault     string      // stock's first line where it refuses the value
	stock     string      // stock's first line where it refuses the option
	list      *List       // how many of something are posted at once
}

// List is an option that posts several requests at once, as both ends know it.
type List struct {
	Number *int
	Label  string // of the header
	Noun   string // stock's, where -n is no multiple of it
	Brief  string // the option as it is typed
	OfAll  bool   // it acts in every tool, and not where receives are posted alone
	Sends  bool   // the title names it, too, and without -Q it decides how often a completion is asked for
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

// flags is the table of every option that perftest 4.5 to 6.29 has, in the order of the help, bound to an invocation of a tool. The
// options that stock's parser takes in every tool, and uses in some, are Ignored elsewhere.
func flags(v *Invocation) []perftestFlag {
	const (
		bw  = plan.Bandwidth
		lat = plan.Latency
	)
	p, row := &v.Plan, plan.RowOf(v.Tool.Operation)
	depth, inline := 128, "0"
	if v.Tool.Kind == lat {
		depth, inline = 1, strconv.Itoa(row.Inline)
		if row.InlineUD > 0 {
			inline += fmt.Sprintf(", UD %d", row.InlineUD)
		}
	}
	var transports []string
	for _, t := range row.Transports {
		transports = append(transports, t.String())
	}
	receives, events := "receives posted on each queue pair; with --use-srq in all", "sleep until a completion comes, instead of polling"
	if row.Addressed() && !row.Responded {
		receives, events = "receives posted on each queue pair, with --write_with_imm", events+"; with --write_with_imm"
	}
	const unit = "MiB/s, or Gb/s with --report_gbits"
	list := []perftestFlag{
		{group: "Messages", head: "-s, --size=BYTES", help: fmt.Sprintf("message size; K and M are powers of 1024 (%d)", plan.DefaultBytes(row, v.Tool.Kind)), noun: "Message Size", set: v.setSize},
		{
			head: "-a, --all", help: "all powers of two from 2 bytes to 8 MiB, one row each; UD: to the MTU", verbs: "swr", set: on(&p.AllSizes),
			stock: "Message size cannot be changed for Atomic tests ",
		},
		{head: "-c, --connection=<" + strings.Join(transports, "/") + ">", help: "transport (RC)", set: v.setConnection}, // wrappers read this line
		{
			head: "-A, --atomic_type=TYPE", help: "FETCH_AND_ADD or CMP_AND_SWAP (FETCH_AND_ADD)", verbs: "a", set: parsed(&p.AtomicType, parseAtomic),
			stock: " You are not running the atomic_lat/bw test!",
		},
		{head: "--write_with_imm", help: "WRITE with immediate data, which takes a receive at the other end", verbs: "w", set: on(&p.WriteImm)},
		{head: "--send_with_imm", help: "SEND with immediate data", verbs: "s", set: on(&p.SendImm)},
		{
			head: "-b, --bidirectional", help: "both ends send at once; the row is the sum", kind: bw, set: on(&p.Bidirectional),
			stock: " Bidirectional is only available in BW test",
		},
		{head: "--reversed", help: "the server sends to the client", kind: bw, elsewhere: Ignored, set: on(&p.Reversed)},

		{
			group: "Length", head: "-n, --iters=N", help: fmt.Sprintf("messages per queue pair, at least 5 (%d)", plan.DefaultIterations(row, v.Tool.Kind)),
			noun: "Iteration num", set: integer(&p.Iterations, 5, 1<<32),
		},
		{head: "-D, --duration=SECONDS", help: "run for SECONDS; -n is then ignored", fault: " Duration period must be positive", set: v.setDuration},
		{
			head: "-f, --margin=SECONDS", help: "with -D: leave out SECONDS at the beginning and at the end (a quarter of -D, whole seconds)",
			set: optional(&v.margin, 0, 1<<30),
		},
		{
			head: "--run_infinitely", help: fmt.Sprintf("until it is stopped, a row every -D seconds (%d)", impliedSeconds), kind: bw, set: on(&p.Infinite),
			stock: " run_infinitely exists only in BW tests for now.",
		},
		{head: "--perform_warm_up", help: "first a window of messages that is not measured", kind: bw, verbs: "rwa", elsewhere: Ignored, set: on(&v.warmUp)},
		{head: "--rate_limit=RATE", help: "send no faster, in the units of --rate_units (no limit)", kind: bw, elsewhere: Ignored, checked: true, set: v.number(&v.rate, "")},
		{head: "--rate_units=UNIT", help: "M: MiB/s, g: Gb/s, p: packets/s (g)", kind: bw, elsewhere: Ignored, checked: true, set: text(&v.rateUnit)},
		{head: "--rate_limit_type=TYPE", help: "SW or HW; the limit is kept in software either way (HW)", kind: bw, elsewhere: Ignored, checked: true, set: text(&v.rateType)},
		{
			head: "--burst_size=N", help: "with --rate_limit_type SW: messages that follow each other at once (the tx depth)", kind: bw, elsewhere: Ignored, checked: true,
			set: integer(&v.burst, 0, 1<<31-1),
		},
		{
			head: "--latency_gap=USEC", help: "least time between two messages, in microseconds (0)", kind: lat, elsewhere: Ignored, only: "0",
			set: span(&p.Gap, time.Microsecond, 1<<40), stock: " Latency gap feature is only for latency tests",
		},

		{
			group: "Queues", head: "-q, --qp=N", help: "queue pairs (1)", kind: bw, elsewhere: Ignored, only: "1", set: v.bounded(&p.QPs),
			noun: "num of Qps", stock: " Multiple QPs only available on bw tests",
		},
		{head: "-t, --tx-depth=N", help: fmt.Sprintf("messages in flight on each queue pair (%d)", depth), noun: "Tx depth", set: v.bounded(&p.TxDepth)},
		{
			head: "-r, --rx-depth=N", help: receives + " (512)", verbs: "sw", elsewhere: Ignored, only: "1", set: v.bounded(&p.RxDepth),
			noun: " Rx depth", stock: " On RDMA verbs rx depth can be only 1",
		},
		{
			head: "-o, --outs=N", help: "READs and atomics in flight on each queue pair (what the device can)", verbs: "ra", set: integer(&p.Outstanding, 1, 1<<16),
			stock: " Setting Outstanding reads only available on READ verb",
		},
		{
			head: "-Q, --cq-mod=N", help: "ask for a completion of every N-th message (100; above 8 KiB 1)", kind: bw, elsewhere: Ignored, noun: "CQ moderation",
			set: v.bounded(&p.CQMod),
		},
		{
			head: "-l, --post_list=N", help: "messages per post, a divisor of -n (1)", kind: bw, elsewhere: Ignored, only: "1", set: v.bounded(&p.PostList),
			stock: "Post list is supported in BW tests only", list: &List{Number: &p.PostList, Label: "Post List", Noun: "post list", Sends: true},
		},
		{
			head: "--recv_post_list=N", help: "receives per post (1)", kind: bw, verbs: "sw", elsewhere: Ignored, only: "1", set: v.bounded(&p.RecvList),
			list: &List{Number: &p.RecvList, Label: "Recv Post List", Noun: "receive post list", Sends: false},
		},
		{
			head: "-I, --inline_size=BYTES", help: "messages up to this size travel in the request itself (" + inline + ")", verbs: "sw",
			set: integer(&p.InlineBytes, 0, 1024), noun: "Max inline", stock: " Inline feature not available on READ/Atomic verbs",
		},
		{head: "--use-srq", help: "one receive queue for all queue pairs", verbs: "s", set: on(&p.SRQ), stock: " Using SRQ only avavilible in SEND tests."},
		{
			head: "-g, --mcg", help: "the server's queue pair joins a multicast group, with -c UD", verbs: "s", set: on(&p.Multicast),
			stock: " MultiCast feature only available on SEND verb",
		},
		{head: "-M, --MGID=GROUP", help: "that group: 16 numbers with colons between, or an IP address", verbs: "s", elsewhere: Ignored, set: parsed(&p.MGID, parseGroup)},
		{head: "--mr_per_qp", help: "a memory region for each queue pair", kind: bw, elsewhere: Ignored, set: on(&p.MRPerQP)},
		{head: "-e, --events", help: events, set: on(&p.Events)},
		{
			head: "-X, --vector=N", help: "completion vector, with -e (0)", noun: "EQN", verbs: "sra", set: integer(&p.Vector, 0, 2048),
			stock: " Events feature not available on WRITE verb",
		},
		{head: "--use_hugepages", help: "buffers in reserved huge pages", set: on(&p.HugePages)},
		{head: "--odp", help: "buffers whose pages are loaded on demand", set: on(&p.OnDemand)},
		{head: "--disable_pcie_relaxed", help: "memory without relaxed ordering", kind: bw, elsewhere: Ignored, set: on(&p.StrictOrdering)},
		{
			head: "--wait_destroy=SECONDS", help: "keep the queue pairs for SECONDS after the test (0)", kind: bw, elsewhere: Ignored,
			set: span(&v.WaitDestroy, time.Second, 1<<20),
		},

		{
			group: "Device and path", head: "-d, --ib-dev=DEVICE", help: "RDMA device: mlx5_0, rxe0, or roce0, the software device (the first; roce0 only if named)",
			set: text(&v.Device),
		},
		{head: "--force-link=LINK", help: "IB or Ethernet: refuse the port if it is not that", set: parsed(&v.link, parseLink)},
		{head: "-i, --ib-port=N", help: "port of the device (1)", fault: "IB Port can't be less than 1", set: integer(&v.IBPort, 1, 255)},
		{head: "-O, --dualport", why: "a test runs on one port; gobw runs on several devices: gobw write HOST -d A,B"},
		{
			head: "-x, --gid-index=N", help: "line of the GID table, see gobw devices (default: a RoCE v2 GID, IPv4 first; none on InfiniBand)", noun: "Gid index",
			set: optional(&v.GIDIndex, 0, 64),
		},
		{head: "--ipv6", help: "choose an IPv6 GID", set: on(&v.IPv6GID)},
		{head: "-m, --mtu=BYTES", help: "path MTU, 256 to 4096 (the port's)", set: integer(&v.MTUBytes, 0, 1<<20)},
		{head: "-S, --sl=N", help: "service level, 0 to 15 (0)", fault: " Only 15 Service levels", set: integer(&p.SL, 0, 15)},
		{head: "--tclass=N", help: "traffic class of the packets, 0 to 255 (0)", set: v.masked(&p.TrafficClass)},
		{head: "--flow_label=LIST", help: "flow labels, separated by commas, for the queue pairs in turn (0)", set: v.setFlowLabels},
		{head: "--dlid=LID", help: "LID to send to, on InfiniBand (the one that the peer tells)", set: integer(&v.DLID, 0, 1<<16-1)},
		{head: "--pkey_index=N", help: "line of the P_Key table (0)", set: integer(&p.PKeyIndex, 0, 65535)},
		{head: "-u, --qp-timeout=N", help: "4.096 us x 2^N without an answer until a message is sent again (14: 67 ms; roce0 16)", set: v.setTimeout},
		{head: "--retry_count=N", help: "how often a message is sent again, 1 to 7 (7)", set: v.setRetries},
		{head: "-R, --rdma_cm", help: "connect the queue pairs by RDMA CM, at IP addresses; not UC", set: on(&p.RDMACM)},
		{head: "-T, --tos=N", help: "type of service of the path, with -R (not set)", noun: "TOS", set: optional(&p.TOS, 0, 255)},
		{head: "-z, --comm_rdma_cm", help: "control connection by RDMA CM, ordinary queue pairs", set: on(&v.ControlCM)},
		{head: "--com_rdma_cm", exact: true, set: on(&v.ControlCM)}, // as 4.5's help spells it
		{head: "--pin_cores=LIST", help: "CPUs, as in 0-3,8: the measuring thread runs on the first (one of the device's node)", set: parsed(&v.Cores, plan.ParseCPUs)},
		{head: "--numa_node=N", help: "thread and buffers on this node (the device's)", set: optional(&v.NUMANode, 0, 1<<20)},
		{head: "--disable_numa", help: "thread and buffers on any node", set: on(&v.NoNUMA)},

		{group: "Control connection", head: "-p, --port=N", help: fmt.Sprintf("TCP port (%d)", control.DefaultPort), set: integer(&v.TCPPort, 1, 65535)},
		{head: "--bind_source_ip=ADDR", help: "address of this end: to listen on, or to connect from", set: parsed(&v.Source, netip.ParseAddr)},
		{head: "--source_ip=ADDR", help: "the same, as older versions call it", set: parsed(&v.Source, netip.ParseAddr)},
		{head: "--ipv6-addr", help: "IPv6 addresses only", set: constant(&v.Network, "tcp6")},
		{
			head: "--perftest-version=V", help: "version to tell the other end; with 6.29 both compare the whole test (" + DefaultVersion + ")",
			exact: true, set: text(&v.PerftestVersion),
		}, // ours
		{
			head: "--peer-timeout=SECONDS", help: "end if the peer is silent for SECONDS (client: 10 for the first answer; then 30, during the measurement 10)",
			exact: true, set: parsed(&v.PeerTimeout, plan.ParseTime),
		}, // ours

		{group: "Output and verdict", head: "--report_gbits", help: "bandwidth in Gb/s, 10^9 bits, instead of MiB/s, 2^20 bytes", set: on(&v.Gbits)},
		{head: "--report-both", help: "with -b: also each direction alone", kind: bw, elsewhere: Ignored, set: on(&v.ReportBoth)},
		{
			head: "-N, --noPeak", help: fmt.Sprintf("no peak (default with -D, and above %d messages)", peakIterations), kind: bw, set: on(&p.NoPeak),
			stock: " NoPeak only valid for BW tests",
		},
		{head: "-C, --report-cycles", help: "times in cycles of the CPU's counter", kind: lat, set: on(&v.Cycles), stock: " Available only on Latency tests"},
		{
			head: "-H, --report-histogrm", help: "all samples, sorted (sic; --report-histogram, too)", kind: lat, set: on(&v.Histogram),
			stock: " Available only on Latency tests",
		},
		{head: "--report-histogram", exact: true, kind: lat, set: on(&v.Histogram)},
		{head: "-U, --report-unsorted", help: "all samples, as they came", kind: lat, set: on(&v.Unsorted), stock: " Available only on Latency tests"},
		{
			head: "-W, --report-counters=LIST", help: "how much these counters of the device moved: counters/port_xmit_data,hw_counters/out_of_sequence",
			set: parsed(&v.Counters, parseCounters),
		},
		{head: "--cpu_util", help: "CPU time of this process, with -D", set: on(&p.CPU)},
		{head: "--output=WHAT", help: "print one number: bandwidth, message_rate or latency", set: text(&v.Output)},
		{head: "--out_json", help: "write JSON, too, to " + defaultJSON, set: v.setJSON},
		{head: "--out_json_file=FILE", help: "write JSON, too, to this file", set: text(&v.JSONFile)},
		{head: "-w, --limit_bw=X", help: "exit 1 if the average is lower, in " + unit, kind: bw, elsewhere: Ignored, set: v.limit(&v.LimitBW, "-w")},
		{head: "-y, --limit_msgrate=X", help: "exit 1 if there are fewer million messages a second", kind: bw, elsewhere: Ignored, set: v.limit(&v.LimitRate, "-y")},
		{head: "-V, --version", help: "print the version of perftest that is spoken", set: on(&v.Version)},
		{head: "-h, --help", help: "this text", set: on(&v.Help)},

		{group: "Other", head: "--use_old_post_send", help: "post with ibv_post_send, also where ibv_wr_* is there", set: constant(&p.PostAPI, verbs.PostSend)},
		{head: "-F, --CPU-freq", elsewhere: Ignored, silent: true, why: "the clock is calibrated, whatever frequency the CPUs have"},
		{
			head: "-L, --hop_limit=N", elsewhere: Ignored, only: "64", why: "only perftest's raw Ethernet tools have another than 64",
			stock: " Hop limit only valid for RawEth QP ",
		},
		{head: "--inline_recv=N", classic: true, elsewhere: Ignored, why: "perftest parses it, and does nothing with it"},
		{head: "--no_lock", elsewhere: Ignored, why: "queues belong to one thread here, but their library keeps its locks"},
		{head: "--cqe_poll=N", elsewhere: Ignored, why: "the measuring loop polls in batches of its own"},
		{head: "--disable_dynamic_polling", elsewhere: Ignored, why: "the batch of a poll does not change here"},
		{head: "-P, --client", elsewhere: Ignored, why: "the host on the command line makes the client"},
		{head: "-Z, --server", elsewhere: Ignored, why: "the host on the command line makes the client"},
	}
	list = append(list, absent()...)
	for i := range list {
		f := &list[i]
		name, takes, _ := strings.Cut(f.head, "=")
		if letter, long, both := strings.Cut(name, ", "); both {
			f.short, name = letter[1], long
		}
		f.long, f.value = name[2:], takes != ""
	}
	return list
}

// Lists are the options that are given and post several requests at once.
func (v *Invocation) Lists() (given []List) {
	for _, f := range flags(v) {
		if f.list != nil && *f.list.Number >= 2 {
			f.list.Brief, f.list.OfAll = f.briefly(), f.verbs == ""
			given = append(given, *f.list)
		}
	}
	return given
}

// absent are the options that are refused by name, and those of perftest's raw Ethernet tools, which stock takes in every tool.
func absent() []perftestFlag {
	const raw, gpu = "only perftest's raw Ethernet tools use it", "GPU and other device memory is not there; use stock perftest"
	var list []perftestFlag
	for _, m := range []struct{ names, why string }{
		{"typical_pkt_size=N", "packet pacing (--rate_limit_type PP) is not there: use SW, with --burst_size"},
		{"use-null-mr mmap=F mmap-offset=N payload_file_path=F", "only ordinary memory and huge pages are there; leave it out, or use --use_hugepages"},
		{"use_cuda=N use_cuda_dmabuf use_cuda_pcie_mapping use_cuda_pcie_relax use_cuda_bus_id=N use_data_direct cuda_mem_type=N", gpu},
		{"use_rocm=N use_rocm_dmabuf use_musa=N use_musa_bus_id=N use_musa_dmabuf use_musa_pcie_mapping use_neuron=N use_neuron_dmabuf", gpu},
		{"use_hl=N use_mlu=N use_mlu_dmabuf use_opencl=N opencl_platform_id=N gpu_touch=N use_ib_dm_dmabuf=N", gpu},
		{"report-per-port", "a test runs on one port: run a process for each"},
		{"dont_xchg_versions", "it cannot work in any perftest: the check of the version fails without one"},
		{"log_dci_streams=N log_active_dci_streams=N", "DC is not there; use -c RC, UC or UD"},
		{
			"aes_xts encrypt_on_tx sig_before sig_offload aes_block_size=N data_enc_keys_number=N kek_path=F credentials_path=F data_enc_key_app_path=F",
			"encryption and signatures are not there; use stock perftest",
		},
		{"tcp use_rss vlan_en promiscuous raw_mcast raw_ipv6 mac_fwd sniffer flows=N flows_burst=N reply_every=N vlan_pcp=N ethertype=N", raw},
		{"remote_ip=A local_ip=A remote_mac=A local_mac=A remote_port=N local_port=N dest_ip=A dest_port=N source_port=N source_mac=A dest_mac=A", raw},
		{
			"use_ooo no_enhanced_reorder unsolicited_write connectionless congest_type=N tph_mem=N cpu_id=N ph=N",
			"extensions of some hardware are not there; use stock perftest",
		},
		{"data_validation data_validation_debug", "data is compared by gobw and golat: gobw write --verify=all"},
	} {
		for name := range strings.FieldsSeq(m.names) {
			f := perftestFlag{head: "--" + name, exact: name == "connectionless", why: m.why}
			if m.why == raw { // abbreviations stay those of the tools we are
				f.elsewhere, f.exact = Ignored, true
			}
			list = append(list, f)
		}
	}
	return list
}
