package rdmacm

import (
	"errors"
	"io"
	"net/netip"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/testrun/meeting"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce"
)

// settled is how long a message gets to arrive where nobody reads it: nothing tells when it has.
const settled = 20 * time.Millisecond

// pair is a connection of two software devices.
func pair(t *testing.T) (ours, theirs *conn) {
	m := &meeting.Manager{}
	open := func(at netip.Addr) (verbs.Device, error) {
		return roce.New(roce.Options{Address: at}).Open(roce.DeviceName)
	}
	server, client := m.Open(t, open), m.Open(t, open)
	manager, err := ConnectionManagerOf(server)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := manager.ListenCM(netip.MustParseAddrPort("0.0.0.0:0"), verbs.CMOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	ours, theirs, err = connected(t.Context(), listener, server, client)
	if err != nil {
		t.Fatal(err)
	}
	return ours, theirs
}

// TestDelivered: all that was written before Close arrives, also where nobody reads meanwhile.
func TestDelivered(t *testing.T) {
	for i := range 3 {
		ours, theirs := pair(t)
		for _, m := range []string{"1", "2", "3", "4"} {
			if _, err := theirs.Write([]byte(m)); err != nil {
				t.Fatal(err)
			}
		}
		if err := theirs.Close(); err != nil {
			t.Error(err)
		}
		<-time.After(settled)
		_ = ours.SetReadDeadline(time.Now().Add(5 * time.Second))
		all, err := io.ReadAll(ours)
		if string(all) != "1234" {
			t.Errorf("%d: %q, %v", i, all, err)
		}
		_ = ours.Close()
	}
}

// TestCloseWithUnread: what was written leaves, also where something that came was not read.
func TestCloseWithUnread(t *testing.T) {
	for range 10 {
		ours, theirs := pair(t)
		if _, err := theirs.Write([]byte("unread")); err != nil {
			t.Fatal(err)
		}
		<-time.After(settled)
		if _, err := ours.Write([]byte("last")); err != nil {
			t.Fatal(err)
		}
		if err := ours.Close(); err != nil {
			t.Error(err)
		}
		_ = theirs.SetReadDeadline(time.Now().Add(5 * time.Second))
		all, err := io.ReadAll(theirs)
		if string(all) != "last" {
			t.Errorf("%q, %v", all, err)
		}
		_ = theirs.Close()
	}
}

// TestWriteAtTheEnd: a write that waits its turn when the peer leaves says so, not what the pipe says.
func TestWriteAtTheEnd(t *testing.T) {
	for i := range 10 {
		ours, theirs := pair(t)
		failed := make(chan error, 1)
		go func() {
			for {
				if _, err := ours.Write([]byte("message")); err != nil {
					failed <- err
					return
				}
			}
		}()
		<-time.After(settled)
		_ = theirs.Close()
		if err := <-failed; errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("%d: %v", i, err)
		}
		_ = ours.Close()
	}
}
