package frame

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/control"
)

// TestSilence says a word at each of some times and then nothing more.
func TestSilence(t *testing.T) {
	const bears = 3 * time.Second
	seconds := func(s ...float64) []float64 { return s }
	var halfSeconds []float64 // from 3.4
	for i := range 24 {
		halfSeconds = append(halfSeconds, 3.4+float64(i)/2)
	}
	for _, tt := range []struct {
		name  string
		words []float64
		host  hostLife
		want  float64 // seconds after the last word until it is lost
	}{
		{"regular", seconds(0.5, 1, 1.5, 2), hostAnswers, 3},
		{"never heard", nil, hostAnswers, 10},
		{"never heard, the host gone", nil, hostSilent, 3},
		{"irregular", seconds(0.5, 1.5, 2, 3.5), hostAnswers, 6},
		{"very irregular", seconds(0.5, 3.4, 6), hostAnswers, 10},
		{"irregular, the host gone", seconds(0.5, 3.4, 6), hostSilent, 3},
		{"irregular, nothing known of the host", seconds(0.5, 3.4, 6), hostUnknown, 3},
		{"irregular once, long ago", append(seconds(2.9), halfSeconds...), hostAnswers, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := silence{bears: bears}
			last := time.Duration(0)
			for _, w := range tt.words {
				last = time.Duration(w * float64(time.Second))
				if err := s.lost(last, tt.host); err != nil {
					t.Fatalf("lost before it spoke at %v: %v", last, err)
				}
				s.listen(last)
			}
			limit := time.Duration(tt.want * float64(time.Second))
			if err := s.lost(last+limit, tt.host); err != nil {
				t.Errorf("lost too early: %v", err)
			}
			if err := s.lost(last+limit+time.Millisecond, tt.host); !errors.Is(err, control.ErrSilent) {
				t.Errorf("after %v: %v, want silence", limit, err)
			}
		})
	}
}

// TestHostAnswers asks the kernel about a peer that only listens.
func TestHostAnswers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = peer.Close() }()
	if _, err := io.WriteString(c, "are you there?"); err != nil {
		t.Fatal(err)
	}
	if hostOf(c, time.Minute) == hostUnknown {
		t.Skip("this system does not tell")
	}
	if got := hostOf(c, time.Minute); got != hostAnswers {
		t.Errorf("host life %d, want %d", got, hostAnswers)
	}
	for deadline := time.Now().Add(time.Minute); !unread(peer); {
		if time.Now().After(deadline) {
			t.Fatal("what was sent does not wait to be read")
		}
	}
	if unread(c) {
		t.Error("something waits to be read, and nothing was sent")
	}
}
