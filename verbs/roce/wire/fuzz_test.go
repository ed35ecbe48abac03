package wire

import (
	"bytes"
	"testing"

	"github.com/gobw/gobw/internal/testrun"
)

func FuzzPacket(f *testing.F) {
	for _, v := range readVectors(f) {
		d, err := ParseDatagram(unhex(f, v.IP))
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
		if got := p.Opcode.HeaderBytes() + len(p.Payload) + int(p.BTH().Pad) + ICRCBytes; got != len(b) {
			t.Errorf("%v: parts make %d bytes, want %d", p.Opcode, got, len(b))
		}
	})
}

func FuzzDatagram(f *testing.F) {
	for _, v := range readVectors(f) {
		f.Add(unhex(f, v.IP))
	}
	testrun.Fuzz(f, func(t *testing.T, ip []byte) {
		d, err := ParseDatagram(ip)
		if err != nil {
			return
		}
		again, err := ParseDatagram(d.AppendIP(nil))
		if err != nil {
			t.Fatal(err)
		}
		if again.Source != d.Source || again.Dest != d.Dest || again.ID != d.ID || !bytes.Equal(again.Payload, d.Payload) {
			t.Errorf("encoded and decoded again: %+v, want %+v", again, d)
		}
		flow, err := NewFlow(d.Source, d.Dest)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = flow.Solve(d.Payload, d.ID) // must not panic, whatever the length
	})
}

func FuzzPcap(f *testing.F) {
	var file bytes.Buffer
	w, err := NewPcapWriter(&file, LinkRawIP)
	if err != nil {
		f.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		f.Fatal(err)
	}
	f.Add(file.Bytes())
	testrun.Fuzz(f, func(_ *testing.T, b []byte) {
		r, err := NewPcapReader(bytes.NewReader(b))
		for err == nil {
			var frame []byte
			if _, frame, err = r.Next(); err == nil {
				_, _ = r.IP(frame)
			}
		}
	})
}
