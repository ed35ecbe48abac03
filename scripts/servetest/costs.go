//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// What a stranger's message may cost a running server, and how soon the next honest client is served. Times of a busy
// machine are longer by what it is busy with.
const (
	mostServerMiB   = 64
	mostServerCPU   = 250 * time.Millisecond
	mostProcessMiB  = 512
	mostProcessCPU  = 2500 * time.Millisecond
	mostHonestDelay = time.Second
)

// reportEvery is how often a line of figures is written.
const reportEvery = time.Minute

// What a server may have more at the end of an hour than after its first minute: what differs from look to look, not
// what grows with the clients. Of its memory every row has the bound.
const (
	moreDescriptors = 110 // of strangers who have just left
	moreThreads     = 8
	moreGoroutines  = 220
)

// table is what the rows took, and what to say of it.
type table struct {
	servers map[string]*server
	loop    bool // the rows again and again: a line a minute instead of one for each
	begun   time.Time

	rows, late int
	peak       float64
	next       []time.Duration // since the last line
	reported   time.Time
	wrong      []error

	first, last status // the largest of all servers
}

// costs sends each of the rows, every n-th of them, to a running server of its kind, and measures what it takes of it.
// Within loop, if that is not 0, it does so again and again, with pauses.
func costs(ctx context.Context, gobw string, every int, only string, loop, pause time.Duration) (err error) {
	t := &table{servers: map[string]*server{}, loop: loop > 0, begun: time.Now(), reported: time.Now()}
	secret, err := os.CreateTemp("", "token")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(secret.Name())) }()
	if _, err := secret.WriteString(strings.Repeat("0123456789abcdef", 2)); err != nil {
		return err
	}
	for kind, flags := range kinds(secret.Name()) {
		s, err := startServer(gobw, append([]string{"--max-memory", "64M", "--max-duration", "30s"}, flags...)...)
		if err != nil {
			return err
		}
		if t.servers[kind] = s; kind == "token" {
			s.token = secret.Name()
		}
	}
	fmt.Println("server: its own process, peak since the row began; process: the largest that it started; next: " +
		"when the next honest client had its result")
	if t.loop {
		fmt.Printf("%6s %6s %6s %8s %8s %4s %7s %10s %8s %8s %8s %6s\n", "time", "rows", "wrong", "peak_MiB", "rss_MiB",
			"fds", "threads", "goroutines", "next_p50", "next_p99", "next_max", "late")
	} else {
		fmt.Printf("%8s %8s %8s %8s %8s %8s  %s\n", "answer_s", "srv_MiB", "srv_ms", "proc_MiB", "proc_ms", "next_ms",
			"connections, what is sent")
	}
	rows := slices.DeleteFunc(strangers(), func(r stranger) bool { return !strings.Contains(r.name, only) })
	for i := 0; ctx.Err() == nil && (i < len(rows) || time.Since(t.begun) < loop); i += every {
		t.measure(ctx, rows[i%len(rows)])
		time.Sleep(pause) // the machine is others', too
	}
	t.report()
	fmt.Printf("%d rows, the server's own process at most %.1f MiB; %d rows too dear; after %d the next honest client "+
		"waited for more than %v\n",
		t.rows, t.peak, len(t.wrong), t.late, mostHonestDelay)
	if a, b := t.first, t.last; b.descriptors > a.descriptors+moreDescriptors || b.threads > a.threads+moreThreads ||
		a.goroutines >= 0 && b.goroutines > a.goroutines+moreGoroutines {
		t.wrong = append(t.wrong, fmt.Errorf("the server grew from %+v to %+v", a, b))
	}
	for _, s := range t.servers {
		if s.steers {
			t.wrong = append(t.wrong, errors.New("a stranger's commands for a screen are in the log"))
		}
		if err := s.stop(); err != nil {
			t.wrong = append(t.wrong, fmt.Errorf("the server ended with %w:\n%s", err, s.last(20)))
		}
	}
	return errors.Join(t.wrong...)
}

// measure is one row.
func (t *table) measure(ctx context.Context, row stranger) {
	s := t.servers[row.to]
	c := s.cost(ctx, row)
	// time that a host takes from its virtual machine counts as this one's
	for again := 0; again < 2 && row.tooDear(c); again++ {
		fmt.Printf("%s, to be measured again: %+v\n", row.name, c)
		c = s.cost(ctx, row)
	}
	t.rows++
	t.peak = max(t.peak, c.serverMiB)
	t.next = append(t.next, c.next)
	if c.next > mostHonestDelay {
		t.late++
		if t.loop {
			fmt.Printf("%s: the next honest client after %v\n", row.name, c.next)
		}
	}
	if row.tooDear(c) {
		t.wrong = append(t.wrong, fmt.Errorf("%s: %+v", row.name, c))
	}
	if !t.loop {
		fmt.Printf("%8.2f %8.1f %8.0f %8.1f %8.0f %8.0f  %d: %s\n", c.answered.Seconds(), c.serverMiB,
			c.serverCPU.Seconds()*1e3, c.processMiB, c.processCPU.Seconds()*1e3,
			c.next.Seconds()*1e3, row.connections, strings.TrimSpace(row.to+" "+row.name))
	} else if time.Since(t.reported) > reportEvery {
		t.report()
	}
}

