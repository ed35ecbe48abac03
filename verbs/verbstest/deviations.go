package verbstest

import (
	"fmt"
	"testing"

	"github.com/gobw/gobw/verbs"
)

// Case names one expectation that a provider may deviate from.
type Case string

// Expectations, each with the outcome that the suite takes for granted.
const (
	ShortReceiveAtReceiver Case = "short receive, at the receiver"                          // LOC_LEN_ERR
	ShortReceiveAtSender   Case = "short receive, at the sender"                            // REM_INV_REQ_ERR
	ShortReceiveUC         Case = "short receive on UC"                                     // LOC_LEN_ERR
	ShortReceiveUD         Case = "short receive on UD"                                     // dropped, the receive is left
	BadLKeySend            Case = "bad lkey in a send"                                      // LOC_PROT_ERR
	BadReceiveAtReceiver   Case = "bad lkey in a receive, at the receiver"                  // LOC_PROT_ERR
	NoReadResources        Case = "READ from a peer that serves none"                       // REM_INV_REQ_ERR
	TooLongUD              Case = "UD message above the MTU"                                // refused by PostSend, or LOC_LEN_ERR
	RetrySevenEnds         Case = "retry count 7 is seven"                                  // RETRY_EXC_ERR
	InvalidatePlainRegion  Case = "SEND_WITH_INV of an ordinary region"                     // RETRY_EXC_ERR, or REM_ACCESS_ERR, at the sender
	InvalidateRefused      Case = "LOCAL_INV of what is no window of the queue pair"        // MW_BIND_ERR
	RefusedImmediate       Case = "receive of a WRITE with immediate that is refused"       // LOC_ACCESS_ERR
	AtomicLength           Case = "atomic by a list of 9 bytes"                             // refused by PostSend, or LOC_LEN_ERR
	CommEstablished        Case = "COMM_EST event"                                          // in RTR, by the first message
	SharedReceiveDomain    Case = "memory of a shared receive"                              // of the shared queue's domain
	UnsignaledHoldSlots    Case = "unsignaled requests hold their slots"                    // ErrQueueFull
	PostAfterErrorFlushes  Case = "requests posted in ERR flush at once"                    // WR_FLUSH_ERR
	DrainedQueueResumes    Case = "a drained send queue resumes"                            // works
	DrainedEvent           Case = "SQ_DRAINED event"                                        // delivered
	LocalWriteRequired     Case = "REMOTE_WRITE needs LOCAL_WRITE"                          // registration refused
	WindowRange            Case = "access outside a window, inside its region"              // REM_ACCESS_ERR
	InvalidatedKeyTold     Case = "the receive tells the invalidated key"                   // flag and key
	GRHChecksum            Case = "checksum of the IPv4 header before a UD message"         // right
	MulticastDelivered     Case = "messages to a multicast group"                           // a copy to each queue pair attached
	ReadsServedKept        Case = "READs served at once, read back"                         // as set
	WrongRangeSend         Case = "send of memory outside its region"                       // LOC_PROT_ERR
	RefusedByPeer          Case = "WRITE or SEND that the peer refuses"                     // REM_ACCESS_ERR, REM_INV_REQ_ERR, REM_OP_ERR
	RefusedReadByPeer      Case = "READ that the peer refuses"                              // REM_ACCESS_ERR, REM_INV_REQ_ERR
	ReadRights             Case = "READ of memory, or by a queue pair, without REMOTE_READ" // REM_ACCESS_ERR, REM_INV_REQ_ERR
	OrderBehindRead        Case = "completions of READs and of what follows them"           // in the order of posting
	DeadPeer               Case = "WRITE to a queue pair in ERR"                            // RETRY_EXC_ERR
	ReceiverNotReady       Case = "SEND that finds no receive"                              // waits, and RNR_RETRY_EXC_ERR at the end
	ErrorStateTold         Case = "the state of a queue pair that has failed"               // ERR
	SolicitedDelivered     Case = "armed for solicited, a solicited message"                // an event
	OverfullListTold       Case = "list of sends longer than the queue"                     // ErrQueueFull
	ManyQueuePairs         Case = "many queue pairs at once"                                // work

	// What a device may lack: with a row that says Refused, the suite leaves it out where it would be used, and checks once
	// that it is refused.
	HasUnconnected Case = "UC and UD queue pairs"
	HasImmediate   Case = "immediate data"
	HasAtomics     Case = "atomics"
	HasPKeys       Case = "table of P_Keys"
	HasEmptyLists  Case = "receives without memory"
	ConnectsByHand Case = "queue pairs connected by what the ends are told"
)

