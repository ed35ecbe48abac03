package perftestcli

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
)

// perftestFlag is one of perftest's options: in which tools it acts and how, and what becomes of it in the others.
type perftestFlag struct {
	option
	verbs     string    // letters of the operations where it acts (s, w, r, a); empty: all
	kind      plan.Kind // of the tests where it acts; empty: both
	set       func(v *Invocation, value string) error
	elsewhere Disposition // in all other tools: Ignored or Refused, as stock perftest has it
	only      string      // elsewhere (where kind is set: in tests of the other kind) this value is taken, and others refused
	why       string      // it is ignored or refused
	classic   bool        // 4.5 has it, and 6.29 does not know it
	noun      string      // stock's, of a range
	stock     string      // stock's first line where it refuses the option
}

// StockError is a fault that stock perftest words, too: scripts look for its line.
type StockError struct {
	Line string
	Err  error
}

func (e *StockError) Error() string { return e.Err.Error() }

// Unwrap returns the fault in our words.
func (e *StockError) Unwrap() error { return e.Err }

// inStockWords adds stock's line, if there is one.
func inStockWords(line string, err error) error {
	if line == "" || err == nil {
		return err
	}
	return &StockError{line, err}
}

// rangeError is a number beyond its bounds.
type rangeError struct {
	value     string
	low, high int64
}

func (e *rangeError) Error() string { return fmt.Sprintf("%s: want %d to %d", e.value, e.low, e.high) }

// Disposition is what becomes of an option in a tool. There is no fourth kind: none is swallowed.
type Disposition uint8

// Dispositions.
const (
	Refused Disposition = iota // by name, with a sentence
	Ignored                    // as in stock perftest, with a line on stderr
	Acts
)

func (d Disposition) String() string { return [...]string{"refused", "ignored", "acts"}[d] }

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
		err := f.set(v, value)
		if bounds, is := errors.AsType[*rangeError](err); is && f.noun != "" {
			return inStockWords(fmt.Sprintf(" %s should be between %d and %d", f.noun, bounds.low, bounds.high), err)
		}
		return err
	case Ignored:
		if f.only != "" && value != f.only && (f.kind == "" || f.kind != v.Tool.Kind) {
			return inStockWords(f.stock, fmt.Errorf("%s: this tool has %s and nothing else, as in perftest", value, f.only))
		}
		why := f.why
		if why == "" {
			why = "perftest takes it in this tool, and does nothing with it"
		}
		v.warn("%s is ignored: %s", f.option, why)
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

// number reads an integer as strtol(…, 0) does: decimal, 0x or octal; what follows the digits is an error, not ignored.
func number(value string, low, high int64) (int64, error) {
	n, err := strconv.ParseInt(value, 0, 64) // base 0: the prefix chooses, as in C
	if err != nil || strings.ContainsAny(value, "_oObB") && !strings.HasPrefix(strings.ToLower(value), "0x") || strings.Contains(value, "_") {
		return 0, fmt.Errorf("%q is no number", value)
	}
	if n < low || n > high {
		return 0, &rangeError{value, low, high}
	}
	return n, nil
}

// size reads a message size as perftest does: K and M, in upper case, are powers of 1024.
func size(value string) (int, error) {
	if strings.HasSuffix(value, "k") || strings.HasSuffix(value, "m") {
		return 0, fmt.Errorf("%q: the suffixes are K and M, in upper case (perftest reads %q as %s bytes)", value, value, value[:len(value)-1])
	}
	if strings.HasPrefix(value, "0") { // octal or hexadecimal, as in C
		n, err := number(value, 1, plan.MaxMessage)
		return int(n), err
	}
	n, err := plan.ParseSize(value)
	if err != nil {
		err = &StockError{fmt.Sprintf(" Message Size should be between 1 and %d", plan.MaxMessage), err}
	}
	return n, err
}

func on(field func(v *Invocation) *bool) func(*Invocation, string) error {
	return func(v *Invocation, _ string) error {
		*field(v) = true
		return nil
	}
}

func integer(low, high int64, field func(v *Invocation) *int) func(*Invocation, string) error {
	return func(v *Invocation, value string) error {
		n, err := number(value, low, high)
		*field(v) = int(n)
		return err
	}
}

func octet(low, high int64, field func(v *Invocation) *uint8) func(*Invocation, string) error {
	return func(v *Invocation, value string) error {
		n, err := number(value, low, high)
		*field(v) = uint8(n)
		return err
	}
}