// report is a line of the last minute: all servers' largest.
func (t *table) report() {
	if !t.loop || len(t.next) == 0 {
		return
	}
	var all status
	for _, s := range t.servers {
		st := s.status()
		all.rssKB, all.descriptors = max(all.rssKB, st.rssKB), max(all.descriptors, st.descriptors)
		all.threads, all.goroutines = max(all.threads, st.threads), max(all.goroutines, st.goroutines)
	}
	if t.last = all; t.first == (status{}) {
		t.first = all
	}
	slices.Sort(t.next)
	at := func(share float64) float64 { return t.next[int(share*float64(len(t.next)-1))].Seconds() * 1e3 }
	fmt.Printf("%6.0f %6d %6d %8.1f %8.1f %4d %7d %10d %8.0f %8.0f %8.0f %6d\n", time.Since(t.begun).Seconds(), t.rows,
		len(t.wrong), t.peak, float64(all.rssKB)/1024,
		all.descriptors, all.threads, all.goroutines, at(0.5), at(0.99), at(1), t.late)
	t.next, t.reported = nil, time.Now()
}

// cost is what a row took.
type cost struct {
	answered, serverCPU, processCPU, next time.Duration
	serverMiB, processMiB                 float64
	err                                   error
}

func (r stranger) tooDear(c cost) bool {
	n := time.Duration(r.connections)
	return c.err != nil || c.serverMiB > mostServerMiB || c.serverCPU > n*mostServerCPU || c.processMiB > mostProcessMiB ||
		c.processCPU > n*mostProcessCPU
}

// cost measures a row: until it is answered, or for a second, and then until the next honest client has its result.
func (s *server) cost(ctx context.Context, row stranger) (c cost) {
	pid := s.cmd.Process.Pid
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0) // the peak begins anew
	cpu, children := cpuOf(pid), childrenCPU(pid)
	stop, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		for {
			for _, child := range s.children() {
				c.processMiB = max(c.processMiB, peakOf(child))
			}
			select {
			case <-stop:
				return
			// who looks more often makes the server's kernel spin where it reaps the process
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	began := time.Now()
	gone := row.send(s)
	c.answered = time.Since(began)
	if !row.stays {
		gone()
	}
	close(stop)
	<-watched
	began = time.Now()
	c.err = s.honest(ctx)
	c.next = time.Since(began)
	if row.stays {
		gone()
	}
	c.serverMiB, c.serverCPU, c.processCPU = peakOf(pid), cpuOf(pid)-cpu, childrenCPU(pid)-children
	return c
}

// honest runs one short test.
func (s *server) honest(ctx context.Context) error {
	words := []string{
		"write", "127.0.0.1", "-p", s.port, "-d", "roce0", "--cpu", "none", "-s", "64", "-n", "16", "--warmup", "0",
		"--peer-timeout", "20s", "--wait", "30s", "--quiet",
	}
	if s.token != "" {
		words = append(words, "--token-file", s.token)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, s.gobw, words...).CombinedOutput(); err != nil {
		return fmt.Errorf("the next honest client: %w: %s", err, out)
	}
	return nil
}

// peakOf is the most memory that a process has had, in MiB.
func peakOf(pid int) float64 { return float64(statusOf(pid, "VmHWM:")) / 1024 }

// cpuOf is the processor time of a process's threads.
func cpuOf(pid int) (total time.Duration) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, f := range files {
		text, _ := os.ReadFile(f)
		ns, _ := strconv.ParseInt(strings.Fields(string(text) + " 0")[0], 10, 64)
		total += time.Duration(ns)
	}
	return total
}

// childrenCPU is the processor time of the processes that a process has started and waited for.
func childrenCPU(pid int) time.Duration {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 15 {
		return 0
	}
	user, _ := strconv.Atoi(fields[13])
	system, _ := strconv.Atoi(fields[14])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// send lets the strangers of a row have their say, for a second at most unless they stay until gone is called.
func (r stranger) send(s *server) (gone func()) {
	const most = time.Second
	var wg sync.WaitGroup
	var mu sync.Mutex
	var kept []net.Conn
	for i := range r.connections {
		wg.Go(func() {
			var d net.Dialer
			if r.addresses > 0 {
				d.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i%r.addresses))}
			}
			conn, err := d.Dial("tcp", net.JoinHostPort("127.0.0.1", s.port))
			if err != nil {
				return
			}
			mu.Lock()
			kept = append(kept, conn)
			mu.Unlock()
			_ = conn.SetDeadline(time.Now().Add(most))
			if r.stays {
				_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
			}
			r.does(talk{conn})
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		})
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		wg.Wait()
	}()
	select {
	case <-ended:
	case <-time.After(most):
	}
	return func() {
		mu.Lock()
		for _, c := range kept {
			_ = c.Close()
		}
		mu.Unlock()
		wg.Wait()
	}
}
