package native

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
)

// Bounds of one message. What is longer than the short one begins with its kind, which must be one of the long ones: facts
// with their environment, a record with its histogram and series, addresses of thousands of queue pairs.
const (
	maxWordBytes      = 4 << 10
	maxShortBytes     = 64 << 10
	maxFactsBytes     = 1 << 20
	maxAddressesBytes = 4 << 20 // 16384 queue pairs of 256 bytes
	maxReportBytes    = 8 << 20
)

// Kind is the type of a message of our dialect.
type Kind string

// Kinds of message.
const (
	KindChallenge Kind = "challenge" // a server with a token: prove that you know it
	KindProof     Kind = "proof"
	KindHello     Kind = "hello"
	KindPropose   Kind = "propose"
	KindPlan      Kind = "plan"
	kindFacts     Kind = "facts"
	KindAddresses Kind = "addresses"
	kindSync      Kind = "sync"
	kindReport    Kind = "report"
	kindHeartbeat Kind = "heartbeat"
	KindError     Kind = "error"
	KindBusy      Kind = "busy"
	kindBye       Kind = "bye"
)

// maxBytes bounds a message of this kind.
func (k Kind) maxBytes() int {
	switch k {
	case kindFacts:
		return maxFactsBytes
	case KindAddresses:
		return maxAddressesBytes
	case kindReport:
		return maxReportBytes
	case KindChallenge, KindProof, KindHello, kindSync, kindHeartbeat, kindBye:
		return maxWordBytes
	default:
		return maxShortBytes
	}
}

// Message is one frame of our dialect: a 4-byte big-endian length, then this as JSON. Unknown fields are ignored, so
// that a later gobw/1 may add some.
type Message struct {
	Kind Kind `json:"kind"` // first: a long message is admitted by it

	Program       string            `json:"program,omitempty"`         // hello: "gobw 1.2.0"
	PeerTimeoutMs int64             `json:"peer_timeout_ms,omitempty"` // hello: how long the sender bears silence
	WaitMs        int64             `json:"wait_ms,omitempty"`         // hello: how long the client waits for a busy server
	Nonce         []byte            `json:"nonce,omitempty"`           // challenge, proof
	Proof         []byte            `json:"proof,omitempty"`           // proof
	Plan          *plan.Spec        `json:"plan,omitempty"`
	Facts         *control.Facts    `json:"facts,omitempty"`
	Addresses     []control.Address `json:"addresses,omitempty"`
	Phase         string            `json:"phase,omitempty"`
	Size          int               `json:"size,omitempty"`
	Last          bool              `json:"last,omitempty"`
	Figures       *control.Figures  `json:"figures,omitempty"`
	Error         string            `json:"error,omitempty"` // error, busy
	Lost          bool              `json:"lost,omitempty"`  // error: the sender gave the receiver up for lost
}

// AppendFrame encodes m with its length in front.
func AppendFrame(b []byte, m Message) ([]byte, error) {
	j, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("%s message: %w", m.Kind, err)
	}
	if limit := m.Kind.maxBytes(); len(j) > limit {
		return nil, fmt.Errorf("%s message: %d bytes, the limit is %d", m.Kind, len(j), limit)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(j)))
	return append(b, j...), nil
}

// ReadFrame reads one message. Memory grows with what arrives, not with the length that the peer claims.
func ReadFrame(r io.Reader) (Message, error) {
	var f frameReader
	return f.next(r)
}

// frameReader reads frames into a buffer of its own, so that a peer's heartbeats allocate nothing.
type frameReader struct {
	b      bytes.Buffer
	source io.LimitedReader
	prefix [4]byte
}

