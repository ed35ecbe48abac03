package perftest

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/verbs"
)

// flag is one of perftest's options: which tools have it, and what it does. Without set it is refused by name.
type flag struct {
	option
	verbs   string       // letters of the operations that have it (s, w, r, a); empty: all
	kind    control.Kind // empty: both
	set     func(v *Invocation, value string) error
	missing string // why it is refused
}

// errNotTool says that a tool does not have an option.
var errNotTool = errors.New("this tool does not have it")

func (f flag) apply(v *Invocation, value string) error {
	switch {
	case !f.has(v.Tool):
		return errNotTool
	case f.set == nil:
		return fmt.Errorf("not there yet: %s", f.missing)
	}
	return f.set(v, value)
}

// number reads an integer as strtol(…, 0) does: decimal, 0x or octal; what follows the digits is an error, not ignored.
func number(value string, low, high int64) (int64, error) {
	n, err := strconv.ParseInt(value, 0, 64) // base 0: the prefix chooses, as in C
	if err != nil || strings.ContainsAny(value, "_oObB") && !strings.HasPrefix(strings.ToLower(value), "0x") || strings.Contains(value, "_") {
		return 0, fmt.Errorf("%q is no number", value)
	}
	if n < low || n > high {
		return 0, fmt.Errorf("%s: want %d to %d", value, low, high)
	}
	return n, nil
}

