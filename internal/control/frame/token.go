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
	More    json.RawMessage `json:"more,omitempty"`     // of the conversation's own
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
// to the other that it knows it. What follows is sealed then.
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
	theirs, err := meet(ctx, printable(text), limit) // as it arrives
	if s.o.Token != nil {
		close(s.sealed) // the reader goes on, with the seal if they have met
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
	var mine []byte
	if s.o.Token != nil {
		s.Doing("waiting for the proof of the token")
		mine, limit = nonce(), proofTime
	}
	if err := s.Send(KindChallenge, proven{Nonce: mine}); err != nil {
		return theirs, err
	}
	theirs, err = Expect[proven](ctx, s, KindHello, Short, limit)
	switch {
	case err != nil:
		return theirs, err
	case s.o.Token == nil:
	case len(theirs.Proof) == 0:
		return theirs, ErrNoToken
	case len(theirs.Nonce) != nonceBytes || !hmac.Equal(theirs.Proof, s.mac("client", mine, theirs.Nonce, theirs.Text)):
		return theirs, ErrWrongToken
	}
	answer := proven{Text: text, Proof: s.mac("server", mine, theirs.Nonce, text)}
	err = s.sendThenSeal(KindHello, answer, s.sealOf("server", mine, theirs.Nonce))
	if s.o.Token != nil {
		s.in = s.sealOf("client", mine, theirs.Nonce)
	}
	return theirs, err
}

func (s *Session) meetAsClient(ctx context.Context, text []byte, limit time.Duration) (theirs proven, err error) {
	mine := proven{Text: text}
	challenge, err := Expect[proven](ctx, s, KindChallenge, Short, limit)
	if err != nil {
		return theirs, err
	}
	if s.o.Token != nil { // without one the server says whether it asks for it
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

// mac binds the token to a label and to what goes with it; nil without a token. A proof is that of who proves it, of
// both ends' nonces, so that none can be used again, and of what it says.
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
