package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/report"
)

// complete tells whether the file of a result of any kind is there, and whole.
func complete(path string) bool {
	b, err := os.ReadFile(path)
	var saved struct {
		Complete *bool
		ExitCode *int `json:"exit_code"` // of a qualification
	}
	return err == nil && json.Unmarshal(b, &saved) == nil &&
		(saved.Complete != nil && *saved.Complete || saved.ExitCode != nil && *saved.ExitCode == 0)
}

// TestAClosedPipeKeepsTheResult: what nobody reads is saved all the same, and the exit status says that it was not
// read.
func TestAClosedPipeKeepsTheResult(t *testing.T) {
	quickly := []string{"--loopback", "-d", "roce0", "--peer-timeout", "60s", "--save", "x.json"}
	for _, words := range [][]string{
		{"gobw", "write", "-n", "100"},
		{"golat", "send", "-n", "100"},
		{"golat", "connect", "-n", "3"},
		{"gobw", "noncontig", "--blocks", "4K", "-s", "16K", "--runs", "1", "-D", "1ms", "--shape", "gather"},
		{"gobw", "qualify", "p.yaml"},
	} {
		t.Run(strings.Join(words[:2], " "), func(t *testing.T) {
			dir := t.TempDir()
			text := "name: p\ntests:\n  - {name: one, run: gobw write -n 100 --warmup 0, expect: bw >= 1 kb/s}\n"
			if err := os.WriteFile(filepath.Join(dir, "p.yaml"), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			read, write, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			_ = read.Close()
			var said bytes.Buffer
			cmd := exec.CommandContext(t.Context(), words[0], append(words[1:], quickly...)...)
			cmd.Dir, cmd.Stdout, cmd.Stderr = dir, write, &said
			err = cmd.Run()
			_ = write.Close()
			if statusOf(err) != 6 || !strings.Contains(said.String(), "nobody reads standard output any more") {
				t.Errorf("it ended with %v, and said %s", err, &said)
			}
			if !complete(filepath.Join(dir, "x.json")) {
				t.Errorf("x.json is not whole: %s", &said)
			}
		})
	}
}

// TestInterruptedBesideAClosedPipe: Ctrl-C ends a reader such as tee before us; what was measured is kept.
func TestInterruptedBesideAClosedPipe(t *testing.T) {
	dir := t.TempDir()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "gobw", "write", "--loopback", "-d", "roce0", "-s", "64,4K", "-D", "1s",
		"--runs", "50", "--save", "x.json")
	cmd.Dir, cmd.Stdout = dir, write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = read.Close()
	_ = write.Close()
	await(t, func() bool { _, err := os.Stat(filepath.Join(dir, "x.json")); return err == nil })
	_ = cmd.Process.Signal(os.Interrupt)
	if err := cmd.Wait(); statusOf(err) != 130 {
		t.Errorf("it ended with %v", err)
	}
	d, err := report.Load(filepath.Join(dir, "x.json"))
	if err != nil || len(d.Records) == 0 || d.Complete || !strings.Contains(d.Failure, "SIGINT") {
		t.Errorf("%v, %+v", err, d)
	}
}

func await(t *testing.T, ready func() bool) {
	t.Helper()
	//nolint:forbidigo // another process
	for end := time.Now().Add(time.Minute); !ready(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not come in a minute")
		}
	}
}

// full is a pipe that takes no byte more, as of a terminal that was stopped by Ctrl-S.
func full(t *testing.T) (read, write *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	err = write.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	for err == nil {
		_, err = write.Write(make([]byte, 4096))
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	return read, write // a child that gets it has it blocking
}

// TestStoppedStreamsCostNothing: while neither stream takes a byte, a test measures as always, and its result is in the
// file before anybody reads again.
func TestStoppedStreamsCostNothing(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are other pipes there")
	}
	dir := t.TempDir()
	outRead, out := full(t)
	errRead, errs := full(t)
	cmd := exec.CommandContext(t.Context(), "gobw", "write", "--loopback", "-d", "roce0", "-D", "2s", "--save", "x.json")
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, errs
	cmd.Env = append(os.Environ(), "GOBW_PROGRESS=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = out.Close(), errs.Close()
	await(t, func() bool { return complete(filepath.Join(dir, "x.json")) })
	d, err := report.Load(filepath.Join(dir, "x.json"))
	if err != nil || len(d.Records) != 1 {
		t.Fatalf("%v, %+v", err, d)
	}
	rates, longest, gap := d.Records[0].Rates(), 0, 0
	for _, n := range rates.Bytes {
		if gap++; n > 0 {
			gap = 0
		}
		longest = max(longest, gap)
	}
	if still := float64(longest) / float64(len(rates.Bytes)); still > 0.5 {
		t.Errorf("nothing moved for %.0f %% of the test", 100*still)
	}
	if s := d.Records[0].Seconds; s > 4 {
		t.Errorf("a test of 2 s took %.1f s", s)
	}
	drained := make(chan int64, 2)
	for _, r := range []*os.File{outRead, errRead} {
		go func() {
			var b bytes.Buffer
			n, _ := b.ReadFrom(r)
			drained <- n
		}()
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if a, b := <-drained, <-drained; a+b == 0 {
		t.Error("nothing was printed")
	}
}
