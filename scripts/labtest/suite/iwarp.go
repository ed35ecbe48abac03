package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The lab's software iWARP and its address.
const (
	iWARPDevice  = "siw0"
	iWARPAddress = "10.78.0.1"
)

// runIWARP runs what iWARP has, RC by RDMA CM without atomics: gobw and golat with each other, all data verified, and our
// programs under perftest's names against the stock ones, both ways round.
func runIWARP(ctx context.Context, s *suite) []outcome {
	if s.native {
		return []outcome{{Name: "iwarp", Verdict: notRun, Reason: "needs the lab's software iWARP; run scripts/lab test"}}
	}
	if _, err := os.Stat(filepath.Join("/sys/class/infiniband", iWARPDevice)); err != nil {
		return []outcome{{Name: "iwarp", Verdict: notRun, Reason: "the image has no siw: run scripts/lab setup --siw"}}
	}
	var cells []cell
	for _, o := range append(operations(), longSends()...) {
		if o.lossy || slices.Contains(o.argv, "atomic") {
			continue
		}
		c := s.toolCell("siw0 to siw0", iWARPDevice, iWARPDevice, o)
		c.client.argv = slices.Insert(c.client.argv, len(c.client.argv)-1, "-R")
		c.client.argv[len(c.client.argv)-1] = iWARPAddress
		cells = append(cells, c)
	}
	for _, server := range []string{"stock", "gobw"} {
		for _, t := range tools() {
			if t.verb() == "atomic" {
				continue
			}
			for _, v := range variants() {
				if slices.Contains(v.flags, "-R") && v.applies(t, "RC") {
					cells = append(cells, s.iWARPCell(server, combination{t, "RC", v}))
				}
			}
		}
	}
	out := s.runCells(ctx, cells)
	for why, argv := range iWARPRefusals() {
		if s.wanted.MatchString(strings.Join(argv, " ")) {
			out = append(out, s.iWARPRefusal(why, argv))
		}
	}
	printMatrix(s.stdout, out)
	return out
}

// longSends are more than the receives that are posted at once: iWARP has no RNR, so they go by credit.
func longSends() []operation {
	var out []operation
	for _, flags := range [][]string{
		{"-n", "5000", "--verify=all"},
		{"-n", "3000", "-b", "-q", "2", "--verify=all"},
		{"-n", "3000", "--reversed", "--verify=all"},
		{"-n", "3000", "-l", "4", "-r", "8", "--verify=all"},
		{"-n", "3000", "--srq", "-q", "4"},
		{"-D", "1", "-q", "2"},
	} {
		argv := append([]string{"gobw", "send", "-s", "64", "--quiet"}, flags...)
		out = append(out, operation{name: "gobw send " + strings.Join(flags, " "), argv: argv, size: 64})
	}
	return out
}

// iWARPRefusals are tests that iWARP does not carry, by what the refusal says.
func iWARPRefusals() map[string][]string {
	return map[string][]string{
		"give --rdma-cm (-R)":        {"gobw", "write"},
		"has RC alone":               {"gobw", "send", "-c", "UD", "-R"},
		"has no immediate data":      {"gobw", "write", "--write-imm", "-R"},
		"atomics: iWARP has none":    {"golat", "atomic", "-R"},
		"experiment does not use it": {"gobw", "noncontig"},
	}
}

// iWARPRefusal is a test of this device with itself that is refused.
func (s *suite) iWARPRefusal(why string, argv []string) outcome {
	o := outcome{Name: strings.Join(argv, " ") + ", refused", Row: strings.Join(argv, " "), Column: "refused"}
	c := command{label: iWARPDevice, argv: append(append([]string{s.ours(argv[0])}, argv[1:]...), "-d", iWARPDevice, "--loopback")}
	o.Command = c.line()
	o.attempt(func(int) (string, bool, error) {
		p, err := start(c)
		if err != nil {
			return "", false, err
		}
		e := p.wait(time.Now().Add(time.Minute))
		s.keepOne(o.Name, c, e)
		if e.code != 2 || !strings.Contains(e.stderr, why) {
			return "", false, fmt.Errorf("exit %d, %s; want exit 2 and %q", e.code, e.said(), why)
		}
		return "exit 2", false, nil
	})
	return o
}

func (s *suite) iWARPCell(server string, c combination) cell {
	end := func(ours bool, host ...string) command {
		e := command{label: "stock", argv: []string{c.tool.name, "-d", iWARPDevice}}
		if ours {
			e = command{label: "gobw", argv: []string{s.ours(c.tool.name), "-d", iWARPDevice}}
		}
		e.argv = append(append(e.argv, c.flags()...), host...)
		return e
	}
	return cell{
		name: fmt.Sprintf("%s %s, %s server, siw0", c.tool.name, c.variant.name, server), row: c.tool.name, column: strings.TrimSpace(c.variant.name + ", " + server + " server"),
		server: end(server != "stock"), client: end(server == "stock", iWARPAddress), port: 18515, rdmaCM: true, timeout: c.limit(),
		check: func(server, client ended) (string, error) { return checkPerftest(c, server, client) },
	}
}
