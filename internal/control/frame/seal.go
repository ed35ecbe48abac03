package frame

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math"

	"github.com/gobw/gobw/internal/control"
)

// seal authenticates the frames of one direction behind the hello, where there is a token: each ends with a tag over
// its number and its text. So a relay that passed the proofs on cannot add a frame.
type seal struct {
	Key   []byte `json:"key"`
	Count uint64 `json:"count"` // of the frames so far: the number of the next one
}

// tagBytes is the length of a tag.
const tagBytes = 16

// lastFrame is the number of a farewell. Another process sends it: the one that counted the frames has died.
const lastFrame = math.MaxUint64

// sealOf is the seal of what an end ("client" or "server") says after both have proven the token
// with their nonces; nil without a token.
func (s *Session) sealOf(who string, server, client []byte) *seal {
	if key := s.mac("frames "+who, server, client); key != nil {
		return &seal{Key: key}
	}
	return nil
}

func (s *seal) tag(number uint64, text []byte) []byte {
	h := hmac.New(sha256.New, s.Key)
	h.Write(binary.BigEndian.AppendUint64(nil, number))
	h.Write(text)
	return h.Sum(nil)[:tagBytes]
}

// close puts the tag behind a text.
func (s *seal) close(text []byte) []byte {
	if s == nil {
		return text
	}
	s.Count++
	return append(text, s.tag(s.Count-1, text)...)
}

// errForged is a frame that is not the peer's, or not the next one.
var errForged = control.Malformed("a frame without the right tag: %w",
	errors.New("somebody is between the ends, or the other end is of another version"))

// open checks the tag of a text, and takes it off.
func (s *seal) open(b []byte) ([]byte, error) {
	if s == nil {
		return b, nil
	}
	at := max(len(b)-tagBytes, 0)
	text, tag := b[:at], b[at:]
	switch {
	case hmac.Equal(tag, s.tag(s.Count, text)):
		s.Count++
		return text, nil
	case hmac.Equal(tag, s.tag(lastFrame, text)):
		return text, nil
	}
	return nil, errForged
}
