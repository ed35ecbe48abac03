//go:build linux

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

// runIWARP runs what iWARP has, RC by RDMA CM without atomics and without SENDs that may find no
// receive: gobw and golat with each other, all data verified, and our programs under perftest's names
// against the stock ones, both ways round.
func runIWARP(ctx context.Context, s *suite) []outcome {
	if s.native {
		return []outcome{{Name: "iwarp", Verdict: notRun, Reason: "needs the lab's software iWARP; run scripts/lab test"}}
	}
	if _, err := os.Stat(filepath.Join("/sys/class/infiniband", iWARPDevice)); err != nil {
		return []outcome{{Name: "iwarp", Verdict: notRun, Reason: "the image has no siw: run scripts/lab setup --siw"}}
	}
	out := s.iWARPConformance(ctx)
	var cells []cell
	for _, o := range operations() {
		if o.lossy || slices.Contains(o.argv, "atomic") || o.argv[0] == "gobw" && slices.Contains(o.argv, "send") {
			continue
		}
		c := s.toolCell("siw0 to siw0", iWARPDevice, iWARPDevice, o)
		c.client.argv = slices.Insert(c.client.argv, len(c.client.argv)-1, "-R")
		c.client.argv[len(c.client.argv)-1] = iWARPAddress
		cells = append(cells, c)
	}
	for _, server := range []string{"stock", "gobw"} {
		for _, t := range tools() {
			if t.verb() == "atomic" || t.name == "ib_send_bw" {
				continue
			}
			for _, v := range variants() {
				if slices.Contains(v.flags, "-R") && v.applies(t, "RC") && (v.name != "-R -b" || t.verb() != "read") {
					cells = append(cells, s.iWARPCell(server, combination{t, "RC", v}))
				}
			}
		}
	}
	met := s.runCells(ctx, cells)
	printMatrix(s.stdout, met)
	return append(out, met...)
}

// iWARPConformance is the suite that every provider passes, its queue pairs connected by RDMA CM.
func (s *suite) iWARPConformance(ctx context.Context) []outcome {
	own := *s
	own.logs = filepath.Join(s.logs, iWARPDevice)
	switch {
	case own.match == "":
		own.match = "^TestConformance$"
	case !strings.Contains(own.match, "TestConformance"):
		return nil // other cells were asked for
	}
	ctx, cancel := context.WithTimeout(ctx, 8*time.Minute) // it takes one or two
	defer cancel()
	if err := os.MkdirAll(own.logs, 0o755); err != nil {
		return []outcome{{Name: "conformance over iWARP", Verdict: failed, Reason: err.Error()}}
	}
	return own.goTests(ctx, "ibv.test", "verbs/ibv", "GOBW_IBV_DEVICE="+iWARPDevice, "GOBW_RDMACM_ADDRESS="+iWARPAddress)
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
		name: fmt.Sprintf("%s %s, %s server, siw0", c.tool.name, c.variant.name, server), row: c.tool.name,
		column: strings.TrimSpace(c.variant.name + ", " + server + " server"),
		server: end(server != "stock"), client: end(server == "stock", iWARPAddress), port: 18515, rdmaCM: true,
		timeout: c.limit(),
		check:   func(server, client ended) (string, error) { return checkPerftest(c, server, client) },
	}
}
