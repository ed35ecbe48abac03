package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/perftest/flags"
	perftest "github.com/gobw/gobw/internal/perftest/run"
	"github.com/gobw/gobw/verbs/verbstest"
)

// locked is a buffer that a server fills while the test looks at it.
type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// ends is what both ends of a test under perftest's names did.
type ends struct {
	clientOut, clientErr, serverOut, serverErr string
	client, server                             int
}

// freePort is a TCP port that is free on an address.
func freePort(t *testing.T, host netip.Addr) int {
	t.Helper()
	l, err := net.Listen("tcp", netip.AddrPortFrom(host, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

// runPair runs a tool against itself on the software device, each end at an address of its own.
func runPair(t *testing.T, line string, clientOnly ...string) ends {
	t.Helper()
	return runEnds(t, line, nil, clientOnly, "")
}

// runEnds is runPair with options of each end alone. The client is interrupted once it has printed a text, if one is
// given.
func runEnds(t *testing.T, line string, serverOnly, clientOnly []string, interruptAt string) ends {
	t.Helper()
	words := strings.Fields(line)
	tool, ok := flags.ToolNamed(words[0])
	if !ok {
		t.Fatalf("%q is no tool", words[0])
	}
	server, client := verbstest.Address(), verbstest.Address()
	common := append([]string{"-d", "roce0", "-p", fmt.Sprint(freePort(t, server))}, words[1:]...)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	// A poll, bounded by the context: what an end prints tells how far it is, and nothing else does.
	await := func(out *locked, text string, ended func() bool) {
		for ctx.Err() == nil && !strings.Contains(out.String(), text) && !ended() {
			select {
			case <-time.After(5 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}
	var serverOut, serverErr, out, errs locked
	done := make(chan int, 1)
	go func() {
		args := append(append([]string{"--bind_source_ip", server.String()}, common...), serverOnly...)
		done <- perftest.Main(ctx, tool, args, output.Streams{Out: &serverOut, Err: &serverErr})
	}()
	await(&serverOut, "Waiting", func() bool { return len(done) > 0 })
	args := append(append([]string{"--bind_source_ip", client.String()}, common...), clientOnly...)
	clientCtx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if interruptAt != "" {
		go func() {
			await(&out, interruptAt, func() bool { return clientCtx.Err() != nil })
			stop(exit.SignalError{Signal: os.Interrupt})
		}()
	}
	status := perftest.Main(clientCtx, tool, append(args, server.String()), output.Streams{Out: &out, Err: &errs})
	e := ends{clientOut: out.String(), clientErr: errs.String(), client: status, server: <-done}
	e.serverOut, e.serverErr = serverOut.String(), serverErr.String()
	return e
}

// TestPerftestTools runs each tool at both ends.
func TestPerftestTools(t *testing.T) {
	for _, tt := range []struct {
		line, title string
	}{
		{"ib_write_bw -s 4096 -n 100", "RDMA_Write BW Test"},
		{"ib_read_bw -s 4096 -n 100", "RDMA_Read BW Test"},
		{"ib_send_bw -s 1000 -n 100 -b", "Send Bidirectional BW Test"},
		{"ib_send_bw -c UD -s 512 -n 100", "Send BW Test"},
		{"ib_atomic_bw -n 100", "Atomic FETCH_AND_ADD BW Test"},
		{"ib_write_lat -n 50", "RDMA_Write Latency Test"},
		{"ib_send_lat -n 50", "Send Latency Test"},
		{"ib_read_lat -n 50", "RDMA_Read Latency Test"},
		{"ib_atomic_lat -n 50", "Atomic FETCH_AND_ADD Latency Test"},
		{"ib_write_bw -s 4096 -n 100 --perftest-version 6.29 --write_with_imm", "RDMA_Write_imm BW Test"},
		{"ib_send_bw -s 4096 -D 1 -f 0", "Send BW Test"},
	} {
		t.Run(tt.line, func(t *testing.T) {
			if testing.Short() && strings.Contains(tt.line, "-D 1") {
				t.Skip("short: TestInterrupted has a duration")
			}
			e := runPair(t, tt.line)
			if e.client != perftest.PerftestOK || e.server != perftest.PerftestOK {
				t.Fatalf("exit %d and %d\nclient: %s%s\nserver: %s%s", e.client, e.server, e.clientOut, e.clientErr, e.serverOut,
					e.serverErr)
			}
			for name, text := range map[string]string{"client": e.clientOut, "server": e.serverOut} {
				if !strings.Contains(text, "                    "+tt.title+"\n") || strings.Count(text, " local address: ") != 1 ||
					strings.Count(text, " remote address: ") != 1 {
					t.Errorf("%s printed\n%s", name, text)
				}
			}
		})
	}
}

// TestPerftestAround has the options whose effect is beside the table: unmeasured messages before it, counters and
// words behind it.
func TestPerftestAround(t *testing.T) {
	for _, tt := range []struct {
		line           string
		client, server []string // patterns of what each end prints
	}{
		{
			"ib_write_bw -s 4096 -n 100 -t 32 --perform_warm_up -W hw_counters/sent_pkts",
			[]string{`\thw_counters/sent_pkts=\d{3}\n`},
			[]string{`\thw_counters/sent_pkts=\d+\n`},
		},
		{
			"ib_read_bw -s 4096 -n 100 -W rcvd_pkts",
			[]string{`\trcvd_pkts=\d{3}`},
			[]string{`\trcvd_pkts=\d`},
		},
		{
			"ib_write_bw -s 4096 -n 100 --wait_destroy 1 --disable_numa",
			[]string{" Waiting 1 seconds before releasing resources...\n"},
			[]string{" Waiting 1 seconds"},
		},
	} {
		t.Run(tt.line, func(t *testing.T) {
			e := runPair(t, tt.line)
			if e.client != perftest.PerftestOK || e.server != perftest.PerftestOK {
				t.Fatalf("exit %d and %d\nclient: %s%s\nserver: %s%s", e.client, e.server, e.clientOut, e.clientErr, e.serverOut,
					e.serverErr)
			}
			for text, want := range map[string][]string{e.clientOut: tt.client, e.serverOut: tt.server} {
				for _, w := range want {
					if !regexp.MustCompile(w).MatchString(text) {
						t.Errorf("%q is missing in\n%s", w, text)
					}
				}
			}
		})
	}
	if e := runPair(t, "ib_write_bw -n 100 -W hw_counters/nonsense"); e.server == perftest.PerftestOK ||
		!strings.Contains(e.serverErr, "sent_pkts") {
		t.Errorf("exit %d: %s", e.server, e.serverErr)
	}
}

// TestOptionsOfOneEnd gives options to one end only, at each in turn: what it means for that end stays there.
func TestOptionsOfOneEnd(t *testing.T) {
	for tool, options := range map[string]string{
		"ib_write_bw": "-N|-m 1024|-t 64|-Q 10|-l 5|-I 16|-u 15|-S 1|--mr_per_qp|--tclass 8|--flow_label 3|--retry_count " +
			"5|--use_old_post_send|" +
			"--disable_pcie_relaxed|--perform_warm_up|--rate_limit 50 --rate_limit_type SW|-n 200|-D 1|-b",
		"ib_read_bw":  "-o 4|-n 200|-D 1 --cpu_util|--cpu_util",
		"ib_send_bw":  "-r 1000|--use-srq|--recv_post_list 5|-e|-N|-Q 10|-l 5",
		"ib_send_lat": "-I 0|-e|-r 600|-S 1",
	} {
		for i, option := range strings.Split(options, "|") {
			t.Run(tool+" "+option, func(t *testing.T) {
				t.Parallel()
				if testing.Short() && strings.HasPrefix(option, "-D") {
					t.Skip("short: a second each")
				}
				line := tool + " -s 4096 -n 100"
				if strings.HasPrefix(option, "-D") || strings.HasPrefix(option, "-n") {
					line = tool + " -s 4096"
				}
				for end, only := range [][2][]string{{strings.Fields(option), nil}, {nil, strings.Fields(option)}} {
					if !testing.Short() || i%2 == end { // 'make quick' gives the next option to the other end
						mustPass(t, runEnds(t, line, only[0], only[1], ""))
					}
				}
			})
		}
	}
	t.Run("what 6.29 compares", func(t *testing.T) {
		e := runEnds(t, "ib_write_bw --perftest-version 6.29 -n 100", []string{"-s", "64"}, []string{"-s", "128"}, "")
		if e.client != 1 || e.server != 1 ||
			!strings.HasPrefix(e.clientErr, " size mismatch: local=128, remote=64\n Failed to negotiate parameters\n") ||
			!strings.Contains(e.serverErr, " size mismatch: local=64, remote=128\n") {
			t.Errorf("exit %d and %d\n%s\n%s", e.client, e.server, e.clientErr, e.serverErr)
		}
	})
	t.Run("a smaller size at the client", func(t *testing.T) {
		e := runEnds(t, "ib_write_bw -n 100", []string{"-s", "65536"}, []string{"-s", "4096"}, "")
		mustPass(t, e)
		if want := " 4096 "; !strings.Contains(e.clientOut, want) || !strings.Contains(e.serverOut, want) {
			t.Errorf("want both ends to print the client's size\n%s\n%s", e.clientOut, e.serverOut)
		}
	})
}

// TestWhatLeft has an unreliable WRITE print the sender's figure, as perftest does, and say so.
func TestWhatLeft(t *testing.T) {
	e := runPair(t, "ib_write_bw -c UC -s 4096 -n 100", "-w", "1")
	mustPass(t, e)
	row := regexp.MustCompile(`(?m)^ 4096 +100 +\S+ +(\S+)`)
	for name, end := range map[string][2]string{
		"client": {e.clientOut, e.clientErr}, "server": {e.serverOut, e.serverErr},
	} {
		m := row.FindStringSubmatch(end[0])
		if m == nil {
			t.Fatalf("%s: no row in\n%s", name, end[0])
		}
		positive(t, m[1])
		if strings.Count(end[1], "what left the sender\n") != 1 {
			t.Errorf("%s: stderr has %q", name, end[1])
		}
	}
}

// TestInterrupted stops the client of a test without end at its first row, which perftest's options allow after a
// second at the least: both ends finish.
func TestInterrupted(t *testing.T) {
	if testing.Short() {
		t.Skip("short: a second at the least; TestEndless of internal/bench has a test of this dialect without end")
	}
	for _, tt := range []struct{ line, version string }{
		{"ib_write_bw", "6.06"}, {"ib_write_bw", "6.29"}, {"ib_send_bw -c UC", "6.29"}, {"ib_send_bw -c UD", "6.29"},
	} {
		t.Run(tt.line+" "+tt.version, func(t *testing.T) {
			t.Parallel() // they wait for their second together
			e := runEnds(t, tt.line+" --run_infinitely -D 1 -s 1024 --perftest-version "+tt.version, nil, nil, "\n 1024 ")
			mustPass(t, e)
			oneSided := tt.line == "ib_write_bw" // whose server only waits
			if strings.Contains(e.serverOut, " Client closed connection\n") != oneSided ||
				regexp.MustCompile(`(?m)^ 0 `).MatchString(e.serverOut) {
				t.Errorf("the server printed\n%s", e.serverOut)
			}
			if !oneSided {
				return
			}
			if said := strings.Contains(e.clientOut, "\n\n User stopped traffic\n---"); said != (tt.version == "6.29") {
				t.Errorf("the client printed\n%s", e.clientOut)
			}
		})
	}
}

func TestPerftestLimits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.json")
	e := runPair(t, "ib_write_bw -a -n 5", "-w", "1000000", "-y", "1000", "--out_json_file", path)
	if e.client != perftest.PerftestFailed || e.server != perftest.PerftestOK {
		t.Errorf("exit %d and %d, want 1 and 0\n%s", e.client, e.server, e.clientErr)
	}
	for _, want := range []string{"Error: BW result is below bw limit\n", "Error: Msg rate  is below msg_rate limit\n"} {
		if !strings.Contains(e.clientErr, want) {
			t.Errorf("%q is missing in %q", want, e.clientErr)
		}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Results struct {
			MsgSize int
		} `json:"results"`
	}
	if err := json.Unmarshal(b, &d); err != nil || d.Results.MsgSize != 8<<20 {
		t.Errorf("the file has the row of %d bytes, want the last; %v", d.Results.MsgSize, err)
	}
}

func TestPerftestErrors(t *testing.T) {
	for _, tt := range []struct {
		line   string
		status int
		want   string
	}{
		{"ib_write_bw -d roce0 -R", 1, "RDMA CM"},
		{"ib_write_bw -h", 1, "Usage:"},
		{
			"ib_write_bw -d roce0 --pin_cores=1000",
			1, "--pin_cores: choose CPU: the kernel lets this process have none of the CPUs [1000]",
		},
		{"ib_write_bw -d roce0 --numa_node 4095", 1, "NUMA node 4095 does not exist"},
		{"ib_write_bw --tph_mem=vm --cpu_id=0 --ph=1", 1, "--tph_mem: extensions of some hardware are not there"},
		{"ib_send_bw --use-srq -q 3 -r 2", 1, "--rx-depth (-r) 2: 3 queue pairs share the receives"},
		{"ib_write_bw --peer-timeout 0", 1, "want more than 0 seconds"},
		{"ib_write_bw -V", 1, "Version: 6.06\n"},
		{"ib_write_bw -V --perftest-version 6.29", 1, "Version: 6.29\n"},
		{"ib_write_bw --nosuch", 1, "Usage:"},
		{"ib_write_bw -d nosuch0 127.5.9.1", 1, `no device "nosuch0"`},
		{"ib_write_bw -d roce0 -p 1 127.5.9.1", 1, "Couldn't connect to 127.5.9.1:1"},
	} {
		t.Run(tt.line, func(t *testing.T) {
			words := strings.Fields(tt.line)
			tool, _ := flags.ToolNamed(words[0])
			var out, errs bytes.Buffer
			if status := perftest.Main(t.Context(), tool, words[1:],
				output.Streams{Out: &out, Err: &errs}); status != tt.status {
				t.Errorf("exit %d, want %d", status, tt.status)
			}
			if text := out.String() + errs.String(); !strings.Contains(text, tt.want) {
				t.Errorf("%q is missing in %q", tt.want, text)
			}
		})
	}
}

// broken is standard output on which a program panics.
type broken struct{}

func (broken) Write([]byte) (int, error) { panic("a fault") }

// TestInternalFault: a fault of ours is told, and has the codes of the name under which the program was started.
func TestInternalFault(t *testing.T) {
	for line, want := range map[string]int{
		"gobw version": exit.Failed, "/usr/local/bin/ib_write_bw -V": perftest.PerftestFailed,
	} {
		var errs bytes.Buffer
		if code := Main(strings.Fields(line), output.Streams{Out: broken{}, Err: &errs}); code != want ||
			!strings.Contains(errs.String(), "internal fault: a fault") {
			t.Errorf("%s: exit %d, want %d: %s", line, code, want, errs.String())
		}
	}
}
