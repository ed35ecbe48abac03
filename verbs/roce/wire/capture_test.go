package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// vector is one packet of testdata/vectors.json: decoded and checked by another implementation.
type vector struct {
	File     string `json:"file"`
	Packet   int    `json:"packet"`
	IP       string `json:"ip_hex"`
	ID       uint16 `json:"ip_id"`
	Fragment uint16 `json:"flags_frag"`
	BTH      struct {
		Opcode    Opcode `json:"opcode"`
		Solicited uint8  `json:"solicited"`
		Migrated  uint8  `json:"migreq"`
		Pad       uint8  `json:"pad"`
		Version   uint8  `json:"tver"`
		PKey      uint16 `json:"pkey"`
		FECN      uint8  `json:"fecn"`
		BECN      uint8  `json:"becn"`
		DestQPN   uint32 `json:"dest_qpn"`
		AckReq    uint8  `json:"ack_req"`
		PSN       uint32 `json:"psn"`
	} `json:"bth"`
	Name string `json:"-"`
	DETH *struct {
		QKey      uint32 `json:"qkey"`
		SourceQPN uint32 `json:"src_qpn"`
	} `json:"deth"`
	RETH *struct {
		Addr   hexNumber `json:"va"`
		RKey   uint32    `json:"rkey"`
		Length uint32    `json:"length"`
	} `json:"reth"`
	AtomicETH *struct {
		Addr    hexNumber `json:"va"`
		RKey    uint32    `json:"rkey"`
		SwapAdd hexNumber `json:"swap_add"`
		Compare hexNumber `json:"compare"`
	} `json:"atomiceth"`
	AETH *struct {
		Syndrome Syndrome `json:"syndrome"`
		MSN      uint32   `json:"msn"`
	} `json:"aeth"`
	AtomicAckETH *struct {
		Original hexNumber `json:"original"`
	} `json:"atomicacketh"`
	IETH *struct {
		RKey uint32 `json:"rkey"`
	} `json:"ieth"`
	Immediate     string `json:"immdt_wire_hex"`
	HeaderBytes   int    `json:"transport_header_length"`
	PayloadBytes  int    `json:"payload_length_bytes"`
	PayloadOffset int    `json:"payload_offset"`
	Wire          string `json:"icrc_wire_hex"`
	Expected      string `json:"icrc_expected_wire_hex"`
	Valid         bool   `json:"icrc_valid"`
	Recovery      *struct {
		Residual  hexNumber `json:"residual"`
		Steps     int       `json:"steps"`
		Factor    hexNumber `json:"factor"`
		Rewound   hexNumber `json:"rewound"`
		Accepted  bool      `json:"accepted"`
		Recovered *uint16   `json:"recovered_id"`
	} `json:"id_recovery"`
}

type hexNumber uint64

func (h *hexNumber) UnmarshalText(b []byte) error {
	v, err := strconv.ParseUint(string(b), 0, 64)
	*h = hexNumber(v)
	return err
}

