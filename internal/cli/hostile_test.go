//go:build linux

package cli

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/verbs/verbstest"
)

// server is 'gobw serve' in a process of its own.
type server struct {
	cmd     *exec.Cmd
	address string // of the software device and of TCP
	port    string
	log     *locked
}

func startServer(t *testing.T, flags ...string) *server {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{address: verbstest.Address().String(), log: &locked{}}
	s.cmd = exec.Command(self, append([]string{"serve", "-d", "roce0", "--cpu", "none", "--listen", s.address + ":0", "--peer-timeout", "10s"}, flags...)...)
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := make(chan string, 1)
	ended := make(chan error, 1)
	go func() {
		lines := bufio.NewScanner(io.TeeReader(stderr, s.log))
		for lines.Scan() {
			if _, at, is := strings.Cut(lines.Text(), "serving on "); is {
				said <- at
			}
		}
		ended <- s.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the server ended with %v\n%s", err, s.log)
			}
		case <-time.After(time.Minute):
			_ = s.cmd.Process.Kill()
			t.Errorf("the server did not end\n%s", s.log)
		}
		if t.Failed() {
			t.Logf("the server's log:\n%s", s.log)
		}
	})
	select {
	case at := <-said:
		_, s.port, _ = net.SplitHostPort(at)
	case err := <-ended:
		ended <- err
		t.Fatalf("the server ended: %v\n%s", err, s.log)
	case <-time.After(time.Minute):
		t.Fatalf("the server does not listen\n%s", s.log)
	}
	return s
}

// dial is a connection that may do anything.
func (s *server) dial(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", net.JoinHostPort(s.address, s.port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	return conn
}

// client runs a command line of ours against the server.
func (s *server) client(line string) (code int, text string) {
	var out locked
	words := append(strings.Fields(line), s.address, "-p", s.port, "-d", "roce0", "--cpu", "none", "--source", verbstest.Address().String(), "--quiet")
	code = Main(words, output.Streams{Out: &out, Err: &out})
	return code, out.String()
}

// honest is the client that must get its numbers whatever came before.
func (s *server) honest(t *testing.T) {
	t.Helper()
	began := time.Now()
	code, text := s.client("gobw write -s 64 -n 200 --wait 20s --peer-timeout 30s")
	if code != exit.Passed || !strings.Contains(text, "64") {
		t.Errorf("the next honest client: exit %d after %v\n%s", code, time.Since(began), text)
	}
}

const ourHello = "6.27\x00gobw/1\x00\x00\x00\x00\x00"

func frame(text string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(text)))) + text
}

func proposal(fields string) string {
	base := map[string]any{"operation": "write", "kind": "bandwidth", "transport": "RC", "sizes": []int{64}, "iterations": 100, "qps": 1, "atomic_type": 0}
	var more map[string]any
	if err := json.Unmarshal([]byte("{"+fields+"}"), &more); err != nil {
		panic(err)
	}
	maps.Copy(base, more)
	delete(base, "atomic_type")
	b, _ := json.Marshal(map[string]any{"kind": "propose", "plan": base})
	return frame(string(b))
}

const sayHello = `{"kind":"hello","program":"x","peer_timeout_ms":3000}`

