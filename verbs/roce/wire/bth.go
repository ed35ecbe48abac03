package wire

import "encoding/binary"

// Port is the UDP destination port of every RoCEv2 packet, requests and responses alike.
const Port = 4791

// Numbers of the wire format.
const (
	DefaultPKey  = 0xffff
	MulticastQPN = 0xffffff
	Mask24       = 0xffffff // PSN, QPN and MSN have 24 bits

	UDPBytes  = 8 // the UDP header counts in UDP's length
	ICRCBytes = 4
	// MinPacketBytes is the shortest legal UDP payload: a BTH and the ICRC.
	MinPacketBytes = BTHBytes + ICRCBytes
	// MaxPacketBytes is the longest: the largest MTU behind the longest headers.
	MaxPacketBytes = BTHBytes + AtomicETHBytes + 4096 + ICRCBytes
)

// Offsets in the BTH.
const (
	BTHBytes      = 12
	opcodeAt      = 0
	flagsAt       = 1 // solicited event, migration request, pad count, version
	pkeyAt        = 2
	congestionAt  = 4 // FECN, BECN and reserved bits: masked in the ICRC
	qpnAt         = 5
	ackAt         = 8
	psnAt         = 9
	solicitedBit  = 0x80
	migratedBit   = 0x40
	padShift      = 4
	padMask       = 3
	versionMask   = 0x0f
	fecnBit       = 0x80
	becnBit       = 0x40
	reservedMask6 = 0x3f
	ackBit        = 0x80
	reservedMask7 = 0x7f
)

// BTH is the base transport header, at the front of every packet (IBTA 9.2).
type BTH struct {
	Opcode    Opcode
	Solicited bool
	Migrated  bool  // MigReq: ignored
	Pad       uint8 // bytes of padding before the ICRC, 0 to 3
	Version   uint8 // 0; packets with another are dropped
	PKey      uint16
	FECN      bool
	BECN      bool
	Reserved6 uint8  // below FECN and BECN: sent 0, ignored
	DestQPN   uint32 // 24 bits
	AckReq    bool
	Reserved7 uint8  // below AckReq: sent 0, ignored, but covered by the ICRC
	PSN       uint32 // 24 bits
}

// Put encodes the header into the first 12 bytes of b.
func (h BTH) Put(b []byte) {
	_ = b[BTHBytes-1]
	b[opcodeAt] = byte(h.Opcode)
	b[flagsAt] = bit(h.Solicited, solicitedBit) | bit(h.Migrated, migratedBit) | h.Pad&padMask<<padShift | h.Version&versionMask
	binary.BigEndian.PutUint16(b[pkeyAt:], h.PKey)
	b[congestionAt] = bit(h.FECN, fecnBit) | bit(h.BECN, becnBit) | h.Reserved6&reservedMask6
	PutUint24(b[qpnAt:], h.DestQPN)
	b[ackAt] = bit(h.AckReq, ackBit) | h.Reserved7&reservedMask7
	PutUint24(b[psnAt:], h.PSN)
}

func bit(set bool, mask byte) byte {
	if set {
		return mask
	}
	return 0
}

func bth(b []byte) BTH {
	_ = b[BTHBytes-1]
	return BTH{
		Opcode:    Opcode(b[opcodeAt]),
		Solicited: b[flagsAt]&solicitedBit != 0,
		Migrated:  b[flagsAt]&migratedBit != 0,
		Pad:       b[flagsAt] >> padShift & padMask,
		Version:   b[flagsAt] & versionMask,
		PKey:      binary.BigEndian.Uint16(b[pkeyAt:]),
		FECN:      b[congestionAt]&fecnBit != 0,
		BECN:      b[congestionAt]&becnBit != 0,
		Reserved6: b[congestionAt] & reservedMask6,
		DestQPN:   Uint24(b[qpnAt:]),
		AckReq:    b[ackAt]&ackBit != 0,
		Reserved7: b[ackAt] & reservedMask7,
		PSN:       Uint24(b[psnAt:]),
	}
}

// BTHFlags are what a sender sets in a BTH besides opcode, QPN and PSN, for [PutBTH].
type BTHFlags uint16

// Flags of [PutBTH]; the pad count goes in by [PadFlag].
const (
	FlagSolicited BTHFlags = solicitedBit << 8
	FlagAckReq    BTHFlags = ackBit
)

// PadFlag is the pad count of a payload of n bytes, as a flag.
func PadFlag(n int) BTHFlags { return BTHFlags(-n&padMask) << (padShift + 8) }

// PadBytes is how many bytes of padding follow a payload of n bytes.
func PadBytes(n int) int { return -n & padMask }

// PutBTH writes a BTH with the default P_Key into the first 12 bytes of b. It is small enough to be inlined.
func PutBTH(b []byte, o Opcode, f BTHFlags, destQPN, psn uint32) {
	_ = b[BTHBytes-1]
	binary.BigEndian.PutUint32(b, uint32(o)<<24|uint32(f>>8)<<16|DefaultPKey)
	binary.BigEndian.PutUint32(b[congestionAt:], destQPN&Mask24)
	binary.BigEndian.PutUint32(b[ackAt:], uint32(f&ackBit)<<24|psn&Mask24)
}

// PutUint24 writes the low 24 bits of v, big-endian.
func PutUint24(b []byte, v uint32) {
	_ = b[2]
	b[0], b[1], b[2] = byte(v>>16), byte(v>>8), byte(v)
}

// Uint24 reads 24 bits, big-endian.
func Uint24(b []byte) uint32 {
	_ = b[2]
	return uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2])
}

// PSNDiff is how far PSN a lies ahead of b, modulo 2^24; negative when it lies behind (IBTA 9.7.2).
func PSNDiff(a, b uint32) int32 { return int32((a-b)<<8) >> 8 }
