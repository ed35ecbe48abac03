//go:build linux

// Command servetest measures what strangers cost 'gobw serve', once or for an hour (costs), lets it live through deaths of either end
// (deaths), and looks whether long tests grow (memory).
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
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
	if len(args) == 0 {
		return errors.New("want costs, deaths or memory")
	}
	fs := flag.NewFlagSet(args[0], flag.ContinueOnError)
	gobw := fs.String("gobw", "bin/gobw", "the program")
	n := fs.Int("n", 100000, "deaths")
	houses := fs.Int("houses", 24, "deaths: tests at once, each in a network namespace of its own")
	each := fs.Duration("each", 70*time.Second, "memory: how long the tests run, or until they end")
	only := fs.String("only", "", "memory: only tests with this in their command line; costs: only rows with this in their name")
	every := fs.Int("every", 1, "costs: every n-th row")
	loop := fs.Duration("loop", 0, "costs: go on with the rows for this time; 0: once")
	pause := fs.Duration("pause", 0, "costs: between two rows")
	limit := fs.Duration("time", time.Hour, "end after this time at the latest")
	seed := fs.Uint64("seed", uint64(time.Now().UnixNano()), "of the random choices")
	if err := fs.Parse(args[1:]); err != nil {
		return err
	}
	path, err := filepath.Abs(*gobw)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()
	random := rand.New(rand.NewPCG(*seed, 1))
	if args[0] == "house" { // a part of deaths
		return house(ctx, path, *n, random)
	}
	fmt.Printf("%s -n %d -time %v -seed %d, %s\n", args[0], *n, *limit, *seed, version(path))
	switch args[0] {
	case "costs":
		return costs(ctx, path, *every, *only, *loop, *pause)
	case "memory":
		return memory(ctx, path, *each, *only)
	case "deaths":
		return deaths(ctx, path, *n, *houses, random)
	}
	return fmt.Errorf("%q: want costs, deaths or memory", args[0])
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
	port  string
	token []byte

	mu     sync.Mutex
	lines  []string // the last ones
	count  int
	bytes  int
	steers bool // a line would steer a terminal
}

func startServer(gobw string, flags ...string) (*server, error) {
	s := &server{cmd: exec.Command(gobw, append([]string{"serve", "-d", "roce0", "--cpu", "none", "--listen", "127.0.0.1:0"}, flags...)...)}
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
			s.count++
			s.bytes += len(line) + 1
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
type status struct{ rssKB, descriptors, threads, goroutines, lines, bytes int }

func (s *server) status() status {
	st := statusOf(s.cmd.Process.Pid)
	_ = s.cmd.Process.Signal(syscall.SIGUSR1) // it logs a line
	for range 100 {
		time.Sleep(5 * time.Millisecond)
		if _, n, is := strings.Cut(s.last(8), "goroutines="); is {
			st.goroutines, _ = strconv.Atoi(strings.Fields(n)[0])
			break
		}
	}
	s.mu.Lock()
	st.lines, st.bytes = s.count, s.bytes
	s.mu.Unlock()
	return st
}

// statusOf is what the kernel knows of a process.
func statusOf(pid int) status {
	st := status{goroutines: -1}
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		switch f[0] {
		case "VmRSS:":
			st.rssKB, _ = strconv.Atoi(f[1])
		case "Threads:":
			st.threads, _ = strconv.Atoi(f[1])
		}
	}
	fds, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	st.descriptors = len(fds)
	return st
}

// children lists the processes that the server has started.
func (s *server) children() []int { return childrenOf(s.cmd.Process.Pid) }

// childrenOf lists the processes that a process has started.
func childrenOf(pid int) []int {
	var all []int
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
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
