package drive

import (
	"math"

	"github.com/gobw/gobw/report"
)

// narrow is the width in bits of a port's counter that stops at its highest value (InfiniBand specification 16.1.3.5,
// PortCounters); false: any other counter, which wraps at 32 or 64 bits.
func narrow(counter string) (bits int, is bool) {
	bits, is = map[string]int{
		"symbol_error": 16, "port_rcv_errors": 16, "port_rcv_remote_physical_errors": 16, "port_rcv_switch_relay_errors": 16,
		"port_xmit_discards": 16, "VL15_dropped": 16, "link_error_recovery": 8, "link_downed": 8,
		"port_xmit_constraint_errors": 8,
		"port_rcv_constraint_errors":  8, "local_link_integrity_errors": 4, "excessive_buffer_overrun_errors": 4,
	}[counter]
	return bits, is
}

// Changes are those of the counters of some devices, added up; nil: there are none. A change below 0
// is unknown: the counter was at its highest value ([report.CounterFull]), or something reset it.
func Changes(before, after []map[string]uint64) map[string]int64 {
	var out map[string]int64
	for i := range min(len(before), len(after)) {
		changes := map[string]int64{}
		for name, v := range after[i] {
			// A change of 0 stays in the map: it meets "retransmits == 0". A missing counter does not.
			changes[name] = change(name, before[i][name], v)
		}
		out = addChanges(out, changes)
	}
	return out
}

// addChanges adds changes to others. A sum with an unknown change is unknown.
func addChanges(all, more map[string]int64) map[string]int64 {
	if all == nil && more != nil {
		all = map[string]int64{}
	}
	for name, v := range more {
		if was := all[name]; was < 0 || v < 0 {
			all[name] = min(was, v)
		} else {
			all[name] = was + v
		}
	}
	return all
}

// change is that of one counter. One that fell from the highest quarter of its width to the lowest has wrapped.
func change(name string, before, after uint64) int64 {
	bits, stops := narrow(name)
	if stops && after == 1<<bits-1 && before == after {
		return report.CounterFull
	}
	if !stops {
		bits = 32
	}
	highest := uint64(1) << bits
	if wrapped := before < highest && before >= highest/4*3 && after < highest/4; after < before && wrapped {
		return int64(highest - before + after)
	}
	if before > math.MaxUint64/4*3 && after < math.MaxUint64/4 {
		return int64(after - before)
	}
	return int64(after) - int64(before)
}
