package frame

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"time"

	"github.com/gobw/gobw/internal/control"
)

// Hello is what each end says of itself before anything else. With a token it is proven, every word of it.
type Hello struct {
	Program string          `json:"program,omitempty"`  // name and version
	BearsMs int64           `json:"bears_ms,omitempty"` // the sender's peer timeout; Meet fills it in
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

// Meet exchanges the hellos. Where there is a token the end that was dialled challenges, and each proves to the other that it knows it.
func (s *Session) Meet(ctx context.Context, mine Hello, limit time.Duration) (Hello, error) {
	mine.BearsMs = s.o.Bears.Milliseconds()
	text, err := json.Marshal(mine)
	text = printable(text) // as it arrives
	if err != nil {
		return Hello{}, err
	}
	var theirs proven
	if s.o.Dialled {
		theirs, err = s.meetAsClient(ctx, text, limit)
	} else {
		theirs, err = s.meetAsServer(ctx, text, limit)
	}
	if err != nil {
		return Hello{}, err
	}
	var h Hello
	if err := json.Unmarshal(theirs.Text, &h); err != nil {
		return Hello{}, s.Protest("a hello: %w", err)
	}
	if bears := time.Duration(min(max(h.BearsMs, 0), time.Hour.Milliseconds())) * time.Millisecond; bears > 0 {
		s.interval = Interval(min(s.o.Bears, bears))
		s.pace <- s.interval
	}
	return h, nil
}

func (s *Session) meetAsServer(ctx context.Context, text []byte, limit time.Duration) (theirs proven, err error) {
	if s.o.Token == nil { // a client that has one learns that it is not asked for
		if err := s.Send(KindHello, proven{Text: text}); err != nil {
			return theirs, err
		}
		m, err := s.Expect(ctx, KindHello, Short, limit)
		if err != nil {
			return theirs, err
		}
		return Decode[proven](m)
	}
	s.Doing("waiting for the proof of the token")
	mine := nonce()
	if err := s.Send(KindChallenge, proven{Nonce: mine}); err != nil {
		return theirs, err
	}
	m, err := s.Expect(ctx, KindHello, Short, proofTime)
	if err == nil {
		theirs, err = Decode[proven](m)
	}
	switch {
	case err != nil:
		return theirs, err
	case len(theirs.Proof) == 0:
		return theirs, ErrNoToken
	case len(theirs.Nonce) != nonceBytes || !hmac.Equal(theirs.Proof, s.proof("client", mine, theirs.Nonce, theirs.Text)):
		return theirs, ErrWrongToken
	}
	return theirs, s.Send(KindHello, proven{Text: text, Proof: s.proof("server", mine, theirs.Nonce, text)})
}

func (s *Session) meetAsClient(ctx context.Context, text []byte, limit time.Duration) (proven, error) {
	mine := proven{Text: text}
	var challenge proven
	if s.o.Token != nil {
		s.Doing("proving the token")
		m, err := s.Receive(ctx, Short, limit)
		if err == nil {
			challenge, err = Decode[proven](m)
		}
		if err != nil {
			return proven{}, err
		}
		if m.Kind != KindChallenge || len(challenge.Nonce) != nonceBytes {
			return proven{}, errors.New("the server does not ask for the token: start it with the same --token-file, or leave it out here")
		}
		mine.Nonce = nonce()
		mine.Proof = s.proof("client", challenge.Nonce, mine.Nonce, text)
	}
	if err := s.Send(KindHello, mine); err != nil {
		return proven{}, err
	}
	m, err := s.Receive(ctx, Short, limit)
	switch {
	case err != nil:
		return proven{}, err
	case m.Kind == KindChallenge:
		return proven{}, errors.New("the server asks for a token: give the server's file with --token-file")
	case m.Kind != KindHello:
		return proven{}, s.Protest("%.20q message where %q was due", m.Kind, KindHello)
	}
	theirs, err := Decode[proven](m)
	if err == nil && s.o.Token != nil && !hmac.Equal(theirs.Proof, s.proof("server", challenge.Nonce, mine.Nonce, theirs.Text)) {
		err = &control.FormatError{Err: errors.New("the server asks for a token, but does not have it")}
	}
	return theirs, err
}

func nonce() []byte {
	b := make([]byte, nonceBytes)
	_, _ = rand.Read(b) // it does not fail
	return b
}

// proof binds the token to who proves it, to both ends' nonces, so that none can be used again, and to what it says.
func (s *Session) proof(who string, server, client, text []byte) []byte {
	h := hmac.New(sha256.New, s.o.Token)
	h.Write([]byte("gobw/1 " + who + "\x00"))
	h.Write(server)
	h.Write(client)
	h.Write(text)
	return h.Sum(nil)
}
