package native

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/gobw/gobw/internal/control"
)

// proofTime is how long a client may take to prove that it knows the token.
const proofTime = time.Second

const nonceBytes = 32

// errNoToken is a client that says hello where it was asked for a proof.
var errNoToken = errors.New("this server asks for a token: give the client the same --token-file")

// errWrongToken says no more than that.
var errWrongToken = errors.New("the token is not this server's: give both ends the same --token-file")

// prove has each end show the other that it knows the token, before anything else is said.
func (s *Session) prove(ctx context.Context) error {
	switch {
	case s.o.Token == nil:
		return nil
	case s.o.Dialled:
		return s.proveAsClient(ctx)
	}
	s.setDoing("waiting for the proof of the token")
	mine := nonce()
	if err := s.Send(Message{Kind: KindChallenge, Nonce: mine}); err != nil {
		return err
	}
	m, err := s.receive(ctx, proofTime)
	switch {
	case err != nil:
		return err
	case m.Kind != KindProof:
		return errNoToken
	case len(m.Nonce) != nonceBytes || !hmac.Equal(m.Proof, s.proof("client", mine, m.Nonce)):
		return errWrongToken
	}
	return s.Send(Message{Kind: KindProof, Proof: s.proof("server", mine, m.Nonce)})
}

func (s *Session) proveAsClient(ctx context.Context) error {
	s.setDoing("proving the token")
	m, err := s.receive(ctx, s.o.Timeouts.Hello)
	if err != nil {
		return err
	}
	if m.Kind != KindChallenge || len(m.Nonce) != nonceBytes {
		return errors.New("the server does not ask for the token: start it with the same --token-file, or leave it out here")
	}
	mine := nonce()
	if err := s.Send(Message{Kind: KindProof, Nonce: mine, Proof: s.proof("client", m.Nonce, mine)}); err != nil {
		return err
	}
	answer, err := s.expect(ctx, KindProof, s.o.Timeouts.Hello)
	if err != nil {
		return err
	}
	if !hmac.Equal(answer.Proof, s.proof("server", m.Nonce, mine)) {
		return &control.FormatError{Err: errors.New("the server does not know the token that it asks for")}
	}
	return nil
}

func nonce() []byte {
	b := make([]byte, nonceBytes)
	_, _ = rand.Read(b) // it does not fail
	return b
}

// proof binds the token to who proves it and to both ends' nonces, so that none can be used again.
func (s *Session) proof(who string, server, client []byte) []byte {
	h := hmac.New(sha256.New, s.o.Token)
	h.Write([]byte("gobw/1 " + who + "\x00"))
	h.Write(server)
	h.Write(client)
	return h.Sum(nil)
}
