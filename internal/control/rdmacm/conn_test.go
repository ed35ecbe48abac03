package rdmacm

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/testrun"
	"github.com/gobw/gobw/internal/testrun/meeting"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce"
)

// FuzzConn: whatever a peer sends over the queue pair of a control connection, and however it ends, what is read is
// what was sent, in order, and then comes the end or an error. RDMA CM's private data is not looked at: the shim copies
// events without it. The first byte of each message to send is its length in units of 4 bytes; 255 ends the connection.
func FuzzConn(f *testing.F) {
	m := &meeting.Manager{}
	open := func(at netip.Addr) (verbs.Device, error) {
		return roce.New(roce.Options{Address: at}).Open(roce.DeviceName)
	}
	server, client := m.Open(f, open), m.Open(f, open)
	manager, err := ConnectionManagerOf(server)
	if err != nil {
		f.Fatal(err)
	}
	listener, err := manager.ListenCM(netip.MustParseAddrPort("0.0.0.0:0"), verbs.CMOptions{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = listener.Close() })
	f.Add([]byte{4, 'k', 'e', 'y', 's', 80, 'l', 'o', 'n', 'g', 255})
	f.Add([]byte{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1})
	f.Add([]byte{128, 'a', 129, 'b'})
	f.Add([]byte{0, 0, 0, 255, 1})
	testrun.Fuzz(f, func(t *testing.T, b []byte) {
		ours, theirs, err := connected(t.Context(), listener, server, client)
		if err != nil {
			t.Fatal(err)
		}
		read := make(chan []byte, 1)
		closed := make(chan error, 1)
		go func() { // as a session does: where reading ends, it closes, and whoever still sends to it hears of that
			all, _ := io.ReadAll(ours)
			read <- all
			closed <- ours.Close()
		}()
		sent := hostileMessages(theirs, b)
		_ = theirs.Close()
		var got []byte
		select {
		case got = <-read:
		case <-time.After(time.Minute):
			t.Fatal("the connection does not end")
		}
		if err := <-closed; err != nil && !errors.Is(err, net.ErrClosed) {
			t.Errorf("close: %v", err)
		}
		if !bytes.HasPrefix(sent, got) { // the last message may be lost with the connection
			t.Errorf("%d bytes were sent; the %d that were read are others", len(sent), len(got))
		}
	})
}

// connected makes a connection: the end that took the request, and the one that dialled.
func connected(ctx context.Context, l verbs.CMListener, server, client verbs.Device) (ours, theirs *conn, err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	accepted := make(chan error, 1)
	go func() {
		cm, err := l.Accept(ctx)
		if err == nil {
			ours, err = newConn(ctx, server, cm, 5*time.Second)
		}
		accepted <- err
	}()
	c, err := Dial(ctx, client, l.Addr(), netip.Addr{}, 5*time.Second)
	if err != nil {
		cancel()
	}
	if err = errors.Join(err, <-accepted); err != nil {
		return nil, nil, err
	}
	return ours, c.(*conn), nil
}

// hostileMessages sends messages of any length, one after another without waiting for an answer.
func hostileMessages(c *conn, b []byte) (sent []byte) {
	for n := 0; len(b) > 0 && b[0] != 255 && n < 64; n++ {
		message := bytes.Repeat(b[:1], min(int(b[0])*4, messageBytes))
		copy(message, b[1:])
		b = b[1:]
		sent = append(sent, message...)
		if _, err := c.Write(message); err != nil {
			return sent
		}
	}
	if len(b) > 0 && b[0] == 255 {
		_ = c.CloseWrite()
	}
	return sent
}
