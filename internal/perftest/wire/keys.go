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
	gid, end := "", "\x00"
	if a.HasGID {
		gid, end = strings.ReplaceAll(fmt.Sprintf("% x ", a.GID[:]), " ", ":"), ":\x00"
	}
	return fmt.Appendf(nil, "%04x:%04x:%06x:%06x:%08x:%016x:%s%08x%s",
		a.LID, uint16(a.Outstanding), a.QPN&0xff_ffff, a.PSN&0xff_ffff, a.RKey, a.Addr, gid, a.SRQN, end)
}

// Where the bytes of a GID are in the long form, each with its colon. The long form has one colon more, before its NUL.
const (
	gidBegins = 50
	gidEnds   = gidBegins + KeysBytes - KeysBytesNoGID - 1
)

// ParseKeys decodes a keys message of either form. perftest writes an address in one way, so
// what encodes to other bytes is refused.
func ParseKeys(b []byte) (a control.Address, err error) {
	text, gid := string(b), ""
	if a.HasGID = len(b) == KeysBytes; a.HasGID {
		text, gid = text[:gidBegins]+text[gidEnds:], text[gidBegins:gidEnds]
	}
	_, _ = fmt.Sscanf(text, "%x:%x:%x:%x:%x:%x:%x", &a.LID, &a.Outstanding, &a.QPN, &a.PSN, &a.RKey, &a.Addr, &a.SRQN)
	digits, _ := hex.DecodeString(strings.ReplaceAll(gid, ":", ""))
	copy(a.GID[:], digits)
	if !bytes.Equal(encodeKeys(a), b) {
		return control.Address{}, fmt.Errorf("keys %q: want %d bytes in 24 fields, or %d in 7", b, KeysBytes, KeysBytesNoGID)
	}
	return a, nil
}

// Lengths of a keys message by RDMA CM: a struct, all fields big-endian. 6.29 put 8 bytes between its front and its
// back.
const (
	KeysBytesRDMA       = 56
	keysBytesRDMAModern = 64
	keysBackBytes       = 24
)

// keysFront and keysBack are the fields before and behind those 8 bytes.
type (
	keysFront struct {
		LID, Outstanding, QPN, PSN, RKey, _ uint32
		Addr                                uint64
	}
	keysBack struct {
		GID            verbs.GID
		SRQN, GIDIndex uint32 // nobody needs the index
	}
)

// EncodeKeysRDMA encodes an address in the form of the given length.
func EncodeKeysRDMA(a control.Address, length int) []byte {
	front := keysFront{
		LID: uint32(a.LID), Outstanding: uint32(a.Outstanding), QPN: a.QPN, PSN: a.PSN, RKey: a.RKey, Addr: a.Addr,
	}
	b := make([]byte, length)
	_, _ = binary.Encode(b, binary.BigEndian, front)
	_, _ = binary.Encode(b[length-keysBackBytes:], binary.BigEndian, keysBack{GID: a.GID, SRQN: a.SRQN})
	return b
}

// parseKeysRDMA decodes a keys message of either length.
func parseKeysRDMA(b []byte) (control.Address, error) {
	if len(b) != KeysBytesRDMA && len(b) != keysBytesRDMAModern {
		return control.Address{}, fmt.Errorf("keys by RDMA CM: %d bytes, want %d or %d", len(b), KeysBytesRDMA,
			keysBytesRDMAModern)
	}
	var x keysFront
	var y keysBack
	_, _ = binary.Decode(b, binary.BigEndian, &x)
	_, _ = binary.Decode(b[len(b)-keysBackBytes:], binary.BigEndian, &y)
	if x.LID > 0xffff || x.Outstanding > 0xffff || x.QPN > 0xff_ffff || x.PSN > 0xff_ffff {
		return control.Address{}, fmt.Errorf("keys by RDMA CM %x: LID, reads in flight, QPN or PSN out of range", b)
	}
	return control.Address{
		LID: uint16(x.LID), Outstanding: int(x.Outstanding), QPN: x.QPN, PSN: x.PSN, RKey: x.RKey, Addr: x.Addr,
		GID: y.GID, HasGID: !y.GID.IsZero(), SRQN: y.SRQN,
	}, nil
}

// checkGIDFamilies does what perftest does at both ends: both GIDs stand for IPv4 addresses, or neither.
func checkGIDFamilies(local, remote control.Address) error {
	if !local.HasGID || local.GID.Addr().Is4() == remote.GID.Addr().Is4() {
		return nil
	}
	return fmt.Errorf("GID families differ: this end's is %v, the peer's %v; choose both of IPv4, or both of IPv6, "+
		"with -x on each end",
		local.GID.Addr(), remote.GID.Addr())
}
