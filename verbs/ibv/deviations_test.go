//go:build linux && cgo

package ibv

import (
	"fmt"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/verbstest"
)

// softRoCE is the table of the kernel's rdma_rxe, Linux 6.1, as captured (testdata of verbs/roce) and read.
func softRoCE() verbstest.Deviations {
	capture := func(name string) string { return fmt.Sprintf("verbs/roce/testdata/%s.pcap and its README", name) }
	const driver = "drivers/infiniband/sw/rxe, Linux 6.1"
	return verbstest.Deviations{
		{
			Case: verbstest.ShortReceiveAtReceiver, Status: verbs.LocalQPOperationError,
			Reason: "rxe takes a full receive for a malformed one",
			Source: capture("rc_err_send_len"),
		},
		{
			Case: verbstest.ShortReceiveAtSender, Status: verbs.RemoteOperationError,
			Reason: "rxe answers a short receive with NAK 0x63",
			Source: capture("rc_err_send_len"),
		},
		{
			Case: verbstest.ShortReceiveUC, Status: verbs.LocalQPOperationError,
			Reason: "as for RC",
			Source: driver + "/rxe_resp.c",
		},
		{
			Case: verbstest.ShortReceiveUD, Status: verbs.LocalQPOperationError,
			Reason: "as for RC",
			Source: capture("ud_send_edge"),
		},
		{
			Case: verbstest.InvalidateRefused, Status: verbs.LocalQPOperationError,
			Reason: "rxe has one status for local requests that fail",
			Source: driver + "/rxe_req.c (rxe_do_local_ops)",
		},
		{
			Case: verbstest.RefusedImmediate, Status: verbs.RemoteAccessError,
			Reason: "rxe tells both ends the same",
			Source: driver + "/rxe_resp.c (do_class_ac_error)",
		},
		{
			Case: verbstest.AtomicLength, Ignored: true,
			Reason: "rxe takes a longer list, and uses 8 bytes of it",
			Source: driver + "/rxe_verbs.c (validate_send_wr)",
		},
		{Case: verbstest.CommEstablished, Ignored: true, Reason: "rxe never raises it", Source: driver + "/rxe_resp.c"},
		{
			Case: verbstest.SharedReceiveDomain, Ignored: true,
			Reason: "receives are checked against the queue pair's domain",
			Source: driver + "/rxe_resp.c (copy_data)",
		},
		{
			Case: verbstest.BadLKeySend, Status: verbs.LocalQPOperationError,
			Reason: "rxe fails the packet, not the protection check",
			Source: driver + "/rxe_req.c",
		},
		{
			Case: verbstest.BadReceiveAtReceiver, Status: verbs.LocalQPOperationError,
			Reason: "a malformed receive is LOC_QP_OP",
			Source: driver + "/rxe_resp.c",
		},
		{
			Case: verbstest.TooLongUD, Status: verbs.Success,
			Reason: "completes, and nothing is sent",
			Source: capture("ud_send_edge"),
		},
		{
			Case: verbstest.RetrySevenEnds, Ignored: true,
			Reason: "a retry count of 7 is for ever",
			Source: capture("edge_req"),
		},
		{
			Case: verbstest.InvalidatePlainRegion, Ignored: true,
			Reason: "the packet is acknowledged; the receive fails with REM_INV_REQ",
			Source: capture("edge_resp_d"),
		},
		{
			Case: verbstest.UnsignaledHoldSlots, Ignored: true,
			Reason: "the kernel frees a slot when its request is done, signaled or not",
			Source: driver + "/rxe_comp.c",
		},
		{
			Case: verbstest.PostAfterErrorFlushes, Ignored: true,
			Reason: "posting a receive makes no system call: it flushes when something else wakes the queue pair",
			Source: driver + "/rxe_resp.c",
		},
		{
			Case: verbstest.LocalWriteRequired, Ignored: true,
			Reason: "checked by the kernel's core in some versions only",
			Source: "drivers/infiniband/core/uverbs_cmd.c",
		},
		{
			Case: verbstest.ResetEmpties, Ignored: true,
			Reason: "completions stay in the queue",
			Source: driver + "/rxe_qp.c (rxe_qp_reset)",
		},
		{
			Case: verbstest.DrainedQueueResumes, Ignored: true,
			Reason: "not verified: rxe 6.1 may lose the wake-up",
			Source: driver + "/rxe_qp.c",
		},
		{
			Case: verbstest.WindowRange, Status: verbs.Success,
			Reason: "the responder checks the range of the window's region, not the window's",
			Source: driver + "/rxe_resp.c (check_rkey)",
		},
		{
			Case: verbstest.InvalidatedKeyTold, Ignored: true,
			Reason: "the flag is the kernel's bit 2, where libibverbs has bit 3",
			Source: "include/rdma/ib_verbs.h (IB_WC_WITH_INVALIDATE) and libibverbs/verbs.h (IBV_WC_WITH_INV)",
		},
		{
			Case: verbstest.GRHChecksum, Ignored: true,
			Reason: "packets to the same device skip the IP layer, which would fill it in",
			Source: driver + "/rxe_net.c (rxe_loopback)",
		},
		{
			Case: verbstest.ReadsServedKept, Ignored: true,
			Reason: "rounded up to a power of two",
			Source: driver + "/rxe_qp.c",
		},
		{
			Case: verbstest.MulticastDelivered, Ignored: true,
			Reason: "not verified: rxe takes the group's MAC address alone, and has its packets from the IP layer only where " +
				"the host joined the group",
			Source: driver + "/rxe_mcast.c (rxe_mcast_add)",
		},
		{
			Case: verbstest.HopLimitKept, Ignored: true,
			Reason: "the kernel's core puts the route's in its place",
			Source: "drivers/infiniband/core/verbs.c (ib_resolve_unicast_gid_dmac)",
		},
		{
			Case: verbstest.InvalidateForeign, Status: verbs.Success,
			Reason: "rxe does not look whose window it is",
			Source: driver + "/rxe_mw.c (rxe_check_invalidate_mw)",
		},
		{
			Case: verbstest.DrainedEvent, Ignored: true,
			Reason: "raised only while a message is in progress",
			Source: driver + "/rxe_comp.c",
		},
	}
}

