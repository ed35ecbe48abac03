package main

import (
	"encoding/json"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/verbs"
)

// TestMain is the program itself where a test starts it again.
func TestMain(m *testing.M) {
	if os.Getenv("PORT") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// freePort is a TCP port that nobody has now.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return port
}

// end is the program at one end.
func end(t *testing.T, port string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), "PORT="+port)
	return cmd
}

func TestHello(t *testing.T) {
	port := freePort(t)
	served := make(chan string, 1)
	go func() {
		out, err := end(t, port).CombinedOutput()
		if err != nil {
			t.Errorf("the target: %v", err)
		}
		served <- string(out)
	}()
	out, err := end(t, port, "127.0.0.1").CombinedOutput()
	for tries := 0; strings.Contains(string(out), "refused") && tries < 100; tries++ { // it is not listening yet
		<-time.After(20 * time.Millisecond)
		out, err = end(t, port, "127.0.0.1").CombinedOutput()
	}
	if err != nil || !strings.HasPrefix(string(out), "wrote into the memory of 127.0.0.") {
		t.Errorf("%v: %s", err, out)
	}
	if got, want := <-served, "in my memory: \"hello, verbs\"\n"; !strings.HasSuffix(got, want) {
		t.Errorf("the target says %q, want %q", got, want)
	}
}

// TestWriterDies: a target whose peer goes away before it has written says so, and has no string to show.
func TestWriterDies(t *testing.T) {
	port := freePort(t)
	var out strings.Builder
	target := end(t, port)
	target.Stdout, target.Stderr = &out, &out
	if err := target.Start(); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", "127.0.0.1:"+port)
	for tries := 0; err != nil && tries < 500; tries++ {
		<-time.After(20 * time.Millisecond)
		conn, err = net.Dial("tcp", "127.0.0.1:"+port)
	}
	if err != nil {
		t.Fatal(err)
	}
	said := json.NewEncoder(conn)
	gid := verbs.GID(netip.MustParseAddr("::ffff:127.0.0.9").As16())
	if err := said.Encode(verbs.Address{QPN: 17, GID: gid, MTU: verbs.MTU1024}); err != nil {
		t.Fatal(err)
	}
	if err := said.Encode("connected"); err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(conn).Decode(&verbs.Address{}); err != nil { // the target is connected
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if err := target.Wait(); err == nil || !strings.Contains(out.String(), "the other end is gone") {
		t.Errorf("%v: %s", err, out.String())
	}
}
