package verbs

import "fmt"

// EventType is the kind of an asynchronous event (ibv_event_type).
type EventType uint8

// Asynchronous event types.
const (
	EventCQError          EventType = 0
	EventQPFatal          EventType = 1
	EventQPRequestError   EventType = 2
	EventQPAccessError    EventType = 3
	EventCommEstablished  EventType = 4
	EventSQDrained        EventType = 5
	EventDeviceFatal      EventType = 8
	EventPortActive       EventType = 9
	EventPortError        EventType = 10
	EventLIDChange        EventType = 11
	EventPKeyChange       EventType = 12
	EventSMChange         EventType = 13
	EventSRQError         EventType = 14
	EventSRQLimitReached  EventType = 15
	EventQPLastWQEReached EventType = 16
	EventClientReregister EventType = 17
	EventGIDChange        EventType = 18
	EventWorkQueueFatal   EventType = 19
)

// eventTable has a meaning and a remedy where a test cannot go on after the event.
var eventTable = [...]explanation{
	EventCQError: {
		"CQ_ERR", "a completion queue overflowed", nil, "keep fewer requests in flight, or make the queue deeper",
	},
	EventQPFatal:         {"QP_FATAL", "the device cannot go on with the queue", nil, lookAtKernelLog},
	EventQPRequestError:  {"QP_REQ_ERR", "the peer sent a request that is not valid", nil, compareBothEnds},
	EventQPAccessError:   {"QP_ACCESS_ERR", "the peer asked for memory that it may not touch", nil, compareBothEnds},
	EventCommEstablished: {name: "COMM_EST"},
	EventSQDrained:       {name: "SQ_DRAINED"},
	6:                    {name: "PATH_MIG"},
	7:                    {name: "PATH_MIG_ERR"},
	EventDeviceFatal:     {"DEVICE_FATAL", "the device failed, was reset or was removed", nil, lookAtKernelLog},
	EventPortActive:      {name: "PORT_ACTIVE"},
	EventPortError: {
		"PORT_ERR", "the link went down", nil,
		"look at 'rdma link' and 'ip link': a cable, a transceiver, the switch's port, or 'ip link set ... " +
			"down' on this host",
	},
	EventLIDChange:        {name: "LID_CHANGE"},
	EventPKeyChange:       {name: "PKEY_CHANGE"},
	EventSMChange:         {name: "SM_CHANGE"},
	EventSRQError:         {"SRQ_ERR", "the shared receive queue failed", nil, lookAtKernelLog},
	EventSRQLimitReached:  {name: "SRQ_LIMIT_REACHED"},
	EventQPLastWQEReached: {name: "QP_LAST_WQE_REACHED"},
	EventClientReregister: {name: "CLIENT_REREGISTER"},
	EventGIDChange:        {name: "GID_CHANGE"},
	EventWorkQueueFatal:   {"WQ_FATAL", "the device cannot go on with the queue", nil, lookAtKernelLog},
}

const (
	lookAtKernelLog = "look at the kernel log (dmesg)"
	compareBothEnds = "compare both ends: size, operation, and whether memory may be read, written or used for atomics"
)

func (t EventType) explain() explanation { return explain(eventTable[:], t, "EventType", "") }

func (t EventType) String() string { return t.explain().name }

// EndsTest tells whether a test cannot go on after the event.
func (t EventType) EndsTest() bool { return t.Meaning() != "" }

// Meaning says in a few words what has happened after which a test cannot go on; else it is empty.
func (t EventType) Meaning() string { return t.explain().meaning }

// Remedy says what to try after an event that ends a test, or is empty.
func (t EventType) Remedy() string { return t.explain().remedy }

// AsyncEvent is something that happened outside any work request.
type AsyncEvent struct {
	Type EventType
	Port int                // port events
	QP   QueuePair          // queue pair events: nil where it is closed
	CQ   CompletionQueue    // completion queue events: nil where it is closed
	SRQ  SharedReceiveQueue // shared receive queue events: nil where it is closed
}

func (e AsyncEvent) String() string {
	switch {
	case e.QP != nil:
		return fmt.Sprintf("%v on qp %#x", e.Type, e.QP.QPN())
	case e.CQ != nil:
		return fmt.Sprintf("%v on a completion queue of %d entries", e.Type, e.CQ.Depth())
	case e.SRQ != nil:
		return fmt.Sprintf("%v on a shared receive queue", e.Type)
	case e.Port != 0:
		return fmt.Sprintf("%v on port %d", e.Type, e.Port)
	default:
		return e.Type.String()
	}
}
