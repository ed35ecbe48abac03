//go:build linux

package cli

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/perftest/wire"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/internal/testrun"
	"github.com/gobw/gobw/verbs"
)

// What a client of perftest says: its version, what its host is, its test, and its keys.
func perftestWords(version string, spec plan.Spec) (hello, preamble, negotiation, keys string) {
	hello = version + strings.Repeat("\x00", 16-len(version))
	number := func(n uint32) string { return string(binary.BigEndian.AppendUint32(nil, n)) }
	preamble = number(4096) + number(64) + "3\x00"
	negotiation = string(wire.NegotiationOf(&spec, false, verbs.MTU1024, 16).Encode(wire.NegotiationBytes))
	gid := "00:00:00:00:00:00:00:00:00:00:ff:ff:7f:00:00:01"
	keys = fmt.Sprintf("%04x:%04x:%06x:%06x:%08x:%016x:%s:%08x:\x00", 0, 16, 0x12, 1, 1, 4096, gid, 0)
	return hello, preamble, negotiation, keys
}

var perftestWrite = plan.Spec{
	Operation: plan.Write, Kind: plan.Bandwidth, Transport: verbs.RC, Sizes: []int{64}, Iterations: 5000, QPs: 1,
	TxDepth: 128, CQMod: 100, Runs: 1,
}

// TestSlowStrangers: a dozen clients of each dialect say the beginning of a test, each up to another point, and then
// nothing, or a byte now and then; who is closed comes again. An honest client that does not wait is served each time.
func TestSlowStrangers(t *testing.T) {
	s := startServer(t)
	hello, preamble, negotiation, _ := perftestWords("6.29", perftestWrite)
	open := ourHello + frame(sayHello)
	slow := []string{
		"", ourHello[:15], ourHello, open, open + proposal("")[:40], open + proposal(""), // ours
		hello[:15], hello, hello + preamble[:1], hello + preamble[:8], hello + preamble, hello + preamble + negotiation[:200],
	}
	stop := make(chan struct{})
	var strangers sync.WaitGroup
	t.Cleanup(func() {
		close(stop)
		strangers.Wait()
	})
	for i := range 2 * len(slow) {
		strangers.Go(func() { beSlow(s, slow[i%len(slow)], i >= len(slow), stop) })
	}
	rounds := 50
	if testing.Short() {
		rounds = 5
	}
	var longest time.Duration
	for i := range rounds {
		began := time.Now()
		code, text := s.client("gobw write -s 64 -n 200 --warmup=0 --peer-timeout 30s")
		if took := time.Since(began); code != exit.Passed {
			t.Errorf("honest client %d: exit %d after %v\n%s", i+1, code, took, text)
		} else {
			longest = max(longest, took)
		}
	}
	t.Logf("%d honest clients beside %d slow ones: the longest took %v", rounds, 2*len(slow), longest)
	if longest > 2*time.Second && testrun.Whole() {
		t.Errorf("an honest client took %v", longest)
	}
}

// beSlow says some words, at once or byte by byte, and comes again once the server has closed.
func beSlow(s *server, words string, byBytes bool, stop <-chan struct{}) { //nolint:revive // how it says them
	for {
		conn, err := net.Dial("tcp", net.JoinHostPort(s.address, s.port))
		if err != nil {
			return
		}
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			_, _ = io.Copy(io.Discard, conn)
		}()
		left := words
		if !byBytes {
			_, _ = io.WriteString(conn, words)
			left = ""
		}
		for over := false; !over; {
			var next <-chan time.Time
			if left != "" {
				next = time.After(20 * time.Millisecond)
			}
			select {
			case <-stop:
				_ = conn.Close()
				<-closed
				return
			case <-closed:
				over = true
			case <-next:
				_, _ = io.WriteString(conn, left[:1])
				left = left[1:]
			}
		}
		_ = conn.Close()
	}
}

