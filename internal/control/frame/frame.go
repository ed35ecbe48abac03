package frame

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"unicode/utf8"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/report/plain"
)

// Short is the longest message that is read before anybody waits for it, in bytes. A longer one is read once it is due.
const Short = 4 << 10

// Kinds that every conversation has. Others are its own.
const (
	KindChallenge = "challenge" // who are you; with a nonce: prove that you know the token
	KindHello     = "hello"
	KindError     = "error" // the sender gives up
	KindBusy      = "busy"  // the sender serves others
	KindBye       = "bye"
)

// Message is one frame: a 4-byte big-endian length, then this as JSON. A frame of no bytes is a heartbeat. Unknown
// fields are ignored, so that a later version may add some.
type Message struct {
	Kind  string          `json:"kind"`
	Error string          `json:"error,omitempty"` // error, busy, bye: the sender's words
	Cause control.Cause   `json:"cause,omitempty"` // error: what happened at the sender
	Fix   string          `json:"fix,omitempty"`   // error: what to do about it
	Body  json.RawMessage `json:"body,omitempty"`  // what the kind is about; see [Decode]
}

// Decode reads the body of a message.
func Decode[T any](m Message) (T, error) {
	var v T
	if len(m.Body) == 0 {
		return v, control.Malformed("%.20q message without its content", m.Kind)
	}
	if err := json.Unmarshal(m.Body, &v); err != nil {
		return v, control.Malformed("%.20q message %.60q: %w", m.Kind, m.Body, err)
	}
	return v, nil
}

// Of makes a message of a kind.
func Of(kind string, body any) (Message, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return Message{}, fmt.Errorf("%s message: %w", kind, err)
	}
	return Message{Kind: kind, Body: b}, nil
}

// Append encodes a message with its length in front.
func Append(b []byte, m Message) ([]byte, error) {
	j, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("%s message: %w", m.Kind, err)
	}
	return appendFrame(b, j), nil
}

func appendFrame(b, text []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(text))), text...)
}

// Write sends one message where there is no session: to a process of our own.
func Write(w io.Writer, kind string, body any) error {
	var b []byte
	m, err := Of(kind, body)
	if err == nil {
		b, err = Append(nil, m)
	}
	if err == nil {
		_, err = w.Write(b)
	}
	return err
}

// Read receives one message of a kind, of at most so many bytes, where there is no session.
func Read[T any](r io.Reader, kind string, most int) (v T, err error) {
	m, err := read(r, most)
	if err != nil {
		return v, err
	}
	if m.Kind != kind {
		return v, control.Malformed("%.20q message where %q was due", m.Kind, kind)
	}
	return Decode[T](m)
}

// read reads one message, and skips the heartbeats before it.
func read(r io.Reader, most int) (Message, error) {
	for prefix := make([]byte, prefixBytes); ; {
		if _, err := io.ReadFull(r, prefix); err != nil {
			return Message{}, err
		}
		switch n := lengthOf(prefix); {
		case n > most:
			return Message{}, tooLong(n, most)
		case n > 0:
			return message(r, n, nil)
		}
	}
}

// prefixBytes is the length of a frame's prefix, which holds the length of the message.
const prefixBytes = 4

// lengthOf is the length of the message behind a prefix; 0: a heartbeat.
func lengthOf(prefix []byte) int { return int(binary.BigEndian.Uint32(prefix)) }

// firstBuffer is the size of the first buffer for a long message.
const firstBuffer = 64 << 10

// message reads the next message, of n bytes. Memory grows with what arrives, not with the length that the peer claims.
func message(r io.Reader, n int, in *seal) (Message, error) {
	b := make([]byte, 0, min(n, firstBuffer))
	for {
		got, err := io.ReadFull(r, b[len(b):cap(b)])
		if b = b[:len(b)+got]; len(b) == n {
			break
		}
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return Message{}, err
		}
		b = append(make([]byte, 0, min(n, 2*len(b))), b...)
	}
	b, err := in.open(b)
	if err != nil {
		return Message{}, err
	}
	var m Message
	if err := json.Unmarshal(printable(b), &m); err != nil {
		return Message{}, control.Malformed("message %.60q: %w", b, err)
	}
	if m.Kind == "" {
		return Message{}, control.Malformed("message %.60q has no kind", b)
	}
	return m, nil
}

func tooLong(n, most int) error {
	return control.Malformed("message of %d bytes, the limit is %d", n, most)
}

// escape is an escaped character of a JSON string.
var escape = regexp.MustCompile(`\\(u[0-9a-fA-F]{4}|.)`)

// printable replaces the characters of a JSON text that would steer a terminal ([plain.Steers]), escaped or not: the
// peer's words are printed.
func printable(text []byte) []byte {
	text = bytes.Map(func(c rune) rune {
		if plain.Steers(c) && c != '\r' { // a carriage return is white space; inside a string JSON forbids it
			return utf8.RuneError
		}
		return c
	}, text)
	return escape.ReplaceAllFunc(text, func(e []byte) []byte {
		c, err := strconv.Unquote(`"` + string(e) + `"`)
		if r, _ := utf8.DecodeRuneInString(c); err == nil && plain.Steers(r) {
			return []byte(`\ufffd`)
		}
		return e
	})
}
