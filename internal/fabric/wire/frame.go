package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
)

// Bounds of one frame.
const (
	BeforeProof     = 4 << 10  // of somebody who has not shown that he belongs here
	FromAgent       = 4 << 20  // a rank's addresses for all others
	FromCoordinator = 32 << 20 // all others' addresses for a rank
)

// Append encodes a message with its length in front.
func Append(b []byte, m *Message) ([]byte, error) {
	at := len(b)
	w := bytes.NewBuffer(append(b, 0, 0, 0, 0))
	if err := json.NewEncoder(w).Encode(m); err != nil {
		return nil, fmt.Errorf("%s message: %w", m.Kind, err)
	}
	out := w.Bytes()
	n := len(out) - at - 4
	if n > FromCoordinator {
		return nil, fmt.Errorf("%s message: %d bytes, the limit is %d", m.Kind, n, FromCoordinator)
	}
	binary.BigEndian.PutUint32(out[at:], uint32(n))
	return out, nil
}

// Write sends one message.
func Write(w io.Writer, m *Message) error {
	b, err := Append(nil, m)
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

// ErrFormat says that the other end does not keep to the protocol.
var ErrFormat = errors.New("this is not a fabric test's message")

// Read receives one message of at most so many bytes. Memory grows with what arrives, not with what is announced.
func Read(r io.Reader, most int) (*Message, error) {
	var prefix [4]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(prefix[:])
	if n == 0 || n > uint32(most) {
		return nil, fmt.Errorf("%w: a length of %d, the limit is %d", ErrFormat, n, most)
	}
	var b bytes.Buffer
	if _, err := io.CopyN(&b, r, int64(n)); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	m := &Message{}
	if err := json.Unmarshal(b.Bytes(), m); err != nil {
		return nil, fmt.Errorf("%w: %.60q: %w", ErrFormat, b.Bytes(), err)
	}
	if err := m.complete(); err != nil {
		return nil, err
	}
	return m, nil
}

// complete refuses a message without the part that its kind needs, so that nobody has to look twice.
func (m *Message) complete() error {
	has := map[Kind]bool{
		KindChallenge: m.Challenge != nil, KindHello: m.Hello != nil, KindWelcome: m.Challenge != nil, KindRefused: true,
		KindOpen: m.Open != nil, KindFacts: m.Facts != nil, KindPrepare: m.Prepare != nil, KindPrepared: m.Prepared != nil,
		KindGo: m.Go != nil, KindResult: m.Result != nil, KindHeartbeat: true, KindBye: true,
	}
	if !has[m.Kind] {
		return fmt.Errorf("%w: kind %.20q without its content", ErrFormat, string(m.Kind))
	}
	return nil
}

// Clean takes control characters from a stranger's text and bounds it, so that it can be printed.
func Clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return '?'
		}
		return r
	}, s)
	const most = 400
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}
