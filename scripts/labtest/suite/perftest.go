//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// tool is one of perftest's programs.
type tool struct {
	name       string
	transports []string
	latency    bool
}

func (t tool) verb() string { return strings.Split(t.name, "_")[1] }

func tools() []tool {
	return []tool{
		{"ib_write_bw", []string{"RC", "UC"}, false},
		{"ib_read_bw", []string{"RC"}, false},
		{"ib_send_bw", []string{"RC", "UC", "UD"}, false},
		{"ib_atomic_bw", []string{"RC"}, false},
		{"ib_write_lat", []string{"RC", "UC"}, true},
		{"ib_read_lat", []string{"RC"}, true},
		{"ib_send_lat", []string{"RC", "UC", "UD"}, true},
		{"ib_atomic_lat", []string{"RC"}, true},
	}
}

// variant is a column of the matrix: options that both ends are given.
type variant struct {
	name    string
	flags   []string
	iters   string // "": by duration
	sized   bool   // names its size itself
	applies func(t tool, transport string) bool
}

// variants are the columns. Iterations are few: an emulated machine moves 50 MB/s.
func variants() []variant {
	every := func(tool, string) bool { return true }
	bandwidth := func(t tool, _ string) bool { return !t.latency }
	return []variant{
		{"default", nil, "500", false, every},
		{"-a", []string{"-a"}, "10", true, func(t tool, _ string) bool { return t.verb() != "atomic" }},
		{"-q 4", []string{"-q", "4"}, "100", false, bandwidth},
		{"-b", []string{"-b"}, "500", false, bandwidth},
		{"-D 2", []string{"-D", "2"}, "", false, every},
		{"odd", []string{"-s", "1000"}, "500", true, func(t tool, _ string) bool { return t.verb() != "atomic" }},
		{"-e", []string{"-e"}, "500", false, func(t tool, _ string) bool { return t.verb() != "write" }},
		{
			"-I 64",
			[]string{"-I", "64", "-s", "64"},
			"500", true,
			func(t tool, _ string) bool { return t.verb() == "write" || t.verb() == "send" },
		},
		{"-l 10", []string{"-l", "10"}, "500", false, bandwidth},
		{"-R", []string{"-R"}, "500", false, func(_ tool, transport string) bool { return transport != "UC" }},
		{
			"-R -q 4",
			[]string{"-R", "-q", "4"},
			"100", false,
			func(t tool, transport string) bool { return !t.latency && transport != "UC" },
		},
		{
			"-R -b",
			[]string{"-R", "-b"},
			"500", false,
			func(t tool, transport string) bool { return !t.latency && transport != "UC" },
		},
		{"-z", []string{"-z"}, "500", false, every},
		{oldAPI, []string{"--use_old_post_send"}, "500", false, every},
	}
}

// oldAPI is the column where both ends post with ibv_post_send. Without the option they use ibv_wr_* on the NICs that
// perftest knows, and ibv_post_send on all others, rxe among them, where the column would be the default's.
const oldAPI = "old API"

// combination is a tool on a transport with options.
type combination struct {
	tool      tool
	transport string
	variant   variant
}

// rdmaCM tells whether the ends meet by RDMA CM.
func (c combination) rdmaCM() bool {
	return slices.Contains(c.variant.flags, "-R") || slices.Contains(c.variant.flags, "-z")
}

func (c combination) row() string { return c.tool.name + " " + c.transport }

// flags are what both ends are given, device aside.
func (c combination) flags() []string {
	f := []string{"-F", "-c", c.transport}
	if iters := c.variant.iters; iters != "" {
		switch {
		case c.tool.latency && c.variant.name == "-a":
			iters = "5" // perftest's least: where the ends share a CPU, each message waits for a time slice
		case c.tool.latency:
			iters = "100"
		case c.tool.name == "ib_send_bw" && c.variant.name != "-a":
			iters += "0" // both ends measure: long enough to be compared
		}
		f = append(f, "-n", iters)
	}
	if !c.variant.sized && !c.tool.latency && c.tool.verb() != "atomic" {
		f = append(f, "-s", "1024") // also fits UD
	}
	return append(f, c.variant.flags...)
}

// limit is how long a cell may take. In perftest's -a latency tests both ends calibrate their clock
// for a quarter of a second before each of 23 sizes, and spin: with stock perftest at both ends on a
// busy host they took a minute and a half.
func (c combination) limit() time.Duration {
	if c.variant.name == "-a" {
		return 5 * time.Minute
	}
	return 90 * time.Second
}

