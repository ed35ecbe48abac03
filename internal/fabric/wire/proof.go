package wire

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// Key proves that two processes belong to the same run: it is made from the job's id and a secret that all its ranks share.
type Key []byte

// KeyOf makes the key of a run.
func KeyOf(job, secret string) Key {
	h := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(h, "gobw fabric %d\n%s", Protocol, job)
	return h.Sum(nil)
}

// proof binds both nonces, the side that proves, and what it says of itself.
func (k Key) proof(side string, ours, theirs []byte, rank int, host string) []byte {
	h := hmac.New(sha256.New, k)
	for _, part := range [][]byte{[]byte(side), ours, theirs, []byte(host)} {
		var n [4]byte
		binary.BigEndian.PutUint32(n[:], uint32(len(part)))
		h.Write(n[:])
		h.Write(part)
	}
	fmt.Fprintf(h, "%d", rank)
	return h.Sum(nil)
}

func nonce() []byte {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	return b
}

// ErrStranger is an end that does not know the run's secret.
var ErrStranger = errors.New("the other end does not belong to this run: its token is another")

// Meet is the coordinator's side of the first words: it returns who the agent is, proven.
func (k Key) Meet(c io.ReadWriter) (*Hello, []byte, error) {
	mine := nonce()
	if err := Write(c, &Message{Kind: KindChallenge, Challenge: &Challenge{Protocol: Protocol, Nonce: mine}}); err != nil {
		return nil, nil, err
	}
	m, err := Read(c, BeforeProof)
	if err != nil {
		return nil, nil, err
	}
	if m.Kind != KindHello {
		return nil, nil, fmt.Errorf("%w: %s before a hello", ErrFormat, m.Kind)
	}
	h := m.Hello
	if h.Protocol != Protocol {
		return h, nil, fmt.Errorf("it speaks version %d of the protocol, this end %d: run the same gobw everywhere", h.Protocol, Protocol)
	}
	if !hmac.Equal(h.Proof, k.proof("agent", h.Nonce, mine, h.Rank, h.Host)) {
		return nil, nil, ErrStranger
	}
	return h, k.proof("coordinator", mine, h.Nonce, h.Rank, h.Host), nil
}

// RefusedError is a coordinator that does not want this agent.
type RefusedError struct{ Why string }

func (e *RefusedError) Error() string { return "the coordinator refuses this rank: " + e.Why }

// Join is the agent's side: it proves itself and checks the coordinator's proof.
func (k Key) Join(c io.ReadWriter, h Hello) error {
	m, err := Read(c, BeforeProof)
	if err != nil {
		return err
	}
	if m.Kind == KindRefused {
		return &RefusedError{Clean(m.Text)}
	}
	if m.Kind != KindChallenge {
		return fmt.Errorf("%w: %s instead of a challenge", ErrFormat, m.Kind)
	}
	h.Protocol, h.Nonce, h.Now = Protocol, nonce(), time.Now()
	h.Proof = k.proof("agent", h.Nonce, m.Challenge.Nonce, h.Rank, h.Host)
	if err := Write(c, &Message{Kind: KindHello, Hello: &h}); err != nil {
		return err
	}
	answer, err := Read(c, BeforeProof)
	if err != nil {
		return err
	}
	switch answer.Kind {
	case KindRefused:
		return &RefusedError{Clean(answer.Text)}
	case KindWelcome:
		if !hmac.Equal(answer.Challenge.Proof, k.proof("coordinator", m.Challenge.Nonce, h.Nonce, h.Rank, h.Host)) {
			return ErrStranger
		}
		return nil
	default:
		return fmt.Errorf("%w: %s instead of a welcome", ErrFormat, answer.Kind)
	}
}
