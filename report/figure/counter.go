package figure

import (
	"cmp"
	"maps"
	"slices"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

// event is what devices count. The names are those of the kernel's drivers (mlx5, bnxt_re, irdma, efa, rxe) and of the software device.
type event struct {
	word    string // of expectations, which any device understands; empty: none
	meaning string
	// sets are what devices call it: the first set of which a device has any is summed. (mlx5, rxe and irdma count causes of
	// retransmission; bnxt_re, efa and our own device count what was sent again.)
	sets [][]string
}

// events are those of errors; of two that count the same name the first has its meaning.
func events() []event {
	return []event{
		{"", "the other end missed packets", [][]string{{"packet_seq_err", "seq_err_naks_rcvd", "rcvd_seq_err"}}},
		{"", "answers were missed", [][]string{{"implied_nak_seq_err"}}},
		{"", "requests arrived again: their acknowledgement was lost or late", [][]string{{"duplicate_request"}}},
		{"", "messages arrived and no receive was posted", [][]string{{"send_rnr_err", "out_of_buffer"}}},
		{"", "retries were used up", [][]string{{"retry_exceeded_err", "retry_rnr_exceeded_err"}}},
		{"", "requests completed with an error", [][]string{{"req_cqe_error", "resp_cqe_error"}}},
		{"", "the link is bad: look at cable and transceiver", [][]string{{"link_downed", "link_error_recovery"}}},
		{"lost", "packets were dropped", [][]string{{"dropped"}}},
		{"timeouts", "no acknowledgement came in time", [][]string{{"local_ack_timeout_err"}, {"retrans_timeout_events"}, {"to_retransmits"}}},
		{"retransmits", "packets were sent again", [][]string{
			{"resent_pkts"},
			{"retrans_pkts"},
			{"to_retransmits", "seq_err_naks_rcvd"},
			{"tcpRetransSegs", "RetransSegs"},
			{"local_ack_timeout_err", "packet_seq_err", "implied_nak_seq_err"},
			{"completer_retry_err"},
		}},
		{"out_of_sequence", "packets arrived out of order, or one before them was lost", [][]string{{"out_of_seq_request"}, {"rx_out_of_order"}, {"rcvd_seq_err"}}},
		{"rnr_naks", "the other end had no receive posted", [][]string{{"rnr_nak_retry_err"}, {"rcvd_rnr_err"}, {"rnr_naks_rcvd"}}},
		{"cnps", "notifications of congestion", [][]string{{"np_cnp_sent", "rp_cnp_handled"}, {"cnpSent", "cnpHandled"}, {"rx_cnp_pkts", "tx_cnp_pkts"}}},
		{"ecn_marked", "switches marked packets for congestion", [][]string{{"np_ecn_marked_roce_packets"}, {"RxECNMrkd"}, {"rx_ecn_marked_pkts"}}},
		{"discards", "packets were dropped", [][]string{{"port_rcv_discards", "port_xmit_discards"}, {"rx_roce_discards"}, {"out_of_buffer"}}},
		{"symbol_errors", "the link is bad: look at cable and transceiver", [][]string{{"symbol_error"}}},
		{"icrc_errors", "packets arrived damaged", [][]string{{"icrc_err"}, {"rx_icrc_encapsulated"}}},
	}
}

// CounterNames are words for device error counters that expectations may use before any device is asked.
func CounterNames() []string {
	words := plain.Each(events(), func(e event) string { return e.word })
	return slices.DeleteFunc(words, func(word string) bool { return word == "" })
}

// Any stands for the ends that count, in [CounterOf].
const Any = "any"

// CounterOf reads a device counter of one end, "local" or "peer", or of both: "". An end that reports no counters at all was
// not seen, so that there is no sum.
func CounterOf(end, name string) Figure {
	said := name
	if end == "local" || end == "peer" {
		said = end + "." + name
	}
	return Figure{
		Name: said, Direction: stats.LowerIsBetter, Scale: 1,
		counter: func(r *report.Record) string {
			_, _, here := counted(name, r.Counters)
			_, _, there := counted(name, r.PeerCounters)
			switch end {
			case "local":
				return here
			case "peer":
				return there
			}
			return cmp.Or(here, there)
		},
		read: func(r *report.Record) (float64, string) {
			local, here, _ := counted(name, r.Counters)
			peer, there, _ := counted(name, r.PeerCounters)
			switch {
			case here && end == "local":
				return local, ""
			case there && end == "peer":
				return peer, ""
			case (here || there) && (end == Any || end == "" && r.Counters != nil && r.PeerCounters != nil):
				return local + peer, ""
			case end == "" && here != there:
				return 0, "one end reported no counters: use local." + name + " or peer." + name + " alone, or counters of both ends"
			}
			have := slices.Concat(slices.Collect(maps.Keys(r.Counters)), slices.Collect(maps.Keys(r.PeerCounters)))
			if len(have) == 0 {
				return 0, "the device reported no counters"
			}
			slices.Sort(have)
			have = slices.Compact(have)
			return 0, "the device has no such counter" + plain.When(!slices.Contains(CounterNames(), name), "%s; it has %v", plain.Suggest(name, have), have)
		},
	}
}

// counted is a counter of one end, by its own name or by what the device calls it, and why its change cannot be true.
func counted(name string, counters map[string]int64) (sum float64, found bool, impossible string) {
	add := func(c string) {
		v, ok := counters[c]
		if v < 0 {
			impossible = fell(c, v)
		}
		sum, found = sum+float64(v), found || ok
	}
	if add(name); found {
		return sum, found, impossible
	}
	for _, e := range events() {
		if e.word != name {
			continue
		}
		for _, set := range e.sets {
			for _, c := range set {
				add(c)
			}
			if found {
				return sum, found, impossible
			}
		}
	}
	return 0, false, ""
}

// counterMeaning says what a device's error counter counts; "" for counters of traffic and for unknown ones.
func counterMeaning(name string) string {
	for _, e := range events() {
		if e.word == name || slices.Contains(slices.Concat(e.sets...), name) {
			return e.meaning
		}
	}
	return ""
}
