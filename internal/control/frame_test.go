package control

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
)

// TestReadFrameBounds offers lengths that no message has.
func TestReadFrameBounds(t *testing.T) {
	for _, n := range []uint32{0, maxFrameBytes + 1, 1<<32 - 1} {
		b := binary.BigEndian.AppendUint32(nil, n)
		_, err := readFrame(bytes.NewReader(append(b, "{}"...)))
		var format *formatError
		if !errors.As(err, &format) || !strings.Contains(err.Error(), "the limit is") {
			t.Errorf("%d bytes: %v, want a refusal for its length", n, err)
		}
	}
	b := binary.BigEndian.AppendUint32(nil, maxFrameBytes)
	if _, err := readFrame(bytes.NewReader(append(b, "{}"...))); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the longest message cut short: %v, want an unexpected end", err)
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
		{`"C:\\u001b"`, `C:\ufffd`},
	} {
		frame := []byte(`{"kind":"hello","program":` + c.sent + `}`)
		m, err := readFrame(bytes.NewReader(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)))
		if err != nil || m.Program != c.want {
			t.Errorf("%s arrives as %q, %v; want %q", c.sent, m.Program, err, c.want)
		}
	}
}
