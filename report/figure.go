package report

import (
	"fmt"
	"slices"
	"strconv"
)

// dimension is what a figure is measured in, as powers of bit and second.
type dimension struct{ bits, seconds int }

func (d dimension) String() string {
	switch d {
	case dimension{}:
		return "a plain number"
	case dimension{1, -1}:
		return "a bandwidth (as 10 Gb/s)"
	case dimension{0, 1}:
		return "a time (as 3 us)"
	case dimension{0, -1}:
		return "a rate (as 2 Mmsg/s)"
	case dimension{1, 0}:
		return "a size (as 64 KiB)"
	}
	return fmt.Sprintf("bits^%d s^%d", d.bits, d.seconds)
}

// direction says which way a figure is better.
type direction int8

const (
	neither      direction = 0
	higherIsGood direction = 1
	lowerIsGood  direction = -1
)

// figureDefinition is one figure of a record: how to name, read and judge it. Values are in bits, seconds and counts.
type figureDefinition struct {
	name      string
	aliases   []string
	dimension dimension
	direction direction
	unit      string  // for tables
	scale     float64 // from base units to unit
	get       func(r *Record) (float64, bool)
	// absent says why a record has no such figure.
	absent func(r *Record) string
}

func figureDefinitions() []figureDefinition {
	bandwidth, duration, rate := dimension{1, -1}, dimension{0, 1}, dimension{0, -1}
	onlyBandwidth := func(*Record) string { return "a latency test has none: it sends one message at a time" }
	inBandwidth := func(f func(*Record) (float64, bool)) func(*Record) (float64, bool) {
		return func(r *Record) (float64, bool) {
			if r.Kind == "latency" {
				return 0, false
			}
			return f(r)
		}
	}
	latency := func(name string, share float64, f func(*Latency) *float64, aliases ...string) figureDefinition {
		return figureDefinition{
			name: name, aliases: aliases, dimension: duration, direction: lowerIsGood, unit: "us", scale: 1e6,
			get: func(r *Record) (float64, bool) {
				if r.Latency == nil || r.Latency.Samples == 0 {
					return 0, false
				}
				v := f(r.Latency)
				if v == nil {
					return 0, false
				}
				return *v / 1e9, true
			},
			absent: func(r *Record) string {
				switch {
				case r.Latency == nil || r.Latency.Samples == 0:
					return "the test took no time samples"
				case share > 0 && !Supported(share, r.Latency.Samples):
					return fmt.Sprintf("%d samples do not support it, %.0f are needed (raise -n or -D)", r.Latency.Samples, 10/(1-share))
				}
				return "the record holds no " + name
			},
		}
	}
	return []figureDefinition{
		{name: "bw", aliases: []string{"bandwidth"}, dimension: bandwidth, direction: higherIsGood, unit: "Gb/s", scale: 1e-9, get: inBandwidth(averageBits), absent: onlyBandwidth},
		{name: "peak", dimension: bandwidth, direction: higherIsGood, unit: "Gb/s", scale: 1e-9, get: inBandwidth(peakBits), absent: func(r *Record) string {
			if r.Kind == "latency" {
				return onlyBandwidth(r)
			}
			return "the peak was not measured (it is not with -N or -D)"
		}},
		{name: "lowest", dimension: bandwidth, direction: higherIsGood, unit: "Gb/s", scale: 1e-9, get: lowestInterval, absent: func(*Record) string {
			return "the test kept no time series, or was too short for one"
		}},
		{name: "msgrate", aliases: []string{"rate"}, dimension: rate, direction: higherIsGood, unit: "Mmsg/s", scale: 1e-6, get: messageRate, absent: func(*Record) string { return "the message rate was not measured" }},
		latency("min", 0, func(l *Latency) *float64 { return &l.MinNs }),
		latency("p50", 0, func(l *Latency) *float64 { return &l.P50Ns }, "median", "typical"),
		latency("p90", 0.9, func(l *Latency) *float64 { return l.P90Ns }),
		latency("p99", 0.99, func(l *Latency) *float64 { return l.P99Ns }),
		latency("p99.9", 0.999, func(l *Latency) *float64 { return l.P999Ns }, "p999"),
		latency("p99.99", 0.9999, func(l *Latency) *float64 { return l.P9999Ns }, "p9999"),
		latency("max", 0, func(l *Latency) *float64 { return &l.MaxNs }),
		latency("mean", 0, func(l *Latency) *float64 { return &l.MeanNs }),
		latency("stdev", 0, func(l *Latency) *float64 { return &l.StdevNs }),
		{name: "delivered", direction: higherIsGood, unit: "%", scale: 100, get: delivered, absent: func(r *Record) string {
			return r.Transport + " delivers every message or fails; the share is counted for UC and UD"
		}},
		{name: "messages", unit: "", scale: 1, get: func(r *Record) (float64, bool) { return float64(r.Messages), true }},
		{name: "samples", unit: "", scale: 1, get: func(r *Record) (float64, bool) {
			if r.Latency == nil {
				return 0, false
			}
			return float64(r.Latency.Samples), true
		}, absent: func(*Record) string { return "the test took no time samples" }},
		{name: "seconds", dimension: duration, unit: "s", scale: 1, get: func(r *Record) (float64, bool) { return r.Seconds, true }},
		{name: "size", dimension: dimension{1, 0}, unit: "B", scale: 1.0 / 8, get: func(r *Record) (float64, bool) { return 8 * float64(r.SizeBytes), true }},
		{name: "qps", unit: "", scale: 1, get: func(r *Record) (float64, bool) { return float64(r.QPs), true }},
		{name: "cpu", direction: lowerIsGood, unit: "%", scale: 100, get: func(r *Record) (float64, bool) {
			if r.CPU == nil || r.CPU.SystemUtilization == 0 {
				return 0, false
			}
			return r.CPU.SystemUtilization, true
		}, absent: func(*Record) string { return "CPU use was not measured (--cpu)" }},
	}
}

