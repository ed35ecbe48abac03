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

// Offsets in the BTH, the base transport header at the front of every packet (IBTA 9.2).
const (
	BTHBytes     = 12
	opcodeAt     = 0
	flagsAt      = 1 // solicited event, migration request, pad count, version
	pkeyAt       = 2
	congestionAt = 4 // FECN, BECN and reserved bits: masked in the ICRC
	qpnAt        = 5
	ackAt        = 8
	psnAt        = 9
	solicitedBit = 0x80
	migratedBit  = 0x40
	padShift     = 4
	padMask      = 3
	versionMask  = 0x0f
	ackBit       = 0x80
)

// BTHFlags are what a sender sets in a BTH besides opcode, QPN and PSN, for [PutBTH].
type BTHFlags uint16

// Flags of [PutBTH]; the pad count goes in by [PadFlag].
const (
	FlagSolicited BTHFlags = solicitedBit << 8
	// on every packet of a queue pair that does not migrate its path (IBTA 17.2.8)
	FlagMigrated BTHFlags = migratedBit << 8
	FlagAckReq   BTHFlags = ackBit
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

// Uint24 reads 24 bits, big-endian.
func Uint24(b []byte) uint32 {
	_ = b[2]
	return uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2])
}

// PSNDiff is how far PSN a lies ahead of b, modulo 2^24; negative when it lies behind (IBTA 9.7.2).
func PSNDiff(a, b uint32) int32 { return int32((a-b)<<8) >> 8 }
