package roce

import (
	"fmt"

	"github.com/gobw/gobw/verbs"
)

// counts are the device's counters.
type counts struct {
	receivedPackets, receivedBytes, acks uint64
	receives, emptyReceives              uint64 // calls of the kernel

	malformed, unknownQP, wrongPath, badPKeys, badICRCs, qkeyViolations uint64

	protocolCounts
}

// protocolCounts are what requesters and responders count.
type protocolCounts struct {
	outOfSequence, duplicateRequests, rnrNAKsSent      uint64
	rnrNAKsReceived, sequenceNAKsReceived, impliedNAKs uint64
	strayResponses, resentPackets, probes              uint64
	timeouts, retriesExceeded                          uint64
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
		"out_of_sequence":       c.outOfSequence,
		"duplicate_request":     c.duplicateRequests,
		"send_rnr_err":          c.rnrNAKsSent,
		"rnr_nak_retry_err":     c.rnrNAKsReceived,
		"packet_seq_err":        c.sequenceNAKsReceived,
		"implied_nak_seq_err":   c.impliedNAKs,
		"stray_responses":       c.strayResponses,
		"resent_pkts":           c.resentPackets,
		"probes":                c.probes,
		"local_ack_timeout_err": c.timeouts,
		"retry_exceeded_err":    c.retriesExceeded,
		"pcap_omitted":          omitted,
		"emulated_queue_drops":  dropped,
	}, nil
}
