package roce

import "github.com/gobw/gobw/verbs/roce/rc"

// counts are the device's counters.
type counts struct {
	receivedPackets, receivedBytes, acks uint64
	receives, emptyReceives              uint64 // calls of the kernel

	malformed, unknownQP, wrongPath, badPKeys, badICRCs, qkeyViolations, shortReceives uint64

	rc.Counts
}

// Counters counts errors and traffic since the device was opened; names follow the kernel's
// hw_counters where they have an equal.
func (d *device) Counters(port int) (all map[string]uint64, err error) {
	const verb = "read counters"
	if err := d.checkPort(verb, port); err != nil {
		return nil, err
	}
	err = d.locked(verb, func() error {
		all = d.e.counters()
		return nil
	})
	return all, err
}

func (e *engine) counters() map[string]uint64 {
	c, sent := &e.count, &e.out.Sent
	var omitted, dropped uint64
	if e.out.Capture != nil {
		omitted = e.out.Capture.Omitted
	}
	if e.network != nil {
		dropped = e.network.Dropped
	}
	return map[string]uint64{
		"sent_pkts": sent.Packets, "sent_bytes": sent.Bytes, "rcvd_pkts": c.receivedPackets, "rcvd_bytes": c.receivedBytes,
		"send_calls": sent.Calls, "sent_datagrams": sent.Datagrams, "receive_calls": c.receives,
		"empty_receive_calls": c.emptyReceives, "sent_acks": c.acks,
		"send_err":              sent.Errors,
		"unsegmented_sends":     sent.Uncut,
		"malformed":             c.malformed,
		"unknown_qp":            c.unknownQP,
		"wrong_path":            c.wrongPath,
		"bad_pkey":              c.badPKeys,
		"icrc_err":              c.badICRCs,
		"qkey_viol":             c.qkeyViolations,
		"short_receives":        c.shortReceives,
		"out_of_sequence":       c.OutOfSequence,
		"duplicate_request":     c.DuplicateRequests,
		"send_rnr_err":          c.RNRNAKsSent,
		"rnr_nak_retry_err":     c.RNRNAKsReceived,
		"packet_seq_err":        c.SequenceNAKsReceived,
		"implied_nak_seq_err":   c.ImpliedNAKs,
		"stray_responses":       c.StrayResponses,
		"resent_pkts":           c.ResentPackets,
		"probes":                c.Probes,
		"local_ack_timeout_err": c.Timeouts,
		"retry_exceeded_err":    c.RetriesExceeded,
		"pcap_omitted":          omitted,
		"emulated_queue_drops":  dropped,
	}
}
