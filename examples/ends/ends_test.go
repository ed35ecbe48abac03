package ends

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestMain is an end that swaps with a peer which is gone already, where a test starts it.
func TestMain(m *testing.M) {
	if os.Getenv("PORT") == "" {
		os.Exit(m.Run())
	}
	c := Meet("")
	_, _ = c.Read(make([]byte, 1)) // until the connection is reset: then a write fails, too
	Swap(c, "connected")
}

// TestPeerGone: a peer that is gone is told as that, whether the write or the read notices it.
func TestPeerGone(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(address)
	var said strings.Builder
	end := exec.CommandContext(t.Context(), os.Args[0])
	end.Env, end.Stderr = append(os.Environ(), "PORT="+port), &said
	if err := end.Start(); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", address)
	for tries := 0; err != nil && tries < 500; tries++ {
		time.Sleep(20 * time.Millisecond)
		conn, err = net.Dial("tcp", address)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).SetLinger(0); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if err := end.Wait(); err == nil || !strings.Contains(said.String(), "the other end is gone: write") {
		t.Errorf("%v: %s", err, said.String())
	}
}
