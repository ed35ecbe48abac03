package wire

import "fmt"

// Transport is the upper three bits of an opcode.
type Transport uint8

// Transports (IBTA 9.2.1). RD is specified and implemented by nobody.
const (
	RC  Transport = 0
	UC  Transport = 1
	RD  Transport = 2
	UD  Transport = 3
	CNP Transport = 4 // congestion notification
)

func (t Transport) String() string {
	return [8]string{"RC", "UC", "RD", "UD", "CNP", "5", "6", "7"}[t&7]
}

// Operation is the lower five bits of an opcode: what a packet does, whatever its transport.
type Operation uint8

// Operations (IBTA table 38).
const (
	SendFirst            Operation = 0x00
	SendMiddle           Operation = 0x01
	SendLast             Operation = 0x02
	SendLastImmediate    Operation = 0x03
	SendOnly             Operation = 0x04
	SendOnlyImmediate    Operation = 0x05
	WriteFirst           Operation = 0x06
	WriteMiddle          Operation = 0x07
	WriteLast            Operation = 0x08
	WriteLastImmediate   Operation = 0x09
	WriteOnly            Operation = 0x0a
	WriteOnlyImmediate   Operation = 0x0b
	ReadRequest          Operation = 0x0c
	ReadResponseFirst    Operation = 0x0d
	ReadResponseMiddle   Operation = 0x0e
	ReadResponseLast     Operation = 0x0f
	ReadResponseOnly     Operation = 0x10
	Acknowledge          Operation = 0x11
	AtomicAcknowledge    Operation = 0x12
	CompareSwap          Operation = 0x13
	FetchAdd             Operation = 0x14
	SendLastInvalidate   Operation = 0x16
	SendOnlyInvalidate   Operation = 0x17
	congestionOperation  Operation = 0x01 // with transport CNP
	operationMask                  = 0x1f
	transportShift                 = 5
	congestionExtraBytes           = 16 // reserved bytes of a CNP
)

// Opcode is the first byte of a packet: transport and operation.
type Opcode uint8

// Opcodes that a device names; others are made by [MakeOpcode].
const (
	RCReadResponseFirst  = Opcode(RC<<transportShift) | Opcode(ReadResponseFirst)
	RCReadResponseMiddle = Opcode(RC<<transportShift) | Opcode(ReadResponseMiddle)
	RCReadResponseLast   = Opcode(RC<<transportShift) | Opcode(ReadResponseLast)
	RCReadResponseOnly   = Opcode(RC<<transportShift) | Opcode(ReadResponseOnly)
	RCAcknowledge        = Opcode(RC<<transportShift) | Opcode(Acknowledge)
	RCAtomicAcknowledge  = Opcode(RC<<transportShift) | Opcode(AtomicAcknowledge)
	RCFetchAdd           = Opcode(RC<<transportShift) | Opcode(FetchAdd)

	// CongestionNotification is the RoCEv2 CNP (annex A17.9.3): BTH and 16 reserved bytes.
	CongestionNotification = Opcode(CNP<<transportShift) | Opcode(congestionOperation)
)

// MakeOpcode joins a transport and an operation.
func MakeOpcode(t Transport, o Operation) Opcode {
	return Opcode(t<<transportShift) | Opcode(o&operationMask)
}

// Transport is the opcode's transport.
func (o Opcode) Transport() Transport { return Transport(o >> transportShift) }

// Operation is the opcode without its transport.
func (o Opcode) Operation() Operation { return Operation(o & operationMask) }

// Class groups the operations of one kind of message.
type Class uint8

// Classes.
const (
	ClassUnknown Class = iota
	ClassSend
	ClassWrite
	ClassReadRequest
	ClassReadResponse
	ClassAcknowledge
	ClassAtomicAcknowledge
	ClassAtomic
	ClassCongestion
)

// Properties are facts about an opcode, as bits.
type Properties uint16

// Properties.
const (
	Known            Properties = 1 << iota // the opcode exists on its transport
	Begins                                  // FIRST or ONLY: starts a message
	Ends                                    // LAST or ONLY: ends a message
	IsResponse                              // comes from a responder
	TakesReceive                            // consumes a receive
	CompletesReceive                        // completes one
	HasRETH                                 //
	HasAtomicETH                            //
	HasAETH                                 //
	HasAtomicAckETH                         //
	HasDETH                                 //
	HasImmediate                            //
	HasIETH                                 //
)

// opcodeInfo is one row of the opcode table.
type opcodeInfo struct {
	name  string
	props Properties
	class Class
	size  uint8 // BTH and extension headers
}