// Deviation is one reviewed difference of a provider.
type Deviation struct {
	Case   Case
	Reason string // why it differs, in a sentence
	Source string // where that can be looked up, or the capture that shows it
	// The other outcome: a completion status; or, with Ignored, nothing to check: the provider makes no promise.
	// Or, with Refused, the device lacks it, and says so.
	Status  verbs.Status
	Ignored bool
	Refused bool
}

// Deviations is a provider's whole table.
type Deviations []Deviation

// check holds every row to having a known case, a reason and a source.
func (d Deviations) check(t testing.TB) {
	t.Helper()
	seen := make(map[Case]Deviation, len(d))
	for _, v := range d {
		if v.Reason == "" || v.Source == "" {
			t.Errorf("deviation %q has no reason or no source", v.Case)
		}
		if _, twice := seen[v.Case]; twice {
			t.Errorf("deviation %q is listed twice", v.Case)
		}
		seen[v.Case] = v
	}
}

func (d Deviations) find(c Case) (Deviation, bool) {
	for _, v := range d {
		if v.Case == c {
			return v, true
		}
	}
	return Deviation{}, false
}

// status is the completion status to expect in a case.
func (d Deviations) status(c Case, usual verbs.Status) verbs.Status {
	if v, ok := d.find(c); ok {
		return v.Status
	}
	return usual
}

// ignored tells whether the provider makes no promise in a case, and says so in the test's log.
func (t *test) ignored(c Case) bool {
	t.Helper()
	v, ok := t.find(c)
	if ok && v.Ignored {
		t.Logf("deviation: %s: %s (%s)", c, v.Reason, v.Source)
		return true
	}
	return false
}

// lacks tells whether a row says that the device has not what a case is about.
func (d Deviations) lacks(c Case) bool {
	v, ok := d.find(c)
	return ok && v.Refused
}

