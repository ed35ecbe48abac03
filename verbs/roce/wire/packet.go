package wire

import (
	"encoding/binary"
	"errors"
)

// Why ParsePacket refuses a packet. They carry no details so that refusing allocates nothing.
var (
	ErrShort   = errors.New("packet shorter than its headers, padding and ICRC")
	ErrOpcode  = errors.New("unknown opcode")
	ErrVersion = errors.New("transport header version is not 0")
)

// Packet is a view of a received packet: its bytes stay where they are. Accessors of headers the packet does not have
// return zero.
type Packet struct {
	Raw     []byte // BTH to ICRC: the UDP payload
	Payload []byte // without padding
	Opcode  Opcode
}

// ParsePacket checks the lengths of a UDP payload and returns a view of it. The ICRC is not verified: that takes the IP
// header, see [Flow]. It allocates nothing.
func ParsePacket(b []byte) (Packet, error) {
	if len(b) < MinPacketBytes {
		return Packet{}, ErrShort
	}
	op := Opcode(b[opcodeAt])
	headers := int(opcodes[op].size)
	if headers == 0 {
		return Packet{}, ErrOpcode
	}
	if b[flagsAt]&versionMask != 0 {
		return Packet{}, ErrVersion
	}
	end := len(b) - ICRCBytes - int(b[flagsAt]>>padShift&padMask)
	if end < headers {
		return Packet{}, ErrShort
	}
	return Packet{Raw: b, Payload: b[headers:end], Opcode: op}, nil
}

// MayBegin tells whether b looks like the front of a packet: a known opcode, version 0 and the default P_Key.
func MayBegin(b []byte) bool {
	return len(b) >= MinPacketBytes && opcodes[b[opcodeAt]].size != 0 && b[flagsAt]&versionMask == 0 &&
		binary.BigEndian.Uint16(b[pkeyAt:])|0x8000 == DefaultPKey
}

// PSN is the packet's sequence number.
func (p *Packet) PSN() uint32 { return Uint24(p.Raw[psnAt:]) }

// DestQPN is the queue pair the packet is for.
func (p *Packet) DestQPN() uint32 { return Uint24(p.Raw[qpnAt:]) }

// PKey is the packet's partition key.
func (p *Packet) PKey() uint16 { return binary.BigEndian.Uint16(p.Raw[pkeyAt:]) }

// AckReq tells whether the requester wants an acknowledgement.
func (p *Packet) AckReq() bool { return p.Raw[ackAt]&ackBit != 0 }

// Solicited tells whether the packet's completion is a solicited event.
func (p *Packet) Solicited() bool { return p.Raw[flagsAt]&solicitedBit != 0 }

// Migrated tells whether the sender is in the state of migration "migrated": whoever
// does not migrate paths is. rxe says 0.
func (p *Packet) Migrated() bool { return p.Raw[flagsAt]&migratedBit != 0 }

// RETH decodes the header.
func (p *Packet) RETH() RETH {
	if !p.Opcode.Has(HasRETH) {
		return RETH{}
	}
	b := p.Raw[BTHBytes:]
	return RETH{
		Addr: binary.BigEndian.Uint64(b), RKey: binary.BigEndian.Uint32(b[8:]), Length: binary.BigEndian.Uint32(b[12:]),
	}
}

// AtomicETH decodes the header.
func (p *Packet) AtomicETH() AtomicETH {
	if !p.Opcode.Has(HasAtomicETH) {
		return AtomicETH{}
	}
	b := p.Raw[BTHBytes:]
	return AtomicETH{
		Addr: binary.BigEndian.Uint64(b), RKey: binary.BigEndian.Uint32(b[8:]),
		SwapAdd: binary.BigEndian.Uint64(b[12:]), Compare: binary.BigEndian.Uint64(b[20:]),
	}
}

// AETH decodes the header.
func (p *Packet) AETH() AETH {
	if !p.Opcode.Has(HasAETH) {
		return AETH{}
	}
	v := binary.BigEndian.Uint32(p.Raw[BTHBytes:])
	return AETH{Syndrome: Syndrome(v >> 24), MSN: v & Mask24}
}

// Original is the target's value before an atomic, of its answer (AtomicAckETH, IBTA 9.2.8).
func (p *Packet) Original() uint64 {
	if !p.Opcode.Has(HasAtomicAckETH) {
		return 0
	}
	return binary.BigEndian.Uint64(p.Raw[BTHBytes+AETHBytes:])
}

// DETH decodes the header.
func (p *Packet) DETH() DETH {
	if !p.Opcode.Has(HasDETH) {
		return DETH{}
	}
	b := p.Raw[BTHBytes:]
	return DETH{QKey: binary.BigEndian.Uint32(b), SourceQPN: Uint24(b[5:])}
}

// Immediate is the immediate data, a number that travels big-endian to the peer's completion
// (ImmDt, IBTA 9.2.9): always the last header.
func (p *Packet) Immediate() uint32 {
	if !p.Opcode.Has(HasImmediate) {
		return 0
	}
	return binary.BigEndian.Uint32(p.Raw[p.Opcode.HeaderBytes()-ImmediateBytes:])
}

// InvalidateRKey is the key that a SEND_WITH_INVALIDATE invalidates (IETH, IBTA 9.2.10): always the last header.
func (p *Packet) InvalidateRKey() uint32 {
	if !p.Opcode.Has(HasIETH) {
		return 0
	}
	return binary.BigEndian.Uint32(p.Raw[p.Opcode.HeaderBytes()-IETHBytes:])
}
