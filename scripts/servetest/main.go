//go:build linux

// Command servetest measures what strangers cost 'gobw serve', once or for an hour.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "servetest:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("servetest", flag.ContinueOnError)
	gobw := fs.String("gobw", "bin/gobw", "the program")
	only := fs.String("only", "", "only rows with this in their name")
	every := fs.Int("every", 1, "every n-th row")
	loop := fs.Duration("loop", 0, "go on with the rows for this time; 0: once")
	pause := fs.Duration("pause", 0, "between two rows")
	if err := fs.Parse(args); err != nil {
		return err
	}
	path, err := filepath.Abs(*gobw)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Hour+*loop)
	defer cancel()
	fmt.Printf("servetest %s, %s\n", strings.Join(args, " "), version(path))
	return costs(ctx, path, *every, *only, *loop, *pause)
}

func version(gobw string) string {
	b, err := exec.Command(gobw, "version").Output()
	if err != nil {
		return err.Error()
	}
	return strings.ReplaceAll(strings.TrimSpace(string(b)), "\n", ", ")
}

// server is 'gobw serve' on loopback.
type server struct {
	cmd   *exec.Cmd
	gobw  string
	port  string
	token string // the file; empty: it asks for none

	mu     sync.Mutex
	lines  []string // the last ones
	steers bool     // a line would steer a terminal
}

func startServer(gobw string, flags ...string) (*server, error) {
	s := &server{
		gobw: gobw,
		cmd: exec.Command(gobw,
			append([]string{"serve", "-d", "roce0", "--cpu", "none", "--listen", "127.0.0.1:0"}, flags...)...),
	}
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	at := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			line := lines.Text()
			if _, address, is := strings.Cut(line, "serving on "); is {
				at <- address
			}
			s.mu.Lock()
			s.steers = s.steers || strings.ContainsFunc(line, func(c rune) bool { return !unicode.IsPrint(c) })
			if s.lines = append(s.lines, line); len(s.lines) > 50 {
				s.lines = s.lines[1:]
			}
			s.mu.Unlock()
		}
	}()
	select {
	case address := <-at:
		_, s.port, err = net.SplitHostPort(address)
		return s, err
	case <-time.After(time.Minute):
		_ = s.cmd.Process.Kill()
		return nil, errors.New("the server does not listen")
	}
}

// stop ends the server, which must end well.
func (s *server) stop() error {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	return s.cmd.Wait()
}

func (s *server) last(n int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines[max(0, len(s.lines)-n):], "\n")
}

// status is what the kernel and the server itself know of the server.
type status struct{ rssKB, descriptors, threads, goroutines int }

func (s *server) status() status {
	st := status{goroutines: -1}
	pid := s.cmd.Process.Pid
	st.rssKB, st.threads = statusOf(pid, "VmRSS:"), statusOf(pid, "Threads:")
	files, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	st.descriptors = len(files)
	_ = s.cmd.Process.Signal(syscall.SIGUSR1) // it logs a line
	for range 100 {
		time.Sleep(5 * time.Millisecond)
		if _, n, is := strings.Cut(s.last(8), "goroutines="); is {
			st.goroutines, _ = strconv.Atoi(strings.Fields(n)[0])
			break
		}
	}
	return st
}

// statusOf is a number that the kernel tells of a process; 0: it is gone.
func statusOf(pid int, field string) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(text), field)
	n, _ := strconv.Atoi(strings.Fields(rest + " 0")[0])
	return n
}

// children lists the processes that the server has started.
func (s *server) children() []int {
	var all []int
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", s.cmd.Process.Pid))
	for _, f := range files {
		b, _ := os.ReadFile(f)
		for word := range strings.FieldsSeq(string(b)) {
			if n, err := strconv.Atoi(word); err == nil {
				all = append(all, n)
			}
		}
	}
	return all
}