func text(field func(v *Invocation) *string) func(*Invocation, string) error {
	return func(v *Invocation, value string) error {
		*field(v) = value
		return nil
	}
}

// leading reads a number as strtof does, which perftest reads -w and -y with: what follows the number says nothing, and here
// a line on stderr says that.
func leading(name string, field func(v *Invocation) *float64, note func(v *Invocation)) func(*Invocation, string) error {
	return func(v *Invocation, value string) error {
		number := numberAtFront.FindString(value)
		if err := positive(field, note)(v, number); err != nil {
			return fmt.Errorf("%q: want a number, zero or more", value)
		}
		if number != value {
			v.warn("%s %s is read as %s, as by perftest: there are no suffixes", name, value, number)
		}
		return nil
	}
}

var numberAtFront = regexp.MustCompile(`^\+?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?`)

func positive(field func(v *Invocation) *float64, note func(v *Invocation)) func(*Invocation, string) error {
	return func(v *Invocation, value string) error {
		x, err := strconv.ParseFloat(value, 64)
		if err != nil || !(x >= 0) || math.IsInf(x, 0) {
			return fmt.Errorf("%q: want a number, zero or more", value)
		}
		*field(v) = x
		if note != nil {
			note(v)
		}
		return nil
	}
}

// flags is the table of every option that perftest 4.5 to 6.29 has. The options that stock's parser
// takes in every tool, and uses in some, are Ignored elsewhere.
func flags() []perftestFlag {
	o := func(short byte, long string) option { return option{short: short, long: long} }
	val := func(short byte, long string) option { return option{short: short, long: long, value: true} }
	const (
		bw  = plan.Bandwidth
		lat = plan.Latency
	)
	const raw = "only perftest's raw Ethernet tools use it"
	const gpu = "GPU and other device memory is not there; use stock perftest"
	controlCM := on(func(v *Invocation) *bool { return &v.ControlCM })
	list := []perftestFlag{
		{option: o('a', "all"), stock: "Message size cannot be changed for Atomic tests ", verbs: "swr", set: on(func(v *Invocation) *bool { return &v.Plan.AllSizes })},
		{option: val('A', "atomic_type"), stock: " You are not running the atomic_lat/bw test!", verbs: "a", set: setAtomic},
		{option: o('b', "bidirectional"), stock: " Bidirectional is only available in BW test", kind: bw, set: on(func(v *Invocation) *bool { return &v.Plan.Bidirectional })},
		{option: val('c', "connection"), set: setConnection},
		{option: o('C', "report-cycles"), stock: " Available only on Latency tests", kind: lat, set: on(func(v *Invocation) *bool { return &v.Cycles })},
		{option: val('d', "ib-dev"), set: text(func(v *Invocation) *string { return &v.Device })},
		{option: val('D', "duration"), set: func(v *Invocation, value string) error {
			n, err := number(value, 1, 1<<30)
			v.Plan.Duration = time.Duration(n) * time.Second
			return inStockWords(" Duration period must be positive", err)
		}},
		{option: o('e', "events"), set: on(func(v *Invocation) *bool { return &v.Plan.Events })},
		{option: val('f', "margin"), set: func(v *Invocation, value string) error {
			n, err := number(value, 0, 1<<30)
			d := time.Duration(n) * time.Second
			v.margin = &d
			return err
		}},
		{option: o('F', "CPU-freq"), set: on(func(v *Invocation) *bool { return &v.AnyFrequency })},
		{option: o('g', "mcg"), stock: " MultiCast feature only available on SEND verb", verbs: "s", set: on(func(v *Invocation) *bool { return &v.Plan.Multicast })},
		{option: o('h', "help"), set: on(func(v *Invocation) *bool { return &v.Help })},
		{option: o('H', "report-histogrm"), stock: " Available only on Latency tests", kind: lat, set: on(func(v *Invocation) *bool { return &v.Histogram })},
		{option: val('i', "ib-port"), set: func(v *Invocation, value string) error {
			n, err := number(value, 1, 255)
			v.IBPort = int(n)
			return inStockWords("IB Port can't be less than 1", err)
		}},
		{option: val('I', "inline_size"), noun: "Max inline", stock: " Inline feature not available on READ/Atomic verbs", verbs: "sw", set: integer(0, 1024, func(v *Invocation) *int { return &v.Plan.InlineBytes })},
		{option: val('l', "post_list"), stock: "Post list is supported in BW tests only", elsewhere: Ignored, only: "1", kind: bw, set: integer(1, 15000, func(v *Invocation) *int { return &v.Plan.PostList })},
		{option: val('L', "hop_limit"), stock: " Hop limit only valid for RawEth QP ", elsewhere: Ignored, only: "64", why: "only perftest's raw Ethernet tools have another than 64"},
		{option: val('m', "mtu"), set: integer(0, 1<<20, func(v *Invocation) *int { return &v.MTUBytes })},
		{option: val('M', "MGID"), elsewhere: Ignored, verbs: "s", set: setGroup},
		{option: val('n', "iters"), noun: "Iteration num", set: func(v *Invocation, value string) error {
			n, err := number(value, 5, 1<<32)
			v.Plan.Iterations = uint64(n)
			return err
		}},
		{option: o('N', "noPeak"), stock: " NoPeak only valid for BW tests", kind: bw, set: on(func(v *Invocation) *bool { return &v.Plan.NoPeak })},
		{option: val('o', "outs"), stock: " Setting Outstanding reads only available on READ verb", verbs: "ra", set: integer(1, 1<<16, func(v *Invocation) *int { return &v.Plan.Outstanding })},
		{option: o('O', "dualport"), kind: bw, set: func(v *Invocation, _ string) error {
			v.Plan.DualPort, v.IBPort = true, 1
			return nil
		}},
		{option: val('p', "port"), set: integer(1, 65535, func(v *Invocation) *int { return &v.TCPPort })},
		{option: val('q', "qp"), noun: "num of Qps", stock: " Multiple QPs only available on bw tests", elsewhere: Ignored, only: "1", kind: bw, set: integer(1, 16384, func(v *Invocation) *int { return &v.Plan.QPs })},
		{option: val('Q', "cq-mod"), noun: "CQ moderation", elsewhere: Ignored, kind: bw, set: integer(1, 1024, func(v *Invocation) *int { return &v.Plan.CQMod })},
		{option: val('r', "rx-depth"), noun: " Rx depth", stock: " On RDMA verbs rx depth can be only 1", elsewhere: Ignored, only: "1", verbs: "sw", set: integer(1, 16384, func(v *Invocation) *int { return &v.Plan.RxDepth })},
		{option: o('R', "rdma_cm"), set: on(func(v *Invocation) *bool { return &v.Plan.RDMACM })},
		{option: val('s', "size"), noun: "Message Size", set: func(v *Invocation, value string) error {
			n, err := size(value)
			if err != nil {
				return err
			}
			v.Plan.Sizes, v.sizeGiven = []int{n}, true
			if v.Tool.Operation == plan.Atomic && n != atomicBytes {
				err = &StockError{"Message size cannot be changed for Atomic tests ", fmt.Errorf("%d: an atomic has %d bytes", n, atomicBytes)}
			}
			return err
		}},
		{option: val('S', "sl"), set: func(v *Invocation, value string) error {
			n, err := number(value, 0, 15)
			v.Plan.SL = uint8(n)
			return inStockWords(" Only 15 Service levels", err)
		}},
		{option: val('t', "tx-depth"), noun: "Tx depth", set: integer(1, 15000, func(v *Invocation) *int { return &v.Plan.TxDepth })},
		{option: val('T', "tos"), noun: "TOS", set: func(v *Invocation, value string) error {
			n, err := number(value, 0, 255)
			tos := uint8(n)
			v.Plan.TOS = &tos
			return err
		}},
		{option: val('u', "qp-timeout"), set: func(v *Invocation, value string) error {
			n, err := number(value, 0, 255)
			if v.Plan.Timeout = uint8(n) & 31; n > 31 {
				v.warn("-u %d is read as %d, as by a device: the code has five bits", n, v.Plan.Timeout)
			}
			return err
		}},
		{option: o('U', "report-unsorted"), stock: " Available only on Latency tests", kind: lat, set: on(func(v *Invocation) *bool { return &v.Unsorted })},
		{option: o('V', "version"), set: on(func(v *Invocation) *bool { return &v.Version })},
		{option: val('w', "limit_bw"), elsewhere: Ignored, kind: bw, set: leading("-w", func(v *Invocation) *float64 { return &v.LimitBW }, func(v *Invocation) { v.limits.bw = true })},
		{option: val('W', "report-counters"), set: setCounters},
		{option: val('x', "gid-index"), noun: "Gid index", set: func(v *Invocation, value string) error {
			n, err := number(value, 0, 64)
			i := int(n)
			v.GIDIndex = &i
			return err
		}},
		{option: val('X', "vector"), noun: "EQN", set: integer(0, 2048, func(v *Invocation) *int { return &v.Plan.Vector })},
		{option: val('y', "limit_msgrate"), elsewhere: Ignored, kind: bw, set: leading("-y", func(v *Invocation) *float64 { return &v.LimitRate }, func(v *Invocation) { v.limits.rate = true })},
		{option: o('z', "comm_rdma_cm"), set: controlCM},
		{option: option{long: "com_rdma_cm", exact: true}, set: controlCM}, // as 4.5's help spells it

		{option: o(0, "report_gbits"), set: on(func(v *Invocation) *bool { return &v.Gbits })},
		{option: o(0, "report-both"), elsewhere: Ignored, kind: bw, set: on(func(v *Invocation) *bool { return &v.ReportBoth })},
		{option: option{long: "report-histogram", exact: true}, kind: lat, set: on(func(v *Invocation) *bool { return &v.Histogram })},
		{option: o(0, "run_infinitely"), stock: " run_infinitely exists only in BW tests for now.", kind: bw, set: on(func(v *Invocation) *bool { return &v.Plan.Infinite })},
		{option: o(0, "reversed"), elsewhere: Ignored, kind: bw, set: on(func(v *Invocation) *bool { return &v.Plan.Reversed })},
		{option: o(0, "out_json"), set: on(func(v *Invocation) *bool { return &v.json })},
		{option: val(0, "out_json_file"), set: func(v *Invocation, value string) error {
			v.json, v.JSONFile = true, value
			return nil
		}},
		{option: val(0, "output"), set: text(func(v *Invocation) *string { return &v.Output })},
		{option: o(0, "cpu_util"), set: on(func(v *Invocation) *bool { return &v.CPUUtil })},
		{option: o(0, "use-srq"), stock: " Using SRQ only avavilible in SEND tests.", verbs: "s", set: on(func(v *Invocation) *bool { return &v.Plan.SRQ })},
		{option: val(0, "recv_post_list"), elsewhere: Ignored, only: "1", kind: bw, verbs: "sw", set: integer(1, 16384, func(v *Invocation) *int { return &v.Plan.RecvList })},
		{option: val(0, "inline_recv"), classic: true, elsewhere: Ignored, why: "perftest parses it, and does nothing with it"},
		{option: val(0, "latency_gap"), elsewhere: Ignored, kind: lat, set: func(v *Invocation, value string) error {
			n, err := number(value, 0, 1<<40)
			v.Plan.Gap = time.Duration(n) * time.Microsecond
			return err
		}},
		{option: o(0, "mr_per_qp"), elsewhere: Ignored, kind: bw, set: on(func(v *Invocation) *bool { return &v.Plan.MRPerQP })},
		{option: o(0, "perform_warm_up"), elsewhere: Ignored, kind: bw, verbs: "rwa", set: on(func(v *Invocation) *bool { return &v.warmUp })},
		{option: o(0, "data_validation"), kind: bw, verbs: "rw", set: on(func(v *Invocation) *bool { return &v.validate })},
		{option: val(0, "pin_cores"), set: func(v *Invocation, value string) error {
			var err error
			v.Cores, err = plan.ParseCPUs(value)
			return err
		}},
		{option: val(0, "numa_node"), set: func(v *Invocation, value string) error {
			n, err := number(value, 0, 1<<20)
			node := int(n)
			v.NUMANode = &node
			return err
		}},
		{option: o(0, "disable_numa"), set: on(func(v *Invocation) *bool { return &v.NoNUMA })},
		{option: val(0, "wait_destroy"), elsewhere: Ignored, kind: bw, set: func(v *Invocation, value string) error {
			n, err := number(value, 0, 1<<20)
			v.WaitDestroy = time.Duration(n) * time.Second
			return err
		}},
		{option: o(0, "odp"), set: on(func(v *Invocation) *bool { return &v.Plan.OnDemand })},
		{option: o(0, "use_hugepages"), set: on(func(v *Invocation) *bool { return &v.Plan.HugePages })},
		{option: val(0, "pkey_index"), set: integer(0, 65535, func(v *Invocation) *int { return &v.Plan.PKeyIndex })},
		{option: val(0, "retry_count"), set: func(v *Invocation, value string) error {
			n, err := number(value, 0, 7)
			v.retries = &n
			return err
		}},
		{option: val(0, "tclass"), set: octet(0, 255, func(v *Invocation) *uint8 { return &v.Plan.TrafficClass })},
		{option: val(0, "flow_label"), set: setFlowLabels},
		{option: o(0, "ipv6"), set: on(func(v *Invocation) *bool { return &v.IPv6GID })},
		{option: o(0, "ipv6-addr"), set: func(v *Invocation, _ string) error {
			v.Network = "tcp6"
			return nil
		}},
		{option: val(0, "source_ip"), set: setSource},
		{option: val(0, "bind_source_ip"), set: setSource},
		{option: o(0, "write_with_imm"), verbs: "w", set: on(func(v *Invocation) *bool { return &v.Plan.WriteImm })},
		{option: o(0, "send_with_imm"), verbs: "s", set: on(func(v *Invocation) *bool { return &v.Plan.SendImm })},
		{option: o(0, "disable_pcie_relaxed"), elsewhere: Ignored, kind: bw, set: on(func(v *Invocation) *bool { return &v.Plan.StrictOrdering })},
		{option: val(0, "rate_limit"), elsewhere: Ignored, kind: bw, set: positive(func(v *Invocation) *float64 { return &v.rate }, nil)},
		{option: val(0, "rate_units"), elsewhere: Ignored, kind: bw, set: text(func(v *Invocation) *string { return &v.rateUnit })},
		{option: val(0, "rate_limit_type"), elsewhere: Ignored, kind: bw, set: text(func(v *Invocation) *string { return &v.rateType })},
		{option: val(0, "burst_size"), elsewhere: Ignored, kind: bw, set: integer(0, 1<<31-1, func(v *Invocation) *int { return &v.burst })},
		{option: val(0, "dlid"), set: func(v *Invocation, value string) error {
			n, err := number(value, 0, 1<<16-1)
			v.DLID = uint16(n)
			return err
		}},
		{option: o(0, "use_old_post_send"), set: func(v *Invocation, _ string) error {
			v.Plan.PostAPI = verbs.PostSend
			return nil
		}},
		{option: o(0, "no_lock"), elsewhere: Ignored, why: "queues belong to one thread here, but their library keeps its locks"},
		{option: val(0, "cqe_poll"), elsewhere: Ignored, why: "the measuring loop polls in batches of its own"},
		{option: o(0, "disable_dynamic_polling"), elsewhere: Ignored, why: "the batch of a poll does not change here"},
		{option: o('P', "client"), elsewhere: Ignored, why: "the host on the command line makes the client"},
		{option: o('Z', "server"), elsewhere: Ignored, why: "the host on the command line makes the client"},
		{option: val(0, "force-link"), set: setLink},
		{option: option{long: "perftest-version", value: true, exact: true}, set: text(func(v *Invocation) *string { return &v.PerftestVersion })}, // ours
		{option: option{long: "peer-timeout", value: true, exact: true}, set: func(v *Invocation, value string) error { // ours
			d, err := plan.ParseSeconds(value)
			if err == nil && d <= 0 {
				err = fmt.Errorf("%q: want more than 0 seconds", value)
			}
			v.PeerTimeout = d
			return err
		}},
	}
	for _, m := range []struct {
		names string // with "=" behind those that take a value
		why   string
	}{
		{"typical_pkt_size=", "packet pacing (--rate_limit_type PP) is not there: use SW, with --burst_size"},
		{"use-null-mr", "only ordinary memory and huge pages are there; leave it out, or use --use_hugepages"},
		{"mmap= mmap-offset= payload_file_path=", "only ordinary memory and huge pages are there; leave it out, or use --use_hugepages"},
		{"use_cuda= use_cuda_dmabuf use_cuda_pcie_mapping use_cuda_pcie_relax use_cuda_bus_id= use_data_direct cuda_mem_type=", gpu},
		{"use_rocm= use_rocm_dmabuf use_musa= use_musa_bus_id= use_musa_dmabuf use_musa_pcie_mapping use_neuron= use_neuron_dmabuf", gpu},
		{"use_hl= use_mlu= use_mlu_dmabuf use_opencl= opencl_platform_id= gpu_touch= use_ib_dm_dmabuf=", gpu},
		{"report-per-port", "the figures of a test on two ports (-O) are of both together; run one process per port"},
		{"dont_xchg_versions", "it cannot work in any perftest: the check of the version fails without one"},
		{"log_dci_streams= log_active_dci_streams=", "DC is not there; use -c RC, UC or UD"},
		{"aes_xts encrypt_on_tx sig_before sig_offload", "encryption and signatures are not there; use stock perftest"},
		{"aes_block_size= data_enc_keys_number= kek_path= credentials_path= data_enc_key_app_path=", "encryption and signatures are not there; use stock perftest"},
		{"tcp use_rss vlan_en promiscuous raw_mcast raw_ipv6 mac_fwd sniffer flows= flows_burst= reply_every= vlan_pcp= ethertype=", raw},
		{"remote_ip= local_ip= remote_mac= local_mac= remote_port= local_port= dest_ip= dest_port= source_port= source_mac= dest_mac=", raw},
		{"use_ooo no_enhanced_reorder unsolicited_write connectionless", "extensions of some hardware are not there; use stock perftest"},
		{"congest_type= tph_mem= cpu_id= ph=", "extensions of some hardware are not there; use stock perftest"},
		{"data_validation_debug", "--data_validation alone says whether all data was right"},
	} {
		for name := range strings.FieldsSeq(m.names) {
			long, value := strings.CutSuffix(name, "=")
			f := perftestFlag{option: option{long: long, value: value, exact: long == "connectionless"}, why: m.why}
			if m.why == raw { // stock takes them in every tool; abbreviations stay those of the tools we are
				f.elsewhere, f.exact = Ignored, true
			}
			list = append(list, f)
		}
	}
	return list
}

