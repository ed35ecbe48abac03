package cli

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestEndings is the table of exit codes in docs/results.md: what happened decides, whichever end saw it, in every kind
// of test.
func TestEndings(t *testing.T) {
	const lossy = " -n 300 -u 10 --warmup 0 --emulate loss=100%"
	if signal.Ignored(syscall.SIGHUP) { // as under nohup: what starts here would ignore it, too
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	for _, tt := range []struct {
		what, line string
		signal     os.Signal
		want       int
	}{
		{"passed, by count", "gobw write -n 100", nil, 0},
		{"passed, by time", "gobw write -D 50ms", nil, 0},
		{"passed, both directions", "gobw send -b -n 100", nil, 0},
		{"passed, reversed", "gobw read --reversed -n 100", nil, 0},
		{"passed, latency", "golat write -n 100", nil, 0},
		{"missed", "gobw write -n 100 --expect bw>=99Tb/s", nil, 1},
		{"missed, though nothing arrived elsewhere", "gobw send -c UD -n 100 --expect bw>=99Tb/s", nil, 1},
		{"no such flag", "gobw write --nope", nil, 2},
		{"no such device", "gobw write -d mlx5_99", nil, 3},
		{"failed, by count", "gobw write" + lossy, nil, 6},
		{"failed, by time", "gobw write -D 1 -u 10 --warmup 0 --emulate loss=100%", nil, 6},
		{"failed, both directions", "gobw write -b" + lossy, nil, 6},
		{"failed, reversed", "gobw write --reversed" + lossy, nil, 6},
		{"failed, reversed read", "gobw read --reversed" + lossy, nil, 6},
		{"failed, latency", "golat write" + lossy, nil, 6},
		{"failed, latency of send", "golat send" + lossy, nil, 6},
		{"failed, latency of read", "golat read" + lossy, nil, 6},
		{"failed, latency over UD", "golat send -c UD" + lossy, nil, 6},
		{"failed, nothing arrived over UC", "gobw send -c UC" + lossy, nil, 6},
		{"failed, nothing arrived over UD", "gobw send -c UD" + lossy, nil, 6},
		{"failed, nothing verified", "gobw write -c UC --verify=all" + lossy, nil, 6},
		{"full", "gobw write -n 100 --save /dev/full", nil, 6},
		{"interrupted", "gobw write -D 300", os.Interrupt, 130},
		{"interrupted, latency", "golat send -D 300", os.Interrupt, 130},
		{"ended", "gobw send -D 300", syscall.SIGTERM, 143},
		{"the terminal closed", "gobw read -D 300", syscall.SIGHUP, 129},
	} {
		t.Run(tt.what, func(t *testing.T) {
			if testing.Short() && strings.Contains(tt.line, "golat send -c UD") {
				t.Skip("short: it waits for ten seconds")
			}
			t.Parallel()
			dir := t.TempDir()
			words := append(strings.Fields(tt.line), "--loopback", "--peer-timeout", "60s")
			if !strings.Contains(tt.line, "-d ") {
				words = append(words, "-d", "roce0")
			}
			if tt.signal != nil {
				words = append(words, "--save", "x.json", "--pcap", "x.pcap")
			}
			var said bytes.Buffer
			cmd := exec.CommandContext(t.Context(), words[0], words[1:]...)
			cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &said, &said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if tt.signal != nil {
				await(t, func() bool {
					info, err := os.Stat(filepath.Join(dir, "x.pcap"))
					return err == nil && info.Size() > interruptAfter
				})
				_ = cmd.Process.Signal(tt.signal)
			}
			if err := cmd.Wait(); statusOf(err) != tt.want {
				t.Errorf("%s: exit %d, want %d\n%s", tt.line, statusOf(err), tt.want, &said)
			}
			if _, err := os.Stat(filepath.Join(dir, "x.json")); tt.signal != nil && err != nil {
				t.Errorf("nothing is kept: %v\n%s", err, &said)
			}
		})
	}
}

// TestEndingsUnderPerftestsNames: a row is of a whole test. One that is interrupted or loses its peer prints none and
// writes no file.
func TestEndingsUnderPerftestsNames(t *testing.T) {
	for _, tt := range []struct {
		what   string
		end    func(server, client *exec.Cmd) error
		client int
	}{
		{"interrupted", func(_, client *exec.Cmd) error { return client.Process.Signal(os.Interrupt) }, 130},
		{"peer killed", func(server, _ *exec.Cmd) error { return server.Process.Kill() }, 1},
	} {
		t.Run(tt.what, func(t *testing.T) {
			dir, port := t.TempDir(), fmt.Sprint(20000+os.Getpid()%20000)
			said := func() string {
				b, _ := os.ReadFile(filepath.Join(dir, "said"))
				return string(b)
			}
			command := func(to string, more ...string) *exec.Cmd {
				out, err := os.Create(filepath.Join(dir, to))
				if err != nil {
					t.Fatal(err)
				}
				cmd := exec.CommandContext(t.Context(), "ib_write_bw",
					append([]string{"-d", "roce0", "-n", "100000000", "-p", port, "--peer-timeout", "60"}, more...)...)
				cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
				return cmd
			}
			server, client := command("server"), command("said", "--out_json", "127.0.0.1")
			if err := server.Start(); err != nil {
				t.Fatal(err)
			}
			for end := time.Now().Add(time.Minute); ; {
				if err := client.Start(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(3 * time.Second) //nolint:forbidigo // other processes
				if err := client.Process.Signal(syscall.Signal(0)); err == nil && strings.Contains(said(), "#bytes") ||
					time.Now().After(end) {
					break
				}
				_ = client.Wait()
				client = command("said", "--out_json", "127.0.0.1")
			}
			if err := tt.end(server, client); err != nil {
				t.Fatal(err)
			}
			err := client.Wait()
			_ = server.Process.Kill()
			_ = server.Wait()
			if statusOf(err) != tt.client {
				t.Errorf("exit %d, want %d\n%s", statusOf(err), tt.client, said())
			}
			if _, table, _ := strings.Cut(said(), "MsgRate[Mpps]"); strings.Contains(table, " 65536 ") {
				t.Errorf("a row of a test that did not end:\n%s", said())
			}
			if files, _ := filepath.Glob(filepath.Join(dir, "*.json")); len(files) > 0 {
				t.Errorf("a file of a test that did not end: %v", files)
			}
		})
	}
}

// TestPerftestOutlivesItsReader: as with stock, a reader that leaves in mid-test ('| grep -q') ends no test.
func TestPerftestOutlivesItsReader(t *testing.T) {
	port := fmt.Sprint(40000 + os.Getpid()%20000)
	line := []string{"-d", "roce0", "-n", "2000", "-p", port, "--peer-timeout", "60"}
	var served bytes.Buffer
	server := exec.CommandContext(t.Context(), "ib_write_bw", line...)
	server.Stdout, server.Stderr = &served, &served
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	var err error
	var said []byte
	//nolint:forbidigo // another process
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		client := exec.CommandContext(t.Context(), "ib_write_bw", append(line, "127.0.0.1")...)
		read, write, wrong := os.Pipe()
		if wrong != nil {
			t.Fatal(wrong)
		}
		_ = read.Close()
		var errs bytes.Buffer
		client.Stdout, client.Stderr = write, &errs
		err, said = client.Run(), errs.Bytes()
		_ = write.Close()
		if !strings.Contains(errs.String(), "Couldn't connect") {
			break
		}
	}
	if statusOf(err) != 1 {
		t.Errorf("the client ended with %v: %s", err, said)
	}
	if err := server.Wait(); err != nil {
		t.Errorf("the server ended with %v: %s", err, &served)
	}
}
