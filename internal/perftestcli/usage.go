package perftestcli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report/plain"
)

// DefaultVersion is the perftest version that we advertise: it talks to every perftest but 6.28.
const DefaultVersion = "6.27"

// ClaimedVersion is the version whose text is ours, which -V prints: scripts choose by it how to read.
func (v *Invocation) ClaimedVersion() string {
	if v.Style() == Classic {
		return "6.06"
	}
	return v.PerftestVersion
}

// helpGroup is a heading of the help and the options below it.
type helpGroup struct {
	title   string
	options []helpOption
}

// helpOption explains one option.
type helpOption struct {
	name  string // the long one, as in the table of flags
	value string // what it takes, as the help writes it
	about string // with the default
}

const (
	helpWidth  = 80
	helpIndent = 27 // where explanations begin
)

// Usage is the tool's help: every option that it takes, what it does, and what holds without it.
func Usage(tool Tool) string {
	what := "bandwidth"
	if tool.Kind == plan.Latency {
		what = "latency"
	}
	operation := plan.RowOf(tool.Operation).Text
	var b strings.Builder
	fmt.Fprintf(&b, "Usage:\n  %s [options]          wait for a client\n  %s [options] <host>   go to the server at <host>\n\n"+
		"Measures the %s of %s. Give both ends the same options.\nLong options may be shortened; numbers may be decimal, 0x... or octal.\n", tool.Name, tool.Name, what, operation)
	has := map[string]perftestFlag{}
	var ignored []string
	for _, f := range flags() {
		switch f.in(tool) {
		case Acts:
			has[f.long] = f
		case Ignored:
			ignored = append(ignored, "--"+f.long)
		case Refused:
		}
	}
	for _, g := range helpGroups(tool) {
		title := "\n" + g.title + ":\n"
		for _, o := range g.options {
			f, is := has[o.name]
			if !is {
				continue
			}
			b.WriteString(title)
			title = ""
			b.WriteString(o.lines(f.short))
		}
	}
	b.WriteString("\nTaken and ignored, as in perftest, with a line on stderr:\n")
	for _, line := range plain.WrapWith(strings.Join(ignored, ", "), helpWidth-2, "") {
		b.WriteString("  " + line + "\n")
	}
	b.WriteString("\nOptions of perftest that are missing here are refused by name.\n" +
		"gobw and golat have more: gobw --help. About perftest: docs/perftest.md.\n")
	return b.String()
}

// has tells whether a tool has the option.
func (f perftestFlag) has(tool Tool) bool {
	return (f.kind == "" || f.kind == tool.Kind) && (f.verbs == "" || strings.Contains(f.verbs, string(tool.Operation[0])))
}

// lines are the option and, in a column of its own, its explanation.
func (o helpOption) lines(short byte) string {
	head := "      --" + o.name
	if short != 0 {
		head = fmt.Sprintf("  -%c, --%s", short, o.name)
	}
	if o.value != "" {
		head += "=" + o.value
	}
	var b strings.Builder
	if len(head) > helpIndent-2 {
		b.WriteString(head + "\n")
		head = ""
	}
	for _, line := range plain.WrapWith(o.about, helpWidth-helpIndent, "") {
		fmt.Fprintf(&b, "%-*s%s\n", helpIndent, head, line)
		head = ""
	}
	return b.String()
}

