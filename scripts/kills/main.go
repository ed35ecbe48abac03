//go:build linux

// Command kills ends the commands of gobw in each way, at each phase, with standard output at a pipe, a terminal or a
// file, and prints what the --save file then holds. In a namespace of its own it also fills the disk for a while:
//
//	go build -o /tmp/kills ./scripts/kills && unshare -Urm /tmp/kills path/to/gobw [WORD]
//
// With a WORD only the rows are tried whose command and ending, as in "ab, 8 pairs, none", hold it.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// command is what is ended. It measures several points, and keeps them in x.json.
type command struct{ name, line string }

// ending is what happens to a command.
type ending struct {
	name string
	// at is when: "setup" at once, "measuring" after the first checkpoint; "" never.
	at     string
	signal syscall.Signal // 0: something happens to its output or to its disk
	does   string         // "close", "stop" for three seconds, "fill" the disk for two and a half
}

const plan = "name: p\ntests:\n  - {name: one, run: gobw write -D 1500ms, expect: bw >= 1 kb/s}\n  - {name: two, " +
	"run: gobw write -D 1501ms, expect: bw >= 1 kb/s}\n" +
	"  - {name: three, run: gobw write -D 1502ms, expect: bw >= 1 kb/s}\n"

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: kills path/to/gobw [WORD]")
		os.Exit(2)
	}
	if signal.Ignored(syscall.SIGHUP) {
		fmt.Fprintln(os.Stderr, "kills: SIGHUP is ignored here, as by nohup: start it otherwise")
		os.Exit(2)
	}
	gobw, err := filepath.Abs(os.Args[1])
	if err == nil {
		err = table(gobw, strings.Join(os.Args[2:], " "), os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func table(gobw, only string, w io.Writer) error {
	commands := []command{
		{"write, 4 runs of 2 sizes", "write -s 64,4K --runs 4 -D 300ms"},
		{"noncontig, 12 rounds", "noncontig --blocks 64,4K -s 16K --runs 12 -D 50ms --shape gather"},
		{"qualify, 3 tests", "qualify p.yaml"},
		{"search", "search best write --only cq-mod,tx-depth --test-time 50ms"},
		{"golat send, 4 runs of 2 sizes", "golat send -s 64,4K --runs 4 -D 300ms"},
		{"ab, 8 pairs", "ab --pairs 8"},
		{"fabric, rank 0 of 2", "fabric --time 8s --round 200ms -d roce0"},
	}
	endings := []ending{
		{"none", "", 0, ""},
		{"SIGKILL at the start", "setup", syscall.SIGKILL, ""},
		{"SIGKILL while it measures", "measuring", syscall.SIGKILL, ""},
		{"SIGTERM while it measures", "measuring", syscall.SIGTERM, ""},
		{"SIGINT while it measures", "measuring", syscall.SIGINT, ""},
		{"SIGHUP while it measures", "measuring", syscall.SIGHUP, ""},
		{"output closed while it measures", "measuring", 0, "close"},
		{"output stopped for 3 s while it measures", "measuring", 0, "stop"},
		{"disk full for 2.5 s while it measures", "measuring", 0, "fill"},
		{"disk full for good while it measures", "measuring", 0, "fill for good"},
	}
	fmt.Fprintln(w, "| command | ending | pipe | terminal | file |\n|---|---|---|---|---|")
	for _, c := range commands {
		for _, e := range endings {
			if !strings.Contains(c.name+", "+e.name, only) {
				continue
			}
			row := []string{c.name, e.name}
			for _, output := range []string{"pipe", "terminal", "file"} {
				disk := strings.HasPrefix(e.does, "fill")
				if disk == (output != "file") && e.signal == 0 && e.at != "" {
					row = append(row, "")
					continue
				}
				cell, err := one(gobw, c, e, output)
				if err != nil {
					return fmt.Errorf("%s, %s, %s: %w", c.name, e.name, output, err)
				}
				row = append(row, cell)
			}
			fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
		}
	}
	return nil
}

// words are a command's, but for the program and the file.
func (c command) words() []string {
	const test = "write --loopback -d roce0 -s 4K --peer-timeout 60s"
	words := strings.Fields(strings.TrimPrefix(c.line, "golat "))
	switch words[0] {
	case "search": // its test is one word
		return append([]string{"search", "best", test}, words[3:]...)
	case "ab":
		return append([]string{"ab", test + " -D 200ms", test + " -D 200ms -q 2"}, words[1:]...)
	case "fabric":
		return words
	}
	return append(words, "--loopback", "-d", "roce0", "--peer-timeout", "60s")
}

// one runs a command to its end, and tells its exit status and what is kept.
func one(gobw string, c command, e ending, output string) (string, error) {
	dir, err := os.MkdirTemp("", "kills")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	disk := strings.HasPrefix(e.does, "fill")
	if disk {
		if err := syscall.Mount("none", dir, "tmpfs", 0, "size=8m"); err != nil {
			return "not tried: " + err.Error(), nil
		}
		defer func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) }()
	}
	if err := os.WriteFile(filepath.Join(dir, "p.yaml"), []byte(plan), 0o600); err != nil {
		return "", err
	}
	cmd := exec.Command(gobw, append(c.words(), "--save", "x.json")...)
	cmd.Dir, cmd.Args[0] = dir, "gobw"
	if strings.HasPrefix(c.line, "golat ") {
		cmd.Args[0] = "golat"
	}
	if strings.HasPrefix(c.line, "fabric") {
		cmd.Env = append(os.Environ(), "RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1")
		// two ranks of a host are refused
		other := exec.Command("unshare", "-u", "sh", "-c", "hostname other; exec "+gobw+" fabric -d roce0 --quiet")
		other.Env = append(os.Environ(), "RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1")
		if err := other.Start(); err != nil {
			return "", err
		}
		defer func() { _, _ = other.Process.Kill(), other.Wait() }()
	}
	reader, writer, err := open(dir, output)
	if err != nil {
		return "", err
	}
	defer func() { _ = reader.Close() }()
	cmd.Stdout, cmd.Stderr = writer, writer
	if err := cmd.Start(); err != nil {
		return "", err
	}
	defer func() { _ = writer.Close() }()
	if output == "pipe" {
		_ = writer.Close()
	}
	var stopped atomic.Bool
	go func() {
		for b := make([]byte, 256); ; {
			if stopped.Load() {
				time.Sleep(time.Millisecond)
				continue
			}
			if _, err := reader.Read(b); err != nil {
				return
			}
		}
	}()
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // the exit status is asked for below
		close(ended)
	}()
	if e.at == "setup" {
		time.Sleep(30 * time.Millisecond)
	}
	late := time.Now().Add(time.Minute)
	for e.at == "measuring" && kept(dir) == "nothing" && time.Now().Before(late) {
		time.Sleep(5 * time.Millisecond)
	}
	switch {
	case e.at == "":
	case e.signal != 0:
		_ = cmd.Process.Signal(e.signal)
	case e.does == "close":
		_ = reader.Close()
	case disk:
		full := filepath.Join(dir, "full")
		if f, err := os.Create(full); err == nil {
			for block := 1 << 16; block > 0; block /= 2 {
				for err == nil {
					_, err = f.Write(make([]byte, block))
				}
				err = nil
			}
			_ = f.Close()
		}
		if e.does == "fill" {
			time.Sleep(2500 * time.Millisecond)
			_ = os.Remove(full)
		}
	default: // nobody reads a pipe; a terminal is stopped as by Ctrl-S
		stopped.Store(true)
		flow(writer, unix.TCOOFF)
		time.Sleep(3 * time.Second)
		stopped.Store(false)
		flow(writer, unix.TCOON)
	}
	select {
	case <-ended:
	case <-time.After(10 * time.Minute):
		_ = cmd.Process.Kill()
		<-ended
	}
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	code := fmt.Sprint(status.ExitStatus())
	if status.Signaled() {
		code = status.Signal().String()
	}
	return fmt.Sprintf("%s: %s", code, kept(dir)), nil
}

