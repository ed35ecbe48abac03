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
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/testrun"
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
	return startServerAs(t, []string{thisProgram(t)}, flags...)
}

func thisProgram(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return self
}

// startServerAs starts it by other words than the program's name.
func startServerAs(t *testing.T, words []string, flags ...string) *server {
	t.Helper()
	s := &server{address: verbstest.Address().String(), log: &locked{}}
	words = append(slices.Clone(words), "serve", "-d", "roce0", "--cpu", "none", "--listen", s.address+":0",
		"--peer-timeout", "10s")
	s.cmd = exec.Command(words[0], append(words[1:], flags...)...)
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
	return s.clientOf(line, "--quiet")
}

// clientOf puts the address behind a command line, and more flags.
func (s *server) clientOf(line string, more ...string) (code int, text string) {
	var out locked
	words := append(strings.Fields(line), s.address, "-p", s.port, "-d", "roce0", "--cpu", "none", "--source",
		verbstest.Address().String())
	words = append(words, more...)
	code = Main(words, output.Streams{Out: &out, Err: &out})
	return code, out.String()
}

// honest is the client that must get its numbers whatever came before.
func (s *server) honest(t *testing.T) {
	t.Helper()
	began := time.Now()
	code, text := s.client("gobw write -s 64 -n 200 --warmup=0 --wait 20s --peer-timeout 30s")
	if code != exit.Passed || !strings.Contains(text, "64") {
		t.Errorf("the next honest client: exit %d after %v\n%s", code, time.Since(began), text)
	}
}

const ourHello = "6.27\x00gobw/1\x00\x00\x00\x00\x00"

func frame(text string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(text)))) + text
}

// proposal is a plan with some fields said, as they are written.
func proposal(fields string) string {
	plan := map[string]json.RawMessage{}
	for _, text := range []string{
		`{"operation":"write","kind":"bandwidth","transport":"RC","sizes":[64],"iterations":100,"qps":1}`, "{" + fields + "}",
	} {
		if err := json.Unmarshal([]byte(text), &plan); err != nil {
			panic(err)
		}
	}
	b, _ := json.Marshal(map[string]any{"kind": "propose", "body": plan})
	return frame(string(b))
}

const sayHello = `{"kind":"hello","body":{"text":{"program":"x","bears_ms":3000}}}`

