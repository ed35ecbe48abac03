//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/gobw/gobw/report/qualify"
)

// planStep is a plan that is run against a server that stays.
type planStep struct {
	name string
	runs [][]string // arguments of qualify; all but the last must pass
	want int        // exit status of the last
	// again tells that even a failed test may come from a lost time slice, as a missed expectation and a lost peer may:
	// then a step that should pass is run up to attempts times, from its start.
	again bool
	check func(e ended) (figures string, err error)
}

// planTimeout is far above what a plan takes here: a few seconds for each test, and minutes in all beside other work.
const planTimeout = 15 * time.Minute

// runPlans qualifies the kernel's device by the plans that ship. It has no line rate, and time in an emulation is no
// NIC's: tests are short, and "nic" is judged by a baseline that was taken just before in place of its own limits; then
// by one that no device could reach, and by those of its own that hold wherever there is RDMA (the kernel's device
// sends again what its emulated processor was late to acknowledge: its counters are left out). Of "course" the tests
// that differ from those of "nic" are run; internal/cli runs the whole on our own device. At last the peer is killed.
func runPlans(ctx context.Context, s *suite) []outcome {
	folder := filepath.Join(s.out, "plans")
	base, faster := filepath.Join(folder, "base.json"), filepath.Join(folder, "faster.json")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return []outcome{{Name: "plans", Verdict: failed, Reason: err.Error()}}
	}
	for _, name := range qualify.ShippedPlans() {
		text, err := qualify.ShippedPlan(name)
		for what, short := range map[string]string{`-D [0-9.]+`: "-D 0.1", `-n [0-9]+`: "-n 1100"} {
			text = regexp.MustCompile(what).ReplaceAll(text, []byte(short))
		}
		if err = errors.Join(err, os.WriteFile(filepath.Join(folder, name+".yaml"), text, 0o644)); err != nil {
			return []outcome{{Name: "plans", Verdict: failed, Reason: err.Error()}}
		}
	}
	with := func(plan string, more ...string) []string {
		return append([]string{filepath.Join(folder, plan+".yaml"), "--runs", "1"}, more...)
	}
	one := func(args []string) [][]string { return [][]string{args} }
	// Of "sweep" a run takes half a minute here: 64 MiB are in flight, at 20 MB/s.
	// One run of it, with "nic by its ratios".
	const allButSweep = "write-64k,write-1q,write-both,read-64k,send-64k,rate,ud," +
		"steady,send-latency,write-latency,read-latency,atomic-latency"
	steps := []planStep{
		{
			name: "nic by a baseline", again: true,
			check: func(e ended) (string, error) { return checkBaseline(base, faster, e) },
			runs: [][]string{
				with("nic", "--only", allButSweep, "--runs", "4", "--leave-out", "all", "--save", base),
				with("nic", "--only", allButSweep, "--runs", "4", "--leave-out", "all", "--expect", "worse<80% of "+base,
					"--accept", "unclear,disturbed"),
			},
		},
		{
			name: "nic by a baseline out of reach", want: 1, check: said("FAIL: plan nic", "faster.json"),
			// too far off to be let pass
			runs: one(with("nic", "--leave-out", "all", "--runs", "4", "--only", "write-64k", "--expect", "worse<80% of "+faster,
				"--accept", "disturbed")),
		},
		{
			name: "nic by its ratios", again: true, check: said("PASS: plan nic: 4 passed"),
			runs: one(with("nic", "--leave-out", "line,counters", "--only", "rate,ud,sweep")),
		},
		{
			name: "nic without a line rate", want: 2, check: said("there is no line rate", "--leave-out line"),
			runs: one(with("nic")),
		},
		{name: "quick", check: said("PASS: plan quick: 12 passed"), runs: one(with("quick", "--leave-out", "all"))},
		{
			name: "part of course", check: said("PASS: plan course: 5 passed"),
			runs: one(with("course", "--leave-out", "all", "--only", "lists,ud,noncontig")),
		},
	}
	server, err := s.serve()
	if err != nil {
		return []outcome{{Name: "plans", Verdict: failed, Reason: err.Error()}}
	}
	var all []outcome
	for _, step := range steps {
		if ctx.Err() == nil && s.wanted.MatchString("plans: "+step.name) {
			all = append(all, s.runStep(step))
		}
	}
	if s.wanted.MatchString("plans: nic, the peer killed") {
		all = append(all, s.killedPeer(server, folder))
	}
	_ = server.cmd.Process.Kill() // gone already, after killedPeer
	server.wait(time.Now().Add(10 * time.Second))
	return all
}

// serve starts a server that stays.
func (s *suite) serve() (*program, error) {
	server, err := start(command{argv: []string{s.ours("gobw"), "serve", "-d", s.device, "--quiet", patient}})
	if err != nil {
		return nil, err
	}
	if !server.awaitListener(18515) {
		return nil, fmt.Errorf("the server does not listen: %s", server.wait(time.Now()).said())
	}
	return server, nil
}

func (s *suite) qualify(args ...string) command {
	argv := append([]string{s.ours("gobw"), "qualify", "-d", s.device, patient}, args...)
	return command{label: "gobw", argv: append(argv, orLoopback(os.Getenv("LAB_HERE")))}
}