// lowestInterval is the lowest rate of a time series, its first and last interval left out, which are partial.
func lowestInterval(r *Record) (float64, bool) {
	s := r.Rates()
	if s == nil || len(s.Bytes) < 3 {
		return 0, false
	}
	return 8 * slices.Min(s.Bytes[1:len(s.Bytes)-1]) / s.IntervalS, true
}

// figureNamed finds a figure; a word that is none may be a counter or an extra figure of the record.
func figureNamed(name string) (figureDefinition, bool) {
	for _, f := range figureDefinitions() {
		if f.name == name || slices.Contains(f.aliases, name) {
			return f, true
		}
	}
	return figureDefinition{}, false
}

// counterNames are words for device error counters that expectations may use before any device is asked.
func counterNames() []string {
	return []string{
		"retransmits", "out_of_sequence", "rnr_naks", "timeouts", "cnps", "ecn_marked", "discards", "symbol_errors",
		"local_ack_timeout_err", "packet_seq_err", "out_of_buffer", "rnr_nak_retry_err", "np_cnp_sent", "rp_cnp_handled",
		"duplicate_request", "implied_nak_seq_err", "icrc_errors", "lost",
	}
}

// counterFigure reads a device counter or an extra figure by name.
func counterFigure(name string) figureDefinition {
	return figureDefinition{
		name: name, direction: lowerIsGood, scale: 1,
		get: func(r *Record) (float64, bool) {
			if v, ok := r.Counters[name]; ok {
				return float64(v), true
			}
			if v, ok := r.Extra[name]; ok {
				return v, true
			}
			return sameCounter(name, r.Counters)
		},
		absent: func(r *Record) string {
			have := slices.Concat(slices.Sorted(keys(r.Counters)), slices.Sorted(keys(r.Extra)))
			if len(have) == 0 {
				return "the device reported no counters"
			}
			return fmt.Sprintf("the device has no such counter%s; it has %v", suggest(name, have), have)
		},
	}
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
// those of the kernel's drivers (mlx5, bnxt_re, irdma, efa, rxe) and of the embedded device.
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

// figureWords are all words that name a figure.
func figureWords() []string {
	var out []string
	for _, f := range figureDefinitions() {
		out = append(append(out, f.name), f.aliases...)
	}
	return append(out, counterNames()...)
}

// inUnit writes a value of the figure for people, with its unit.
func (f figureDefinition) inUnit(v float64) string {
	s := number(v * f.scale)
	if f.scale == 1 && v == float64(int64(v)) {
		s = strconv.FormatInt(int64(v), 10)
	}
	if f.unit == "" {
		return s
	}
	return s + " " + f.unit
}
