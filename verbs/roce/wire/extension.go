package wire

import (
	"encoding/binary"
	"time"
)

// Lengths of the extension headers.
const (
	RETHBytes         = 16
	AtomicETHBytes    = 28
	AETHBytes         = 4
	AtomicAckETHBytes = 8
	DETHBytes         = 8
	ImmediateBytes    = 4
	IETHBytes         = 4
)

// RETH is the RDMA extended transport header of WRITE FIRST/ONLY and of a READ request (IBTA 9.2.5).
type RETH struct {
	Addr   uint64
	RKey   uint32
	Length uint32 // of the whole message
}

// Put encodes the header into the first 16 bytes of b.
func (h RETH) Put(b []byte) {
	_ = b[RETHBytes-1]
	binary.BigEndian.PutUint64(b, h.Addr)
	binary.BigEndian.PutUint32(b[8:], h.RKey)
	binary.BigEndian.PutUint32(b[12:], h.Length)
}

// AtomicETH is the header of CMP_SWAP and FETCH_ADD (IBTA 9.2.6).
type AtomicETH struct {
	Addr    uint64
	RKey    uint32
	SwapAdd uint64 // swapped in (CMP_SWAP) or added (FETCH_ADD)
	Compare uint64 // CMP_SWAP only
}

// Put encodes the header into the first 28 bytes of b.
func (h AtomicETH) Put(b []byte) {
	_ = b[AtomicETHBytes-1]
	binary.BigEndian.PutUint64(b, h.Addr)
	binary.BigEndian.PutUint32(b[8:], h.RKey)
	binary.BigEndian.PutUint64(b[12:], h.SwapAdd)
	binary.BigEndian.PutUint64(b[20:], h.Compare)
}

// AETH is the ACK extended transport header: what the responder thinks of a packet (IBTA 9.2.7).
type AETH struct {
	Syndrome Syndrome
	MSN      uint32 // message sequence number, 24 bits
}

// Put encodes the header into the first 4 bytes of b.
func (h AETH) Put(b []byte) { binary.BigEndian.PutUint32(b, uint32(h.Syndrome)<<24|h.MSN&Mask24) }

// Syndrome is the verdict in an AETH (IBTA table 44): class in bits 5 and 6, value in bits 0 to 4.
type Syndrome uint8

// Syndromes.
const (
	SyndromeAck          Syndrome = 0x1f // acknowledged, no credit limit
	SyndromeRNR          Syndrome = 0x20 // or'ed with the RNR timer code
	NAKSequenceError     Syndrome = 0x60
	NAKInvalidRequest    Syndrome = 0x61
	NAKRemoteAccessError Syndrome = 0x62
	NAKRemoteOperational Syndrome = 0x63
)

// SyndromeClass is the kind of a syndrome.
type SyndromeClass uint8

// Syndrome classes.
const (
	ClassACK SyndromeClass = iota
	ClassRNR
	ClassReserved
	ClassNAK
)

// Class is the kind of the syndrome.
func (s Syndrome) Class() SyndromeClass { return SyndromeClass(s >> 5 & 3) }

// rnrTable is IBTA table 46, in units of 10 µs.
var rnrTable = [32]uint32{ //nolint:gochecknoglobals // a table: never written
	65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768,
	1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
}

// RNRTimer is how long an RNR NAK asks to wait (IBTA table 46); 0 for other syndromes.
func (s Syndrome) RNRTimer() time.Duration {
	if s.Class() != ClassRNR {
		return 0
	}
	return time.Duration(rnrTable[s&31]) * 10 * time.Microsecond
}

// DETH is the datagram extended transport header of UD (IBTA 9.2.4).
type DETH struct {
	QKey      uint32 // the receiver's
	SourceQPN uint32 // 24 bits
}

// Put encodes the header into the first 8 bytes of b.
func (h DETH) Put(b []byte) {
	_ = b[DETHBytes-1]
	binary.BigEndian.PutUint32(b, h.QKey)
	binary.BigEndian.PutUint32(b[4:], h.SourceQPN&Mask24)
}
