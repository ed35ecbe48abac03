package verbs

import "fmt"

// Status is a completion's status; the numbers are those of ibv_wc_status (IBTA 11.6.2).
type Status uint32

// Completion statuses: those of RC, UC and UD.
const (
	Success                   Status = 0
	LocalLengthError          Status = 1
	LocalQPOperationError     Status = 2
	LocalProtectionError      Status = 4
	FlushError                Status = 5
	MWBindError               Status = 6
	BadResponseError          Status = 7
	LocalAccessError          Status = 8
	RemoteInvalidRequestError Status = 9
	RemoteAccessError         Status = 10
	RemoteOperationError      Status = 11
	RetryExceeded             Status = 12
	RNRRetryExceeded          Status = 13
	RemoteAborted             Status = 16
	FatalError                Status = 19
	ResponseTimeout           Status = 20
	GeneralError              Status = 21
)

// explanation is what a status or an event means, what usually causes it, most likely first, and what to try.
type explanation struct {
	name, meaning string
	causes        []string
	remedy        string
}

// explain is a value's row of a table; one that is not known has a name, and the meaning given.
func explain[T ~uint8 | ~uint32](table []explanation, v T, typ, meaning string) explanation {
	if int(v) < len(table) && table[v].name != "" {
		return table[v]
	}
	return explanation{name: fmt.Sprintf("%s(%d)", typ, uint32(v)), meaning: meaning}
}

var statusTable = [...]explanation{
	Success: {"SUCCESS", "the request finished", nil, ""},
	LocalLengthError: {
		"LOC_LEN_ERR", "a length does not fit: on a receive, the message was longer than the posted buffer; on a send, " +
			"longer than the port or the operation allows",
		[]string{
			"the peer sends more than this end's receive holds",
			"a UD message above the MTU, or a UD receive without room for the 40-byte GRH",
		},
		"use the same message size at both ends; for UD add 40 bytes to each receive",
	},
	LocalQPOperationError: {
		"LOC_QP_OP_ERR", "this end's queue pair could not do what was asked",
		[]string{
			"a work request that the transport does not have", "on Soft-RoCE: a bad lkey, or a receive shorter than the message",
		},
		"check opcode, lkey and receive size",
	},
	LocalProtectionError: {
		"LOC_PROT_ERR", "a scatter/gather entry is not covered by its memory region",
		[]string{
			"wrong lkey, address or length in the list", "the region lacks LOCAL_WRITE (receive, READ, atomic)",
			"the region was deregistered before the completion was polled",
		},
		"check each entry against the region it names",
	},
	FlushError: {
		"WR_FLUSH_ERR", "the queue pair was already in error: the request was flushed, not tried",
		[]string{"an earlier request of this queue pair failed", "the queue pair was moved to ERR on purpose"},
		"look at the first completion that is not a success; this one follows from it",
	},
	MWBindError: {
		"MW_BIND_ERR", "the memory window could not be bound",
		[]string{
			"the region lacks MW_BIND", "the range lies outside the region",
			"window and region are in different protection domains",
		},
		"register the region with MW_BIND",
	},
	BadResponseError: {
		"BAD_RESP_ERR", "the peer answered with something that does not fit the request",
		[]string{"a broken or incompatible peer"},
		"capture the packets and compare",
	},
	LocalAccessError: {
		"LOC_ACCESS_ERR", "a receive of a WRITE with immediate hit memory that may not be written", nil,
		"check the region's access flags",
	},
	RemoteInvalidRequestError: {
		"REM_INV_REQ_ERR", "the peer refused the request as invalid",
		[]string{
			"the peer's receive is shorter than the message",
			"the peer's queue pair does not let the operation in (access flags)",
			"more READs or atomics outstanding than the peer serves", "a misaligned atomic",
		},
		"use the same message size and operation at both ends; compare the READs and atomics in flight with the peer's limit",
	},
	RemoteAccessError: {
		"REM_ACCESS_ERR", "the peer's memory protection refused the request",
		[]string{
			"the two ends use different message sizes", "wrong or revoked rkey",
			"the peer's region is too small, or lacks the remote right",
		},
		"use the same message size at both ends; exchange rkey, address and size anew",
	},
	RemoteOperationError: {
		"REM_OP_ERR", "the peer could not finish the operation",
		[]string{"a bad receive work request at the peer", "on Soft-RoCE: the peer's receive is shorter than the message"},
		"look at the peer's own completion",
	},
	RetryExceeded: {
		"RETRY_EXC_ERR", "no acknowledgement after all retries",
		[]string{
			"the peer has gone or torn its queue pair down", "on the first message: wrong QPN, PSN, GID or path MTU",
			"UDP port 4791 is blocked, or the two GIDs cannot reach each other", "a lossy path with too short a timeout",
		},
		"ping the peer's address; compare GID index and path MTU of both ends",
	},
	RNRRetryExceeded: {
		"RNR_RETRY_EXC_ERR", "the peer had no receive posted, for all retries",
		[]string{"the sender outruns the receiver", "the peer expects fewer messages"},
		"post more receives, or send as many messages as the peer expects",
	},
	RemoteAborted: {"REM_ABORT_ERR", "the peer aborted the operation", nil, ""},
	FatalError: {
		"FATAL_ERR", "the device failed",
		[]string{"a device or driver fault", "the device was removed"},
		lookAtKernelLog,
	},
	ResponseTimeout: {
		"RESP_TIMEOUT_ERR", "the response did not come in time", []string{"the peer has gone"}, "ping the peer's address",
	},
	GeneralError: {
		"GENERAL_ERR", "the device reports an error of its own", nil, "look at vendor_err and the kernel log (dmesg)",
	},
}

func (s Status) explain() explanation {
	return explain(statusTable[:], s, "Status", "a status this version does not know")
}

// String is the name in the specification: RETRY_EXC_ERR.
func (s Status) String() string { return s.explain().name }

// MarshalText spells the status as String does.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Meaning says in a sentence what the status tells.
func (s Status) Meaning() string { return s.explain().meaning }

// Causes lists what usually causes the status, most likely first.
func (s Status) Causes() []string { return s.explain().causes }

// Remedy says what to try, or is empty.
func (s Status) Remedy() string { return s.explain().remedy }

// Error makes a status usable as the cause of an error.
func (s Status) Error() string {
	e := s.explain()
	return fmt.Sprintf("%s (status %d): %s", e.name, uint32(s), e.meaning)
}
