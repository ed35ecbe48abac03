package wire

import (
	"bytes"
	"hash/crc32"
	"net/netip"
	"testing"

	"github.com/gobw/gobw/internal/testrun"
)

func FuzzPacket(f *testing.F) {
	for _, v := range readVectors(f) {
		d, err := parseDatagram(unhex(f, v.IP))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(d.Payload)
	}
	testrun.Fuzz(f, func(t *testing.T, b []byte) {
		p, err := ParsePacket(b)
		if err != nil {
			return
		}
		if got := encode(t, b); !bytes.Equal(got, b) {
			t.Errorf("%v re-encoded\n%x, want\n%x", p.Opcode, got, b)
		}
		if got := p.Opcode.HeaderBytes() + len(p.Payload) + int(b[1]>>4&3) + ICRCBytes; got != len(b) {
			t.Errorf("%v: parts make %d bytes, want %d", p.Opcode, got, len(b))
		}
	})
}

func FuzzDatagram(f *testing.F) {
	for _, v := range readVectors(f) {
		f.Add(unhex(f, v.IP))
	}
	testrun.Fuzz(f, func(t *testing.T, ip []byte) {
		d, err := parseDatagram(ip)
		if err != nil {
			return
		}
		again, err := parseDatagram(d.AppendIP(nil))
		if err != nil {
			t.Fatal(err)
		}
		// an IPv4 address as IPv6 writes it is that one
		plain := func(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }
		if plain(again.Source) != plain(d.Source) || plain(again.Dest) != plain(d.Dest) || again.ID != d.ID ||
			!bytes.Equal(again.Payload, d.Payload) {
			t.Errorf("encoded and decoded again: %+v, want %+v", again, d)
		}
		flow, err := NewFlow(d.Source, d.Dest)
		if two := d.Source.Addr().Unmap().Is4() != d.Dest.Addr().Unmap().Is4(); two != (err != nil) {
			t.Fatalf("%v to %v: %v", d.Source, d.Dest, err)
		} else if two {
			return
		}
		_, _ = flow.Solve(d.Payload, d.ID) // must not panic, whatever the length
	})
}

// FuzzICRC compares the CRC of bytes in two pieces, one of them copied, with hash/crc32.
// The first byte says where the cut is.
func FuzzICRC(f *testing.F) {
	f.Add([]byte("123456789 and somewhat more"))
	testrun.Fuzz(f, func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return
		}
		cut := int(b[0]) % len(b)
		to := make([]byte, len(b)-cut)
		got := CopyICRC(UpdateICRC(7, b[:cut]), to, b[cut:])
		if want := crc32.Update(7, crc32.IEEETable, b); got != want || !bytes.Equal(to, b[cut:]) {
			t.Errorf("%x cut at %d: %08x and %x, want %08x", b, cut, got, to, want)
		}
	})
}
