package frame

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/testrun"
)

func framed(text string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
}

// TestReadBounds offers lengths that no message may have there.
func TestReadBounds(t *testing.T) {
	longest := `{"kind":"x"` + strings.Repeat(" ", Short-12) + "}"
	if m, err := read(bytes.NewReader(framed(longest)), Short); err != nil || m.Kind != "x" {
		t.Errorf("%d bytes: %q, %v", len(longest), m.Kind, err)
	}
	if _, err := read(bytes.NewReader(framed(longest)[:Short]), Short); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut short: %v, want an unexpected end", err)
	}
	for name, b := range map[string][]byte{
		"one more": framed(longest + " "), "4 GiB": []byte("\xff\xff\xff\xff{}"), "HTTP": []byte("GET / HTTP/1.0\r\n"),
	} {
		_, err := read(bytes.NewReader(b), Short)
		var format *control.FormatError
		if !errors.As(err, &format) || !strings.Contains(err.Error(), "the limit is 4096") {
			t.Errorf("%s: %v, want a refusal for its length", name, err)
		}
	}
	if m, err := read(bytes.NewReader(append(make([]byte, 400), framed(`{"kind":"late"}`)...)), Short); err != nil ||
		m.Kind != "late" {
		t.Errorf("after a hundred heartbeats: %q, %v", m.Kind, err)
	}
}

// TestLongMessagesWait: what is longer than anybody waits for is not read, and what
// is longer than is due ends the session.
func TestLongMessagesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own, peer := net.Pipe()
		s := New(own, Options{Bears: time.Second})
		defer s.Abandon()
		go func() { _, _ = io.Copy(io.Discard, peer) }()
		taken := make(chan int, 1)
		go func() {
			n, _ := peer.Write(framed(`{"kind":"big","body":"` + strings.Repeat("x", 8<<20) + `"}`))
			taken <- n
		}()
		time.Sleep(time.Minute) // a peer whose message nobody waits for is not silent
		select {
		case n := <-taken:
			t.Fatalf("%d bytes were taken before anybody waited for them", n)
		default:
		}
		if _, err := s.Receive(t.Context(), 64<<10, time.Second); err == nil ||
			!strings.Contains(err.Error(), "the limit is 65536") {
			t.Errorf("8 MiB where 64 KiB are due: %v", err)
		}
		_ = own.Close()
		if n := <-taken; n > 64<<10 {
			t.Errorf("%d bytes were taken", n)
		}
	})
}