// TestHostileClients lets one client after another do its worst. Each must get no more than an answer, and after each the
// next honest client gets its numbers.
func TestHostileClients(t *testing.T) {
	s := startServer(t, "--max-memory", "256M", "--max-duration", "30s")
	open := ourHello + frame(sayHello)
	long := func(kind string, n int) string {
		text := `{"kind":"` + kind + `","error":"`
		return frame(text + strings.Repeat("x", n-len(text)-2) + `"}`)
	}
	evilKeys := strings.Repeat("ff:", 35) + "\x00\x00\x00"
	negotiate := string(append([]byte("6.28\x00"), make([]byte, 11)...)) + "\x00\x00\x10\x00" + "\x00\x00\x00\x40" + "3\x00"
	for _, row := range []struct {
		name, sends string
		answer      string // a pattern in what comes back, empty: anything or nothing
	}{
		{"nothing", "", ""},
		{"one byte", "6", ""},
		{"15 bytes", ourHello[:15], ""},
		{"garbage", "GET / HTTP/1.0\r\n\r\n", ""},
		{"no NUL", strings.Repeat("6", 16), ""},
		{"hello alone", ourHello, ""},
		{"hello twice", ourHello + ourHello, "the limit is"},
		{"an unknown version of ours", "6.27\x00gobw/9\x00\x00\x00\x00\x00", "upgrade the older one"},
		{"an old perftest", "5.10\x00" + string(make([]byte, 11)), ""},
		{"an untold perftest", "6.06\x00" + string(make([]byte, 11)), ""},
		{"a 6.28 hello", negotiate[:16], ""},
		{"a 6.28 preamble and keys of any text", negotiate + string(make([]byte, 320)) + evilKeys, ""},
		{"a frame of no length", ourHello + "\x00\x00\x00\x00", "the limit is"},
		{"a frame of 4 GiB", ourHello + "\xff\xff\xff\xff{", "the limit is"},
		{"half a frame", ourHello + "\x00\x00\x01\x00{\"kind\":", ""},
		{"no JSON", ourHello + frame(strings.Repeat("[", 60000)), "does not keep"},
		{"a hello of 64 KiB", ourHello + long("hello", 64<<10), "the limit is"},
		{"an unknown kind", open + frame(`{"kind":"plant"}`), "where a plan was due"},
		{"a plan before the hello", ourHello + proposal(""), ""},
		{"a hello for a plan", open + frame(sayHello), "where a plan was due"},
		{"a report of 8 MiB", open + long("report", 8<<20), "where a plan was due"},
		{"an error of a screen's commands", open + frame(`{"kind":"error","error":"\u001b[2J\u202e`+strings.Repeat("A", 60000)+`"}`), ""},
		{"heartbeats without end", open + strings.Repeat(frame(`{"kind":"heartbeat"}`), 5000), ""},
		{"heartbeats of 64 KiB", open + strings.Repeat(long("heartbeat", 60<<10), 3), "the limit is"},
		{"no operation", open + proposal(`"operation":"dig"`), "peer said|operation"},
		{"a layout that wraps", open + proposal(`"reversed":true,"verify":"ends","sizes":[2],"tx_depth":2,"noncontig":{"shape":"gather","strategy":"gather-write","layout":"vector:block=1,num=2,stride=4611686018427387903","window":2}`), "error"},
		{"memory for 256 queue pairs of all sizes", open + proposal(`"all_sizes":true,"qps":256,"sizes":[2,4,8388608]`), "error"},
		{"a footprint of 1 GiB", open + proposal(`"sizes":[64],"noncontig":{"shape":"gather","strategy":"gather-write","layout":"vector:block=32,num=2,stride=64","window":2,"footprint":1073741824}`), "error"},
		{"16000 queue pairs of depth 15000", open + proposal(`"qps":16000,"tx_depth":15000,"reversed":true`), "queue pairs"},
		{"4096 sizes, a million runs", open + proposal(`"runs":1048576,"sizes":[`+strings.Repeat("64,", 4095)+`64]`), "rounds|records"},
		{"ten hours", open + proposal(`"iterations":0,"duration_ns":36000000000000`), "this end grants 30s"},
		{"for ever", open + proposal(`"infinite":true,"iterations":0,"duration_ns":1000000000`), "until it is stopped"},
		{"a plan, and gone", open + proposal(""), ""},
		{"a plan of 200 MB, and gone", open + proposal(`"sizes":[67108864]`), ""},
		{"two plans at once", open + proposal("") + proposal(""), ""},
		{"a plan, then a hundred kinds", open + proposal("") + strings.Repeat(frame(`{"kind":"sync"}`), 100), ""},
		{"a plan, then addresses where facts are due", open + proposal("") + frame(`{"kind":"addresses","addresses":[]}`), "where .*facts.* was due"},
		{"a plan, then facts of nonsense", open + proposal("") + frame(`{"kind":"facts","facts":{"page_bytes":-1,"mtu":99}}`), ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			conn := s.dial(t)
			if _, err := io.WriteString(conn, row.sends); err != nil && row.answer != "" {
				t.Logf("cut off: %v", err)
			}
			if row.answer != "" {
				var b bytes.Buffer
				_, _ = io.CopyN(&b, conn, 1<<20)
				if !regexp.MustCompile(row.answer).Match(b.Bytes()) {
					t.Errorf("answered %.300q, want %s", b.Bytes(), row.answer)
				}
			} else if row.sends != "" && !strings.HasPrefix(row.name, "hello") {
				_ = conn.(*net.TCPConn).CloseWrite()
			}
			s.honest(t)
		})
	}
	if lines := strings.Count(s.log.String(), "\n"); lines > 500 {
		t.Errorf("the log has %d lines", lines)
	}
	for line := range strings.Lines(s.log.String()) {
		if len(line) > 2000 || strings.ContainsAny(line, "\x1b\u202e") {
			t.Errorf("a stranger's line in the log: %.200q", line)
		}
	}
}

// TestSilentConnectionsWait: connections that say nothing keep nobody out who waits.
func TestSilentConnectionsWait(t *testing.T) {
	s := startServer(t)
	for range 70 {
		s.dial(t)
	}
	s.honest(t)
	for range 70 {
		_, _ = io.WriteString(s.dial(t), ourHello)
	}
	s.honest(t)
}

// TestQueue: a second client without patience hears who is served and since when; one that waits is served next.
func TestQueue(t *testing.T) {
	s := startServer(t)
	first := make(chan string, 1)
	go func() {
		code, text := s.client("gobw write -s 64 -D 3 --peer-timeout 30s")
		first <- fmt.Sprint(code, " ", text)
	}()
	waitFor(t, s, "begins")
	code, text := s.client("gobw write -s 64 -n 100 --peer-timeout 30s")
	if code != exit.Setup || !regexp.MustCompile(`busy since \d\d:\d\d:\d\d with [0-9.]+:`).MatchString(text) {
		t.Errorf("the second client: exit %d\n%s", code, text)
	}
	s.honest(t)
	if r := <-first; !strings.HasPrefix(r, "0 ") {
		t.Errorf("the first client: %s", r)
	}
}