func readVectors(t testing.TB) []vector {
	t.Helper()
	b, err := os.ReadFile("../testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Vectors []vector `json:"vectors"`
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	return doc.Vectors
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// encode builds a packet again from what its view says; unknown opcodes keep their bytes after the BTH.
func encode(t testing.TB, b []byte) []byte {
	t.Helper()
	out := bytes.Clone(b[:BTHBytes])
	p, err := ParsePacket(b)
	if errors.Is(err, ErrOpcode) || errors.Is(err, ErrVersion) {
		return append(out, b[BTHBytes:]...)
	}
	if err != nil {
		t.Fatal(err)
	}
	if p.Opcode.Has(HasDETH) {
		h := header(DETHBytes, p.DETH())
		h[4] = b[BTHBytes+4] // reserved: ignored when received
		out = append(out, h...)
	}
	if p.Opcode.Has(HasRETH) {
		out = append(out, header(RETHBytes, p.RETH())...)
	}
	if p.Opcode.Has(HasAtomicETH) {
		out = append(out, header(AtomicETHBytes, p.AtomicETH())...)
	}
	if p.Opcode.Has(HasAETH) {
		out = append(out, header(AETHBytes, p.AETH())...)
	}
	if p.Opcode.Has(HasAtomicAckETH) {
		out = binary.BigEndian.AppendUint64(out, p.Original())
	}
	if p.Opcode.Has(HasImmediate) {
		out = binary.BigEndian.AppendUint32(out, p.Immediate())
	}
	if p.Opcode.Has(HasIETH) {
		out = binary.BigEndian.AppendUint32(out, p.InvalidateRKey())
	}
	if p.Opcode == CongestionNotification {
		out = append(out, b[BTHBytes:p.Opcode.HeaderBytes()]...)
	}
	out = append(out, p.Payload...)
	out = append(out, b[len(out):len(b)-ICRCBytes]...) // padding: any value is allowed
	return append(out, b[len(b)-ICRCBytes:]...)
}

func flag(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

func TestVectors(t *testing.T) {
	refused := 0
	for _, v := range readVectors(t) {
		t.Run(v.File+"/"+strconv.Itoa(v.Packet), func(t *testing.T) {
			ip := unhex(t, v.IP)
			d, err := parseDatagram(ip)
			if err != nil {
				t.Fatal(err)
			}
			if got := encode(t, d.Payload); !bytes.Equal(got, d.Payload) {
				t.Errorf("re-encoded %x, want %x", got, d.Payload)
			}
			if got := d.AppendIP(nil); !bytes.Equal(got, ip) {
				t.Errorf("datagram re-encoded\n%x, want\n%x", got, ip)
			}
			checkBTH(t, d.Payload, &v)
			if p, err := ParsePacket(d.Payload); err == nil {
				checkHeaders(t, &p, &v)
			} else if v.BTH.Opcode.Has(Known) && v.BTH.Version == 0 {
				t.Errorf("refused: %v", err)
			}

			crc, err := icrcByDefinition(ip)
			if err != nil {
				t.Fatal(err)
			}
			wire := make([]byte, ICRCBytes)
			PutICRC(wire, crc)
			if got := hex.EncodeToString(wire); got != v.Expected {
				t.Errorf("ICRC by the definition %s, want %s", got, v.Expected)
			}
			f := mustFlow(t, &d)
			sealed := bytes.Clone(d.Payload)
			f.Seal(sealed, d.ID)
			if got := hex.EncodeToString(sealed[len(sealed)-ICRCBytes:]); got != v.Expected && d.Fragment == dontFragment {
				t.Errorf("sealed with ICRC %s, want %s", got, v.Expected)
			}
			if (v.Wire == v.Expected) != v.Valid {
				t.Error("the vector contradicts itself")
			}
			if !v.Valid {
				refused++
			}
			checkRecovery(t, &f, &d, &v)
		})
	}
	if refused != 4 {
		t.Errorf("%d vectors with a wrong ICRC, want 4", refused)
	}
}

func mustFlow(t testing.TB, d *Datagram) Flow {
	t.Helper()
	f, err := NewFlow(d.Source, d.Dest)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func checkBTH(t *testing.T, b []byte, v *vector) {
	t.Helper()
	p := Packet{Raw: b}
	got := v.BTH
	got.Opcode, got.Solicited, got.Migrated, got.Pad, got.Version = Opcode(b[0]), flag(p.Solicited()),
		flag(b[1]&0x40 != 0), b[1]>>4&3, b[1]&15
	got.PKey, got.FECN, got.BECN, got.DestQPN, got.AckReq, got.PSN = p.PKey(), flag(b[4]&0x80 != 0), flag(b[4]&0x40 != 0),
		p.DestQPN(), flag(p.AckReq()), p.PSN()
	if diff := cmp.Diff(v.BTH, got); diff != "" {
		t.Errorf("BTH (-want +got):\n%s", diff)
	}
}

func checkHeaders(t *testing.T, p *Packet, v *vector) {
	t.Helper()
	if got := p.Opcode.HeaderBytes(); got != v.HeaderBytes {
		t.Errorf("headers take %d bytes, want %d", got, v.HeaderBytes)
	}
	if got := len(p.Payload); got != v.PayloadBytes {
		t.Errorf("payload has %d bytes, want %d", got, v.PayloadBytes)
	}
	if v.DETH != nil && (p.DETH().QKey != v.DETH.QKey || p.DETH().SourceQPN != v.DETH.SourceQPN) {
		t.Errorf("DETH %+v, want %+v", p.DETH(), *v.DETH)
	}
	if v.RETH != nil && (p.RETH() != RETH{uint64(v.RETH.Addr), v.RETH.RKey, v.RETH.Length}) {
		t.Errorf("RETH %+v, want %+v", p.RETH(), *v.RETH)
	}
	if a := v.AtomicETH; a != nil &&
		(p.AtomicETH() != AtomicETH{uint64(a.Addr), a.RKey, uint64(a.SwapAdd), uint64(a.Compare)}) {
		t.Errorf("AtomicETH %+v, want %+v", p.AtomicETH(), *a)
	}
	if v.AETH != nil && (p.AETH() != AETH{v.AETH.Syndrome, v.AETH.MSN}) {
		t.Errorf("AETH %+v, want %+v", p.AETH(), *v.AETH)
	}
	if v.AtomicAckETH != nil && p.Original() != uint64(v.AtomicAckETH.Original) {
		t.Errorf("original %#x, want %#x", p.Original(), v.AtomicAckETH.Original)
	}
	if v.IETH != nil && p.InvalidateRKey() != v.IETH.RKey {
		t.Errorf("IETH %#x, want %#x", p.InvalidateRKey(), v.IETH.RKey)
	}
	if got := fmt.Sprintf("%08x", p.Immediate()); v.Immediate != "" && got != v.Immediate {
		t.Errorf("immediate %s, want %s", got, v.Immediate)
	}
}

func checkRecovery(t *testing.T, f *Flow, d *Datagram, v *vector) {
	t.Helper()
	id, ok := f.Solve(d.Payload, 0)
	if v.Recovery == nil { // IPv6
		if ok != v.Valid {
			t.Errorf("verified %v, want %v", ok, v.Valid)
		}
		return
	}
	r := v.Recovery
	if ok != r.Accepted {
		t.Fatalf("verified %v, want %v", ok, r.Accepted)
	}
	if got := f.residual(d.Payload, 0); got != uint32(r.Residual) {
		t.Errorf("residual %#x, want %#x", got, r.Residual)
	}
	if got := factor(r.Steps); got != uint32(r.Factor) {
		t.Errorf("factor(%d) = %#x, want %#x", r.Steps, got, r.Factor)
	}
	if got := v4().factors[r.Steps]; got != uint32(r.Factor) {
		t.Errorf("factors[%d] = %#x, want %#x", r.Steps, got, r.Factor)
	}
	if got := multiply(uint32(r.Residual), factor(r.Steps)); got != uint32(r.Rewound) {
		t.Errorf("rewound %#x, want %#x", got, r.Rewound)
	}
	if !r.Accepted {
		return
	}
	if id != *r.Recovered {
		t.Errorf("recovered ID %d, want %d", id, *r.Recovered)
	}
	if guess, ok := f.Solve(d.Payload, id); !ok || guess != id {
		t.Errorf("with the right ID: %d, %v", guess, ok)
	}
	if again, ok := f.Solve(d.Payload, 77); !ok || again != id {
		t.Errorf("from guess 77 recovered ID %d, %v; want %d", again, ok, id)
	}
	if got, want := f.Check(d.Payload, id), d.Fragment == dontFragment; got != want {
		t.Errorf("check: %v, want %v", got, want)
	}
}

// TestCaptures decodes, encodes and verifies every packet of every capture.
func TestCaptures(t *testing.T) {
	files, err := filepath.Glob("../testdata/*.pcap")
	if err != nil || len(files) != 46 {
		t.Fatalf("%d capture files (%v), want 46", len(files), err)
	}
	total, wrong := 0, 0
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		r, err := newPcapReader(file)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for n := 1; ; n++ {
			_, frame, err := r.next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s packet %d: %v", name, n, err)
			}
			ip, err := r.ip(frame)
			if err != nil {
				t.Fatalf("%s packet %d: %v", name, n, err)
			}
			d, err := parseDatagram(ip)
			if err != nil {
				t.Fatalf("%s packet %d: %v", name, n, err)
			}
			total++
			if got := encode(t, d.Payload); !bytes.Equal(got, d.Payload) {
				t.Errorf("%s packet %d: re-encoded\n%x, want\n%x", name, n, got, d.Payload)
			}
			crc, err := icrcByDefinition(ip)
			if err != nil {
				t.Fatal(err)
			}
			body := d.Payload[:len(d.Payload)-ICRCBytes]
			f := mustFlow(t, &d)
			if d.Fragment == dontFragment || !d.Source.Addr().Is4() {
				if got := BeginICRC(f.Prefix(len(d.Payload)+UDPBytes, d.ID), body); got != crc {
					t.Errorf("%s packet %d: fast ICRC %#x, want %#x", name, n, got, crc)
				}
			}
			sealed := make([]byte, ICRCBytes)
			PutICRC(sealed, crc)
			if !bytes.Equal(sealed, d.Payload[len(body):]) {
				wrong++
				continue
			}
			if id, ok := f.Solve(d.Payload, 0); !ok || id != d.ID {
				t.Errorf("%s packet %d: verified ID %d, %v; want %d", name, n, id, ok, d.ID)
			}
		}
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	}
	if total != 1021 || wrong != 4 {
		t.Errorf("%d packets, %d with a wrong ICRC; want 1021 and 4", total, wrong)
	}
}