// TestHalfAMessage: what has come of a message that may be read takes no more memory than the whole of it would.
func TestHalfAMessage(t *testing.T) {
	const claimed = 64 << 10
	b := framed(strings.Repeat("x", claimed))[:60000]
	least := uint64(1 << 40)
	for range 5 { // others allocate, too
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := read(bytes.NewReader(b), claimed); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	if least > claimed+4096 {
		t.Errorf("half a message of %d bytes takes %d", claimed, least)
	}
}

// TestHeartbeatsAllocateNothing: a peer may send many of them while the garbage is not collected.
func TestHeartbeatsAllocateNothing(t *testing.T) {
	const beats = 100
	s := &Session{start: time.Now().Add(-time.Hour)} // so that they are none too many
	r := bytes.NewReader(nil)
	s.r = bufio.NewReader(r)
	all := make([]byte, beats*prefixBytes)
	n := testing.AllocsPerRun(100, func() {
		r.Reset(all)
		if _, err := s.next(); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("%d heartbeats allocate %v times", beats, n)
	}
}

// TestPeerCannotSteerTheTerminal sends what a terminal would obey: it arrives as text that shows.
func TestPeerCannotSteerTheTerminal(t *testing.T) {
	for _, c := range []struct{ sent, want string }{
		{`"\u001b[2Jgone"`, "\ufffd[2Jgone"},
		{`"\u001B]0;title\u0007"`, "\ufffd]0;title\ufffd"},
		{`"\u009b1m \u007f \b"`, "\ufffd1m \ufffd \ufffd"},
		{"\"raw \u009b and \x7f\"", "raw \ufffd and \ufffd"},
		{`"two\nlines\tand µ, \u00b5"`, "two\nlines\tand µ, µ"},
		{`"C:\\u001b"`, `C:\u001b`},
		{`"right\u202eleft"`, "right\ufffdleft"},
	} {
		m, err := read(bytes.NewReader(framed(`{"kind":"hello","body":{"text":{"program":`+c.sent+`}}}`)), Short)
		if err != nil {
			t.Fatal(err)
		}
		h, err := Decode[struct{ Text Hello }](m)
		if err != nil || h.Text.Program != c.want {
			t.Errorf("%s arrives as %q, %v; want %q", c.sent, h.Text.Program, err, c.want)
		}
	}
}

// TestProof lets two ends meet, each with a token or none, over words that a terminal would obey.
func TestProof(t *testing.T) {
	for _, c := range []struct{ name, server, client, wantServer, wantClient string }{
		{name: "none"},
		{name: "the same", server: "right", client: "right"},
		{name: "another", server: "right", client: "wrong", wantServer: "wrong token", wantClient: "wrong token"},
		{name: "none at the client", server: "right", wantServer: "asks for a token", wantClient: "asks for a token"},
		{name: "none at the server", client: "right", wantServer: "goodbye", wantClient: "does not ask for the token"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				meet := func(conn net.Conn, dialled bool, token, program string) (Hello, error) {
					o := Options{Dialled: dialled, Bears: 3 * time.Second}
					if token != "" {
						o.Token = []byte(token)
					}
					s := New(conn, o)
					h, err := s.Meet(t.Context(), Hello{Program: program, More: []byte(`{"rank":3}`)}, 10*time.Second)
					if err != nil && !dialled {
						s.End(Message{Kind: KindError, Error: err.Error()})
					}
					defer s.End(Message{Kind: KindBye})
					return h, err
				}
				type result struct {
					h   Hello
					err error
				}
				a, b := net.Pipe()
				met := make(chan result, 1)
				go func() {
					h, err := meet(a, false, c.server, "ser<\x1bver")
					met <- result{h, err}
				}()
				h, err := meet(b, true, c.client, "client")
				other := <-met
				for _, e := range []struct {
					who  string
					got  error
					want string
				}{{"server", other.err, c.wantServer}, {"client", err, c.wantClient}} {
					if (e.got == nil) != (e.want == "") || e.got != nil && !strings.Contains(e.got.Error(), e.want) {
						t.Errorf("%s: %v, want %q", e.who, e.got, e.want)
					}
				}
				if err == nil &&
					(h.Program != "ser<\ufffdver" || other.h.Program != "client" || string(other.h.More) != `{"rank":3}`) {
					t.Errorf("they met as %+v and %+v", h, other.h)
				}
			})
		})
	}
}

// TestFalseServer: a server that welcomes everybody does not have it.
func TestFalseServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own, peer := net.Pipe()
		go func() {
			_ = Write(peer, KindChallenge, proven{Nonce: make([]byte, nonceBytes)})
			_, _ = read(peer, Short)
			_ = Write(peer, KindHello, proven{Text: []byte(`{}`), Proof: []byte("trust me")})
			_, _ = io.Copy(io.Discard, peer)
		}()
		s := New(own, Options{Dialled: true, Bears: time.Second, Token: []byte("right")})
		defer s.Abandon()
		if _, err := s.Meet(t.Context(), Hello{}, time.Second); err == nil ||
			!strings.Contains(err.Error(), "does not have it") {
			t.Errorf("a false server: %v", err)
		}
		_ = peer.Close()
	})
}

// FuzzFrame: what decodes encodes, and decodes again as the same.
func FuzzFrame(f *testing.F) {
	f.Add(framed(`{"kind":"propose","body":{"operation":"write"}}`))
	f.Add(framed(`{"kind":"error","error":"\u001b","lost":true}`))
	f.Add(framed(""))
	testrun.Fuzz(f, func(t *testing.T, b []byte) {
		m, err := read(bytes.NewReader(b), 64<<10)
		if err != nil {
			return
		}
		again, err := Append(nil, m)
		if err != nil {
			t.Fatalf("%+v does not encode: %v", m, err)
		}
		m2, err := read(bytes.NewReader(again), 1<<20)
		if err != nil || m2.Kind != m.Kind || m2.Error != m.Error || m2.Cause != m.Cause || m2.Fix != m.Fix {
			t.Errorf("%+v decodes again as %+v, %v", m, m2, err)
		}
		once, _ := Decode[any](m)
		twice, _ := Decode[any](m2)
		if !cmp.Equal(once, twice) {
			t.Errorf("%s decodes again as %s", m.Body, m2.Body)
		}
	})
}

