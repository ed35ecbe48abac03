//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// runPingpong plays rdma-core's pingpongs against ours, both ways round, with the kernel's device and with our own at
// our end, and against themselves with our libibverbs. Where our end is our own device, it lives in the other
// namespace.
func runPingpong(ctx context.Context, s *suite) []outcome {
	var cells []cell
	here, peer := os.Getenv("LAB_HERE"), os.Getenv("LAB_PEER")
	gid := gidIndex(s.device, here)
	for _, transport := range []string{"rc", "uc", "ud", "srq"} {
		size, lossy := "4096", transport == "uc" || transport == "ud"
		kind := []string{"-c", strings.ToUpper(transport)}
		if transport == "srq" {
			kind = []string{"-q", "16"} // its default
		}
		if transport == "ud" {
			size = "1024"
		}
		stockOn := func(device, gid string, host ...string) []string {
			argv := []string{
				"ibv_" + transport + "_pingpong", "-d", device, "-g", gid, "-s", size, "-n", "300", "-p", "18517",
			}
			if transport != "ud" {
				argv = append(argv, "-m", "1024")
			}
			return append(argv, host...)
		}
		stock := func(host ...string) command {
			return command{label: "stock", argv: stockOn(s.device, gid, host...)}
		}
		for _, device := range []string{s.device, "roce0", byLibrary} {
			inPeer := device != s.device
			if inPeer && s.native {
				continue
			}
			ours := func(host ...string) command {
				if device == byLibrary {
					return command{label: byLibrary, argv: s.underLibrary(stockOn("roce0", "1", host...)...), peer: true}
				}
				argv := append([]string{
					s.ours("pingpong"), "-d", device, "-s", size, "-n", "300", "-m", "1024", "-p", "18517", "-timeout", "1m",
				}, kind...)
				if !inPeer {
					argv = append(argv, "-g", gid)
				}
				return command{label: "gobw", argv: append(argv, host...), peer: inPeer}
			}
			stockAt, oursAt := orLoopback(here), orLoopback(peer)
			if !inPeer {
				oursAt = stockAt
			}
			row := transport + " on " + device
			cells = append(cells,
				cell{
					name: row + ", stock server", row: row, column: "stock server", server: stock(), client: ours(stockAt),
					port: 18517, lossy: lossy, check: checkPingpong,
				},
				cell{
					name: row + ", our server", row: row, column: "our server", server: ours(), client: stock(oursAt), port: 18517,
					lossy: lossy, check: checkPingpong,
				})
		}
	}
	out := s.runCells(ctx, cells)
	if s.native {
		out = append(out,
			outcome{Name: "pingpong with roce0", Verdict: notRun, Reason: "needs the lab's other network namespace"})
	}
	printMatrix(s.stdout, out)
	return out
}

func orLoopback(address string) string {
	if address == "" {
		return "127.0.0.1"
	}
	return address
}

var pingpongLine = regexp.MustCompile(`(\d+) iters in .* = ([0-9.]+) usec/iter`)

// checkPingpong compares the two ends' lines "N iters in S seconds = U usec/iter".
func checkPingpong(server, client ended) (string, error) {
	var micros [2]float64
	for i, e := range []ended{server, client} {
		m := pingpongLine.FindStringSubmatch(e.stdout)
		if m == nil || m[1] != "300" {
			return "", fmt.Errorf("%s prints no result of 300 iterations: %s", []string{"server", "client"}[i], e.said())
		}
		micros[i], _ = strconv.ParseFloat(m[2], 64) // the pattern holds a number
	}
	return fmt.Sprintf("%.1f, %.1f µs", micros[0], micros[1]), alike(micros[0], micros[1], 1.5)
}

// alike tells whether two positive figures of the same thing are within a factor.
func alike(a, b, factor float64) error {
	if !(a > 0 && b > 0) || max(a, b) > factor*min(a, b) {
		return fmt.Errorf("the two ends disagree: %g and %g", a, b)
	}
	return nil
}

// gidIndex finds the line of a device's GID table that holds an IPv4 address, as the tools' -g and -x want it.
func gidIndex(device, address string) string {
	var a, b, c, d int
	if _, err := fmt.Sscanf(address, "%d.%d.%d.%d", &a, &b, &c, &d); err != nil {
		return "1"
	}
	want := fmt.Sprintf("0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x", a, b, c, d)
	for i := range 64 {
		dir := "/sys/class/infiniband/" + device + "/ports/1/"
		gid, err := os.ReadFile(fmt.Sprintf("%sgids/%d", dir, i))
		if err != nil || strings.TrimSpace(string(gid)) != want {
			continue
		}
		if kind, err := os.ReadFile(fmt.Sprintf("%sgid_attrs/types/%d", dir, i)); err == nil &&
			strings.TrimSpace(string(kind)) == "RoCE v2" {
			return strconv.Itoa(i)
		}
	}
	return "1"
}