// TestHostileClients lets one client after another do its worst. Each must get no more than an answer. After every
// fourth, and in 'make test-all' after each, the next honest client gets its numbers.
func TestHostileClients(t *testing.T) {
	s := startServer(t, "--max-memory", "256M", "--max-duration", "30s")
	open := ourHello + frame(sayHello)
	aFact := frame(`{"kind":"facts","body":{"page_bytes":4096,"cache_line_bytes":64,"mtu":3,"max_outstanding":16}}`)
	before := descriptorsOf(t, s.cmd.Process.Pid)
	long := func(kind string, n int) string {
		text := `{"kind":"` + kind + `","error":"`
		return frame(text + strings.Repeat("x", n-len(text)-2) + `"}`)
	}
	evilKeys := strings.Repeat("ff:", 35) + "\x00\x00\x00"
	negotiate := string(append([]byte("6.28\x00"), make([]byte, 11)...)) + "\x00\x00\x10\x00" +
		"\x00\x00\x00\x40" + "3\x00"
	every, shift := 4, rand.IntN(4) // other rows in another run
	switch {
	case testrun.Whole():
		every = 1
	case testing.Short():
		every = 100
	}
	for i, row := range []struct {
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
		{"a heartbeat, and gone", ourHello + frame(""), ""},
		{"a frame of 4 GiB", ourHello + "\xff\xff\xff\xff{", "the limit is"},
		{"half a frame", ourHello + "\x00\x00\x01\x00{\"kind\":", ""},
		{"no JSON", ourHello + frame(strings.Repeat("[", 4000)), "does not keep"},
		{"no JSON of 60 KB", open + frame(`{"kind":"propose","body":`+strings.Repeat("[", 60000)), "does not keep"},
		{"a hello of 64 KiB", ourHello + long("hello", 64<<10), "the limit is"},
		{"an unknown kind", open + frame(`{"kind":"plant"}`), "where a plan was due"},
		{"a plan before the hello", ourHello + proposal(""), ""},
		{"a hello for a plan", open + frame(sayHello), "where a plan was due"},
		{"a report of 8 MiB", open + long("report", 8<<20), "the limit is 65536"},
		{
			"an error of a screen's commands",
			open + frame(`{"kind":"error","error":"\u001b[2J\u202e`+strings.Repeat("A", 60000)+`"}`), "",
		},
		{"heartbeats without end", open + strings.Repeat(frame(""), 5000), ""},
		{"frames of 60 KiB", open + strings.Repeat(long("beat", 60<<10), 3), "where a plan was due"},
		{"no operation", open + proposal(`"operation":"dig"`), "peer said|operation"},
		{
			"a layout that wraps",
			open +
				proposal(
					`"reversed":true,"verify":"ends","sizes":[2],"tx_depth":2,"noncontig":{"shape":"gather","strategy":"gather-write","layout":"vector:block=1,num=2,stride=4611686018427387903","window":2}`), "error",
		},
		{
			"memory for 256 queue pairs of all sizes",
			open + proposal(`"all_sizes":true,"qps":256,"sizes":[2,4,8388608]`), "error",
		},
		{
			"a footprint of 1 GiB",
			open +
				proposal(
					`"reversed":true,"sizes":[64],"noncontig":{"shape":"gather","strategy":"gather-write","layout":"vector:block=1048576,num=2,stride=2097152","window":2,"footprint":1073741824}`), "error",
		},
		{
			"a footprint of 2^62",
			open +
				proposal(
					`"sizes":[64],"noncontig":{"shape":"gather","strategy":"gather-write","layout":"vector:block=32,num=2,stride=64","window":2,"footprint":4611686018427387904}`), "footprint 4611686018427387904",
		},
		{
			"segments without end",
			open +
				proposal(
					`"sizes":[],"noncontig":{"shape":"gather","strategy":"pack-pipelined","layout":"struct:0+1,2+1,4+1,num=252644","window":1,"segment":2}`), "error",
		},
		{
			"a pause of eleven days",
			open + proposal(`"operation":"send","kind":"latency","iterations":1,"gap_ns":1000000000000000`), "the limit is 30s",
		},
		{"timers at their ends", open + proposal(`"qp_timeout":31,"retries":7`), "gives up after"},
		{"a pace of 5e-324", open + proposal(`"rate_bits_per_s":5e-324`), "would take"},
		{
			"no transport",
			open + frame(`{"kind":"propose","body":{"operation":"write","kind":"bandwidth","sizes":[64],"iterations":100}}`) +
				frame(`{"kind":"bye"}`), `"kind":"plan"`,
		},
		{"16000 queue pairs of depth 15000", open + proposal(`"qps":16000,"tx_depth":15000,"reversed":true`), "queue pairs"},
		{
			"4096 sizes, a million runs", open + proposal(`"runs":1048576,"sizes":[`+strings.Repeat("64,", 4095)+`64]`),
			"rounds|records",
		},
		{"ten hours", open + proposal(`"iterations":0,"duration_ns":36000000000000`), "the limit is 30s"},
		{"for ever", open + proposal(`"infinite":true,"iterations":0,"duration_ns":1000000000`), "until it is stopped"},
		{
			"a thousand million threads", open + proposal(`"qps":4,"threads":1000000000`),
			"--threads 1000000000: want 1 to 1024",
		},
		{"more threads than queue pairs", open + proposal(`"qps":2,"threads":3`) + aFact, "each thread needs its own"},
		{"threads below zero", open + proposal(`"qps":2,"threads":-1`), "--threads -1"},
		{"bursts without a pace", open + proposal(`"burst":9`), "--burst_size 9"},
		{"an endless burst", open + proposal(`"rate_bits_per_s":1e9,"burst":9223372036854775807`), "want 1 to 15000"},
		{"a pace of nothing", open + proposal(`"rate_bits_per_s":-1`), "--rate -1"},
		{"a timeout out of its code", open + proposal(`"qp_timeout":32`), "32: want 1 to 31"},
		{"a number that its field does not hold", open + proposal(`"qp_timeout":256`), "does not keep"},
		{"a fraction of a queue pair", open + proposal(`"qps":1.5`), "does not keep"},
		{
			"10,000 flow labels out of range", open + proposal(`"flow_labels":[`+strings.Repeat("1,", 9999)+`1048576]`),
			"--flow_label 1048576",
		},
		{"17,000 flow labels", open + proposal(`"flow_labels":[`+strings.Repeat("1,", 16999)+`1]`), "17000 labels"},
		{"a window that wraps", open + proposal(`"tx_depth":9223372036854775807`), "want 1 to 15000"},
		{"receives below zero", open + proposal(`"operation":"send","rx_depth":-9223372036854775808`), "want 1 to 16384"},
		{"sizes of nothing", open + proposal(`"sizes":[0]`), "--size"},
		{"sizes below zero", open + proposal(`"sizes":[-9223372036854775808]`), "--size"},
		{"a size of 2^63 - 1", open + proposal(`"sizes":[9223372036854775807]`), "--size"},
		{"2^64 - 1 messages", open + proposal(`"iterations":18446744073709551615`), "--iters"},
		{"a warm-up of 2^64 - 1", open + proposal(`"warmup":18446744073709551615`), "--warmup"},
		{"a margin without a time", open + proposal(`"margin_ns":9223372036854775807`), "--margin"},
		{"flushes of a quiet gigabyte", open + proposal(`"operation":"flush","reversed":true,"sizes":[1073741824]`), "error"},
		{"flushes over datagrams", open + proposal(`"operation":"flush","transport":"UD"`), "use RC"},
		{"outstanding READs without end", open + proposal(`"operation":"read","outstanding":1073741824`), "--outs"},
		{"a plan, and gone", open + proposal(""), ""},
		{"a plan of 200 MB, and gone", open + proposal(`"sizes":[67108864]`), ""},
		{"two plans at once", open + proposal("") + proposal(""), ""},
		{"a plan, then a hundred kinds", open + proposal("") + strings.Repeat(frame(`{"kind":"sync"}`), 100), ""},
		{
			"a plan, then addresses where facts are due", open + proposal("") + frame(`{"kind":"addresses","body":[]}`),
			"where .*facts.* was due",
		},
		{"a plan, then the report", open + proposal("") + frame(`{"kind":"report","body":{}}`), "where .*facts.* was due"},
		{
			"a plan, then facts twice",
			open + proposal("") +
				strings.Repeat(
					frame(`{"kind":"facts","body":{"page_bytes":4096,"cache_line_bytes":64,"mtu":3,"max_outstanding":16}}`), 2),
			"where .*addresses.* was due",
		},
		{"a plan, then goodbye", open + proposal("") + frame(`{"kind":"bye"}`), ""},
		{
			"a plan, then the peer's page is not one",
			open + proposal("") +
				frame(`{"kind":"facts","body":{"page_bytes":3,"cache_line_bytes":64,"mtu":3,"max_outstanding":16}}`),
			"want a power of two",
		},
		{
			"a plan, facts, then addresses of too few queue pairs", open + proposal(`"qps":2`) + aFact +
				frame(`{"kind":"addresses","body":[{"qpn":18}]}`), "1 addresses, this end has 2",
		},
		{
			"a plan, facts, then an address that wraps", open + proposal("") + aFact +
				frame(`{"kind":"addresses","body":[{"qpn":18,"addr":18446744073709551615,"bytes":2}]}`), "impossible",
		},
		{
			"a plan, facts, then a queue pair of 32 bits",
			open + proposal("") + aFact + frame(`{"kind":"addresses","body":[{"qpn":4294967295}]}`), "impossible",
		},
		{
			"a plan, facts, then a synchronization for addresses",
			open + proposal("") + aFact + frame(`{"kind":"sync","body":{"phase":"ready"}}`), "where .*addresses.* was due",
		},
		{
			"a plan, then facts of nonsense", open + proposal("") + frame(`{"kind":"facts","body":{"page_bytes":-1,"mtu":99}}`),
			"",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			conn := s.dial(t)
			if _, err := io.WriteString(conn, row.sends); err != nil && row.answer != "" {
				t.Logf("cut off: %v", err)
			}
			if row.answer != "" {
				want, answered := regexp.MustCompile(row.answer), make([]byte, 0, 1<<20)
				for n, err := 0, error(nil); err == nil && len(answered) < cap(answered) &&
					!want.Match(answered); answered = answered[:len(answered)+n] {
					n, err = conn.Read(answered[len(answered):cap(answered)])
				}
				if !want.Match(answered) {
					t.Errorf("answered %.300q, want %s", answered, row.answer)
				}
				_ = conn.Close()
			} else if row.sends != "" && !strings.HasPrefix(row.name, "hello") {
				_ = conn.(*net.TCPConn).CloseWrite()
			}
			if (i+shift)%every == 0 {
				s.honest(t)
			}
		})
	}
	s.honest(t)
	checkNothingLeft(t, s, before)
	if lines := strings.Count(s.log.String(), "\n"); lines > 500 {
		t.Errorf("the log has %d lines", lines)
	}
	for line := range strings.Lines(s.log.String()) {
		if len(line) > 2000 || strings.ContainsAny(line, "\x1b\u202e") {
			t.Errorf("a stranger's line in the log: %.200q", line)
		}
	}
}

