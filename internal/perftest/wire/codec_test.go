package wire

import (
	"bytes"
	"encoding/hex"
	"math"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/internal/testrun"
	"github.com/gobw/gobw/verbs"
)

func TestKeys(t *testing.T) {
	text := "0000:0001:000012:2b26b4:00000342:00005635982f1000:" +
		"00:00:00:00:00:00:00:00:00:00:ff:ff:c0:a8:4d:01:00000000:\x00"
	want := control.Address{
		QPN: 0x12, PSN: 0x2b26b4, RKey: 0x342, Addr: 0x5635982f1000, HasGID: true, Outstanding: 1,
		GID: verbs.GIDFromAddr(netip.MustParseAddr("192.168.77.1")),
	}
	got, err := ParseKeys([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("address (-got +want):\n%s", diff)
	}
	if b := encodeKeys(got); string(b) != text {
		t.Errorf("encodes to %q", b)
	}
	for _, bad := range []string{
		"", text[:58], text[:107] + "x", strings.Replace(text, "ff:ff", "ff:gg", 1),
		strings.Replace(text, "4d:01", "04d:1", 1), strings.Replace(text, ":\x00", "0\x00", 1), strings.Repeat("0", 108),
		strings.Repeat("0", 59),
	} {
		if a, err := ParseKeys([]byte(bad)); err == nil {
			t.Errorf("parseKeys(%q) = %+v, want an error", bad, a)
		}
	}
}

func FuzzKeys(f *testing.F) {
	f.Add(encodeKeys(control.Address{QPN: 18, HasGID: true}))
	f.Add(encodeKeys(control.Address{QPN: 18}))
	f.Add(bytes.Repeat([]byte{'0'}, KeysBytes))
	testrun.Fuzz(f, func(t *testing.T, b []byte) {
		a, err := ParseKeys(b)
		if err != nil {
			return
		}
		if again, err := ParseKeys(encodeKeys(a)); err != nil || again != a {
			t.Errorf("%+v decodes again as %+v, %v", a, again, err)
		}
	})
}

func FuzzNegotiation(f *testing.F) {
	spec := planOf(plan.Bandwidth, func(*plan.Spec) {})
	f.Add(NegotiationOf(&spec, false, verbs.MTU1024, 16).Encode(NegotiationBytes))
	f.Add(NegotiationOf(&spec, true, verbs.MTU1024, 16).Encode(NegotiationBytesNoMLX5))
	testrun.Fuzz(f, func(t *testing.T, b []byte) {
		n, err := ParseNegotiation(b)
		if err != nil {
			return
		}
		if again, err := ParseNegotiation(n.Encode(len(b))); err != nil || again != n {
			t.Errorf("%+v decodes again as %+v, %v", n, again, err)
		}
		if p, err := n.plan(); err == nil {
			if _, err := plan.Settle(*p, plan.Limits{}, plan.Peer{Perftest: true}, plan.Policy{}); err != nil {
				t.Errorf("%+v makes a plan that is refused: %v", n, err)
			}
		}
	})
}

func FuzzReport(f *testing.F) {
	f.Add(make([]byte, ReportBytes))
	testrun.Fuzz(f, func(t *testing.T, b []byte) {
		for _, u := range []bool{false, true} {
			if r := DecodeReport(b, u); plausible(r) && (math.IsNaN(r.AverageBits) || r.AverageBits < 0) {
				t.Errorf("%+v is no report", r)
			}
		}
	})
}

func planOf(kind plan.Kind, change func(*plan.Spec)) plan.Spec {
	p := plan.Spec{Operation: plan.Write, Kind: kind, Transport: verbs.RC, Sizes: []int{64}, Iterations: 5000}
	change(&p)
	return p
}

// TestKeysRDMA compares with the struct that perftest 4.5 and 6.29 send.
func TestKeysRDMA(t *testing.T) {
	a := control.Address{
		LID: 0x12, Outstanding: 16, QPN: 0x345678, PSN: 0x9abcde, RKey: 0x01020304, Addr: 0x7f0011223344, HasGID: true,
		GID: verbs.GIDFromAddr(netip.MustParseAddr("10.77.0.1")), SRQN: 5,
	}
	head := "00000012" + "00000010" + "00345678" + "009abcde" + "01020304" + "00000000" + "00007f0011223344"
	tail := "00000000000000000000ffff0a4d0001" + "00000005" + "00000000"
	for length, want := range map[int]string{
		KeysBytesRDMA: head + tail, keysBytesRDMAModern: head + "0000000000000000" + tail,
	} {
		b := EncodeKeysRDMA(a, length)
		if got := hex.EncodeToString(b); got != want {
			t.Errorf("%d bytes:\n got %s\nwant %s", length, got, want)
		}
		back, err := parseKeysRDMA(b)
		if diff := cmp.Diff(back, a); err != nil || diff != "" {
			t.Errorf("%d bytes: %v, %s", length, err, diff)
		}
	}
	for _, b := range [][]byte{nil, make([]byte, 55), bytes.Repeat([]byte{0xff}, KeysBytesRDMA)} {
		if _, err := parseKeysRDMA(b); err == nil {
			t.Errorf("%x is taken for keys", b)
		}
	}
}

// FuzzKeysRDMA: whatever parses is encoded as it came, reserved bytes aside.
func FuzzKeysRDMA(f *testing.F) {
	f.Add(make([]byte, KeysBytesRDMA))
	f.Add(bytes.Repeat([]byte{1}, keysBytesRDMAModern))
	testrun.Fuzz(f, func(t *testing.T, b []byte) {
		a, err := parseKeysRDMA(b)
		if err != nil {
			return
		}
		back, err := parseKeysRDMA(EncodeKeysRDMA(a, len(b)))
		if err != nil || back != a {
			t.Errorf("%x: %+v, again %+v, %v", b, a, back, err)
		}
	})
}
