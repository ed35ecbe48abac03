package verbs

import (
	"errors"
	"io"
	"net/netip"
)

// Provider finds RDMA devices of one kind. It may be used by several goroutines.
type Provider interface {
	// Name is "ibv" or "roce".
	Name() string
	// Devices lists the devices that can be opened, without opening them. An empty list is an answer, not an error:
	// errors say why the provider could not look (library missing, no permission), with a remedy.
	Devices() ([]DeviceName, error)
	// Open opens the device of that name.
	Open(name string) (Device, error)
}

// DeviceName identifies a device that has not been opened.
type DeviceName struct {
	Name     string `json:"name"`     // "mlx5_0", "roce0"
	Provider string `json:"provider"` // "ibv", "roce"
	GUID     uint64 `json:"guid"`     // node GUID, 0 if unknown before opening
	Path     string `json:"path"`     // sysfs directory, empty for the software device
}

// Device is one opened RDMA device. Its methods may be called by several goroutines; each handle it makes says who may
// use it. Handles close newest first: a parent with open children answers [ErrBusy] and stays open.
type Device interface {
	io.Closer

	// Info describes the device; it does not change while the device is open.
	Info() DeviceInfo
	// Port describes port n, counted from 1, as it is now.
	Port(n int) (PortInfo, error)
	// GIDs lists the valid entries of port n's GID table.
	GIDs(port int) ([]GIDEntry, error)
	// PKeys lists port n's partition keys.
	PKeys(port int) ([]uint16, error)

	// AllocPD makes a protection domain.
	AllocPD() (ProtectionDomain, error)
	// CreateCompletionChannel makes a channel on which completion queues announce events.
	CreateCompletionChannel() (CompletionChannel, error)
	// CreateCQ makes a completion queue.
	CreateCQ(o CompletionQueueOptions) (CompletionQueue, error)
	// Events delivers asynchronous events (port down, QP fatal, SRQ limit, ...). It is closed with the device. Events
	// that nobody reads are dropped, oldest first, beyond 64.
	Events() <-chan AsyncEvent
}

// Rebinder is implemented by devices whose address can be chosen after opening (the software device: the local address
// of the control connection becomes its default GID).
type Rebinder interface {
	// Bind makes addr the address of the default GID. It fails once queue pairs exist.
	Bind(addr netip.Addr) error
}

// SelfServing is implemented by devices that serve their peers without anybody calling them: hardware, and drivers in the
// kernel. A process whose part is to be written to and read from may then sleep.
type SelfServing interface {
	ServesItself()
}

// Counters is implemented by devices that count errors and traffic; names follow the kernel's hw_counters where they
// have an equal ("out_of_sequence", "rnr_nak_retry_err", ...).
type Counters interface {
	Counters(port int) (map[string]uint64, error)
}

// ErrBusy says that a handle still has children: "busy: 2 queue pairs open".
var ErrBusy = errors.New("busy")

// ErrUnsupported says that the device or the provider does not have what was asked. Errors that wrap it name it.
var ErrUnsupported = errors.New("not supported")

// ErrClosed says that the handle was closed.
var ErrClosed = errors.New("closed")

// ErrQueueFull says that a send, receive or shared receive queue has no free slot. Slots of unsignaled requests come
// back only when a later signaled completion is polled.
var ErrQueueFull = errors.New("queue full: poll completions (signal every n-th request) before posting more")
