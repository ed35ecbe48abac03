package wire

import (
	"encoding/binary"
	"fmt"
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

// Append encodes the header.
func (h RETH) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, h.Addr)
	b = binary.BigEndian.AppendUint32(b, h.RKey)
	return binary.BigEndian.AppendUint32(b, h.Length)
}

// PutRETH encodes the header into the first 16 bytes of b.
func PutRETH(b []byte, addr uint64, rkey, length uint32) {
	_ = b[RETHBytes-1]
	binary.BigEndian.PutUint64(b, addr)
	binary.BigEndian.PutUint32(b[8:], rkey)
	binary.BigEndian.PutUint32(b[12:], length)
}

// ParseRETH decodes the header at the front of b and returns the bytes after it.
func ParseRETH(b []byte) (RETH, []byte, error) {
	if len(b) < RETHBytes {
		return RETH{}, nil, fmt.Errorf("RETH: %d bytes, need %d", len(b), RETHBytes)
	}
	return reth(b), b[RETHBytes:], nil
}

func reth(b []byte) RETH {
	_ = b[RETHBytes-1]
	return RETH{Addr: binary.BigEndian.Uint64(b), RKey: binary.BigEndian.Uint32(b[8:]), Length: binary.BigEndian.Uint32(b[12:])}
}

// AtomicETH is the header of CMP_SWAP and FETCH_ADD (IBTA 9.2.6).
type AtomicETH struct {
	Addr    uint64
	RKey    uint32
	SwapAdd uint64 // swapped in (CMP_SWAP) or added (FETCH_ADD)
	Compare uint64 // CMP_SWAP only
}

// Append encodes the header.
func (h AtomicETH) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, h.Addr)
	b = binary.BigEndian.AppendUint32(b, h.RKey)
	b = binary.BigEndian.AppendUint64(b, h.SwapAdd)
	return binary.BigEndian.AppendUint64(b, h.Compare)
}

// Put encodes the header into the first 28 bytes of b.
func (h AtomicETH) Put(b []byte) {
	_ = b[AtomicETHBytes-1]
	binary.BigEndian.PutUint64(b, h.Addr)
	binary.BigEndian.PutUint32(b[8:], h.RKey)
	binary.BigEndian.PutUint64(b[12:], h.SwapAdd)
	binary.BigEndian.PutUint64(b[20:], h.Compare)
}

// ParseAtomicETH decodes the header at the front of b and returns the bytes after it.
func ParseAtomicETH(b []byte) (AtomicETH, []byte, error) {
	if len(b) < AtomicETHBytes {
		return AtomicETH{}, nil, fmt.Errorf("AtomicETH: %d bytes, need %d", len(b), AtomicETHBytes)
	}
	return atomicETH(b), b[AtomicETHBytes:], nil
}

func atomicETH(b []byte) AtomicETH {
	_ = b[AtomicETHBytes-1]
	return AtomicETH{
		Addr: binary.BigEndian.Uint64(b), RKey: binary.BigEndian.Uint32(b[8:]),
		SwapAdd: binary.BigEndian.Uint64(b[12:]), Compare: binary.BigEndian.Uint64(b[20:]),
	}
}

// AETH is the ACK extended transport header: what the responder thinks of a packet (IBTA 9.2.7).
type AETH struct {
	Syndrome Syndrome
	MSN      uint32 // message sequence number, 24 bits
}

// Append encodes the header.
func (h AETH) Append(b []byte) []byte {
	return binary.BigEndian.AppendUint32(b, uint32(h.Syndrome)<<24|h.MSN&Mask24)
}

// PutAETH encodes the header into the first 4 bytes of b.
func PutAETH(b []byte, s Syndrome, msn uint32) {
	binary.BigEndian.PutUint32(b, uint32(s)<<24|msn&Mask24)
}

// ParseAETH decodes the header at the front of b and returns the bytes after it.
func ParseAETH(b []byte) (AETH, []byte, error) {
	if len(b) < AETHBytes {
		return AETH{}, nil, fmt.Errorf("AETH: %d bytes, need %d", len(b), AETHBytes)
	}
	return aeth(b), b[AETHBytes:], nil
}

func aeth(b []byte) AETH {
	v := binary.BigEndian.Uint32(b)
	return AETH{Syndrome: Syndrome(v >> 24), MSN: v & Mask24}
}

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
	NAKInvalidRDRequest  Syndrome = 0x64
	syndromeClassMask             = 0x60
	syndromeValueMask             = 0x1f
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

func (c SyndromeClass) String() string {
	return [...]string{"ACK", "RNR NAK", "reserved", "NAK"}[c&3]
}

// Class is the kind of the syndrome.
func (s Syndrome) Class() SyndromeClass { return SyndromeClass(s >> 5 & 3) }

// Value is the credit, timer or NAK code.
func (s Syndrome) Value() uint8 { return uint8(s & syndromeValueMask) }

// IsAck tells a positive acknowledgement.
func (s Syndrome) IsAck() bool { return s&syndromeClassMask == 0 }

// IsRNR tells a receiver-not-ready NAK.
func (s Syndrome) IsRNR() bool { return s&syndromeClassMask == SyndromeRNR }

// Credits is the number of receives an ACK grants; false when it sets no limit or the syndrome is not an ACK.
func (s Syndrome) Credits() (int, bool) {
	if !s.IsAck() || s.Value() == syndromeValueMask {
		return 0, false
	}
	return int(creditTable[s.Value()]), true
}