func (f *frameReader) next(r io.Reader) (Message, error) {
	if _, err := io.ReadFull(r, f.prefix[:]); err != nil {
		return Message{}, err
	}
	n := int(binary.BigEndian.Uint32(f.prefix[:]))
	if n == 0 || n > maxReportBytes {
		return Message{}, wrong("message of %d bytes, the limit is %d", n, maxReportBytes)
	}
	f.b.Reset()
	if f.b.Cap() > maxShortBytes {
		f.b = bytes.Buffer{}
	}
	if err := f.take(r, min(n, maxShortBytes)); err != nil {
		return Message{}, err
	}
	if n > maxShortBytes {
		if limit := longKind(f.b.Bytes()).maxBytes(); n > limit {
			return Message{}, wrong("message %.60q of %d bytes, the limit is %d", f.b.Bytes(), n, limit)
		}
		if err := f.take(r, n-maxShortBytes); err != nil {
			return Message{}, err
		}
	}
	if f.b.String() == heartbeatText {
		return Message{Kind: kindHeartbeat}, nil
	}
	var m Message
	if err := json.Unmarshal(printable(f.b.Bytes()), &m); err != nil {
		return Message{}, wrong("message %.60q: %w", f.b.Bytes(), err)
	}
	if m.Kind == "" {
		return Message{}, wrong("message %.60q has no kind", f.b.Bytes())
	}
	if n > m.Kind.maxBytes() {
		return Message{}, wrong("%.20q message of %d bytes, the limit is %d", m.Kind, n, m.Kind.maxBytes())
	}
	return m, nil
}

// heartbeatText is what our programs send as a heartbeat: it is recognised without being parsed.
const heartbeatText = `{"kind":"heartbeat"}`

// take adds n bytes to the buffer.
func (f *frameReader) take(r io.Reader, n int) error {
	f.source = io.LimitedReader{R: r, N: int64(n)}
	got, err := f.b.ReadFrom(&f.source)
	if err == nil && got < int64(n) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// longKind is the kind that a long message begins with.
func longKind(text []byte) Kind {
	for _, k := range []Kind{kindFacts, KindAddresses, kindReport} {
		if bytes.HasPrefix(text, []byte(`{"kind":"`+string(k)+`"`)) {
			return k
		}
	}
	return ""
}

func wrong(format string, args ...any) error {
	return &control.FormatError{Err: fmt.Errorf(format, args...)}
}

// printable replaces, in the strings of a JSON text, what would steer the terminal that the peer's words are printed on:
// control characters except line ends and tabs, and marks that turn the direction of writing, escaped or not.
func printable(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); {
		if text[i] == '\\' && i+1 < len(text) {
			c, n := escaped(text[i:])
			if steers(c) {
				out = append(out, `\ufffd`...)
			} else {
				out = append(out, text[i:i+n]...)
			}
			i += n
			continue
		}
		c, n := utf8.DecodeRune(text[i:])
		if steers(c) && c != '\r' { // between values a carriage return is white space, inside a string it is no JSON
			out = append(out, `\ufffd`...)
		} else {
			out = append(out, text[i:i+n]...)
		}
		i += n
	}
	return out
}

// escaped is the character of the escape that text begins with, and its length.
func escaped(text []byte) (rune, int) {
	switch text[1] {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'r':
		return '\r', 2
	case 'u':
		if len(text) < 6 {
			return ' ', len(text)
		}
		var c rune
		for _, d := range text[2:6] {
			switch {
			case d >= '0' && d <= '9':
				c = c<<4 | rune(d-'0')
			case d|0x20 >= 'a' && d|0x20 <= 'f':
				c = c<<4 | rune(d|0x20-'a'+10)
			default:
				return ' ', 2 // no JSON: the decoder says so
			}
		}
		return c, 6
	default:
		return ' ', 2
	}
}

func steers(c rune) bool {
	switch {
	case c == '\n' || c == '\t':
		return false
	case c < 0x20, c >= 0x7f && c <= 0x9f:
		return true
	case c >= 0x200e && c <= 0x200f, c >= 0x2028 && c <= 0x202e, c >= 0x2066 && c <= 0x2069:
		return true
	}
	return false
}

// errUnasked is a peer that sends ahead of its turn.
var errUnasked = errors.New("it sends messages nobody asked for")
