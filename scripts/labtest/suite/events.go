//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// portDown is a test whose port goes down on its way.
type portDown struct {
	name           string
	server, client string // devices
	argv           []string
}

// portDownLimit is how long the two ends may take to see it, say it and end: a peer that only falls silent is lost
// after 3 s, and these processors are emulated and shared.
const portDownLimit = 30 * time.Second

// lostPort is what an end says whose port went down.
const lostPort = "the device reports PORT_ERR on port 1: the link went down"

// runEvents takes the kernel's device its link while a test runs. Every end on that device must say so and exit with 6,
// an end elsewhere must have lost its peer (4), and both keep what was measured until then.
func runEvents(ctx context.Context, s *suite) []outcome {
	var all []outcome
	for _, p := range []portDown{
		{"write, " + s.device + " to " + s.device, s.device, s.device, []string{"gobw", "write", "-s", "4096"}},
		{"send, " + s.device + " to " + s.device, s.device, s.device, []string{"gobw", "send", "-s", "4096"}},
		{"read both ways, " + s.device + " to " + s.device, s.device, s.device, []string{"gobw", "read", "-s", "4096", "-b"}},
		{"send latency, " + s.device + " to " + s.device, s.device, s.device, []string{"golat", "send"}},
		{"send with -e, " + s.device + " to roce0", "roce0", s.device, []string{"gobw", "send", "-s", "4096", "-e"}},
		{"send, roce0 to " + s.device, s.device, "roce0", []string{"gobw", "send", "-s", "4096"}},
	} {
		name := "events: port down in " + p.name
		if ctx.Err() != nil || !strings.Contains(name, s.match) {
			continue
		}
		o := outcome{Name: name, Verdict: failed}
		if s.native {
			o.Verdict, o.Reason = notRun, "would take this machine's own link down"
			all = append(all, o)
			continue
		}
		o.attempt(func(int) (figures string, again bool, err error) {
			figures, err = s.runPortDown(ctx, name, p)
			err = errors.Join(err, s.portUp(ctx))
			return figures, err != nil && !grave.MatchString(err.Error()), err
		})
		all = append(all, o)
	}
	return all
}

func (s *suite) runPortDown(ctx context.Context, name string, p portDown) (string, error) {
	host := orLoopback(os.Getenv("LAB_HERE"))
	switch p.server {
	case p.client:
		host = "127.0.0.1" // stays when the link goes
	case "roce0":
		host = orLoopback(os.Getenv("LAB_PEER"))
	}
	saved := filepath.Join(s.logs, unsafeInName.ReplaceAllString(name, "_")+".json")
	serve := command{
		label: p.server, argv: []string{s.ours("gobw"), "serve", "-d", p.server, "--once", "--quiet"},
		peer: p.server == "roce0",
	}
	argv := append([]string{s.ours(p.argv[0])}, p.argv[1:]...)
	test := command{
		label: p.client, argv: append(argv, "-d", p.client, "-D", "60", "--warmup", "0", "--quiet", "--save", saved, host),
		peer: p.client == "roce0",
	}
	server, err := start(serve)
	if err != nil {
		return "", err
	}
	if !server.awaitListener(18515) {
		return "", fmt.Errorf("the %s server does not listen: %s", p.server, server.wait(time.Now()).said())
	}
	client, err := start(test)
	if err != nil {
		server.wait(time.Now())
		return "", err
	}
	running := s.awaitTraffic(ctx)
	if running == nil {
		running = link(ctx, "down")
	}
	down := time.Now()
	c := client.wait(down.Add(portDownLimit))
	took := time.Since(down)
	e := server.wait(down.Add(portDownLimit))
	s.keep(cell{name: name, server: serve, client: test}, 1, e, c)
	messages, err := messagesIn(saved)
	errs := []error{running, err, s.judgePortDown("client", p.client, c), s.judgePortDown("server", p.server, e)}
	if err := errors.Join(errs...); err != nil {
		return "", err
	}
	return fmt.Sprintf("client ended after %.1f s, %d messages kept", took.Seconds(), messages), nil
}

// judgePortDown judges how an end of such a test ended.
func (s *suite) judgePortDown(end, device string, e ended) error {
	code, words := 6, lostPort
	if device != s.device {
		code, words = 4, "peer lost while"
	}
	if e.code != code || !strings.Contains(e.stderr, words) {
		return fmt.Errorf("the %s on %s: exit %d, want %d and %q: %s", end, device, e.code, code, words, e.said())
	}
	return nil
}

// messagesIn reads how many messages of an unfinished test were kept.
func messagesIn(file string) (uint64, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, fmt.Errorf("the partial result: %w", err)
	}
	var doc struct {
		Records []struct {
			Messages uint64 `json:"messages"`
		} `json:"records"`
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		return 0, fmt.Errorf("the partial result: %w", err)
	}
	if len(doc.Records) != 1 || doc.Records[0].Messages == 0 {
		return 0, fmt.Errorf("the partial result has %d records, want 1 with messages: %.200s", len(doc.Records), b)
	}
	return doc.Records[0].Messages, nil
}

// awaitTraffic waits until the device has moved some hundred packets.
func (s *suite) awaitTraffic(ctx context.Context) error {
	const enough = 500
	before, err := s.packets()
	if err != nil {
		return err
	}
	return within(ctx, 30*time.Second, fmt.Sprintf("%s moves %d packets", s.device, enough), func() bool {
		now, err := s.packets()
		return err == nil && now-before > enough
	})
}

// packets is how many the device has sent and received.
func (s *suite) packets() (uint64, error) {
	var sum uint64
	for _, name := range []string{"sent_pkts", "rcvd_pkts"} {
		b, err := os.ReadFile(filepath.Join("/sys/class/infiniband", s.device, "ports/1/hw_counters", name))
		if err != nil {
			return 0, err
		}
		n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// portUp brings the link back, with the addresses that the kernel takes away with it, and waits for the
// port and for the way to the other end.
func (s *suite) portUp(ctx context.Context) error {
	if err := link(ctx, "up"); err != nil {
		return err
	}
	peer := net.JoinHostPort(orLoopback(os.Getenv("LAB_PEER")), "9") // discard: nobody listens, and the other end says so
	return within(ctx, 30*time.Second, s.device+" is ACTIVE and reaches the other end again", func() bool {
		b, err := os.ReadFile(filepath.Join("/sys/class/infiniband", s.device, "ports/1/state"))
		if err != nil || !strings.Contains(string(b), "ACTIVE") {
			return false
		}
		c, err := net.DialTimeout("tcp", peer, time.Second)
		if err == nil {
			_ = c.Close()
		}
		return err == nil || errors.Is(err, syscall.ECONNREFUSED)
	})
}

func link(ctx context.Context, state string) error {
	lines := [][]string{{"ip", "link", "set", "v0", state}}
	if state == "up" {
		lines = append(lines, []string{"ip", "addr", "replace", "fd77::1/64", "dev", "v0", "nodad"})
	}
	for _, argv := range lines {
		if out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, out)
		}
	}
	return nil
}

// within waits until something is so.
func within(ctx context.Context, limit time.Duration, what string, so func() bool) error {
	for end := time.Now().Add(limit); !so(); {
		if time.Now().After(end) {
			return fmt.Errorf("not within %v: %s", limit, what)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}
