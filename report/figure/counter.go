package figure

import (
	"maps"
	"slices"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

// CounterNames are words for device error counters that expectations may use before any device is asked.
func CounterNames() []string {
	return []string{
		"retransmits", "out_of_sequence", "rnr_naks", "timeouts", "cnps", "ecn_marked", "discards", "symbol_errors",
		"local_ack_timeout_err", "packet_seq_err", "out_of_buffer", "rnr_nak_retry_err", "np_cnp_sent", "rp_cnp_handled",
		"duplicate_request", "implied_nak_seq_err", "icrc_errors", "lost",
	}
}

// Counter reads a device counter, the sum over both ends, or an extra figure by name.
func Counter(name string) Figure { return CounterOf("", name) }

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
		Get: func(r *report.Record) (float64, bool) {
			if v, ok := r.Extra[name]; ok && (end == "" || end == Any) {
				return v, true
			}
			local, has := counted(name, r.Counters)
			peer, peerHas := counted(name, r.PeerCounters)
			switch end {
			case "local":
				return local, has
			case "peer":
				return peer, peerHas
			}
			return local + peer, (has || peerHas) && (end == Any || r.Counters != nil && r.PeerCounters != nil)
		},
		Absent: func(r *report.Record) string {
			have := slices.Concat(slices.Sorted(maps.Keys(r.Counters)), slices.Sorted(maps.Keys(r.PeerCounters)), slices.Sorted(maps.Keys(r.Extra)))
			slices.Sort(have)
			have = slices.Compact(have)
			_, here := counted(name, r.Counters)
			_, there := counted(name, r.PeerCounters)
			switch {
			case len(have) == 0:
				return "the device reported no counters"
			case here && end != "peer":
				return "the other end reported no counters: use local." + name + " alone, or counters of both ends"
			case there && end != "local":
				return "this end reported no counters: use peer." + name + " alone, or counters of both ends"
			}
			return "the device has no such counter" + plain.When(!slices.Contains(CounterNames(), name), "%s; it has %v", plain.Suggest(name, have), have)
		},
	}
}

// counted is a counter of one end, by its own name or by what the device calls it.
func counted(name string, counters map[string]int64) (float64, bool) {
	if v, ok := counters[name]; ok {
		return float64(v), true
	}
	return sameCounter(name, counters)
}

// sameCounter finds what devices call a thing otherwise: the first set of which the device has any is summed. (mlx5, rxe
// and irdma count causes of retransmission; bnxt_re, efa and our own device count what was sent again.)
func sameCounter(name string, counters map[string]int64) (float64, bool) {
	sets := map[string][][]string{
		"retransmits": {
			{"resent_pkts"},
			{"retrans_pkts"},
			{"to_retransmits", "seq_err_naks_rcvd"},
			{"tcpRetransSegs", "RetransSegs"},
			{"local_ack_timeout_err", "packet_seq_err", "implied_nak_seq_err"},
			{"completer_retry_err"},
		},
		"out_of_sequence": {{"out_of_seq_request"}, {"rx_out_of_order"}, {"rcvd_seq_err"}},
		"rnr_naks":        {{"rnr_nak_retry_err"}, {"rcvd_rnr_err"}, {"rnr_naks_rcvd"}},
		"timeouts":        {{"local_ack_timeout_err"}, {"retrans_timeout_events"}, {"to_retransmits"}},
		"cnps":            {{"np_cnp_sent", "rp_cnp_handled"}, {"cnpSent", "cnpHandled"}, {"rx_cnp_pkts", "tx_cnp_pkts"}},
		"ecn_marked":      {{"np_ecn_marked_roce_packets"}, {"RxECNMrkd"}, {"rx_ecn_marked_pkts"}},
		"discards":        {{"port_rcv_discards", "port_xmit_discards"}, {"rx_roce_discards"}, {"out_of_buffer"}},
		"symbol_errors":   {{"symbol_error"}},
		"icrc_errors":     {{"icrc_err"}, {"rx_icrc_encapsulated"}},
	}
	for _, set := range sets[name] {
		sum, found := 0.0, false
		for _, c := range set {
			if v, ok := counters[c]; ok {
				sum, found = sum+float64(v), true
			}
		}
		if found {
			return sum, true
		}
	}
	return 0, false
}

// counterMeaning says what a device's error counter counts; "" for counters of traffic and for unknown ones. The names are
// those of the kernel's drivers (mlx5, bnxt_re, irdma, efa, rxe) and of the software device.
func counterMeaning(name string) string {
	switch name {
	case "retransmits", "resent_pkts", "retrans_pkts", "to_retransmits", "RetransSegs", "tcpRetransSegs", "completer_retry_err":
		return "packets were sent again"
	case "out_of_sequence", "out_of_seq_request", "rx_out_of_order":
		return "packets arrived out of order, or one before them was lost"
	case "packet_seq_err", "seq_err_naks_rcvd", "rcvd_seq_err":
		return "the other end missed packets"
	case "implied_nak_seq_err":
		return "answers were missed"
	case "duplicate_request":
		return "requests arrived again: their acknowledgement was lost or late"
	case "local_ack_timeout_err", "retrans_timeout_events":
		return "no acknowledgement came in time"
	case "rnr_nak_retry_err", "rcvd_rnr_err", "rnr_naks_rcvd":
		return "the other end had no receive posted"
	case "send_rnr_err", "out_of_buffer":
		return "messages arrived and no receive was posted"
	case "retry_exceeded_err", "retry_rnr_exceeded_err":
		return "retries were used up"
	case "np_cnp_sent", "rp_cnp_handled", "cnpSent", "cnpHandled", "rx_cnp_pkts", "tx_cnp_pkts":
		return "notifications of congestion"
	case "np_ecn_marked_roce_packets", "RxECNMrkd", "rx_ecn_marked_pkts":
		return "switches marked packets for congestion"
	case "rx_icrc_encapsulated", "icrc_err", "icrc_errors":
		return "packets arrived damaged"
	case "req_cqe_error", "resp_cqe_error":
		return "requests completed with an error"
	case "dropped", "lost", "rx_roce_discards", "port_rcv_discards", "port_xmit_discards":
		return "packets were dropped"
	case "symbol_error", "link_downed", "link_error_recovery":
		return "the link is bad: look at cable and transceiver"
	}
	return ""
}
