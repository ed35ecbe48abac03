package native

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
)

// TestReadFrameBounds offers lengths that no message has, and to each kind its longest and one more.
func TestReadFrameBounds(t *testing.T) {
	frame := func(length int, text string) *bytes.Reader {
		return bytes.NewReader(append(binary.BigEndian.AppendUint32(nil, uint32(length)), text...))
	}
	refused := func(name string, r io.Reader) {
		t.Helper()
		_, err := ReadFrame(r)
		var format *control.FormatError
		if !errors.As(err, &format) || !strings.Contains(err.Error(), "the limit is") {
			t.Errorf("%s: %v, want a refusal for its length", name, err)
		}
	}
	refused("0", frame(0, "{}"))
	refused("4 GiB", frame(1<<32-1, "{}"))
	for _, k := range []Kind{
		KindChallenge, KindProof, KindHello, KindPropose, KindPlan, kindFacts, KindAddresses, kindSync, kindReport, kindHeartbeat, KindError,
		KindBusy, kindBye, "unknown",
	} {
		text := `{"kind":"` + string(k) + `"`
		longest := text + strings.Repeat(" ", k.maxBytes()-len(text)-1) + "}"
		if m, err := ReadFrame(frame(len(longest), longest)); err != nil || m.Kind != k {
			t.Errorf("%s of %d bytes: %q, %v", k, len(longest), m.Kind, err)
		}
		if _, err := ReadFrame(frame(len(longest), longest[:len(longest)-1])); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s cut short: %v, want an unexpected end", k, err)
		}
		refused(string(k), frame(len(longest)+1, longest+" "))
	}
	late := `{` + strings.Repeat(" ", maxShortBytes) + `"kind":"report"}` // long, and does not begin with its kind
	refused("kind at the end", frame(len(late), late))
}

// TestHeartbeatsAllocateNothing: a peer may send many of them while the garbage is not collected.
func TestHeartbeatsAllocateNothing(t *testing.T) {
	b, err := AppendFrame(nil, Message{Kind: kindHeartbeat})
	if err != nil {
		t.Fatal(err)
	}
	var f frameReader
	r := bytes.NewReader(b)
	n := testing.AllocsPerRun(100, func() {
		r.Reset(b)
		if m, err := f.next(r); err != nil || m.Kind != kindHeartbeat {
			t.Fatalf("%q, %v", m.Kind, err)
		}
	})
	if n != 0 {
		t.Errorf("a heartbeat allocates %v times", n)
	}
}

// TestPeerCannotSteerTheTerminal sends what a terminal would obey: it arrives as text that shows.
func TestPeerCannotSteerTheTerminal(t *testing.T) {
	for _, c := range []struct{ sent, want string }{
		{`"\u001b[2Jgone"`, "\ufffd[2Jgone"},
		{`"\u001B]0;title\u0007"`, "\ufffd]0;title\ufffd"},
		{`"\u009b1m \u007f \b"`, "\ufffd1m \ufffd \ufffd"},
		{"\"raw \u009b and \x7f\"", "raw \ufffd and \ufffd"},
		{`"two\nlines\tand µ, \u00b5"`, "two\nlines\tand µ, µ"},
		{`"C:\\u001b"`, `C:\u001b`},
		{`"right\u202eleft"`, "right\ufffdleft"},
	} {
		frame := []byte(`{"kind":"hello","program":` + c.sent + `}`)
		m, err := ReadFrame(bytes.NewReader(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)))
		if err != nil || m.Program != c.want {
			t.Errorf("%s arrives as %q, %v; want %q", c.sent, m.Program, err, c.want)
		}
	}
}

// FuzzFrame: what decodes and can be encoded decodes again as the same.
func FuzzFrame(f *testing.F) {
	b, _ := AppendFrame(nil, Message{Kind: KindPropose, Plan: &plan.Spec{Operation: plan.Write, Transport: verbs.RC}})
	f.Add(b)
	f.Add([]byte("\x00\x00\x00\x14" + heartbeatText))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ReadFrame(bytes.NewReader(b))
		if err != nil {
			return
		}
		again, err := AppendFrame(nil, m)
		if err != nil {
			t.Fatalf("%+v does not encode: %v", m, err)
		}
		m2, err := ReadFrame(bytes.NewReader(again))
		if m.Plan != nil && m.Plan.Transport == 0 { // no plan of ours: it has no text
			return
		}
		if err != nil || !cmp.Equal(m, m2, cmpopts.EquateEmpty()) {
			t.Errorf("%+v decodes again as %+v, %v", m, m2, err)
		}
	})
}