// TestDeathOfATest: whatever kills a test's process, its client hears of it and the server goes on.
func TestDeathOfATest(t *testing.T) {
	s := startServer(t)
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSEGV, syscall.SIGABRT} {
		before := len(s.log.String())
		done := make(chan string, 1)
		go func() {
			code, text := s.client("gobw write -s 64 -D 20 --peer-timeout 10s")
			done <- fmt.Sprint(code, " ", text)
		}()
		waitForAfter(t, s, before, "begins")
		for _, pid := range childrenOf(t, s.cmd.Process.Pid) {
			_ = syscall.Kill(pid, sig)
		}
		began := time.Now()
		if r := <-done; !strings.HasPrefix(r, "4 ") || !strings.Contains(r, "test's process died") {
			t.Errorf("%v: the client ended with %s", sig, r)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%v: the client heard of it after %v", sig, took)
		}
		waitForAfter(t, s, before, "test's process died") // the client may hear of it first
		if said := s.log.String()[before:]; strings.Count(said, "test's process died") != 1 {
			t.Errorf("%v: the log says %s", sig, said)
		}
		s.honest(t)
	}
}

// TestToken: who does not know the token gets one line, and who knows it is served.
func TestToken(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	right, wrong := write("right", "correct horse battery staple\n"), write("wrong", "incorrect horse battery staple\n")
	s := startServer(t, "--token-file", right)
	for _, c := range []struct {
		flags, says string
		code        int
	}{
		{"", "token", exit.Setup},
		{" --token-file " + wrong, "not this server's", exit.Setup},
		{" --token-file " + right, "64", exit.Passed},
	} {
		code, text := s.client("gobw write -s 64 -n 100 --peer-timeout 30s" + c.flags)
		if code != c.code && (c.code == exit.Passed || code == exit.Passed) || !strings.Contains(text, c.says) {
			t.Errorf("%q: exit %d, want %d and %q\n%s", c.flags, code, c.code, c.says, text)
		}
	}
	conn := s.dial(t)
	began := time.Now()
	_, _ = io.WriteString(conn, ourHello)
	_, _ = io.Copy(io.Discard, conn)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("who proves nothing is kept for %v", took)
	}
	plain := startServer(t)
	if code, text := plain.client("gobw write -s 64 -n 100 --token-file " + right); code == exit.Passed || !strings.Contains(text, "does not ask for the token") {
		t.Errorf("a server that asks for no token: exit %d\n%s", code, text)
	}
}

// TestForeignAddress: traffic goes to the client, and not to whom it names.
func TestForeignAddress(t *testing.T) {
	s := startServer(t)
	for _, gid := range []string{
		"00000000000000000000ffffe0000001", // 224.0.0.1
		"ff020000000000000000000000000001",
		"00000000000000000000ffffffffffff",
	} {
		conn := s.dial(t)
		_, _ = io.WriteString(conn, ourHello+frame(sayHello)+proposal(`"reversed":true,"transport":"UC"`))
		_, _ = io.WriteString(conn, frame(`{"kind":"facts","facts":{"page_bytes":4096,"cache_line_bytes":64,"mtu":3,"max_outstanding":16}}`))
		time.AfterFunc(300*time.Millisecond, func() {
			_, _ = io.WriteString(conn, frame(`{"kind":"addresses","addresses":[{"qpn":18,"psn":1,"rkey":1,"addr":4096,"bytes":65536,"has_gid":true,"gid":"`+gidText(gid)+`"}]}`))
		})
		var b bytes.Buffer
		_, _ = io.Copy(&b, conn)
		if !regexp.MustCompile(`wants traffic to|stands for many|is none`).Match(b.Bytes()) {
			t.Errorf("GID %s: answered %.600q", gid, b.Bytes())
		}
	}
	s.honest(t)
}

func gidText(hex string) string {
	var parts []string
	for i := 0; i < len(hex); i += 4 {
		parts = append(parts, hex[i:i+4])
	}
	return strings.Join(parts, ":")
}

func waitFor(t *testing.T, s *server, text string) { t.Helper(); waitForAfter(t, s, 0, text) }

func waitForAfter(t *testing.T, s *server, from int, text string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(s.log.String()[from:], text); {
		if time.Now().After(deadline) {
			t.Fatalf("the log has no %q:\n%s", text, s.log)
		}
		select { // the log is all that tells
		case <-time.After(5 * time.Millisecond):
		case <-t.Context().Done():
		}
	}
}

// childrenOf lists the processes that a process has started.
func childrenOf(t *testing.T, pid int) []int {
	t.Helper()
	var all []int
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		for word := range strings.FieldsSeq(string(b)) {
			if n, err := strconv.Atoi(word); err == nil {
				all = append(all, n)
			}
		}
	}
	return all
}