// open is the two ends of an output.
func open(dir, output string) (reader, writer *os.File, err error) {
	switch output {
	case "pipe":
		return os.Pipe()
	case "file":
		if writer, err = os.Create(filepath.Join(dir, "out")); err == nil {
			reader, err = os.Open(os.DevNull)
		}
		return reader, writer, err
	}
	if reader, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY|syscall.O_NONBLOCK, 0); err != nil {
		return nil, nil, err
	}
	raw, err := reader.SyscallConn()
	if err != nil {
		return nil, nil, err
	}
	var number int
	failed := raw.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	})
	if err != nil || failed != nil {
		return nil, nil, fmt.Errorf("terminal: %w %w", err, failed)
	}
	writer, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	return reader, writer, err
}

// flow stops a terminal, or lets it go on; of a pipe it does nothing.
func flow(f *os.File, action int) {
	if raw, err := f.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.IoctlSetInt(int(fd), unix.TCXONC, action) })
	}
}

// kept is what the file of a command holds.
func kept(dir string) string {
	b, err := os.ReadFile(filepath.Join(dir, "x.json"))
	var d struct {
		Complete  *bool
		ExitCode  *int `json:"exit_code"`
		Records   []json.RawMessage
		Steps     []json.RawMessage
		Tests     []struct{ Document json.RawMessage }
		Points    []struct{ Old struct{ N int } } // of a comparison
		Fabric    struct{ Rounds []json.RawMessage }
		Noncontig struct {
			Points []struct{ Runs []json.RawMessage }
		}
	}
	if err != nil || json.Unmarshal(b, &d) != nil {
		return "nothing"
	}
	n, what := len(d.Records)+len(d.Steps), "points"
	for _, p := range d.Noncontig.Points {
		n += len(p.Runs)
	}
	for _, t := range d.Tests {
		if t.Document != nil {
			n, what = n+1, "tests"
		}
	}
	if len(d.Points) > 0 {
		n, what = d.Points[0].Old.N, "pairs"
	}
	if rounds := len(d.Fabric.Rounds); rounds > 0 {
		n, what = rounds, "rounds"
	}
	if d.Complete != nil && *d.Complete || d.ExitCode != nil && *d.ExitCode == 0 {
		return "whole"
	}
	return fmt.Sprintf("%d %s", n, what)
}
