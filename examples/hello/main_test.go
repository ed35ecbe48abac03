package main

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestMain is the program itself where a test starts it again.
func TestMain(m *testing.M) {
	if os.Getenv("PORT") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestHello(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}

	end := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
		cmd.Env = append(os.Environ(), "PORT="+port)
		return cmd
	}
	served := make(chan string, 1)
	go func() {
		out, err := end().CombinedOutput()
		if err != nil {
			t.Errorf("the target: %v", err)
		}
		served <- string(out)
	}()
	out, err := end("127.0.0.1").CombinedOutput()
	for tries := 0; strings.Contains(string(out), "refused") && tries < 100; tries++ { // it is not listening yet
		<-time.After(20 * time.Millisecond)
		out, err = end("127.0.0.1").CombinedOutput()
	}
	if err != nil || !strings.HasPrefix(string(out), "wrote into the memory of 127.0.0.") {
		t.Errorf("%v: %s", err, out)
	}
	if got, want := <-served, "in my memory: \"hello, verbs\"\n"; !strings.HasSuffix(got, want) {
		t.Errorf("the target says %q, want %q", got, want)
	}
}