func setAtomic(v *Invocation, value string) error {
	for _, r := range plan.Rows() {
		if r.Counter && r.Perftest.Name == value {
			v.Plan.AtomicType = r.Opcode
			return nil
		}
	}
	return fmt.Errorf("%q: want CMP_AND_SWAP or FETCH_AND_ADD", value)
}

func setConnection(v *Invocation, value string) error {
	switch value {
	case "RC":
		v.Plan.Transport = verbs.RC
	case "UC":
		v.Plan.Transport = verbs.UC
	case "UD":
		v.Plan.Transport = verbs.UD
	case "XRC", "DC", "SRD":
		return fmt.Errorf("%s is not there: use RC, UC or UD", value)
	default:
		return &StockError{" Invalid Connection type. Please choose from {RC,UC,UD,XRC,DC,SRD}", fmt.Errorf("%q: want RC, UC or UD, in upper case", value)}
	}
	return nil
}

// setGroup reads a multicast group as perftest writes it, 16 numbers with colons between, or as an IP address.
func setGroup(v *Invocation, value string) error {
	var g verbs.GID
	parts := strings.Split(value, ":")
	if len(parts) != len(g) {
		a, err := netip.ParseAddr(value)
		if err != nil {
			return fmt.Errorf("%q: want 16 numbers such as 255:14:0:0:0:0:0:0:0:0:0:0:0:0:0:1, or an address such as 239.1.2.3 or ff0e::1", value)
		}
		g = verbs.GIDFromAddr(a)
	} else {
		for i, part := range parts {
			n, err := number(part, 0, 255)
			if err != nil {
				return fmt.Errorf("%q: byte %d: %w", value, i+1, err)
			}
			g[i] = byte(n)
		}
	}
	v.Plan.MGID = &g
	return nil
}

