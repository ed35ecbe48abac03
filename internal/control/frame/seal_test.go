package frame

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/control"
)

// relayed are two ends that have met with a token, and what stands between them: what each says comes out of the relay,
// which passes the hellos on and then stops.
type relayed struct {
	client, server *Session
	up, down       net.Conn // of the relay: towards the server, and towards the client
	clientConn     net.Conn
}

func relay(t *testing.T) relayed {
	t.Helper()
	dial := func() (net.Conn, net.Conn) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		a, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		b, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = a.Close(), b.Close() })
		return a, b
	}
	var r relayed
	var theirs, ours net.Conn
	r.clientConn, theirs = dial()
	r.up, ours = dial()
	r.down = theirs
	token := []byte("correct horse battery staple")
	r.client = New(r.clientConn, Options{Dialled: true, Bears: time.Minute, Token: token})
	r.server = New(ours, Options{Bears: time.Minute, Token: token})
	t.Cleanup(func() {
		r.client.Abandon()
		r.server.Abandon()
	})
	met := make(chan error, 2)
	for _, s := range []*Session{r.client, r.server} {
		go func() {
			_, err := s.Meet(context.Background(), Hello{Program: "x"}, time.Minute)
			met <- err
		}()
	}
	pass := func(to, from net.Conn) { // one message, and the heartbeats before it
		for {
			prefix := make([]byte, prefixBytes)
			if _, err := io.ReadFull(from, prefix); err != nil {
				t.Error(err)
				return
			}
			text := make([]byte, lengthOf(prefix))
			_, _ = io.ReadFull(from, text)
			_, _ = to.Write(append(prefix, text...))
			if len(text) > 0 {
				return
			}
		}
	}
	pass(r.down, r.up) // the challenge
	pass(r.up, r.down)
	pass(r.down, r.up)
	if err := errors.Join(<-met, <-met); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRelayedProof: who passes on another's proof of the token can say nothing itself: no message of its own, none that
// the client has said before or that was changed, and nothing in place of the server.
func TestRelayedProof(t *testing.T) {
	said := func(t *testing.T, r relayed) []byte { // the client's message as it is on the wire
		t.Helper()
		if err := r.client.Send("propose", "a plan"); err != nil {
			t.Fatal(err)
		}
		for {
			prefix := make([]byte, prefixBytes)
			if _, err := io.ReadFull(r.down, prefix); err != nil {
				t.Fatal(err)
			}
			if n := lengthOf(prefix); n > 0 {
				text := make([]byte, n)
				_, _ = io.ReadFull(r.down, text)
				return append(prefix, text...)
			}
		}
	}
	own, err := Append(nil, Message{Kind: "propose", Body: json.RawMessage(`"mine"`)})
	if err != nil {
		t.Fatal(err)
	}
	for name, says := range map[string]func(t *testing.T, r relayed) (to *Session, b []byte){
		"its own message": func(_ *testing.T, r relayed) (*Session, []byte) { _, _ = r.up.Write(own); return r.server, nil },
		"to the client": func(_ *testing.T, r relayed) (*Session, []byte) {
			_, _ = r.down.Write(own)
			return r.client, nil
		},
		"a changed one": func(t *testing.T, r relayed) (*Session, []byte) {
			b := said(t, r)
			b[len(b)-tagBytes-2] ^= 1
			_, _ = r.up.Write(b)
			return r.server, nil
		},
		"the same twice": func(t *testing.T, r relayed) (*Session, []byte) {
			b := said(t, r)
			_, _ = r.up.Write(append(b, b...))
			return r.server, []byte(`"a plan"`)
		},
		"back to who said it": func(t *testing.T, r relayed) (*Session, []byte) {
			_, _ = r.down.Write(said(t, r))
			return r.client, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			to, first := says(t, relay(t))
			if first != nil {
				if m, err := to.Receive(t.Context(), Short, time.Minute); err != nil || string(m.Body) != string(first) {
					t.Fatalf("the genuine message: %s, %v", m.Body, err)
				}
			}
			m, err := to.Receive(t.Context(), Short, time.Minute)
			if _, is := errors.AsType[*control.FormatError](err); !is ||
				!strings.Contains(err.Error(), "without the right tag") {
				t.Errorf("%q %s, %v", m.Kind, m.Body, err)
			}
		})
	}
}

// TestSealsGoOn: a sealed session goes on in another process, and a third one, where that has died, has the last word.
func TestSealsGoOn(t *testing.T) {
	r := relay(t)
	go func() { _, _ = io.Copy(r.up, r.down) }()
	go func() { _, _ = io.Copy(r.down, r.up) }()
	long := strings.Repeat("x", 3*Short)
	exchange := func(server *Session) {
		t.Helper()
		for _, text := range []string{"a", long} {
			if err := r.client.Send("ask", text); err != nil {
				t.Fatal(err)
			}
			if got, err := Expect[string](t.Context(), server, "ask", 4*Short, time.Minute); err != nil || got != text {
				t.Fatalf("%.20q, %v", got, err)
			}
			if err := server.Send("answer", text); err != nil {
				t.Fatal(err)
			}
			if got, err := Expect[string](t.Context(), r.client, "answer", 4*Short, time.Minute); err != nil || got != text {
				t.Fatalf("%.20q, %v", got, err)
			}
		}
	}
	exchange(r.server)
	h, err := r.server.Handover()
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(h)
	if err == nil {
		err = json.Unmarshal(b, &h)
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = r.server.Conn.SetReadDeadline(time.Time{})
	again := New(r.server.Conn, Options{Bears: time.Minute, From: h})
	exchange(again)
	if _, err := again.Handover(); err != nil { // it dies, and with it what it counted
		t.Fatal(err)
	}
	go h.Farewell(r.server.Conn, Message{Kind: KindError, Error: "it died"})
	if _, err := r.client.Receive(t.Context(), Short, time.Minute); err == nil ||
		!strings.Contains(err.Error(), "it died") {
		t.Errorf("%v", err)
	}
}
