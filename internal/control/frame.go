package control

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
)

// maxFrameBytes bounds one message of our dialect. A record with its histogram and series is well below 1 MiB.
const maxFrameBytes = 8 << 20

// kind is the type of a message of our dialect.
type kind string

// Kinds of message.
const (
	kindHello     kind = "hello"
	kindPropose   kind = "propose"
	kindPlan      kind = "plan"
	kindFacts     kind = "facts"
	kindAddresses kind = "addresses"
	kindSync      kind = "sync"
	kindReport    kind = "report"
	kindHeartbeat kind = "heartbeat"
	kindError     kind = "error"
	kindBusy      kind = "busy"
	kindBye       kind = "bye"
)

// message is one frame of our dialect: a 4-byte big-endian length, then this as JSON. Unknown fields are ignored, so
// that a later gobw/1 may add some.
type message struct {
	Kind kind `json:"kind"`

	Program       string    `json:"program,omitempty"`         // hello: "gobw 1.2.0"
	PeerTimeoutMs int64     `json:"peer_timeout_ms,omitempty"` // hello: how long the sender bears silence
	Plan          *Plan     `json:"plan,omitempty"`
	Facts         *Facts    `json:"facts,omitempty"`
	Addresses     []Address `json:"addresses,omitempty"`
	Phase         string    `json:"phase,omitempty"`
	Size          int       `json:"size,omitempty"`
	Last          bool      `json:"last,omitempty"`
	Figures       *Figures  `json:"figures,omitempty"`
	Error         string    `json:"error,omitempty"` // error, busy
}

// appendFrame encodes m with its length in front.
func appendFrame(b []byte, m message) ([]byte, error) {
	j, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("%s message: %w", m.Kind, err)
	}
	if len(j) > maxFrameBytes {
		return nil, fmt.Errorf("%s message: %d bytes, the limit is %d", m.Kind, len(j), maxFrameBytes)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(j)))
	return append(b, j...), nil
}

// readFrame reads one message. Memory grows with what arrives, not with the length that the peer claims.
func readFrame(r io.Reader) (message, error) {
	var prefix [4]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		return message{}, err
	}
	n := binary.BigEndian.Uint32(prefix[:])
	if n == 0 || n > maxFrameBytes {
		return message{}, &formatError{fmt.Errorf("message of %d bytes, the limit is %d", n, maxFrameBytes)}
	}
	var b bytes.Buffer
	if _, err := io.CopyN(&b, r, int64(n)); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return message{}, err
	}
	var m message
	if err := json.Unmarshal(printable(b.Bytes()), &m); err != nil {
		return message{}, &formatError{fmt.Errorf("message %.60q: %w", b.Bytes(), err)}
	}
	if m.Kind == "" {
		return message{}, &formatError{fmt.Errorf("message %.60q has no kind", b.Bytes())}
	}
	return m, nil
}

// controls are the escaped and the raw control characters of a JSON text, line ends and tabs apart.
var controls = regexp.MustCompile(`\\(?:[bfr]|u00(?:0[0-8b-fB-F]|1[0-9a-fA-F]|7[fF]|[89][0-9a-fA-F]))|[\x7f-\x{9f}]`)

// printable takes from a JSON text what would steer the terminal that the peer's words are printed on.
func printable(text []byte) []byte { return controls.ReplaceAllLiteral(text, []byte(`\ufffd`)) }

// formatError is a peer that does not keep to the dialect.
type formatError struct{ err error }

func (e *formatError) Error() string {
	return "the peer does not keep to the protocol: " + e.err.Error()
}
func (e *formatError) Unwrap() error { return e.err }
