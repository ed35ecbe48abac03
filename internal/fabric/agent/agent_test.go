package agent

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobw/gobw/internal/control/frame"
)

// TestPlaceThatIsNotRankZero: an agent that does not find rank 0 says what is likely wrong with the place it looked at.
func TestPlaceThatIsNotRankZero(t *testing.T) {
	refused := func(at string) error {
		return &net.OpError{
			Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(at)),
			Err: os.NewSyscallError("connect", syscall.ECONNREFUSED),
		}
	}
	for _, tt := range []struct {
		name, place string
		err         error
		want        string
	}{
		{
			"does not resolve", "node1:18600", &net.OpError{
				Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "node1", IsNotFound: true},
			}, "node1: no such host: correct DNS or /etc/hosts",
		},
		{
			"resolves to loopback", "node1:18600", refused("127.0.1.1:18600"),
			"connection refused: here this name is this host itself",
		},
		{
			"resolves to another host", "node1:18600", &strangerError{frame.ErrWrongToken},
			"its name may resolve to another host",
		},
		{
			"something else listens", "node1:18600", &strangerError{errors.New("this is no message")},
			"another run may be there",
		},
		{
			"not up yet", "node1:18600", refused("10.0.0.1:18600"),
			"node1:18600: dial tcp 10.0.0.1:18600: connect: connection refused: rank 0 is not running there, " +
				"or its name resolves to another host",
		},
		{
			"loopback was asked for", "127.0.0.1:18600", refused("127.0.0.1:18600"),
			"127.0.0.1:18600: dial tcp 127.0.0.1:18600: connect: connection refused",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				var notes []string
				_, err := Join(t.Context(), Config{
					Rendezvous: []string{tt.place}, Wait: time.Minute,
					Dial: func(context.Context, string) (net.Conn, error) { return nil, tt.err },
					Note: func(s string) { notes = append(notes, s) },
				})
				if len(notes) != 6 || !strings.HasPrefix(notes[0], "waiting for rank 0: ") || !strings.Contains(notes[0], tt.want) {
					t.Errorf("notes %q", notes)
				}
				if err == nil || !strings.Contains(err.Error(), tt.want) ||
					!strings.Contains(err.Error(), "rank 0 did not accept this rank within 1m0s: "+tt.place) {
					t.Errorf("got %v, want %q", err, tt.want)
				}
				if waited := time.Since(begun); waited < time.Minute || waited > time.Minute+time.Second {
					t.Errorf("gave up after %v", waited)
				}
			})
		})
	}
}
