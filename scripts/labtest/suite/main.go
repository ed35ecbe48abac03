//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// options are the suite's flags.
type options struct {
	bin, out, tree, device, only string
	stock                        string // folder of the stock perftest; empty: the one in PATH
	full, native                 bool
	list                         bool
	match                        string
	sample                       time.Duration // most time for cells drawn at random; 0: all
	seed                         uint64
}

// group is a part of the suite.
type group struct {
	name, about string
	run         func(ctx context.Context, s *suite) []outcome
}

func groups() []group {
	return []group{
		{"conformance", "verbs/verbstest through libibverbs on the kernel's device", runConformance},
		{"wire", "our RoCEv2 device against the kernel's, verb by verb, over good and bad networks", runWire},
		{"pingpong", "rdma-core's pingpongs against examples/pingpong", runPingpong},
		{"tools", "gobw and golat: every operation and transport, data verified", runTools},
		{"plans", "the shipped plans qualify the kernel's device; a missed baseline and a killed peer", runPlans},
		{"perftest", "our programs under perftest's names against the stock ones", runPerftest},
		{"iwarp", "RDMA CM over the kernel's software iWARP: our programs with each other and with the stock ones", runIWARP},
		{"events", "the kernel's device loses its link during a test; last, because addresses go with it", runEvents},
	}
}

// suite is what the groups share.
type suite struct {
	options
	stdout io.Writer
	wanted *regexp.Regexp // what -match says
	draw   *rand.Rand     // chooses cells; nil: all run
	until  time.Time      // no cell begins later, where they are drawn
	logs   string         // folder for the output of every command
}

func main() {
	var o options
	flag.StringVar(&o.bin, "bin", "", "folder of the programs under test")
	flag.StringVar(&o.out, "out", "", "folder for summary.json and all output")
	flag.StringVar(&o.tree, "tree", ".", "the project's folder, for the tests' data")
	flag.StringVar(&o.stock, "stock", "", "folder of the stock perftest's programs, in place of those in PATH")
	flag.StringVar(&o.device, "device", "rxe0", "the kernel's device")
	flag.StringVar(&o.only, "only", "", "groups to run, separated by commas")
	flag.StringVar(&o.match, "match", "", "run only the cells whose name matches this regular expression")
	flag.DurationVar(&o.sample, "sample", 0, "run cells of tools and perftest drawn at random, for this long at the most")
	flag.Uint64Var(&o.seed, "seed", 0, "the seed of -sample")
	flag.BoolVar(&o.full, "full", false, "the whole perftest matrix instead of a covering part")
	flag.BoolVar(&o.native, "native", false,
		"on this machine's own devices: what needs the lab's network is named and not run")
	flag.BoolVar(&o.list, "list", false, "list the groups")
	ofLogs := flag.Bool("tables", false,
		"print the perftest matrix from what runs with -full printed, whole or in parts: the files that follow")
	flag.Parse()
	if *ofLogs {
		if err := tables(os.Stdout, flag.Args()); err != nil {
			fmt.Fprintln(os.Stderr, "suite:", err)
			os.Exit(2)
		}
		return
	}
	os.Exit(run(os.Stdout, o))
}

func run(stdout io.Writer, o options) int {
	all := groups()
	if o.list {
		for _, g := range all {
			fmt.Fprintf(stdout, "%-12s %s\n", g.name, g.about)
		}
		return 0
	}
	if o.sample > 0 {
		o.only, o.full = "tools,perftest", true
	}
	chosen, err := choose(all, o.only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "suite:", err)
		return 2
	}
	wanted, err := regexp.Compile(o.match)
	if err != nil {
		fmt.Fprintln(os.Stderr, "suite: -match:", err)
		return 2
	}
	s := &suite{options: o, stdout: stdout, wanted: wanted, logs: filepath.Join(o.out, "logs")}
	if err := s.ready(); err != nil {
		fmt.Fprintln(os.Stderr, "suite:", err)
		return 3
	}
	started := time.Now()
	if o.sample > 0 {
		s.draw, s.until = rand.New(rand.NewPCG(o.seed, 0)), started.Add(o.sample)
		s.draw.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
		fmt.Fprintf(stdout, "a sample, -seed %d\n", o.seed)
	}
	results := map[string][]outcome{}
	for _, g := range chosen {
		fmt.Fprintf(stdout, "\n== %s: %s\n", g.name, g.about)
		start := time.Now()
		out := g.run(context.Background(), s)
		if len(out) == 0 && s.draw == nil {
			out = []outcome{{Name: g.name, Verdict: failed, Reason: "the group ran nothing"}}
		}
		results[g.name] = out
		printDetails(stdout, out)
		fmt.Fprintf(stdout, "== %s: %s in %.0f s\n", g.name, tally(out), time.Since(start).Seconds())
	}
	var everything []outcome
	for _, g := range chosen {
		everything = append(everything, results[g.name]...)
	}
	fmt.Fprintf(stdout, "\n%-12s %7s %7s %7s\n", "group", "passed", "failed", "not run")
	for _, g := range chosen {
		c := count(results[g.name])
		fmt.Fprintf(stdout, "%-12s %7d %7d %7d\n", g.name, c[passed], c[failed], c[notRun])
	}
	fmt.Fprintf(stdout, "lab: %s in %.0f s\n", tally(everything), time.Since(started).Seconds())
	if err := save(filepath.Join(o.out, "summary.json"), o, results, time.Since(started)); err != nil {
		fmt.Fprintln(os.Stderr, "suite:", err)
		return 3
	}
	if len(everything) == 0 || count(everything)[failed] > 0 {
		return 1
	}
	return 0
}

// choose picks groups by name, in their own order.
func choose(all []group, only string) ([]group, error) {
	if only == "" {
		return all, nil
	}
	want := strings.Split(only, ",")
	var chosen []group
	var names []string
	for _, g := range all {
		names = append(names, g.name)
		if slices.Contains(want, g.name) {
			chosen = append(chosen, g)
		}
	}
	for _, w := range want {
		if !slices.Contains(names, w) {
			return nil, fmt.Errorf("no group %q: there are %s", w, strings.Join(names, ", "))
		}
	}
	return chosen, nil
}

// ready makes the folders, and the links under perftest's names.
func (s *suite) ready() error {
	if s.bin == "" || s.out == "" {
		return errors.New("-bin and -out are needed (scripts/lab test gives them)")
	}
	if err := os.MkdirAll(s.logs, 0o755); err != nil {
		return err
	}
	if s.native {
		if out, err := exec.Command("ibv_devinfo", "-d", s.device).CombinedOutput(); err != nil {
			return fmt.Errorf("no device %s here: name one with --device; ibv_devices lists them (%s)", s.device,
				strings.TrimSpace(string(out)))
		}
	}
	return nil
}

// save writes the summary for programs.
func save(name string, o options, results map[string][]outcome, took time.Duration) error {
	b, err := json.MarshalIndent(map[string]any{
		"version": 1, "full": o.full, "native": o.native, "device": o.device, "seconds": took.Seconds(), "groups": results,
	}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(name, append(b, '\n'), 0o644)
}