// operations is the table of IBTA 9.2.1 (table 38), without transports.
var operations = [32]opcodeInfo{ //nolint:gochecknoglobals // a table: never written
	SendFirst:         {"SEND_FIRST", Begins | TakesReceive, ClassSend, 0},
	SendMiddle:        {"SEND_MIDDLE", 0, ClassSend, 0},
	SendLast:          {"SEND_LAST", Ends | CompletesReceive, ClassSend, 0},
	SendLastImmediate: {"SEND_LAST_WITH_IMM", Ends | CompletesReceive | HasImmediate, ClassSend, 0},
	SendOnly:          {"SEND_ONLY", Begins | Ends | TakesReceive | CompletesReceive, ClassSend, 0},
	SendOnlyImmediate: {
		"SEND_ONLY_WITH_IMM", Begins | Ends | TakesReceive | CompletesReceive | HasImmediate, ClassSend, 0,
	},
	WriteFirst:         {"WRITE_FIRST", Begins | HasRETH, ClassWrite, 0},
	WriteMiddle:        {"WRITE_MIDDLE", 0, ClassWrite, 0},
	WriteLast:          {"WRITE_LAST", Ends, ClassWrite, 0},
	WriteLastImmediate: {"WRITE_LAST_WITH_IMM", Ends | TakesReceive | CompletesReceive | HasImmediate, ClassWrite, 0},
	WriteOnly:          {"WRITE_ONLY", Begins | Ends | HasRETH, ClassWrite, 0},
	WriteOnlyImmediate: {
		"WRITE_ONLY_WITH_IMM", Begins | Ends | TakesReceive | CompletesReceive | HasRETH | HasImmediate, ClassWrite, 0,
	},
	ReadRequest:        {"READ_REQUEST", Begins | Ends | HasRETH, ClassReadRequest, 0},
	ReadResponseFirst:  {"READ_RESPONSE_FIRST", Begins | IsResponse | HasAETH, ClassReadResponse, 0},
	ReadResponseMiddle: {"READ_RESPONSE_MIDDLE", IsResponse, ClassReadResponse, 0},
	ReadResponseLast:   {"READ_RESPONSE_LAST", Ends | IsResponse | HasAETH, ClassReadResponse, 0},
	ReadResponseOnly:   {"READ_RESPONSE_ONLY", Begins | Ends | IsResponse | HasAETH, ClassReadResponse, 0},
	Acknowledge:        {"ACKNOWLEDGE", Begins | Ends | IsResponse | HasAETH, ClassAcknowledge, 0},
	AtomicAcknowledge: {
		"ATOMIC_ACKNOWLEDGE", Begins | Ends | IsResponse | HasAETH | HasAtomicAckETH, ClassAtomicAcknowledge, 0,
	},
	CompareSwap:        {"CMP_SWAP", Begins | Ends | HasAtomicETH, ClassAtomic, 0},
	FetchAdd:           {"FETCH_ADD", Begins | Ends | HasAtomicETH, ClassAtomic, 0},
	SendLastInvalidate: {"SEND_LAST_WITH_INVALIDATE", Ends | CompletesReceive | HasIETH, ClassSend, 0},
	SendOnlyInvalidate: {
		"SEND_ONLY_WITH_INVALIDATE", Begins | Ends | TakesReceive | CompletesReceive | HasIETH, ClassSend, 0,
	},
}

// opcodes has a row for every opcode byte; unknown ones are zero.
var opcodes = makeOpcodes() //nolint:gochecknoglobals // a table: never written

func makeOpcodes() (table [256]opcodeInfo) {
	put := func(t Transport, o Operation, extra Properties) {
		info := operations[o]
		info.name = t.String() + "_" + info.name
		info.props |= Known | extra
		info.size = uint8(BTHBytes + extensionBytes(info.props))
		table[MakeOpcode(t, o)] = info
	}
	for o := SendFirst; o <= SendOnlyInvalidate; o++ {
		if operations[o].name == "" {
			continue
		}
		put(RC, o, 0)
		if o <= WriteOnlyImmediate {
			put(UC, o, 0)
		}
		if o == SendOnly || o == SendOnlyImmediate {
			put(UD, o, HasDETH)
		}
	}
	table[CongestionNotification] = opcodeInfo{
		"CNP", Known | Begins | Ends, ClassCongestion, BTHBytes + congestionExtraBytes,
	}
	return table
}

func extensionBytes(p Properties) int {
	n := 0
	for _, h := range []struct {
		bit   Properties
		bytes int
	}{
		{HasDETH, DETHBytes},
		{HasRETH, RETHBytes},
		{HasAtomicETH, AtomicETHBytes},
		{HasAETH, AETHBytes},
		{HasAtomicAckETH, AtomicAckETHBytes},
		{HasImmediate, ImmediateBytes},
		{HasIETH, IETHBytes},
	} {
		if p&h.bit != 0 {
			n += h.bytes
		}
	}
	return n
}

func (o Opcode) String() string {
	if n := opcodes[o].name; n != "" {
		return n
	}
	return fmt.Sprintf("Opcode(%#02x)", uint8(o))
}

// Class is the kind of message the opcode belongs to.
func (o Opcode) Class() Class { return opcodes[o].class }

// HeaderBytes is the length of BTH and extension headers; 0 for an unknown opcode.
func (o Opcode) HeaderBytes() int { return int(opcodes[o].size) }

// Has tells whether the opcode has all of the properties.
func (o Opcode) Has(p Properties) bool { return opcodes[o].props&p == p }
