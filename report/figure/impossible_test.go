package figure

import (
	"strings"
	"testing"

	"github.com/gobw/gobw/report"
)

// What cannot be true is no figure, whatever else the record holds.
func TestImpossible(t *testing.T) {
	record := func(change func(r *report.Record)) *report.Record {
		r := &report.Record{
			Plan:     report.Plan{Kind: "bandwidth", Transport: "RC", SizeBytes: 1000},
			Messages: 1000, Bytes: 1_000_000, Seconds: 0.001, MessagesPerS: 1e6,
			Bandwidth:    report.Bandwidth{AverageBitsPerS: 8e9},
			Counters:     map[string]int64{"port_rcv_discards": 0, "port_xmit_discards": 3},
			PeerCounters: map[string]int64{"resent_pkts": 0},
		}
		change(r)
		return r
	}
	nothing := func(*report.Record) {}
	// the sum of two ends that did not overlap
	both := func(r *report.Record) { r.Bandwidth.AverageBitsPerS, r.MessagesPerS = 16e9, 2e6 }
	reset := func(r *report.Record) { r.Counters["port_xmit_discards"] = -4000 }
	full := func(r *report.Record) { r.Counters["port_xmit_discards"] = report.CounterFull }
	noted := func(r *report.Record) { r.Warnings = []string{Impossible + ": pack is faster than contiguous"} }
	discards := CounterOf(Any, "discards")
	for _, tt := range []struct {
		name   string
		figure Figure
		change func(r *report.Record)
		why    string // empty: it is a figure
	}{
		{"bw", Of("bw"), nothing, ""},
		{"rounded", Of("bw"), func(r *report.Record) { r.Seconds = 0.00102 }, ""},
		{"bw", Of("bw"), both, "the bandwidth is 16.00 Gb/s, but 1000000 bytes in 1.00 ms are 8.00 Gb/s"},
		{
			"msgrate", Of("msgrate"), func(r *report.Record) { r.MessagesPerS = 2e6 },
			"the rate is 2.00 Mmsg/s, but 1000 messages in",
		},
		{"messages", Of("messages"), both, ""},
		{"bw of a grid", Of("bw"), noted, "pack is faster than contiguous"},
		{"discards", discards, nothing, ""},
		{"discards", discards, reset, "port_xmit_discards fell by 4000 during the test: something reset it"},
		{"discards", discards, full, "port_xmit_discards is at the highest value"},
		{"discards of a noted record", discards, noted, ""},
		{"local.discards", CounterOf("local", "discards"), reset, "fell by 4000"},
		{"peer.retransmits", CounterOf("peer", "retransmits"), reset, ""},
		{"bw", Of("bw"), reset, ""},
	} {
		r := record(tt.change)
		_, missing := tt.figure.Get(r)
		if !strings.HasPrefix(missing, tt.why) && !strings.Contains(missing, tt.why) || (tt.why == "") != (missing == "") {
			t.Errorf("%s: got %q, want %q", tt.name, missing, tt.why)
		}
		_, err := tt.figure.Over(Row{Runs: []*report.Record{record(nothing), r, record(nothing)}})
		if (err != nil) != (tt.why != "") {
			t.Errorf("%s over three runs, one of which cannot be true: %v", tt.name, err)
		}
	}
	for _, change := range []func(*report.Record){reset, full} {
		got := Conditions{Counters: record(change).Counters}.Warnings()
		if len(got) != 1 || !strings.HasPrefix(got[0], "impossible: port_xmit_discards ") {
			t.Errorf("got notes %q", got)
		}
	}
}
