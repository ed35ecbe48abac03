package perftest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
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
	a := control.Address{HasGID: len(b) == KeysBytes}
	text, terminated := bytes.CutSuffix(b, []byte{0})
	fields := strings.Split(string(text), ":")
	want := 7
	if a.HasGID {
		want = 6 + len(a.GID) + 2 // the last colon leaves an empty field
	}
	if len(b) != KeysBytes && len(b) != KeysBytesNoGID || !terminated || len(fields) != want || a.HasGID && fields[want-1] != "" {
		return control.Address{}, fmt.Errorf("keys %q: %d bytes in %d fields, want %d in 24 or %d in 7", b, len(b), len(fields), KeysBytes, KeysBytesNoGID)
	}
	var problem error
	number := func(i, bits int) uint64 {
		v, err := strconv.ParseUint(fields[i], 16, bits)
		if err != nil && problem == nil {
			problem = fmt.Errorf("keys %q: %w", b, err)
		}
		return v
	}
	a.LID, a.Outstanding = uint16(number(0, 16)), int(number(1, 16))
	a.QPN, a.PSN = uint32(number(2, 24)), uint32(number(3, 24))
	a.RKey, a.Addr = uint32(number(4, 32)), number(5, 64)
	next := 6
	if a.HasGID {
		for i := range a.GID {
			if a.GID[i] = byte(number(next, 8)); len(fields[next]) != 2 {
				return control.Address{}, fmt.Errorf("keys %q: byte %d of the GID is %q", b, i, fields[next])
			}
			next++
		}
	}
	a.SRQN = uint32(number(next, 32))
	return a, problem
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
