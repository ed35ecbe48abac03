package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/verbs"
)

// Lengths of a keys message: with a GID (always on RoCE) and without.
const (
	KeysBytes      = 108
	KeysBytesNoGID = 59
)

// encodeKeys encodes an address as perftest does: zero-padded lower-case hex fields joined by colons, a NUL at the end.
func encodeKeys(a control.Address) []byte {
	b := fmt.Appendf(nil, "%04x:%04x:%06x:%06x:%08x:%016x:", a.LID, uint16(a.Outstanding), a.QPN&0xff_ffff, a.PSN&0xff_ffff, a.RKey, a.Addr)
	if a.HasGID {
		for _, x := range a.GID {
			b = fmt.Appendf(b, "%02x:", x)
		}
	}
	b = fmt.Appendf(b, "%08x", a.SRQN)
	if a.HasGID {
		b = append(b, ':')
	}
	return append(b, 0)
}

// ParseKeys decodes a keys message of either form.
func ParseKeys(b []byte) (control.Address, error) {
	wrong := fmt.Errorf("keys %q: want %d bytes in 24 fields, or %d in 7", b, KeysBytes, KeysBytesNoGID)
	m, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSuffix(string(b), "\x00"), ":", ""))
	if err != nil || len(m) < 26 {
		return control.Address{}, wrong
	}
	a := control.Address{
		LID: binary.BigEndian.Uint16(m), Outstanding: int(binary.BigEndian.Uint16(m[2:])),
		QPN: binary.BigEndian.Uint32(m[3:]) & 0xff_ffff, PSN: binary.BigEndian.Uint32(m[6:]) & 0xff_ffff,
		RKey: binary.BigEndian.Uint32(m[10:]), Addr: binary.BigEndian.Uint64(m[14:]), SRQN: binary.BigEndian.Uint32(m[len(m)-4:]),
	}
	if a.HasGID = len(b) == KeysBytes; a.HasGID {
		copy(a.GID[:], m[22:])
	}
	if !bytes.Equal(encodeKeys(a), b) { // perftest writes them in no other way
		return control.Address{}, wrong
	}
	return a, nil
}

// Lengths of a keys message by RDMA CM: a struct, all fields big-endian. 6.29 put an address between the other two.
const (
	KeysBytesRDMA       = 56
	keysBytesRDMAModern = 64
)

// EncodeKeysRDMA encodes an address in the form of the given length.
func EncodeKeysRDMA(a control.Address, length int) []byte {
	b := make([]byte, length)
	for i, v := range []uint32{uint32(a.LID), uint32(a.Outstanding), a.QPN, a.PSN, a.RKey} {
		binary.BigEndian.PutUint32(b[4*i:], v)
	}
	binary.BigEndian.PutUint64(b[24:], a.Addr)
	copy(b[length-24:], a.GID[:])
	binary.BigEndian.PutUint32(b[length-8:], a.SRQN) // and behind it the index of the GID, which nobody needs
	return b
}

// parseKeysRDMA decodes a keys message of either length.
func parseKeysRDMA(b []byte) (control.Address, error) {
	if len(b) != KeysBytesRDMA && len(b) != keysBytesRDMAModern {
		return control.Address{}, fmt.Errorf("keys by RDMA CM: %d bytes, want %d or %d", len(b), KeysBytesRDMA, keysBytesRDMAModern)
	}
	get := func(at int) uint32 { return binary.BigEndian.Uint32(b[at:]) }
	a := control.Address{
		LID: uint16(get(0)), Outstanding: int(get(4)), QPN: get(8), PSN: get(12), RKey: get(16), Addr: binary.BigEndian.Uint64(b[24:]),
		GID: verbs.GID(b[len(b)-24:][:16]), SRQN: get(len(b) - 8),
	}
	a.HasGID = !a.GID.IsZero()
	if get(0) > 0xffff || a.Outstanding > 0xffff || a.QPN > 0xff_ffff || a.PSN > 0xff_ffff {
		return control.Address{}, fmt.Errorf("keys by RDMA CM %x: LID, reads in flight, QPN or PSN out of range", b)
	}
	return a, nil
}

// checkGIDFamilies does what perftest does at both ends: both GIDs stand for IPv4 addresses, or neither.
func checkGIDFamilies(local, remote control.Address) error {
	if !local.HasGID || local.GID.Addr().Is4() == remote.GID.Addr().Is4() {
		return nil
	}
	return fmt.Errorf("GID families differ: this end's is %v, the peer's %v; choose both of IPv4, or both of IPv6, with -x on each end",
		local.GID.Addr(), remote.GID.Addr())
}