// checkNothingLeft: neither processes nor descriptors of the tests are left behind.
func checkNothingLeft(t *testing.T, s *server, descriptors int) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		children, now := childrenOf(t, s.cmd.Process.Pid), descriptorsOf(t, s.cmd.Process.Pid)
		if len(children) == 0 && now <= descriptors+2 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("left are the processes %v and %d descriptors, %d at the start", children, now, descriptors)
		}
		select { // nothing tells
		case <-time.After(20 * time.Millisecond):
		case <-t.Context().Done():
		}
	}
}

func descriptorsOf(t *testing.T, pid int) int {
	t.Helper()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

// TestFewDescriptors: connections that say nothing take all descriptors; who waits is served all the same.
func TestFewDescriptors(t *testing.T) {
	s := startServerAs(t, []string{"sh", "-c", `ulimit -n 64; exec "$0" "$@"`, thisProgram(t)})
	for range 200 {
		s.dial(t)
	}
	s.honest(t)
	for range 100 {
		_, _ = io.WriteString(s.dial(t), ourHello+frame(sayHello))
	}
	s.honest(t)
}

// TestLogReaderGone: a server whose log nobody reads any more goes on.
func TestLogReaderGone(t *testing.T) {
	s := &server{address: verbstest.Address().String(), log: &locked{}}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s.cmd = exec.Command(thisProgram(t), "serve", "-d", "roce0", "--cpu", "none", "--listen", s.address+":0",
		"--peer-timeout", "10s")
	s.cmd.Stderr = w
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	line, err := bufio.NewReader(r).ReadString('\n')
	_, at, is := strings.Cut(strings.TrimSpace(line), "serving on ")
	if err != nil || !is {
		t.Fatalf("%q, %v", line, err)
	}
	_, s.port, _ = net.SplitHostPort(at)
	_ = r.Close()
	for range 2 {
		s.honest(t)
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("the server ended with %v", err)
	}
}

// TestReplacedProgram: a server goes on serving when its program was taken away or replaced, by what it was started
// from.
func TestReplacedProgram(t *testing.T) {
	b, err := os.ReadFile(thisProgram(t))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "gobw")
	if err := os.WriteFile(path, b, 0o700); err != nil {
		t.Fatal(err)
	}
	s := startServerAs(t, []string{path})
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	s.honest(t)
	if err := os.WriteFile(path, []byte("#!/bin/sh\nexit 7\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.honest(t)
}

// TestLivingClientThatStays: a client that shows life, reads nothing of what it is told and does nothing loses its slot
// to who waits for it, and leaves nothing behind.
func TestLivingClientThatStays(t *testing.T) {
	if testing.Short() {
		t.Skip("short: it waits for 5 s; TestTooLate and TestSteps of internal/cli/cmd/serve have the rule")
	}
	t.Parallel() // it only waits
	s := startServer(t, "--peer-timeout", "2s")
	before := descriptorsOf(t, s.cmd.Process.Pid)
	conn := s.dial(t).(*net.TCPConn)
	_ = conn.SetReadBuffer(1)
	_, _ = io.WriteString(conn, ourHello+frame(sayHello)+proposal(`"qps":1000`))
	_, _ = io.WriteString(conn,
		frame(`{"kind":"facts","body":{"page_bytes":4096,"cache_line_bytes":64,"mtu":3,"max_outstanding":16}}`))
	waitFor(t, s, "begins")
	done := make(chan struct{})
	beats := make(chan struct{})
	go func() {
		defer close(beats)
		for beat := time.NewTicker(50 * time.Millisecond); ; {
			select {
			case <-beat.C:
			case <-done:
				return
			}
			if _, err := io.WriteString(conn, frame("")); err != nil {
				return
			}
		}
	}()
	if code, text := s.client("gobw write -s 64 -n 200 --wait 2m --peer-timeout 30s"); code != exit.Passed {
		t.Errorf("the next honest client: exit %d\n%s", code, text)
	}
	if !strings.Contains(s.log.String(), "others wait, and this client did nothing for 5s") {
		t.Error("the client had its slot to the end")
	}
	close(done)
	<-beats
	_ = conn.Close()
	checkNothingLeft(t, s, before)
}

// TestOthersWait: a client that begins one test after another gives way after the time of one, where others wait.
func TestOthersWait(t *testing.T) {
	if testing.Short() {
		t.Skip("short: it measures for a second; TestTooLate of internal/cli/cmd/serve has the rule")
	}
	s := startServer(t, "--max-duration", "1s")
	greedy := make(chan string, 1)
	go func() {
		code, text := s.client("gobw noncontig --shape all --blocks 64,1K -s 8K --runs 64 -D 100ms")
		greedy <- fmt.Sprint(code, " ", text)
	}()
	waitFor(t, s, "begins")
	code, text := s.client("gobw write -s 64 -n 200 --wait 2m --peer-timeout 30s")
	if code != exit.Passed {
		t.Errorf("who waited: exit %d\n%s", code, text)
	}
	select {
	case r := <-greedy:
		if !strings.Contains(r, "others wait, and this client has been served for") {
			t.Errorf("who did not give way: %s", r)
		}
	case <-time.After(time.Minute):
		t.Error("who had to give way goes on")
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
	if testing.Short() {
		t.Skip("short: it takes seconds")
	}
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
		if testing.Short() && sig != syscall.SIGSEGV {
			continue
		}
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
		// The cause comes from the server: a client that finds out by its own timeout says that the peer is silent.
		if r := <-done; !strings.HasPrefix(r, "4 ") || !strings.Contains(r, "test's process died") {
			t.Errorf("%v: the client ended with %s", sig, r)
		}
		waitForAfter(t, s, before, "test's process died") // the client may hear of it first
		if said := s.log.String()[before:]; strings.Count(said, "test's process died") != 1 {
			t.Errorf("%v: the log says %s", sig, said)
		}
		s.honest(t)
	}
}

// TestFrozenTest has the process of a test stopped, as by a freezer of control groups: its
// client ends, and the next one is served.
func TestFrozenTest(t *testing.T) {
	t.Parallel() // it mostly waits
	s := startServer(t)
	type answer struct {
		code int
		text string
	}
	first := make(chan answer, 1)
	go func() {
		code, text := s.clientOf("gobw write -s 64 -D 60 --peer-timeout 2s")
		first <- answer{code, text}
	}()
	waitForAfter(t, s, 0, "begins")
	for _, pid := range childrenOf(t, s.cmd.Process.Pid) {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
	if a := <-first; a.code != exit.PeerLost {
		t.Errorf("the client of the frozen test: exit %d, want %d\n%s", a.code, exit.PeerLost, a.text)
	}
	began := time.Now()
	if code, text := s.clientOf("gobw write -s 64 -n 1000 --wait 30s"); code != exit.Passed ||
		time.Since(began) > 15*time.Second {
		t.Errorf("the next client: exit %d after %v\n%s", code, time.Since(began), text)
	}
}

// TestToken: who does not know the token, or is outside --allow, is told so before a test; who knows it is served.
func TestToken(t *testing.T) {
	t.Parallel() // it mostly waits
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
		{" --token-file " + wrong, "wrong token", exit.Setup},
		{" --token-file " + right, "64", exit.Passed},
	} {
		code, text := s.client("gobw write -s 64 -n 100 --peer-timeout 30s" + c.flags)
		if code != c.code || !strings.Contains(text, c.says) {
			t.Errorf("%q: exit %d, want %d and %q\n%s", c.flags, code, c.code, c.says, text)
		}
	}
	if code, text := s.clientOf("gobw doctor"); code != exit.Missed || !strings.Contains(text, "--token-file") ||
		strings.Contains(text, "fix: gobw serve") {
		t.Errorf("doctor without the token: exit %d; an open server is no remedy\n%s", code, text)
	}
	closed := startServer(t, "--allow", "192.0.2.0/24")
	if code, text := closed.client("gobw write -s 64"); code != exit.Setup ||
		!strings.Contains(text, "does its --allow admit this host?") {
		t.Errorf("outside --allow: exit %d, want %d\n%s", code, exit.Setup, text)
	}
	conn := s.dial(t)
	began := time.Now()
	_, _ = io.WriteString(conn, ourHello)
	_, _ = io.Copy(io.Discard, conn)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("who proves nothing is kept for %v", took)
	}
	plain := startServer(t)
	if code, text := plain.client("gobw write -s 64 -n 100 --token-file " + right); code == exit.Passed ||
		!strings.Contains(text, "does not ask for the token") {
		t.Errorf("a server that asks for no token: exit %d\n%s", code, text)
	}
}

// TestForeignAddress: traffic goes to the client, and not to whom it names.
func TestForeignAddress(t *testing.T) {
	t.Parallel() // it mostly waits
	s := startServer(t)
	for _, gid := range []string{
		"00000000000000000000ffffe0000001", // 224.0.0.1
		"ff020000000000000000000000000001",
		"00000000000000000000ffffffffffff",
	} {
		conn := s.dial(t)
		_, _ = io.WriteString(conn, ourHello+frame(sayHello)+proposal(`"reversed":true,"transport":"UC"`))
		_, _ = io.WriteString(conn,
			frame(`{"kind":"facts","body":{"page_bytes":4096,"cache_line_bytes":64,"mtu":3,"max_outstanding":16}}`))
		time.AfterFunc(300*time.Millisecond, func() {
			_, _ = io.WriteString(conn,
				frame(`{"kind":"addresses","body":[{"qpn":18,"psn":1,"rkey":1,"addr":4096,"bytes":65536,"has_gid":true,"gid":"`+
					gidText(gid)+`"}]}`))
		})
		var b bytes.Buffer
		_, _ = io.Copy(&b, conn)
		if !regexp.MustCompile(`asks for data at|not the address of one host|cannot be used`).Match(b.Bytes()) {
			t.Errorf("GID %s: answered %.600q", gid, b.Bytes())
		}
		waitFor(t, s, "msg=ended client="+conn.LocalAddr().String()) // until then the server is busy
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
