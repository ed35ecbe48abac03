package frame

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gobw/gobw/internal/control"
)

// Hello is what each end says of itself before anything else. With a token it is proven, every word of it.
type Hello struct {
	Program string          `json:"program,omitempty"`  // name and version
	BearsMs int64           `json:"bears_ms,omitempty"` // the sender's peer timeout; Meet fills it in
	WaitMs  int64           `json:"wait_ms,omitempty"`  // how long a client waits for a server that serves others
	More    json.RawMessage `json:"more,omitempty"`     // what the conversation adds
}

// proven is a hello with its proof: what the HMAC covers is Text, byte by byte.
type proven struct {
	Text  json.RawMessage `json:"text"` // a Hello
	Nonce []byte          `json:"nonce,omitempty"`
	Proof []byte          `json:"proof,omitempty"`
}

// proofTime is how long a client may take to prove that it knows the token.
const proofTime = time.Second

const nonceBytes = 32

// What an end that lacks the right token hears, and no more than that.
var (
	ErrNoToken    = errors.New("this server asks for a token: give the client the same --token-file")
	ErrWrongToken = errors.New("wrong token: give both ends the same --token-file")
)

// Meet exchanges the hellos, once. The end that was dialled speaks first: with a token it challenges, and each proves
// to the other that it knows the token. What follows is then sealed.
func (s *Session) Meet(ctx context.Context, mine Hello, limit time.Duration) (h Hello, err error) {
	mine.BearsMs = s.o.Bears.Milliseconds()
	text, err := json.Marshal(mine)
	if err != nil {
		return h, err
	}
	meet := s.meetAsServer
	if s.o.Dialled {
		meet = s.meetAsClient
	}
	theirs, err := meet(ctx, printable(text), limit) // the proof covers the text that the peer reads
	if s.o.Token != nil {
		close(s.inKnown) // the reader goes on, with the seal if the ends have met
	}
	if err != nil {
		return h, err
	}
	if err := json.Unmarshal(theirs.Text, &h); err != nil {
		return h, s.Protest("a hello: %w", err)
	}
	s.theirs = h
	s.pace <- s.interval()
	return h, nil
}

func (s *Session) meetAsServer(ctx context.Context, text []byte, limit time.Duration) (theirs proven, err error) {
	var challenge proven
	if s.o.Token != nil {
		s.Doing("waiting for the proof of the token")
		challenge.Nonce, limit = nonce(), proofTime
	}
	if err := s.Send(KindChallenge, challenge); err != nil {
		return theirs, err
	}
	theirs, err = Expect[proven](ctx, s, KindHello, Short, limit)
	switch {
	case err != nil:
		return theirs, err
	case s.o.Token == nil:
	case len(theirs.Proof) == 0:
		return theirs, ErrNoToken
	case len(theirs.Nonce) != nonceBytes,
		!hmac.Equal(theirs.Proof, s.mac("client", challenge.Nonce, theirs.Nonce, theirs.Text)):
		return theirs, ErrWrongToken
	}
	mine := proven{Text: text, Proof: s.mac("server", challenge.Nonce, theirs.Nonce, text)}
	err = s.sendThenSeal(KindHello, mine, s.sealOf("server", challenge.Nonce, theirs.Nonce))
	if s.o.Token != nil {
		s.in = s.sealOf("client", challenge.Nonce, theirs.Nonce)
	}
	return theirs, err
}

func (s *Session) meetAsClient(ctx context.Context, text []byte, limit time.Duration) (theirs proven, err error) {
	mine := proven{Text: text}
	challenge, err := Expect[proven](ctx, s, KindChallenge, Short, limit)
	if err != nil {
		return theirs, err
	}
	if s.o.Token != nil { // a client without a token proves nothing: the server refuses it or not
		s.Doing("proving the token")
		if len(challenge.Nonce) != nonceBytes {
			return theirs,
				errors.New("the server does not ask for the token: start it with the same --token-file, or leave it out here")
		}
		mine.Nonce = nonce()
		mine.Proof = s.mac("client", challenge.Nonce, mine.Nonce, text)
	}
	if err = s.sendThenSeal(KindHello, mine, s.sealOf("client", challenge.Nonce, mine.Nonce)); err != nil {
		return theirs, err
	}
	theirs, err = Expect[proven](ctx, s, KindHello, Short, limit)
	if err != nil || s.o.Token == nil {
		return theirs, err
	}
	s.in = s.sealOf("server", challenge.Nonce, mine.Nonce)
	if !hmac.Equal(theirs.Proof, s.mac("server", challenge.Nonce, mine.Nonce, theirs.Text)) {
		err = control.Malformed("the server asks for a token, but does not have it")
	}
	return theirs, err
}

func nonce() []byte {
	b := make([]byte, nonceBytes)
	_, _ = rand.Read(b) // it does not fail
	return b
}

// mac is the HMAC of a label and some parts under the token; nil without a token. A proof covers the end that proves,
// the nonces of both, so that it cannot be used again, and the end's hello.
func (s *Session) mac(label string, parts ...[]byte) []byte {
	if s.o.Token == nil {
		return nil
	}
	h := hmac.New(sha256.New, s.o.Token)
	_, _ = fmt.Fprintf(h, "gobw/1 %s\x00", label)
	for _, part := range parts {
		h.Write(part)
	}
	return h.Sum(nil)
}