// combinations lists all, or a covering part: every tool and transport with the defaults, and with one option such that
// all options are used about equally often.
func combinations(full bool) []combination {
	used := map[string]int{}
	var out []combination
	for _, t := range tools() {
		for _, transport := range t.transports {
			var options []variant
			for _, v := range variants() {
				switch {
				case !v.applies(t, transport):
				case full || v.name == "default":
					out = append(out, combination{t, transport, v})
				default:
					options = append(options, v)
				}
			}
			if len(options) == 0 {
				continue
			}
			least := slices.MinFunc(options, func(a, b variant) int { return used[a.name] - used[b.name] })
			used[least.name]++
			out = append(out, combination{t, transport, least})
		}
	}
	return out
}

// role says who is who in a cell.
type role struct {
	name           string
	server, client string // "stock", byLibrary, or the device of ours
}

// byLibrary is a stock program whose libibverbs is ours, and whose device so is roce0.
const byLibrary = "stock by gobw run"

// underLibrary is a command whose libibverbs is ours.
func (s *suite) underLibrary(argv ...string) []string {
	return append([]string{s.ours("gobw"), "run", "-d", "roce0@" + os.Getenv("LAB_PEER"), "--"}, argv...)
}

// runPerftest runs the matrix: each combination with the stock tool at either end, and a part with our own device.
func runPerftest(ctx context.Context, s *suite) []outcome {
	stock, err := s.stockName()
	if err != nil {
		return []outcome{{Name: "perftest", Verdict: failed, Reason: err.Error()}}
	}
	roles := []role{
		{"our client, " + stock + " server", "stock", s.device},
		{stock + " client, our server", s.device, "stock"},
		{"our client on roce0, " + stock + " server", "stock", "roce0"},
		{stock + " client, our server on roce0", "roce0", "stock"},
		{stock + " client by gobw run, " + stock + " server", "stock", byLibrary},
		{stock + " client, " + stock + " server by gobw run", byLibrary, "stock"},
	}
	var all []outcome
	for i, r := range roles {
		own := i >= 2
		if own && s.native {
			all = append(all,
				outcome{Name: "perftest: " + r.name, Verdict: notRun, Reason: "needs the lab's other network namespace"})
			continue
		}
		var cells []cell
		for _, c := range combinations(s.full) {
			if own && !s.full && c.variant.name != "default" { // the covering part of the subset
				continue
			}
			if own && c.rdmaCM() || !s.native && c.variant.name == oldAPI {
				continue // told once, below
			}
			cells = append(cells, s.perftestCell(r, c))
		}
		if own {
			all = append(all, outcome{
				Name: "perftest: -R and -z, " + r.name, Verdict: notRun,
				Reason: "our device has no RDMA CM, and refuses them by name",
			})
		}
		out := s.runCells(ctx, cells)
		fmt.Fprintf(s.stdout, "%s\n", r.name)
		printMatrix(s.stdout, out)
		all = append(all, out...)
	}
	if !s.native {
		all = append(all, outcome{
			Name: "perftest: " + oldAPI, Verdict: notRun, Reason: "perftest posts with ibv_post_send on " + s.device +
				" in any case",
		})
	}
	if s.draw != nil {
		return all
	}
	return append(all, s.runMulticast(ctx)...)
}

// stockName is "stock", with the version where -stock chose one.
func (s *suite) stockName() (string, error) {
	if s.stock == "" {
		return "stock", nil
	}
	out, err := exec.Command(s.theirs("ib_write_bw"), "--version").CombinedOutput() // exits with 1, or not, by version
	if m := perftestVersion.FindSubmatch(out); m != nil {
		return "stock " + string(m[1]), nil
	}
	return "", fmt.Errorf("-stock %s: its ib_write_bw tells no version: %q (%w)", s.stock, out, err)
}

var perftestVersion = regexp.MustCompile(`Version: *([0-9.]+)`)

// theirs is the path of a stock program.
func (s *suite) theirs(name string) string {
	if s.stock == "" {
		return name
	}
	return filepath.Join(s.stock, name)
}