// RNRTimer is how long an RNR NAK asks to wait; 0 for other syndromes.
func (s Syndrome) RNRTimer() time.Duration {
	if !s.IsRNR() {
		return 0
	}
	return RNRTimer(s.Value())
}

func (s Syndrome) String() string {
	switch s {
	case NAKSequenceError:
		return "NAK PSN sequence error"
	case NAKInvalidRequest:
		return "NAK invalid request"
	case NAKRemoteAccessError:
		return "NAK remote access error"
	case NAKRemoteOperational:
		return "NAK remote operational error"
	case NAKInvalidRDRequest:
		return "NAK invalid RD request"
	default:
	}
	switch s.Class() {
	case ClassACK:
		if n, limited := s.Credits(); limited {
			return fmt.Sprintf("ACK, %d credits", n)
		}
		return "ACK"
	case ClassRNR:
		return fmt.Sprintf("RNR NAK %v", s.RNRTimer())
	case ClassReserved, ClassNAK:
	}
	return fmt.Sprintf("Syndrome(%#02x)", uint8(s))
}

// creditTable is IBTA table 45.
var creditTable = [31]uint16{ //nolint:gochecknoglobals // a table: never written
	0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192,
	12288, 16384, 24576, 32768,
}

// rnrTable is IBTA table 46, in units of 10 µs.
var rnrTable = [32]uint32{ //nolint:gochecknoglobals // a table: never written
	65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768,
	1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
}

// RNRTimer is the time a code of min_rnr_timer or of an RNR NAK stands for (IBTA table 46); only five bits count.
func RNRTimer(code uint8) time.Duration {
	return time.Duration(rnrTable[code&syndromeValueMask]) * 10 * time.Microsecond
}

// AtomicAckETH carries the target's original value (IBTA 9.2.8).
type AtomicAckETH struct{ Original uint64 }

// Append encodes the header.
func (h AtomicAckETH) Append(b []byte) []byte { return binary.BigEndian.AppendUint64(b, h.Original) }

// ParseAtomicAckETH decodes the header at the front of b and returns the bytes after it.
func ParseAtomicAckETH(b []byte) (AtomicAckETH, []byte, error) {
	if len(b) < AtomicAckETHBytes {
		return AtomicAckETH{}, nil, fmt.Errorf("AtomicAckETH: %d bytes, need %d", len(b), AtomicAckETHBytes)
	}
	return AtomicAckETH{Original: binary.BigEndian.Uint64(b)}, b[AtomicAckETHBytes:], nil
}

// DETH is the datagram extended transport header of UD (IBTA 9.2.4).
type DETH struct {
	QKey      uint32 // the receiver's
	Reserved  uint8  // sent 0
	SourceQPN uint32 // 24 bits
}

// Append encodes the header.
func (h DETH) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, h.QKey)
	return binary.BigEndian.AppendUint32(b, uint32(h.Reserved)<<24|h.SourceQPN&Mask24)
}

// PutDETH encodes the header into the first 8 bytes of b.
func PutDETH(b []byte, qkey, sourceQPN uint32) {
	_ = b[DETHBytes-1]
	binary.BigEndian.PutUint32(b, qkey)
	binary.BigEndian.PutUint32(b[4:], sourceQPN&Mask24)
}

// ParseDETH decodes the header at the front of b and returns the bytes after it.
func ParseDETH(b []byte) (DETH, []byte, error) {
	if len(b) < DETHBytes {
		return DETH{}, nil, fmt.Errorf("DETH: %d bytes, need %d", len(b), DETHBytes)
	}
	return deth(b), b[DETHBytes:], nil
}

func deth(b []byte) DETH {
	_ = b[DETHBytes-1]
	return DETH{QKey: binary.BigEndian.Uint32(b), Reserved: b[4], SourceQPN: Uint24(b[5:])}
}

// ImmDt is immediate data: a number that travels big-endian to the peer's completion (IBTA 9.2.9).
type ImmDt uint32

// Append encodes the header.
func (h ImmDt) Append(b []byte) []byte { return binary.BigEndian.AppendUint32(b, uint32(h)) }

// ParseImmDt decodes the header at the front of b and returns the bytes after it.
func ParseImmDt(b []byte) (ImmDt, []byte, error) {
	if len(b) < ImmediateBytes {
		return 0, nil, fmt.Errorf("ImmDt: %d bytes, need %d", len(b), ImmediateBytes)
	}
	return ImmDt(binary.BigEndian.Uint32(b)), b[ImmediateBytes:], nil
}

// IETH names the key that a SEND_WITH_INVALIDATE invalidates (IBTA 9.2.10).
type IETH struct{ RKey uint32 }

// Append encodes the header.
func (h IETH) Append(b []byte) []byte { return binary.BigEndian.AppendUint32(b, h.RKey) }

// ParseIETH decodes the header at the front of b and returns the bytes after it.
func ParseIETH(b []byte) (IETH, []byte, error) {
	if len(b) < IETHBytes {
		return IETH{}, nil, fmt.Errorf("IETH: %d bytes, need %d", len(b), IETHBytes)
	}
	return IETH{RKey: binary.BigEndian.Uint32(b)}, b[IETHBytes:], nil
}

// PutUint32 writes an immediate or an invalidated key: four bytes, big-endian.
func PutUint32(b []byte, v uint32) { binary.BigEndian.PutUint32(b, v) }

// PutUint64 writes an atomic's original value: eight bytes, big-endian.
func PutUint64(b []byte, v uint64) { binary.BigEndian.PutUint64(b, v) }