// FuzzMeet: nobody is believed by chance.
func FuzzMeet(f *testing.F) {
	f.Add(framed(`{"kind":"hello","body":{"text":{},"nonce":"eA==","proof":"eQ=="}}`))
	testrun.Fuzz(f, func(t *testing.T, b []byte) {
		synctest.Test(t, func(t *testing.T) {
			own, peer := net.Pipe()
			go func() {
				go func() { _, _ = io.Copy(io.Discard, peer) }()
				_, _ = peer.Write(b)
				_ = peer.Close()
			}()
			s := New(own, Options{Bears: time.Second, Token: []byte("right")})
			defer s.Abandon()
			if h, err := s.Meet(t.Context(), Hello{}, time.Second); err == nil {
				t.Errorf("%+v was believed", h)
			}
		})
	})
}

// TestEnd: a last word costs no second where the peer closes at once, also where the reader had paused in front of a
// long message. A fault costs it each time; a busy machine does not, so the best of some tries counts.
func TestEnd(t *testing.T) {
	took := time.Hour
	for range 10 {
		if took = min(took, ended(t)); took < time.Second/2 {
			return
		}
	}
	t.Errorf("it took %v after the peer had closed", took)
}

// TestEndIsHeard: a peer that has said more than was read hears the last word, and no reset.
func TestEndIsHeard(t *testing.T) {
	there, here := connected(t)
	s := New(here, Options{Bears: time.Minute})
	long := framed(`{"kind":"beat","error":"` + strings.Repeat("x", 60<<10) + `"}`)
	if _, err := there.Write(bytes.Repeat(long, 3)); err != nil {
		t.Fatal(err)
	}
	if err := s.Await(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	heard := make(chan error, 1)
	go func() {
		m, err := read(there, Short)
		if err == nil && m.Error != "no" {
			err = errors.New(m.Error)
		}
		for range 10 { // it goes on as if it had not heard
			if err == nil {
				time.Sleep(5 * time.Millisecond)
				_, err = there.Write(make([]byte, prefixBytes))
			}
		}
		_ = there.Close()
		heard <- err
	}()
	s.End(Message{Kind: KindError, Error: "no"})
	if err := <-heard; err != nil {
		t.Errorf("the peer hears %v, want the last word and no reset", err)
	}
}

// connected are both ends of a connection. Virtual time knows no half-closed ones.
func connected(t *testing.T) (there, here net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if there, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if here, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return there, here
}

// ended is how long the end of a paused session takes.
func ended(t *testing.T) time.Duration {
	t.Helper()
	there, here := connected(t)
	s := New(here, Options{Bears: time.Minute})
	if err := Write(there, "plan", 1); err != nil {
		t.Fatal(err)
	}
	if _, err := Expect[int](t.Context(), s, "plan", 1<<10, time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := Write(there, "next", strings.Repeat("x", Short)); err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = io.ReadAll(there) // to the end of what this end says
		_ = there.Close()
	}()
	began := time.Now()
	s.End(Message{Kind: KindError, Error: "no"})
	return time.Since(began)
}

// TestHandover: a session goes on in another process with what had come by then, and stays as it is in between.
func TestHandover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own, peer := net.Pipe()
		go func() {
			go func() { _, _ = io.Copy(io.Discard, peer) }()
			for _, kind := range []string{"plan", "next"} {
				_ = Write(peer, kind, 1)
			}
			_, _ = peer.Write(make([]byte, 3)) // of a heartbeat
			time.Sleep(time.Second)
			_, _ = peer.Write(make([]byte, 1))
			_ = Write(peer, "last", 1)
			_, _ = peer.Write([]byte{0, 0, 0, 9, '{'})
		}()
		s := New(own, Options{Bears: time.Minute})
		synctest.Wait()
		h, err := s.Handover()
		if err != nil {
			t.Fatal(err)
		}
		_ = own.SetReadDeadline(time.Time{})
		s = New(own, Options{Bears: time.Minute, From: h})
		for _, want := range []string{"plan", "next", "last"} {
			if _, err := Expect[int](t.Context(), s, want, Short, time.Minute); err != nil {
				t.Errorf("%s: %v", want, err)
			}
		}
		synctest.Wait()
		if _, err := s.Handover(); !errors.Is(err, control.ErrPeerLost) {
			t.Errorf("in the middle of a message: %v, want a lost peer", err)
		}
		_ = peer.Close()
	})
}