// softIWARP is the table of the kernel's siw, Linux 6.1, with rdma-core's libsiw.
func softIWARP() verbstest.Deviations {
	const (
		driver  = "drivers/infiniband/sw/siw, Linux 6.1: "
		library = "rdma-core's providers/siw/siw.c: "
		early   = "a request is complete when TCP has taken it; the peer's Terminate comes later and ends the connection"
	)
	return verbstest.Deviations{
		{
			Case: verbstest.HasUnconnected, Refused: true,
			Reason: "RDMAP runs over a connection",
			Source: "RFC 5040, 2; " + driver + "siw_create_qp",
		},
		{
			Case: verbstest.HasImmediate, Refused: true,
			Reason: "RDMAP has no such message before RFC 7306",
			Source: "RFC 5040, 4.3; " + library + "map_send_opcode",
		},
		{
			Case: verbstest.HasAtomics, Refused: true,
			Reason: "RDMAP has no such message before RFC 7306",
			Source: "RFC 5040, 4.3; " + library + "map_send_opcode",
		},
		{
			Case: verbstest.HasPKeys, Refused: true,
			Reason: "partitions are InfiniBand's",
			Source: driver + "siw_query_port",
		},
		{
			Case: verbstest.HasEmptyLists, Refused: true,
			Reason: "the library wants an entry, which may have no bytes",
			Source: library + "push_recv_wqe",
		},
		{
			Case: verbstest.ConnectsByHand, Refused: true,
			Reason: "RDMA CM brings the TCP connection",
			Source: "RFC 5044, 7; " + driver + "siw_qp_nextstate_from_idle",
		},
		{
			Case: verbstest.RefusedByPeer, Status: verbs.Success,
			Reason: early,
			Source: "RFC 5040, 5.3; " + driver + "siw_qp_tx.c",
		},
		{
			Case: verbstest.RefusedReadByPeer, Status: verbs.FlushError,
			Reason: "the Terminate ends the connection, which flushes it",
			Source: driver + "siw_sq_flush",
		},
		{
			Case: verbstest.ReadRights, Status: verbs.Success,
			Reason: "the memory of a READ's answer is looked up without rights",
			Source: driver + "siw_qp_tx.c (siw_qp_sq_proc_tx)",
		},
		{
			Case: verbstest.OrderBehindRead, Ignored: true,
			Reason: "a READ completes with its answer, what follows it when TCP has taken it",
			Source: driver + "siw_qp_rx.c (siw_proc_rresp)",
		},
		{
			Case: verbstest.DeadPeer, Ignored: true,
			Reason: "what is posted after the connection has ended never completes",
			Source: driver + "siw_post_send",
		},
		{
			Case: verbstest.NoReadResources, Status: verbs.Success,
			Reason: "RDMA CM negotiates at least one",
			Source: driver + "siw_cm.c (siw_accept)",
		},
		{
			Case: verbstest.BadLKeySend, Status: verbs.LocalQPOperationError,
			Reason: "siw has one status for what fails before it is sent",
			Source: driver + "siw_qp_tx.c (siw_qp_sq_process)",
		},
		{
			Case: verbstest.WrongRangeSend, Status: verbs.LocalQPOperationError,
			Reason: "siw has one status for what fails before it is sent",
			Source: driver + "siw_qp_tx.c (siw_qp_sq_process)",
		},
		{Case: verbstest.SharedReceiveDomain, Ignored: true, Reason: "not verified", Source: driver + "siw_rx_umem"},
		{
			Case: verbstest.CommEstablished, Ignored: true,
			Reason: "RDMA CM leaves no queue pair in RTR",
			Source: driver + "siw_cm.c",
		},
		{
			Case: verbstest.BadReceiveAtReceiver, Status: verbs.GeneralError,
			Reason: "siw has one status for what fails in placing a message",
			Source: driver + "siw_qp_rx.c (siw_rdmap_complete)",
		},
		{
			Case: verbstest.ReceiverNotReady, Status: verbs.Success,
			Reason: "there is no RNR NAK: " + early,
			Source: "RFC 5041, 7.1; " + driver + "siw_rqe_get",
		},
		{
			Case: verbstest.ErrorStateTold, Ignored: true,
			Reason: "the driver leaves the state out of its answer",
			Source: driver + "siw_query_qp",
		},
		{
			Case: verbstest.SolicitedDelivered, Ignored: true,
			Reason: "a receive is announced as signaled, never as solicited",
			Source: driver + "siw_rqe_complete",
		},
		{
			Case: verbstest.OverfullListTold, Ignored: true,
			Reason: "the error of the full queue is lost behind the doorbell's",
			Source: library + "siw_post_send",
		},
		{
			Case: verbstest.UnsignaledHoldSlots, Ignored: true,
			Reason: "the kernel frees a slot when it takes the request",
			Source: driver + "siw_activate_tx_from_sq",
		},
		{
			Case: verbstest.ManyQueuePairs, Ignored: true,
			Reason: "not verified: of 128 completion queues of 512 entries the library does not make all, and tells no reason",
			Source: "seen; " + library + "siw_create_cq",
		},
		{Case: verbstest.RetrySevenEnds, Ignored: true, Reason: "TCP retries", Source: "RFC 5044"},
		{
			Case: verbstest.InvalidatePlainRegion, Status: verbs.Success,
			Reason: early,
			Source: driver + "siw_invalidate_stag",
		},
	}
}
