package perftest

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/control"
)

// TestAwaitPlanReadsNone: what a negotiating client wants is taken as it is; who judges it reads it.
func TestAwaitPlanReadsNone(t *testing.T) {
	own, peer := net.Pipe()
	defer func() { _ = peer.Close() }()
	s := NewSession(own, Setup{
		Timeouts: control.Timeouts{}.WithDefaults(), Peer: versionConditional,
		Facts: func() (control.Facts, error) {
			return control.Facts{PageBytes: 4096, CacheLineBytes: 64, MTU: 3}, nil
		},
	})
	defer s.Fail(nil)
	garbage := bytes.Repeat([]byte{0xff}, NegotiationBytes)
	go func() {
		_, _ = io.CopyN(io.Discard, peer, HelloBytes)
		for _, says := range []string{"\x00\x00\x10\x00", "\x00\x00\x00\x40", "3\x00"} {
			_, _ = io.WriteString(peer, says)
			_, _ = io.CopyN(io.Discard, peer, int64(len(says)))
		}
		_, _ = peer.Write(garbage)
	}()
	text, err := s.AwaitPlan(t.Context(), nil, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(s.asked.Parameters, garbage) {
		t.Errorf("took %x", s.asked.Parameters)
	}
	if p, err := PlanOf(text); err == nil {
		t.Errorf("garbage is the plan %+v", p)
	}
}
