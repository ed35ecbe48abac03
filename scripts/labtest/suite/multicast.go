//go:build linux

package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// multicastGroup is 239.1.2.3 as perftest's -M wants it. Stock perftest refuses its own default group on RoCE.
const multicastGroup = "0:0:0:0:0:0:0:0:0:0:255:255:239:1:2:3"

// runMulticast has the server's queue pair join a group, to which the client sends (-g, -M): ours with stock, and with
// ours on the two devices. Stock with itself over one rxe0 does not finish.
func (s *suite) runMulticast(ctx context.Context) []outcome {
	if s.native {
		return []outcome{{Name: "perftest: multicast", Verdict: notRun, Reason: "needs the lab's other network namespace"}}
	}
	bandwidth, latency := tool{"ib_send_bw", []string{"UD"}, false}, tool{"ib_send_lat", []string{"UD"}, true}
	all := func(tool, string) bool { return true }
	plain, named := variant{"-g", []string{"-g", "-s", "256"}, "20", true, all}, variant{
		"-g -M", []string{"-g", "-M", multicastGroup, "-s", "256"}, "20", true, all,
	}
	var cells []cell
	for _, c := range []struct {
		tool tool
		v    variant
		role role
	}{
		{bandwidth, named, role{"our client on roce0, stock server", "stock", "roce0"}},
		{bandwidth, plain, role{"stock client, our server", s.device, "stock"}},
		{bandwidth, plain, role{"stock client, our server on roce0", "roce0", "stock"}},
		{bandwidth, plain, role{"our client on roce0, our server", s.device, "roce0"}},
		{latency, plain, role{"our client on roce0, our server", s.device, "roce0"}},
	} {
		one := s.perftestCell(c.role, combination{c.tool, "UD", c.v})
		one.row += ", " + c.role.name
		cells = append(cells, one)
	}
	// rxe has a group's packets from the IP layer, which takes them where the host has joined.
	const join = "ip addr %s 239.1.2.3/32 dev v0 autojoin"
	address := func(action string) error {
		argv := strings.Fields(fmt.Sprintf(join, action))
		if out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, out)
		}
		return nil
	}
	if err := address("add"); err != nil {
		return []outcome{{Name: "perftest: multicast", Verdict: failed, Reason: err.Error()}}
	}
	out := s.runCells(ctx, cells)
	if err := address("del"); err != nil {
		out = append(out, outcome{Name: "perftest: after multicast", Verdict: failed, Reason: err.Error()})
	}
	fmt.Fprintln(s.stdout, "multicast")
	printMatrix(s.stdout, out)
	return out
}