// setFlowLabels reads a list, of which queue pair k takes number k modulo its length.
func setFlowLabels(v *Invocation, value string) error {
	v.Plan.FlowLabels = nil
	for part := range strings.SplitSeq(value, ",") {
		n, err := number(part, 0, 1<<20-1)
		if err != nil {
			return err
		}
		v.Plan.FlowLabels = append(v.Plan.FlowLabels, uint32(n))
	}
	return nil
}

// setLink reads --force-link, which must agree with the port: see Fit.
func setLink(v *Invocation, value string) error {
	switch value {
	case "IB":
		v.link = verbs.LinkInfiniBand
	case "Ethernet", "ETHERNET":
		v.link = verbs.LinkEthernet
	default:
		return fmt.Errorf("%q: want IB or Ethernet", value)
	}
	return nil
}

// setCounters reads -W: paths below the port's folder in sysfs, of which the file's name tells the counter.
func setCounters(v *Invocation, value string) error {
	for name := range strings.SplitSeq(value, ",") {
		if name == "" {
			return fmt.Errorf("%q: want counters, separated by commas, such as counters/port_xmit_data", value)
		}
		v.Counters = append(v.Counters, name)
	}
	return nil
}

func setSource(v *Invocation, value string) error {
	a, err := netip.ParseAddr(value)
	v.Source = a
	return err
}