// helpGroups explains every option that works; a tool's help shows those that it has.
func helpGroups(tool Tool) []helpGroup {
	row := plan.RowOf(tool.Operation)
	size, count, depth, inline := bandwidthBytes, plan.DefaultIterations(row, tool.Kind), 128, "0"
	if tool.Kind == plan.Latency {
		size, depth = latencyBytes, 1
		if inline = strconv.Itoa(row.Inline); row.InlineUD > 0 {
			inline += fmt.Sprintf(", UD %d", row.InlineUD)
		}
	}
	var names []string
	for _, t := range row.Transports {
		names = append(names, t.String())
	}
	transports := strings.Join(names, "/")
	receives, events := "receives posted on each queue pair; with --use-srq in all", "sleep until a completion comes, instead of polling"
	if row.Addressed() && !row.Responded {
		receives, events = "receives posted on each queue pair, with --write_with_imm", events+"; with --write_with_imm"
	}
	unit := "MiB/s, or Gb/s with --report_gbits"
	return []helpGroup{
		{"Messages", []helpOption{
			{"size", "BYTES", fmt.Sprintf("message size; K and M are powers of 1024 (%d)", size)},
			{"all", "", "all powers of two from 2 bytes to 8 MiB, one row each; UD: to the MTU"},
			{"connection", "<" + transports + ">", "transport (RC)"}, // wrappers read this line to learn what to run
			{"atomic_type", "TYPE", "FETCH_AND_ADD or CMP_AND_SWAP (FETCH_AND_ADD)"},
			{"write_with_imm", "", "WRITE with immediate data, which takes a receive at the other end"},
			{"send_with_imm", "", "SEND with immediate data"},
			{"bidirectional", "", "both ends send at once; the row is the sum"},
			{"reversed", "", "the server sends to the client"},
			{"data_validation", "", "check what arrived, byte by byte; needs gobw at both ends"},
		}},
		{"Length", []helpOption{
			{"iters", "N", fmt.Sprintf("messages per queue pair, at least 5 (%d)", count)},
			{"duration", "SECONDS", "run for so long; -n is then ignored"},
			{"margin", "SECONDS", "with -D: leave out so much at the beginning and at the end (a quarter of -D, whole seconds)"},
			{"run_infinitely", "", fmt.Sprintf("until it is stopped, a row every -D seconds (%d)", impliedSeconds)},
			{"perform_warm_up", "", "first a window of messages that is not measured"},
			{"rate_limit", "RATE", "send no faster, in the units of --rate_units (no limit)"},
			{"rate_units", "UNIT", "M: MiB/s, g: Gb/s, p: packets/s (g)"},
			{"rate_limit_type", "TYPE", "SW or HW; the limit is kept in software either way (HW)"},
			{"burst_size", "N", "with --rate_limit_type SW: messages that follow each other at once (the tx depth)"},
			{"latency_gap", "USEC", "least time between two messages, in microseconds (0)"},
		}},
		{"Queues", []helpOption{
			{"qp", "N", "queue pairs (1)"},
			{"tx-depth", "N", fmt.Sprintf("messages in flight on each queue pair (%d)", depth)},
			{"rx-depth", "N", receives + " (512)"},
			{"outs", "N", "READs and atomics in flight on each queue pair (what the device can)"},
			{"cq-mod", "N", "ask for a completion of every N-th message (100; above 8 KiB 1)"},
			{"post_list", "N", "messages per post, a divisor of -n (1)"},
			{"recv_post_list", "N", "receives per post (1)"},
			{"inline_size", "BYTES", "messages up to this size travel in the request itself (" + inline + ")"},
			{"use-srq", "", "one receive queue for all queue pairs"},
			{"mcg", "", "the server's queue pair joins a multicast group, with -c UD"},
			{"MGID", "GROUP", "that group: 16 numbers with colons between, or an IP address"},
			{"mr_per_qp", "", "a memory region for each queue pair"},
			{"events", "", events},
			{"vector", "N", "completion vector, with -e (0)"},
			{"use_hugepages", "", "buffers in reserved huge pages"},
			{"odp", "", "buffers whose pages the device has brought as it needs them"},
			{"disable_pcie_relaxed", "", "memory without relaxed ordering"},
			{"wait_destroy", "SECONDS", "keep the queue pairs for so long after the test (0)"},
		}},
		{"Device and path", []helpOption{
			{"ib-dev", "DEVICE", "RDMA device: mlx5_0, rxe0, or roce0, the software device (the first; never roce0)"},
			{"force-link", "LINK", "IB or Ethernet: refuse the port if it is not that"},
			{"ib-port", "N", "port of the device (1)"},
			{"dualport", "", "-q queue pairs on port 1 and as many on port 2"},
			{"gid-index", "N", "line of the GID table, see gobw devices (chosen: RoCE v2, IPv4 first; none on InfiniBand)"},
			{"ipv6", "", "choose an IPv6 GID"},
			{"mtu", "BYTES", "path MTU, 256 to 4096 (the port's)"},
			{"sl", "N", "service level, 0 to 15 (0)"},
			{"tclass", "N", "traffic class of the packets, 0 to 255 (0)"},
			{"flow_label", "LIST", "flow labels, separated by commas, for the queue pairs in turn (0)"},
			{"dlid", "LID", "LID to send to, on InfiniBand (the one that the peer tells)"},
			{"pkey_index", "N", "line of the P_Key table (0)"},
			{"qp-timeout", "N", "4.096 us x 2^N without an answer until a message is sent again (14: 67 ms; roce0 16)"},
			{"retry_count", "N", "how often a message is sent again, 1 to 7 (7)"},
			{"rdma_cm", "", "connect the queue pairs by RDMA CM, at IP addresses; not UC"},
			{"tos", "N", "type of service of the path, with -R (not set)"},
			{"comm_rdma_cm", "", "control connection by RDMA CM, ordinary queue pairs"},
			{"pin_cores", "LIST", "CPUs, as in 0-3,8: the measuring thread runs on the first (one of the device's node)"},
			{"numa_node", "N", "thread and buffers on this node (the device's)"},
			{"disable_numa", "", "thread and buffers on any node"},
		}},
		{"Control connection", []helpOption{
			{"port", "N", fmt.Sprintf("TCP port (%d)", control.DefaultPort)},
			{"bind_source_ip", "ADDR", "address of this end: to listen on, or to connect from"},
			{"source_ip", "ADDR", "the same, as older versions call it"},
			{"ipv6-addr", "", "IPv6 addresses only"},
			{"perftest-version", "V", "version to tell the other end; with 6.29 both compare the whole test (" + DefaultVersion + ")"},
			{"peer-timeout", "SECONDS", "how long a silent peer is borne (30 in a phase, 10 where nothing moves)"},
		}},
		{"Output and verdict", []helpOption{
			{"report_gbits", "", "bandwidth in Gb/s, 10^9 bits, instead of MiB/s, 2^20 bytes"},
			{"report-both", "", "with -b: also each direction alone"},
			{"noPeak", "", fmt.Sprintf("no peak; so it is with -D and above %d messages", peakIterations)},
			{"report-cycles", "", "times in cycles of the CPU's counter"},
			{"report-histogrm", "", "all samples, sorted (sic; --report-histogram, too)"},
			{"report-unsorted", "", "all samples, as they came"},
			{"report-counters", "LIST", "how much these counters of the device moved: counters/port_xmit_data,hw_counters/out_of_sequence"},
			{"cpu_util", "", "CPU time of this process, with -D"},
			{"output", "WHAT", "print one number: bandwidth, message_rate or latency"},
			{"out_json", "", "write JSON, too, to " + defaultJSON},
			{"out_json_file", "FILE", "write JSON, too, to this file"},
			{"limit_bw", "X", "exit 1 if the average is lower, in " + unit},
			{"limit_msgrate", "X", "exit 1 if there are fewer million messages a second"},
			{"version", "", "print the version of perftest that is spoken"},
			{"help", "", "this text"},
		}},
		{"Other", []helpOption{
			{"CPU-freq", "", "no warning where the CPUs differ in frequency"},
			{"use_old_post_send", "", "post with ibv_post_send, also where ibv_wr_* is there"},
		}},
	}
}
