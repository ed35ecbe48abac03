package verbstest

import (
	"testing"

	"github.com/gobw/gobw/verbs"
)

// Case names one expectation that a provider may deviate from.
type Case string

// Expectations, each with the outcome that the suite takes for granted.
const (
	ShortReceiveAtReceiver Case = "short receive, at the receiver"         // LOC_LEN_ERR
	ShortReceiveAtSender   Case = "short receive, at the sender"           // REM_INV_REQ_ERR
	ShortReceiveUC         Case = "short receive on UC"                    // LOC_LEN_ERR
	ShortReceiveUD         Case = "short receive on UD"                    // dropped, the receive is left
	BadLKeySend            Case = "bad lkey in a send"                     // LOC_PROT_ERR
	BadReceiveAtReceiver   Case = "bad lkey in a receive, at the receiver" // LOC_PROT_ERR
	NoReadResources        Case = "READ from a peer that serves none"      // REM_INV_REQ_ERR
	// refused by PostSend, or LOC_LEN_ERR
	TooLongUD      Case = "UD message above the MTU"
	RetrySevenEnds Case = "retry count 7 is seven" // RETRY_EXC_ERR
	// RETRY_EXC_ERR, or REM_ACCESS_ERR, at the sender
	InvalidatePlainRegion Case = "SEND_WITH_INV of an ordinary region"
	InvalidateRefused     Case = "LOCAL_INV of what is no window of the queue pair"  // MW_BIND_ERR
	RefusedImmediate      Case = "receive of a WRITE with immediate that is refused" // LOC_ACCESS_ERR
	// refused by PostSend, or LOC_LEN_ERR
	AtomicLength          Case = "atomic by a list of 9 bytes"
	CommEstablished       Case = "COMM_EST event"                                  // in RTR, by the first message
	SharedReceiveDomain   Case = "memory of a shared receive"                      // of the shared queue's domain
	UnsignaledHoldSlots   Case = "unsignaled requests hold their slots"            // ErrQueueFull
	PostAfterErrorFlushes Case = "requests posted in ERR flush at once"            // WR_FLUSH_ERR
	DrainedQueueResumes   Case = "a drained send queue resumes"                    // works
	ResetEmpties          Case = "completions of a queue pair that is reset"       // are gone
	DrainedEvent          Case = "SQ_DRAINED event"                                // delivered
	LocalWriteRequired    Case = "REMOTE_WRITE needs LOCAL_WRITE"                  // registration refused
	WindowRange           Case = "access outside a window, inside its region"      // REM_ACCESS_ERR
	InvalidatedKeyTold    Case = "the receive tells the invalidated key"           // flag and key
	GRHChecksum           Case = "checksum of the IPv4 header before a UD message" // right
	// a copy to each queue pair attached
	MulticastDelivered Case = "messages to a multicast group"
	ReadsServedKept    Case = "READs served at once, read back"   // as set
	WrongRangeSend     Case = "send of memory outside its region" // LOC_PROT_ERR
	// REM_ACCESS_ERR, REM_INV_REQ_ERR, REM_OP_ERR
	RefusedByPeer Case = "WRITE or SEND that the peer refuses"
	// REM_ACCESS_ERR, REM_INV_REQ_ERR
	RefusedReadByPeer Case = "READ that the peer refuses"
	// REM_ACCESS_ERR, REM_INV_REQ_ERR
	ReadRights      Case = "READ of memory, or by a queue pair, without REMOTE_READ"
	OrderBehindRead Case = "completions of READs and of what follows them" // in the order of posting
	DeadPeer        Case = "WRITE to a queue pair in ERR"                  // RETRY_EXC_ERR
	// waits, and RNR_RETRY_EXC_ERR at the end
	ReceiverNotReady   Case = "SEND that finds no receive"
	ErrorStateTold     Case = "the state of a queue pair that has failed" // ERR
	SolicitedDelivered Case = "armed for solicited, a solicited message"  // an event
	OverfullListTold   Case = "list of sends longer than the queue"       // ErrQueueFull
	ManyQueuePairs     Case = "many queue pairs at once"                  // work
	HopLimitKept       Case = "hop limit of a UD message"                 // that of its address handle
	InvalidateForeign  Case = "LOCAL_INV of another queue pair's window"  // MW_BIND_ERR, LOC_QP_OP_ERR

	// What a device may lack: with a row that says Refused, the suite leaves it out where it would be
	// used, and checks once that it is refused.
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

// deviates tells whether the provider has a row for a case.
func (d Deviations) deviates(c Case) bool {
	_, has := d.find(c)
	return has
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
