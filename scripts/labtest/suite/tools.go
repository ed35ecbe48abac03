//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// runTools runs gobw and golat against "gobw serve": every operation and transport, kernel to kernel, and our device
// against the kernel's both ways round, with all data verified; then over a network that loses packets.
func runTools(ctx context.Context, s *suite) []outcome {
	type pairing struct {
		name           string
		server, client string
		netem          string
	}
	pairings := []pairing{
		{s.device + " to " + s.device, s.device, s.device, ""},
		{"roce0 to " + s.device, s.device, "roce0", ""},
		{s.device + " to roce0", "roce0", s.device, ""},
		{"roce0 to " + s.device + ", 1% lost", s.device, "roce0", "loss 1%"},
		{s.device + " to roce0, 1% lost", "roce0", s.device, "loss 1%"},
	}
	var all []outcome
	for _, p := range pairings {
		if s.native && strings.Contains(p.name, "roce0") {
			all = append(all,
				outcome{Name: "tools: " + p.name, Verdict: notRun, Reason: "needs the lab's other network namespace"})
			continue
		}
		var cells []cell
		for _, o := range operations() {
			if p.netem != "" && (o.lossy || o.latency) { // UC and UD may lose; RC must not
				continue
			}
			cells = append(cells, s.toolCell(p.name, p.server, p.client, o))
		}
		restore, err := netem(ctx, p.netem)
		if err != nil {
			all = append(all, outcome{Name: "tools: " + p.name, Verdict: failed, Reason: err.Error()})
			continue
		}
		all = append(all, s.runCells(ctx, cells)...)
		if err := restore(); err != nil {
			all = append(all, outcome{Name: "tools: after " + p.name, Verdict: failed, Reason: err.Error()})
		}
	}
	printMatrix(s.stdout, all)
	return all
}

// netem puts a bad network between the two namespaces; what it returns takes it away again. "" is a good network.
func netem(ctx context.Context, what string) (restore func() error, err error) {
	if what == "" {
		return func() error { return nil }, nil
	}
	tc := func(action, what string) error {
		var errs []error
		for _, end := range []string{
			"tc qdisc " + action + " dev v0 root " + what, "ip netns exec " + os.Getenv("LAB_NETNS") + " tc qdisc " + action +
				" dev v1 root " + what,
		} {
			argv := strings.Fields(end)
			if out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w: %s", end, err, out))
			}
		}
		return errors.Join(errs...)
	}
	return func() error { return tc("del", "") }, tc("add", "netem "+what)
}

// operation is a row of the tools' table.
type operation struct {
	name    string
	argv    []string // gobw or golat, the operation, its flags
	latency bool
	lossy   bool // UC, UD: what is lost stays lost
	size    int
}

func operations() []operation {
	var out []operation
	add := func(transport string, flags ...string) {
		for _, program := range []string{"gobw", "golat"} {
			latency := program == "golat"
			f := slices.Clone(flags)
			if latency && slices.Contains(f, "-q") {
				continue
			}
			size := 3000
			if transport == "UD" {
				size = 1000
			}
			if f[0] == "write" || f[0] == "send" { // the others have RC alone, and no flag for it
				f = append(f, "-c", transport)
			}
			if f[0] == "atomic" {
				size = 8
			} else {
				f = append(f, "-s", strconv.Itoa(size))
				if !latency {
					f = append(f, "--verify=all")
				}
			}
			out = append(out, operation{
				name:    program + " " + strings.Join(flags, " ") + " " + transport,
				argv:    append([]string{program}, append(f, "-n", "200", "--warmup", "0", "--quiet")...),
				latency: latency, lossy: transport != "RC", size: size,
			})
		}
	}
	add("RC", "write")
	add("RC", "read")
	add("RC", "send")
	add("RC", "atomic")
	add("UC", "write")
	add("UC", "send")
	add("UD", "send")
	add("RC", "write", "-q", "4")
	add("RC", "write", "-b", "-q", "2")
	add("RC", "send", "-e")
	return out
}

func (s *suite) toolCell(pairing, server, client string, o operation) cell {
	host := orLoopback(os.Getenv("LAB_HERE"))
	if server == "roce0" {
		host = orLoopback(os.Getenv("LAB_PEER"))
	}
	end := func(device string, argv ...string) command {
		return command{label: device, argv: argv, peer: device == "roce0"}
	}
	argv := append([]string{s.ours(o.argv[0])}, o.argv[1:]...)
	argv = append(argv, "-d", client, "--format", "json", patient, host)
	return cell{
		name: o.name + ", " + pairing, row: o.name, column: pairing, port: 18515, lossy: o.lossy,
		server: end(server, s.ours("gobw"), "serve", "-d", server, "--once", "--quiet", patient),
		client: end(client, argv...),
		check:  func(_, c ended) (string, error) { return checkTool(o, c) },
	}
}

// checkTool looks at the promised heart of a record (design: report).
func checkTool(o operation, client ended) (string, error) {
	var doc struct {
		Records []struct {
			Size      int     `json:"size_bytes"`
			Messages  uint64  `json:"messages"`
			Seconds   float64 `json:"seconds"`
			Bandwidth struct {
				Average float64 `json:"average_bits_per_s"`
			} `json:"bandwidth"`
			Latency struct {
				P50 float64 `json:"p50_ns"`
			} `json:"latency"`
		} `json:"records"`
	}
	if err := json.Unmarshal([]byte(client.stdout), &doc); err != nil {
		return "", fmt.Errorf("the client's JSON: %w", err)
	}
	if len(doc.Records) != 1 {
		return "", fmt.Errorf("%d records, want 1", len(doc.Records))
	}
	r := doc.Records[0]
	if r.Size != o.size || r.Messages < 100 || (!o.lossy && !o.latency && r.Messages < 200) || r.Seconds <= 0 {
		return "", fmt.Errorf("record of %d bytes, %d messages, %g s; want %d bytes, 200 messages", r.Size, r.Messages,
			r.Seconds, o.size)
	}
	if o.latency {
		if r.Latency.P50 <= 0 {
			return "", fmt.Errorf("p50 latency %g ns", r.Latency.P50)
		}
		return fmt.Sprintf("p50 %.1f µs", r.Latency.P50/1e3), nil
	}
	if r.Bandwidth.Average <= 0 {
		return "", fmt.Errorf("average bandwidth %g bits/s", r.Bandwidth.Average)
	}
	return fmt.Sprintf("%.1f Mb/s", r.Bandwidth.Average/1e6), nil
}