// SoftRoCE is the table of the kernel's rdma_rxe, Linux 6.1, as captured (testdata of verbs/roce) and read.
func SoftRoCE() Deviations {
	capture := func(name string) string { return fmt.Sprintf("verbs/roce/testdata/%s.pcap and its README", name) }
	const driver = "drivers/infiniband/sw/rxe, Linux 6.1"
	return Deviations{
		{Case: ShortReceiveAtReceiver, Status: verbs.LocalQPOperationError, Reason: "rxe takes a full receive for a malformed one", Source: capture("rc_err_send_len")},
		{Case: ShortReceiveAtSender, Status: verbs.RemoteOperationError, Reason: "rxe answers a short receive with NAK 0x63", Source: capture("rc_err_send_len")},
		{Case: ShortReceiveUC, Status: verbs.LocalQPOperationError, Reason: "as for RC", Source: driver + "/rxe_resp.c"},
		{Case: ShortReceiveUD, Status: verbs.LocalQPOperationError, Reason: "as for RC", Source: capture("ud_send_edge")},
		{Case: InvalidateRefused, Status: verbs.LocalQPOperationError, Reason: "rxe has one status for local requests that fail", Source: driver + "/rxe_req.c (rxe_do_local_ops)"},
		{Case: RefusedImmediate, Status: verbs.RemoteAccessError, Reason: "rxe tells both ends the same", Source: driver + "/rxe_resp.c (do_class_ac_error)"},
		{Case: AtomicLength, Ignored: true, Reason: "rxe takes a longer list, and uses 8 bytes of it", Source: driver + "/rxe_verbs.c (validate_send_wr)"},
		{Case: CommEstablished, Ignored: true, Reason: "rxe never raises it", Source: driver + "/rxe_resp.c"},
		{Case: SharedReceiveDomain, Ignored: true, Reason: "receives are checked against the queue pair's domain", Source: driver + "/rxe_resp.c (copy_data)"},
		{Case: BadLKeySend, Status: verbs.LocalQPOperationError, Reason: "rxe fails the packet, not the protection check", Source: driver + "/rxe_req.c"},
		{Case: BadReceiveAtReceiver, Status: verbs.LocalQPOperationError, Reason: "a malformed receive is LOC_QP_OP", Source: driver + "/rxe_resp.c"},
		{Case: TooLongUD, Status: verbs.Success, Reason: "completes, and nothing is sent", Source: capture("ud_send_edge")},
		{Case: RetrySevenEnds, Ignored: true, Reason: "a retry count of 7 is for ever", Source: capture("edge_req")},
		{Case: InvalidatePlainRegion, Ignored: true, Reason: "the packet is acknowledged; the receive fails with REM_INV_REQ", Source: capture("edge_resp_d")},
		{Case: UnsignaledHoldSlots, Ignored: true, Reason: "the kernel frees a slot when its request is done, signaled or not", Source: driver + "/rxe_comp.c"},
		{Case: PostAfterErrorFlushes, Ignored: true, Reason: "posting a receive makes no system call: it flushes when something else wakes the queue pair", Source: driver + "/rxe_resp.c"},
		{Case: LocalWriteRequired, Ignored: true, Reason: "checked by the kernel's core in some versions only", Source: "drivers/infiniband/core/uverbs_cmd.c"},
		{Case: DrainedQueueResumes, Ignored: true, Reason: "not verified: rxe 6.1 may lose the wake-up", Source: driver + "/rxe_qp.c"},
		{Case: WindowRange, Status: verbs.Success, Reason: "the responder checks the range of the window's region, not the window's", Source: driver + "/rxe_resp.c (check_rkey)"},
		{Case: InvalidatedKeyTold, Ignored: true, Reason: "the flag is the kernel's bit 2, where libibverbs has bit 3", Source: "include/rdma/ib_verbs.h (IB_WC_WITH_INVALIDATE) and libibverbs/verbs.h (IBV_WC_WITH_INV)"},
		{Case: GRHChecksum, Ignored: true, Reason: "packets to the same device skip the IP layer, which would fill it in", Source: driver + "/rxe_net.c (rxe_loopback)"},
		{Case: ReadsServedKept, Ignored: true, Reason: "rounded up to a power of two", Source: driver + "/rxe_qp.c"},
		{Case: MulticastDelivered, Ignored: true, Reason: "not verified: rxe takes the group's MAC address alone, and has its packets from the IP layer only where the host joined the group", Source: driver + "/rxe_mcast.c (rxe_mcast_add)"},
		{Case: DrainedEvent, Ignored: true, Reason: "raised only while a message is in progress", Source: driver + "/rxe_comp.c"},
	}
}