// size reads a message size: K and M, in upper case, are powers of 1024.
func size(value string) (int, error) {
	digits, unit := value, int64(1)
	switch {
	case strings.HasSuffix(value, "K"):
		digits, unit = value[:len(value)-1], 1<<10
	case strings.HasSuffix(value, "M"):
		digits, unit = value[:len(value)-1], 1<<20
	case strings.HasSuffix(value, "k"), strings.HasSuffix(value, "m"):
		return 0, fmt.Errorf("%q: the suffixes are K and M, in upper case (perftest reads %q as %s bytes)", value, value, value[:len(value)-1])
	}
	n, err := number(digits, 1, math.MaxInt32/unit)
	return int(n * unit), err
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

func ignore(*Invocation, string) error { return nil }

// flags is the table of every option that perftest 4.5 to 6.29 has. Core and advanced ones work; the rest is refused by
// name.
func flags() []flag {
	o := func(short byte, long string) option { return option{short: short, long: long} }
	val := func(short byte, long string) option { return option{short: short, long: long, value: true} }
	const (
		bw  = control.Bandwidth
		lat = control.Latency
	)
	const gpu = "GPU and other device memory; use stock perftest for it"
	controlCM := on(func(v *Invocation) *bool { return &v.ControlCM })
	list := []flag{
		{option: o('a', "all"), verbs: "swr", set: on(func(v *Invocation) *bool { return &v.Plan.AllSizes })},
		{option: val('A', "atomic_type"), verbs: "a", set: setAtomic},
		{option: o('b', "bidirectional"), kind: bw, set: on(func(v *Invocation) *bool { return &v.Plan.Bidirectional })},
		{option: val('c', "connection"), set: setConnection},
		{option: o('C', "report-cycles"), kind: lat, set: on(func(v *Invocation) *bool { return &v.Cycles })},
		{option: val('d', "ib-dev"), set: text(func(v *Invocation) *string { return &v.Device })},
		{option: val('D', "duration"), set: func(v *Invocation, value string) error {
			n, err := number(value, 1, 1<<30)
			v.Plan.Duration = time.Duration(n) * time.Second
			return err
		}},
		{option: o('e', "events"), set: on(func(v *Invocation) *bool { return &v.Plan.Events })},
		{option: val('f', "margin"), set: func(v *Invocation, value string) error {
			n, err := number(value, 0, 1<<30)
			d := time.Duration(n) * time.Second
			v.margin = &d
			return err
		}},
		{option: o('F', "CPU-freq"), set: ignore}, // hides a warning that we do not print
		{option: o('g', "mcg"), verbs: "s", missing: "multicast; -c UD alone reaches one peer"},
		{option: o('h', "help"), set: on(func(v *Invocation) *bool { return &v.Help })},
		{option: o('H', "report-histogrm"), kind: lat, set: on(func(v *Invocation) *bool { return &v.Histogram })},
		{option: val('i', "ib-port"), set: integer(1, 255, func(v *Invocation) *int { return &v.IBPort })},
		{option: val('I', "inline_size"), verbs: "sw", set: integer(0, 1024, func(v *Invocation) *int { return &v.Plan.InlineBytes })},
		{option: val('l', "post_list"), kind: bw, set: integer(1, 15000, func(v *Invocation) *int { return &v.Plan.PostList })},
		{option: val('L', "hop_limit"), missing: "only perftest's raw Ethernet tools have it"},
		{option: val('m', "mtu"), set: integer(0, 1<<20, func(v *Invocation) *int { return &v.MTUBytes })},
		{option: val('M', "MGID"), verbs: "s", missing: "multicast; -c UD alone reaches one peer"},
		{option: val('n', "iters"), set: func(v *Invocation, value string) error {
			n, err := number(value, 5, 1<<32)
			v.Plan.Iterations = uint64(n)
			return err
		}},
		{option: o('N', "noPeak"), kind: bw, set: on(func(v *Invocation) *bool { return &v.Plan.NoPeak })},
		{option: val('o', "outs"), verbs: "ra", set: integer(1, 1<<16, func(v *Invocation) *int { return &v.Plan.Outstanding })},
		{option: o('O', "dualport"), kind: bw, missing: "two ports in one run; run one process per port"},
		{option: val('p', "port"), set: integer(1, 65535, func(v *Invocation) *int { return &v.TCPPort })},
		{option: val('q', "qp"), kind: bw, set: integer(1, 16384, func(v *Invocation) *int { return &v.Plan.QPs })},
		{option: val('Q', "cq-mod"), kind: bw, set: integer(1, 1024, func(v *Invocation) *int { return &v.Plan.CQMod })},
		{option: val('r', "rx-depth"), verbs: "sw", set: integer(1, 16384, func(v *Invocation) *int { return &v.Plan.RxDepth })},
		{option: o('R', "rdma_cm"), set: on(func(v *Invocation) *bool { return &v.Plan.RDMACM })},
		{option: val('s', "size"), verbs: "swr", set: func(v *Invocation, value string) error {
			n, err := size(value)
			v.Plan.Sizes, v.sizeGiven = []int{n}, true
			return err
		}},
		{option: val('S', "sl"), set: octet(0, 15, func(v *Invocation) *uint8 { return &v.Plan.SL })},
		{option: val('t', "tx-depth"), set: integer(1, 15000, func(v *Invocation) *int { return &v.Plan.TxDepth })},
		{option: val('T', "tos"), set: func(v *Invocation, value string) error {
			n, err := number(value, 0, 255)
			tos := uint8(n)
			v.Plan.TOS = &tos
			return err
		}},
		{option: val('u', "qp-timeout"), set: octet(0, 31, func(v *Invocation) *uint8 { return &v.Plan.Timeout })},
		{option: o('U', "report-unsorted"), kind: lat, set: on(func(v *Invocation) *bool { return &v.Unsorted })},
		{option: o('V', "version"), set: on(func(v *Invocation) *bool { return &v.Version })},
		{option: val('w', "limit_bw"), kind: bw, set: positive(func(v *Invocation) *float64 { return &v.LimitBW }, func(v *Invocation) { v.limits.bw = true })},
		{option: val('W', "report-counters"), set: setCounters},
		{option: val('x', "gid-index"), set: func(v *Invocation, value string) error {
			n, err := number(value, 0, 4095)
			i := int(n)
			v.GIDIndex = &i
			return err
		}},
		{option: val('X', "vector"), set: integer(0, 2048, func(v *Invocation) *int { return &v.Plan.Vector })},
		{option: val('y', "limit_msgrate"), kind: bw, set: positive(func(v *Invocation) *float64 { return &v.LimitRate }, func(v *Invocation) { v.limits.rate = true })},
		{option: o('z', "comm_rdma_cm"), set: controlCM},
		{option: option{long: "com_rdma_cm", exact: true}, set: controlCM}, // as 4.5's help spells it

		{option: o(0, "report_gbits"), kind: bw, set: on(func(v *Invocation) *bool { return &v.Gbits })},
		{option: o(0, "report-both"), kind: bw, set: on(func(v *Invocation) *bool { return &v.ReportBoth })},
		{option: option{long: "report-histogram", exact: true}, kind: lat, set: on(func(v *Invocation) *bool { return &v.Histogram })},
		{option: o(0, "run_infinitely"), kind: bw, set: on(func(v *Invocation) *bool { return &v.Plan.Infinite })},
		{option: o(0, "reversed"), kind: bw, set: on(func(v *Invocation) *bool { return &v.Plan.Reversed })},
		{option: o(0, "out_json"), set: on(func(v *Invocation) *bool { return &v.json })},
		{option: val(0, "out_json_file"), set: func(v *Invocation, value string) error {
			v.json, v.JSONFile = true, value
			return nil
		}},
		{option: val(0, "output"), set: text(func(v *Invocation) *string { return &v.Output })},
		{option: o(0, "cpu_util"), set: on(func(v *Invocation) *bool { return &v.CPUUtil })},
		{option: o(0, "use-srq"), verbs: "s", set: on(func(v *Invocation) *bool { return &v.Plan.SRQ })},
		{option: val(0, "recv_post_list"), kind: bw, verbs: "s", set: integer(1, 16384, func(v *Invocation) *int { return &v.Plan.RecvList })},
		{option: val(0, "inline_recv"), set: ignore}, // parsed and unused in perftest, too
		{option: val(0, "latency_gap"), kind: lat, set: func(v *Invocation, value string) error {
			n, err := number(value, 0, 1<<40)
			v.Plan.Gap = time.Duration(n) * time.Microsecond
			return err
		}},
		{option: o(0, "mr_per_qp"), kind: bw, set: on(func(v *Invocation) *bool { return &v.Plan.MRPerQP })},
		{option: o(0, "perform_warm_up"), kind: bw, verbs: "rwa", set: on(func(v *Invocation) *bool { return &v.warmUp })},
		{option: o(0, "data_validation"), kind: bw, verbs: "rw", set: on(func(v *Invocation) *bool { return &v.validate })},
		{option: val(0, "pin_cores"), set: func(v *Invocation, value string) error {
			var err error
			v.Cores, err = cores(value)
			return err
		}},
		{option: val(0, "numa_node"), set: func(v *Invocation, value string) error {
			n, err := number(value, 0, 1<<20)
			node := int(n)
			v.NUMANode = &node
			return err
		}},
		{option: o(0, "disable_numa"), set: on(func(v *Invocation) *bool { return &v.NoNUMA })},
		{option: val(0, "wait_destroy"), kind: bw, set: func(v *Invocation, value string) error {
			n, err := number(value, 0, 1<<20)
			v.WaitDestroy = time.Duration(n) * time.Second
			return err
		}},
		{option: o(0, "use_hugepages"), set: on(func(v *Invocation) *bool { return &v.Plan.HugePages })},
		{option: val(0, "pkey_index"), set: integer(0, 65535, func(v *Invocation) *int { return &v.Plan.PKeyIndex })},
		{option: val(0, "retry_count"), set: func(v *Invocation, value string) error {
			n, err := number(value, 0, 7)
			v.retries = &n
			return err
		}},
		{option: val(0, "tclass"), set: octet(0, 255, func(v *Invocation) *uint8 { return &v.Plan.TrafficClass })},
		{option: val(0, "flow_label"), set: func(v *Invocation, value string) error {
			n, err := number(value, 0, 1<<20-1)
			v.Plan.FlowLabel = uint32(n)
			return err
		}},
		{option: o(0, "ipv6"), set: on(func(v *Invocation) *bool { return &v.IPv6GID })},
		{option: o(0, "ipv6-addr"), set: func(v *Invocation, _ string) error {
			v.Network = "tcp6"
			return nil
		}},
		{option: val(0, "source_ip"), set: setSource},
		{option: val(0, "bind_source_ip"), set: setSource},
		{option: o(0, "write_with_imm"), verbs: "w", set: on(func(v *Invocation) *bool { return &v.Plan.WriteImm })},
		{option: o(0, "send_with_imm"), verbs: "s", set: on(func(v *Invocation) *bool { return &v.Plan.SendImm })},
		{option: o(0, "disable_pcie_relaxed"), kind: bw, set: on(func(v *Invocation) *bool { return &v.Plan.StrictOrdering })},
		{option: val(0, "rate_limit"), kind: bw, set: positive(func(v *Invocation) *float64 { return &v.rate }, nil)},
		{option: val(0, "rate_units"), kind: bw, set: text(func(v *Invocation) *string { return &v.rateUnit })},
		{option: val(0, "rate_limit_type"), kind: bw, set: text(func(v *Invocation) *string { return &v.rateType })},
		{option: o(0, "use_old_post_send"), set: ignore}, // what we always do
		{option: o(0, "no_lock"), set: ignore},           // a library's lock, not ours
		{option: val(0, "cqe_poll"), set: ignore},        // the batch of a poll; ours is the runner's
		{option: o(0, "disable_dynamic_polling"), set: ignore},
		{option: option{long: "perftest-version", value: true, exact: true}, set: text(func(v *Invocation) *string { return &v.PerftestVersion })}, // ours
		{option: option{long: "perftest-only", exact: true}, set: on(func(v *Invocation) *bool { return &v.PerftestOnly })},                        // ours
	}
	for _, m := range []struct {
		names   string // with "=" behind those that take a value
		missing string
	}{
		{"burst_size= typical_pkt_size=", "bursts of the rate limit; --rate_limit alone spaces single messages"},
		{"odp use-null-mr", "memory other than ordinary and huge pages; leave the flag out, or use --use_hugepages"},
		{"mmap= mmap-offset= payload_file_path=", "memory other than ordinary and huge pages; leave the flag out, or use --use_hugepages"},
		{"use_cuda= use_cuda_dmabuf use_cuda_pcie_mapping use_cuda_pcie_relax use_cuda_bus_id= use_data_direct cuda_mem_type=", gpu},
		{"use_rocm= use_rocm_dmabuf use_musa= use_musa_bus_id= use_musa_dmabuf use_musa_pcie_mapping use_neuron= use_neuron_dmabuf", gpu},
		{"use_hl= use_mlu= use_mlu_dmabuf use_opencl= opencl_platform_id= gpu_touch= use_ib_dm_dmabuf=", gpu},
		{"dlid= force-link=", "choosing LIDs and link layers by hand; -x INDEX chooses a GID on any link"},
		{"report-per-port", "two ports in one run; run one process per port"},
		{"dont_xchg_versions", "it cannot work in any perftest: the check of the version fails without one"},
		{"log_dci_streams= log_active_dci_streams=", "DC; use -c RC, UC or UD"},
		{"aes_xts encrypt_on_tx sig_before sig_offload", "encryption and signatures; use stock perftest for them"},
		{"aes_block_size= data_enc_keys_number= kek_path= credentials_path= data_enc_key_app_path=", "encryption and signatures; use stock perftest for them"},
		{"use_ooo no_enhanced_reorder unsolicited_write connectionless tph_mem", "hardware extensions; use stock perftest for them"},
		{"congest_type= cpu_id= ph=", "hardware extensions; use stock perftest for them"},
		{"data_validation_debug", "the counters of perftest's own validation; --data_validation alone says whether all data was right"},
	} {
		for name := range strings.FieldsSeq(m.names) {
			long, value := strings.CutSuffix(name, "=")
			list = append(list, flag{option: option{long: long, value: value, exact: long == "connectionless"}, missing: m.missing})
		}
	}
	return list
}

func setAtomic(v *Invocation, value string) error {
	switch value {
	case "CMP_AND_SWAP":
		v.Plan.AtomicType = verbs.OpCompareSwap
	case "FETCH_AND_ADD":
		v.Plan.AtomicType = verbs.OpFetchAdd
	default:
		return fmt.Errorf("%q: want CMP_AND_SWAP or FETCH_AND_ADD", value)
	}
	return nil
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
		return fmt.Errorf("%s is not there yet: use RC, UC or UD", value)
	default:
		return fmt.Errorf("%q: want RC, UC or UD, in upper case", value)
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

// cores reads a list of CPUs such as 0-3,8.
func cores(value string) ([]int, error) {
	var list []int
	for part := range strings.SplitSeq(value, ",") {
		low, high, ranged := strings.Cut(part, "-")
		a, err := strconv.Atoi(low)
		b := a
		if err == nil && ranged {
			b, err = strconv.Atoi(high)
		}
		if err != nil || a < 0 || b < a || b > maxCPU {
			return nil, fmt.Errorf("%q: want CPUs such as 0-3,8", value)
		}
		for cpu := a; cpu <= b; cpu++ {
			list = append(list, cpu)
		}
	}
	return list, nil
}

// maxCPU is the largest CPU number that Linux can have.
const maxCPU = 8191

func setSource(v *Invocation, value string) error {
	a, err := netip.ParseAddr(value)
	v.Source = a
	return err
}
