package wire

import (
	"bytes"
	"errors"
	"net"
	"strings"
	"testing"
)

// meet lets two keys talk and returns both ends' errors. The coordinator welcomes whom it believes.
func meet(t *testing.T, coordinator, agent Key, h Hello) (met, joined error) {
	t.Helper()
	a, b := net.Pipe()
	done := make(chan error, 1)
	go func() {
		_, proof, err := coordinator.Meet(a)
		if err == nil {
			err = Write(a, &Message{Kind: KindWelcome, Challenge: &Challenge{Proof: proof}})
		} else {
			_ = Write(a, &Message{Kind: KindRefused, Text: err.Error()})
		}
		_ = a.Close()
		done <- err
	}()
	joined = agent.Join(b, h)
	_ = b.Close()
	return <-done, joined
}

func TestProof(t *testing.T) {
	h := Hello{Rank: 3, Host: "node3"}
	if met, joined := meet(t, KeyOf("j", "s"), KeyOf("j", "s"), h); met != nil || joined != nil {
		t.Errorf("same token: %v, %v", met, joined)
	}
	for _, other := range []Key{KeyOf("j", "x"), KeyOf("k", "s"), nil} {
		met, joined := meet(t, KeyOf("j", "s"), other, h)
		if _, refused := errors.AsType[*RefusedError](joined); !errors.Is(met, ErrStranger) || !refused {
			t.Errorf("another token: %v, %v", met, joined)
		}
	}
}

func TestCoordinatorMustProveItself(t *testing.T) {
	a, b := net.Pipe()
	go func() { // one that accepts everybody
		_ = Write(a, &Message{Kind: KindChallenge, Challenge: &Challenge{Protocol: Protocol, Nonce: []byte("n")}})
		_, _ = Read(a, BeforeProof)
		_ = Write(a, &Message{Kind: KindWelcome, Challenge: &Challenge{Proof: []byte("trust me")}})
	}()
	if err := KeyOf("j", "s").Join(b, Hello{}); !errors.Is(err, ErrStranger) {
		t.Errorf("a false coordinator: %v", err)
	}
}

func TestReadRefuses(t *testing.T) {
	for name, b := range map[string]string{
		"too long":       "\xff\xff\xff\xff{}",
		"empty":          "\x00\x00\x00\x00",
		"no JSON":        "\x00\x00\x00\x02xx",
		"no kind":        "\x00\x00\x00\x02{}",
		"unknown kind":   "\x00\x00\x00\x10{\"kind\":\"attack\"}",
		"kind alone":     "\x00\x00\x00\x0f{\"kind\":\"hello\"}",
		"cut":            "\x00\x00\x00\x20{\"kind\"",
		"HTTP":           "GET / HTTP/1.1\r\n\r\n",
		"nested too far": "\x00\x00\x0f\xff" + strings.Repeat("[", 4095),
	} {
		if m, err := Read(strings.NewReader(b), BeforeProof); err == nil {
			t.Errorf("%s: %+v", name, m)
		}
	}
}

func TestClean(t *testing.T) {
	if got := Clean("a\x1b[31mb\n" + strings.Repeat("x", 1000)); strings.ContainsAny(got, "\x1b\n") || len(got) > 410 {
		t.Errorf("%q", got)
	}
}

func FuzzRead(f *testing.F) {
	for _, m := range []*Message{{Kind: KindHello, Hello: &Hello{Rank: 1}}, {Kind: KindResult, Result: &Result{Rails: [][]Flow{{{Bits: 1}}}}}, {Kind: KindBye}} {
		b, err := Append(nil, m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Read(bytes.NewReader(b), BeforeProof)
		if err != nil {
			return
		}
		if err := m.complete(); err != nil {
			t.Error(err)
		}
	})
}

func FuzzMeet(f *testing.F) {
	b, _ := Append(nil, &Message{Kind: KindHello, Hello: &Hello{Protocol: Protocol, Nonce: []byte("x"), Proof: []byte("y")}})
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, _, err := KeyOf("j", "s").Meet(&conversation{Reader: bytes.NewReader(b)}); err == nil {
			t.Errorf("%+v was believed", h)
		}
	})
}

// conversation reads what was given and swallows what is said.
type conversation struct{ *bytes.Reader }

func (*conversation) Write(b []byte) (int, error) { return len(b), nil }
