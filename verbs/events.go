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

func (t EventType) String() string {
	return enumString(t, []string{
		"CQ_ERR", "QP_FATAL", "QP_REQ_ERR", "QP_ACCESS_ERR", "COMM_EST", "SQ_DRAINED", "PATH_MIG", "PATH_MIG_ERR",
		"DEVICE_FATAL", "PORT_ACTIVE", "PORT_ERR", "LID_CHANGE", "PKEY_CHANGE", "SM_CHANGE", "SRQ_ERR", "SRQ_LIMIT_REACHED",
		"QP_LAST_WQE_REACHED", "CLIENT_REREGISTER", "GID_CHANGE", "WQ_FATAL",
	}, "EventType")
}

// EndsTest tells whether a test cannot go on after the event.
func (t EventType) EndsTest() bool {
	switch t {
	case EventCQError, EventQPFatal, EventQPRequestError, EventQPAccessError, EventDeviceFatal, EventPortError, EventSRQError,
		EventWorkQueueFatal:
		return true
	default:
		return false
	}
}

// Meaning says in a few words what has happened, where the name does not.
func (t EventType) Meaning() string {
	switch t {
	case EventCQError:
		return "a completion queue overflowed"
	case EventQPFatal, EventWorkQueueFatal:
		return "the device cannot go on with the queue"
	case EventQPRequestError:
		return "the peer sent a request that is not valid"
	case EventQPAccessError:
		return "the peer asked for memory that it may not touch"
	case EventDeviceFatal:
		return "the device failed, was reset or was removed"
	case EventPortError:
		return "the link went down"
	case EventSRQError:
		return "the shared receive queue failed"
	default:
		return ""
	}
}

// Remedy says what to try after an event that ends a test, or is empty.
func (t EventType) Remedy() string {
	switch t {
	case EventCQError:
		return "keep fewer requests in flight, or make the queue deeper"
	case EventQPRequestError, EventQPAccessError:
		return "compare both ends: size, operation, and whether memory may be read, written or used for atomics"
	case EventPortError:
		return "look at 'rdma link' and 'ip link': a cable, a transceiver, the switch's port, or 'ip link set ... down' on this host"
	case EventQPFatal, EventWorkQueueFatal, EventDeviceFatal, EventSRQError:
		return "look at the kernel log (dmesg)"
	default:
		return ""
	}
}

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