// SoftIWARP is the table of the kernel's siw, Linux 6.1, with rdma-core's libsiw.
func SoftIWARP() Deviations {
	const (
		driver  = "drivers/infiniband/sw/siw, Linux 6.1: "
		library = "rdma-core's providers/siw/siw.c: "
		early   = "a request is complete when TCP has taken it; the peer's Terminate comes later and ends the connection"
	)
	return Deviations{
		{Case: HasUnconnected, Refused: true, Reason: "RDMAP runs over a connection", Source: "RFC 5040, 2; " + driver + "siw_create_qp"},
		{Case: HasImmediate, Refused: true, Reason: "RDMAP has no such message before RFC 7306", Source: "RFC 5040, 4.3; " + library + "map_send_opcode"},
		{Case: HasAtomics, Refused: true, Reason: "RDMAP has no such message before RFC 7306", Source: "RFC 5040, 4.3; " + library + "map_send_opcode"},
		{Case: HasPKeys, Refused: true, Reason: "partitions are InfiniBand's", Source: driver + "siw_query_port"},
		{Case: HasEmptyLists, Refused: true, Reason: "the library wants an entry, which may have no bytes", Source: library + "push_recv_wqe"},
		{Case: ConnectsByHand, Refused: true, Reason: "RDMA CM brings the TCP connection", Source: "RFC 5044, 7; " + driver + "siw_qp_nextstate_from_idle"},
		{Case: RefusedByPeer, Status: verbs.Success, Reason: early, Source: "RFC 5040, 5.3; " + driver + "siw_qp_tx.c"},
		{Case: RefusedReadByPeer, Status: verbs.FlushError, Reason: "the Terminate ends the connection, which flushes it", Source: driver + "siw_sq_flush"},
		{Case: ReadRights, Status: verbs.Success, Reason: "the memory of a READ's answer is looked up without rights", Source: driver + "siw_qp_tx.c (siw_qp_sq_proc_tx)"},
		{Case: OrderBehindRead, Ignored: true, Reason: "a READ completes with its answer, what follows it when TCP has taken it", Source: driver + "siw_qp_rx.c (siw_proc_rresp)"},
		{Case: DeadPeer, Ignored: true, Reason: "what is posted after the connection has ended never completes", Source: driver + "siw_post_send"},
		{Case: NoReadResources, Status: verbs.Success, Reason: "RDMA CM negotiates at least one", Source: driver + "siw_cm.c (siw_accept)"},
		{Case: BadLKeySend, Status: verbs.LocalQPOperationError, Reason: "siw has one status for what fails before it is sent", Source: driver + "siw_qp_tx.c (siw_qp_sq_process)"},
		{Case: WrongRangeSend, Status: verbs.LocalQPOperationError, Reason: "siw has one status for what fails before it is sent", Source: driver + "siw_qp_tx.c (siw_qp_sq_process)"},
		{Case: SharedReceiveDomain, Ignored: true, Reason: "not verified", Source: driver + "siw_rx_umem"},
		{Case: CommEstablished, Ignored: true, Reason: "RDMA CM leaves no queue pair in RTR", Source: driver + "siw_cm.c"},
		{Case: BadReceiveAtReceiver, Status: verbs.GeneralError, Reason: "siw has one status for what fails in placing a message", Source: driver + "siw_qp_rx.c (siw_rdmap_complete)"},
		{Case: ReceiverNotReady, Status: verbs.Success, Reason: "there is no RNR NAK: " + early, Source: "RFC 5041, 7.1; " + driver + "siw_rqe_get"},
		{Case: ErrorStateTold, Ignored: true, Reason: "the driver leaves the state out of its answer", Source: driver + "siw_query_qp"},
		{Case: SolicitedDelivered, Ignored: true, Reason: "a receive is announced as signaled, never as solicited", Source: driver + "siw_rqe_complete"},
		{Case: OverfullListTold, Ignored: true, Reason: "the error of the full queue is lost behind the doorbell's", Source: library + "siw_post_send"},
		{Case: UnsignaledHoldSlots, Ignored: true, Reason: "the kernel frees a slot when it takes the request", Source: driver + "siw_activate_tx_from_sq"},
		{Case: ManyQueuePairs, Ignored: true, Reason: "not verified: of 128 completion queues of 512 entries the library does not make all, and tells no reason", Source: "seen; " + library + "siw_create_cq"},
		{Case: RetrySevenEnds, Ignored: true, Reason: "TCP retries", Source: "RFC 5044"},
		{Case: InvalidatePlainRegion, Status: verbs.Success, Reason: early, Source: driver + "siw_invalidate_stag"},
	}
}