// runStep runs a step and judges its exit status and what it printed.
func (s *suite) runStep(step planStep) outcome {
	o := outcome{Name: "plans: " + step.name, Command: s.qualify(step.runs[len(step.runs)-1]...).line()}
	o.attempt(func(int) (figures string, again bool, err error) {
		var e ended
		for i, args := range step.runs {
			want := 0
			if i == len(step.runs)-1 {
				want = step.want
			}
			if e, err = s.end(fmt.Sprintf("%s %d", o.Name, i+1), s.qualify(args...)); err == nil && e.code != want {
				err = fmt.Errorf("exit status %d, want %d: %s", e.code, want, e.said())
			}
			if err != nil {
				return "", want == 0 && (e.code == 1 || e.code == 7 || e.code == 4 || step.again && e.code == 6), err
			}
		}
		figures, err = step.check(e)
		return figures, false, err
	})
	return o
}

// end runs a program to its end and keeps what it said.
func (s *suite) end(name string, c command) (ended, error) {
	p, err := start(c)
	if err != nil {
		return ended{}, err
	}
	e := p.wait(time.Now().Add(planTimeout))
	s.keepOne(name, c, e)
	return e, nil
}

// said makes a check that a program printed some words, on however many lines.
func said(words ...string) func(ended) (string, error) {
	return func(e ended) (string, error) {
		text := strings.Join(strings.Fields(e.stdout+e.stderr), " ")
		for _, w := range words {
			if !strings.Contains(text, w) {
				return "", fmt.Errorf("it does not say %q: %s", w, e.stdout+e.stderr)
			}
		}
		lines := strings.Split(strings.TrimSpace(e.stdout), "\n")
		return lines[len(lines)-1], nil
	}
}

// checkBaseline looks at the file of a passed plan, and writes the one that no device reaches.
func checkBaseline(base, faster string, e ended) (string, error) {
	b, err := os.ReadFile(base)
	if err != nil {
		return "", err
	}
	var q map[string]any
	if err := json.Unmarshal(b, &q); err != nil {
		return "", fmt.Errorf("%s: %w", base, err)
	}
	tests, _ := q["tests"].([]any)
	left := 0
	for _, t := range tests {
		test, _ := t.(map[string]any)
		out, _ := test["left_out"].([]any)
		left += len(out)
		doc, _ := test["document"].(map[string]any)
		records, _ := doc["records"].([]any)
		if len(records) == 0 {
			return "", fmt.Errorf("test %v left no record", test["name"])
		}
		for _, r := range records {
			record, _ := r.(map[string]any)
			if bw, is := record["bandwidth"].(map[string]any); is {
				v, _ := bw["average_bits_per_s"].(float64)
				bw["average_bits_per_s"] = 100 * v
			}
		}
	}
	if len(tests) != 12 || left < 12 {
		return "", fmt.Errorf("%d tests with %d expectations left out, want 12 and at least as many", len(tests), left)
	}
	if b, err = json.Marshal(q); err != nil {
		return "", err
	}
	if err := os.WriteFile(faster, b, 0o644); err != nil {
		return "", err
	}
	return said("PASS: plan nic: 12 passed", "left out on request")(e)
}

// killedPeer kills the server in the middle of a test: the gate ends with status 4, says so, and writes its files.
func (s *suite) killedPeer(server *program, folder string) outcome {
	junit := filepath.Join(folder, "killed.xml")
	c := s.qualify("nic", "--leave-out", "all", "--only", "write-64k,send-latency", "--save", junit)
	o := outcome{Name: "plans: nic, the peer killed", Verdict: failed, Command: c.line()}
	fail := func(err error) outcome {
		o.Reason = err.Error()
		return o
	}
	p, err := start(c)
	if err != nil {
		return fail(err)
	}
	if !p.await(func() bool { return server.serving(18515) }) {
		return fail(fmt.Errorf("it does not come to the server: %s", p.wait(time.Now()).said()))
	}
	time.Sleep(3 * time.Second) // write-64k measures for three seconds, three times
	struck := time.Now()
	if err := server.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		return fail(errors.Join(err, p.cmd.Process.Kill()))
	}
	e := p.wait(time.Now().Add(time.Minute))
	took := time.Since(struck)
	s.keepOne(o.Name, c, e)
	o.Seconds = took.Seconds()
	if e.code != 4 {
		return fail(fmt.Errorf("exit status %d, want 4: %s", e.code, e.said()))
	}
	if took > 30*time.Second { // 3 s where processors are real
		return fail(fmt.Errorf("it took %v to notice", took.Round(time.Second/10)))
	}
	b, err := os.ReadFile(junit)
	if err != nil {
		return fail(err)
	}
	if text := string(b); !strings.Contains(text, `errors="1"`) || !strings.Contains(text, `skipped="`) {
		return fail(fmt.Errorf("the JUnit file tells of no error: %s", text))
	}
	o.Verdict, o.Figures = passed, fmt.Sprintf("status 4 after %.1f s", took.Seconds())
	return o
}
