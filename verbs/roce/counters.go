package roce

import (
	"fmt"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/rc"
)

// counts are the device's counters.
type counts struct {
	receivedPackets, receivedBytes, acks uint64
	receives, emptyReceives              uint64 // calls of the kernel

	malformed, unknownQP, wrongPath, badPKeys, badICRCs, qkeyViolations uint64

	rc.Counts
}

// Counters counts errors and traffic since the device was opened; names follow the kernel's hw_counters where they have an equal.
func (d *device) Counters(port int) (map[string]uint64, error) {
	e := d.e
	if port != 1 {
		return nil, e.fail("read counters", 0, fmt.Errorf("port %d: this device has one, 1", port))
	}
	e.lock()
	defer e.unlock()
	if d.Closed() {
		return nil, e.fail("read counters", 0, verbs.ErrClosed)
	}
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
		"send_calls": sent.Calls, "sent_datagrams": sent.Datagrams, "receive_calls": c.receives, "empty_receive_calls": c.emptyReceives, "sent_acks": c.acks,
		"send_err":              sent.Errors,
		"malformed":             c.malformed,
		"unknown_qp":            c.unknownQP,
		"wrong_path":            c.wrongPath,
		"bad_pkey":              c.badPKeys,
		"icrc_err":              c.badICRCs,
		"qkey_viol":             c.qkeyViolations,
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
	}, nil
}