func (s *suite) perftestCell(r role, c combination) cell {
	here, peer := orLoopback(os.Getenv("LAB_HERE")), orLoopback(os.Getenv("LAB_PEER"))
	gid := gidIndex(s.device, os.Getenv("LAB_HERE"))
	end := func(who string, host ...string) command {
		argv := []string{s.theirs(c.tool.name), "-d", s.device, "-x", gid}
		e := command{label: "stock"}
		switch who {
		case "stock":
		case "roce0":
			argv = []string{s.ours(c.tool.name), "-d", "roce0"}
			e = command{label: "gobw", peer: true}
		case byLibrary:
			argv = s.underLibrary(s.theirs(c.tool.name), "-d", "roce0", "-x", "1")
			e = command{label: byLibrary, peer: true}
		default:
			argv[0] = s.ours(c.tool.name)
			e = command{label: "gobw"}
		}
		e.argv = append(append(argv, c.flags()...), host...)
		return e
	}
	at := here
	if r.server == "roce0" || r.server == byLibrary {
		at = peer
	}
	return cell{
		name: fmt.Sprintf("%s %s, %s", c.row(), c.variant.name, r.name), row: c.row(), column: c.variant.name,
		server: end(r.server), client: end(r.client, at), port: 18515, rdmaCM: c.rdmaCM(), timeout: c.limit(),
		lossy: c.transport != "RC", timed: c.comparesTimes(),
		check: func(server, client ended) (string, error) { return checkPerftest(c, server, client) },
	}
}

// comparesTimes tells whether each end measures for itself.
func (c combination) comparesTimes() bool {
	return c.tool.verb() == "send" || c.tool.latency && c.tool.verb() == "write" || c.variant.iters == "" ||
		slices.Contains(c.variant.flags, "-b")
}

// row is a line of figures as perftest prints it: 5 columns of bandwidth, 9 of latency, 4 of latency by duration.
type row []float64

var numberWord = regexp.MustCompile(`^(\d+(\.\d+)?|inf|-?nan)$`)

// rows finds the lines of figures. Words on stderr may follow a row that is not flushed; only stdout is read.
func rows(text string) []row {
	var out []row
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 4 && len(f) != 5 && len(f) != 9 || !strings.HasPrefix(line, " ") {
			continue
		}
		r := make(row, 0, len(f))
		for _, w := range f {
			if !numberWord.MatchString(w) {
				break
			}
			v, _ := strconv.ParseFloat(w, 64) // the pattern holds a number
			r = append(r, v)
		}
		if len(r) == len(f) {
			out = append(out, r)
		}
	}
	return out
}

// checkPerftest compares the two ends' rows. The server of a one-sided latency test prints none; the server of a
// one-sided bandwidth test repeats the client's figures; in the rest both ends measure.
func checkPerftest(c combination, server, client ended) (string, error) {
	s, k := rows(server.stdout), rows(client.stdout)
	quiet := c.tool.verb() == "read" || c.tool.verb() == "atomic" // with latency
	oneSided := quiet
	wantRows := 1
	if c.variant.name == "-a" {
		wantRows = 23
		if c.transport == "UD" {
			wantRows = 12 // 2 … 4096
		}
	}
	if len(k) != wantRows {
		return "", fmt.Errorf("the client prints %d rows of figures, want %d", len(k), wantRows)
	}
	// The server of a one-sided bandwidth test with -a prints the last size alone (seen with 4.5); each size is right too.
	if oneSided = oneSided || c.tool.verb() == "write"; oneSided && !c.tool.latency && len(s) == 1 {
		k = k[len(k)-1:]
	}
	if (!quiet || !c.tool.latency) && len(s) != len(k) {
		return "", fmt.Errorf("the server prints %d rows of figures, want %d", len(s), wantRows)
	}
	if len(s) == 0 {
		return figures(c, k[len(k)-1]), plausible(c, k)
	}
	if strings.Contains(server.stderr+client.stderr, "Correlation coefficient") {
		return "perftest lost its clock", nil // it prints inf or nan on a busy emulated CPU; the rows were counted
	}
	var errs []error
	var ratios []float64
	for i := range k {
		errs = append(errs, agree(c, s[i], k[i]))
		if a, b := figure(c, s[i]), figure(c, k[i]); a > 0 && b > 0 {
			ratios = append(ratios, max(a/b, b/a))
		}
	}
	slices.Sort(ratios)
	both := figures(c, s[len(s)-1]) + "; " + figures(c, k[len(k)-1])
	if n := len(ratios); n > 1 {
		both += fmt.Sprintf(" (%d sizes, ends apart ×%.2f at the median)", n, ratios[n/2])
		if c.tool.latency && ratios[n/2] > latencyApart {
			errs = append(errs, fmt.Errorf("the median over all sizes: the two ends are a factor of %.2f apart", ratios[n/2]))
		}
	}
	return both, errors.Join(append(errs, plausible(c, k))...)
}