// TestStrangersThatStay: clients that begin to agree on a test, and do not close when they lose their seat, keep it
// from nobody.
func TestStrangersThatStay(t *testing.T) {
	s := startServer(t)
	words := ourHello + frame(strings.Replace(sayHello, `"bears`, `"wait_ms":3600000,"bears`, 1)) + proposal("")
	stop := make(chan struct{})
	var strangers sync.WaitGroup
	t.Cleanup(func() {
		close(stop)
		strangers.Wait()
	})
	const many = 24
	for i := range many {
		from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 20, byte(i), 1)}}
		conn, err := from.DialContext(t.Context(), "tcp", net.JoinHostPort(s.address, s.port))
		if err == nil {
			defer func() { _ = conn.Close() }()
			_, err = io.WriteString(conn, words)
		}
		if err != nil {
			t.Fatal(err)
		}
		strangers.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(400 * time.Millisecond):
					_, _ = io.WriteString(conn, frame("")) // a heartbeat
				}
			}
		})
	}
	began := time.Now()
	s.honest(t)
	took := time.Since(began)
	t.Logf("an honest client beside %d that stay: %v", many, took)
	if most := many / 3 * time.Second; took > most { // with a second for each it is twice as long
		t.Errorf("an honest client took %v, want %v or less", took, most)
	}
}

// TestSilentMeasurement: a client that has agreed on a test in which messages are counted, connects, and then sends no
// packet, loses its slot to who waits for it, in both dialects.
func TestSilentMeasurement(t *testing.T) {
	if testing.Short() {
		t.Skip("short: it waits for 5 s twice; TestSteps of internal/cli/cmd/serve has the rule")
	}
	t.Parallel() // it only waits
	s := startServer(t)
	hello, preamble, negotiation, keys := perftestWords("6.29", perftestWrite)
	meets := func(phase string, last bool) string { //nolint:revive // a field of the message
		return frame(fmt.Sprintf(`{"kind":"sync","body":{"phase":%q,"size":0,"last":%v}}`, phase, last))
	}
	address := `{"qpn":18,"psn":1,"rkey":1,"addr":4096,"bytes":65536,"has_gid":true,"gid":"` +
		gidText("00000000000000000000ffff7f000001") + `"}`
	for dialect, words := range map[string][]string{
		"perftest": {hello, preamble[:4], preamble[4:8], preamble[8:], negotiation, keys, keys, keys},
		"ours": {
			ourHello, frame(sayHello), proposal(""),
			frame(`{"kind":"facts","body":{"page_bytes":4096,"cache_line_bytes":64,"mtu":3,"max_outstanding":16}}`),
			frame(`{"kind":"addresses","body":[` + address + `]}`), meets("connected", false), meets("ready", true),
		},
	} {
		t.Run(dialect, func(t *testing.T) {
			before := len(s.log.String())
			conn := s.dial(t)
			answer := make([]byte, 1<<10)
			for _, w := range words {
				_, _ = io.WriteString(conn, w)
				if dialect == "ours" {
					pause(100 * time.Millisecond) // heartbeats come at any time
					continue
				}
				if _, err := conn.Read(answer); err != nil {
					t.Fatalf("after %q: %v", w, err)
				}
			}
			if dialect == "ours" {
				go func() { _, _ = io.Copy(io.Discard, conn) }()
				go func() {
					for _, err := io.WriteString(conn, frame("")); err == nil; _, err = io.WriteString(conn, frame("")) {
						pause(100 * time.Millisecond)
					}
				}()
			}
			waitForAfter(t, s, before, "begins")
			if code, text := s.client("gobw write -s 64 -n 200 --wait 2m --peer-timeout 30s"); code != exit.Passed {
				t.Errorf("the next honest client: exit %d\n%s", code, text)
			}
			if !regexp.MustCompile(`others wait, and no packet of this client's test came or went for 5s`).MatchString(
				s.log.String()[before:]) {
				t.Error("the client had its slot to the end")
			}
		})
	}
}

func pause(d time.Duration) { <-time.After(d) }