// What the two ends of a test may differ by, where each has figures of its own (send, and latency of what is answered).
const (
	// A lost time slice adds to a run's time, whatever its length: with both ends spinning on two emulated CPUs the
	// kernel's share of the work waits for ticks of 4 ms, and the host takes CPUs away for longer.
	slip = 100 * time.Millisecond
	// What lies between one end's clock and the other's besides: who stamps first and last.
	sharesApart = 0.25
	// Medians of the same round trips, each halved by the end that stamped them.
	latencyApart = 1.25
	// Means over seconds, which the ends begin and end apart.
	durationApart = 1.5
)

// figure is the column to compare: average bandwidth, typical latency, or average latency by duration.
func figure(c combination, r row) float64 {
	switch {
	case !c.tool.latency:
		return r[3]
	case len(r) == 9:
		return r[4]
	default:
		return r[2]
	}
}

func figures(c combination, r row) string {
	if c.tool.latency {
		return fmt.Sprintf("%g B: %g µs", r[0], figure(c, r))
	}
	return fmt.Sprintf("%g B: %g MiB/s", r[0], figure(c, r))
}

func agree(c combination, server, client row) error {
	if len(server) != len(client) || server[0] != client[0] {
		return fmt.Errorf("rows of different kinds or sizes: %v and %v", server, client)
	}
	if c.variant.iters != "" && server[1] != client[1] {
		return fmt.Errorf("%g B: %g and %g iterations", server[0], server[1], client[1])
	}
	a, b := figure(c, server), figure(c, client)
	apart := func(factor float64) error {
		if err := alike(a, b, factor); err != nil {
			return fmt.Errorf("%g B: %w", server[0], err)
		}
		return nil
	}
	switch {
	case max(a, b) < 0.5 && !c.tool.latency: // MiB/s: two decimals say nothing
		return nil
	case !c.tool.latency && c.tool.verb() != "send":
		return apart(1.02) // the client's number, repeated and rounded
	case c.variant.iters == "":
		return apart(durationApart)
	case c.tool.latency && c.variant.name != "-a":
		return apart(latencyApart)
	}
	// Few messages a size: compare the times that the figures stand for. A receiver counts from the first message that it
	// sees to the last; ten that arrived while it was off its CPU take it no time at all, with stock perftest at both ends
	// too (its figures were 115 times the sender's at the median of all sizes).
	x, y, share := took(c, server), took(c, client), sharesApart
	if c.tool.latency {
		share = 1 // the median of four samples at our end, of two at a stock one: the sizes together are judged closer
	}
	if max(x, y)-min(x, y) > slip.Seconds()+share*min(x, y) {
		return fmt.Errorf("%g B: the two ends disagree: %g and %g, which is %.3f s and %.3f s for %g messages", server[0],
			a, b, x, y, server[1])
	}
	return nil
}

// leastPrinted is the bandwidth in MiB/s from which on two decimals are more than 0.00;
// what is below took that long at least.
const leastPrinted = 0.005

// took is the time in seconds that a row's figure stands for.
func took(c combination, r row) float64 {
	size, messages, v := r[0], r[1], figure(c, r)
	if c.tool.latency {
		return 2 * messages * v / 1e6
	}
	return size * messages / (max(v, leastPrinted) * (1 << 20))
}

// plausible tells whether all figures are numbers above zero. Ten messages of 64 bytes that lose a time slice come to
// 0.00 MiB/s, smaller ones at any time.
func plausible(c combination, rs []row) error {
	for _, r := range rs {
		switch v := figure(c, r); {
		case v == 0 && !c.tool.latency && r[0] < 64:
		case v == 0 && !c.tool.latency:
			return fmt.Errorf("%g B: figure 0", r[0])
		case !(v > 0) || math.IsInf(v, 0):
			return fmt.Errorf("%g B: figure %g", r[0], v)
		}
	}
	return nil
}
