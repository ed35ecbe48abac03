//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// runConformance runs the test binary of verbs/ibv, which holds the conformance suite.
func runConformance(ctx context.Context, s *suite) []outcome {
	return s.goTestsTwice(ctx, "ibv.test", "verbs/ibv")
}

// runWire runs the test binary of scripts/labtest.
func runWire(ctx context.Context, s *suite) []outcome {
	if s.native {
		return []outcome{
			{Name: "wire", Verdict: notRun, Reason: "needs the lab's two network namespaces; run scripts/lab test"},
		}
	}
	return s.goTestsTwice(ctx, "wire.test", "scripts/labtest")
}

// goTestsTwice runs a test binary, and up to [attempts] of its failed tests once more, each alone, where the failure
// may be the machine's: a lost message of UC and UD, which now and then Soft-RoCE loses, or a time slice.
func (s *suite) goTestsTwice(ctx context.Context, binary, dir string) []outcome {
	env := "GOBW_IBV_DEVICE=" + s.device
	out := s.goTests(ctx, binary, dir, env)
	if count(out)[failed] > attempts {
		return out
	}
	for i, first := range out {
		if first.Verdict != failed || first.Name == binary || grave.MatchString(first.Reason) {
			continue
		}
		again := *s
		again.match = "^" + strings.ReplaceAll(regexp.QuoteMeta(first.Name), "/", "$/^") + "$"
		again.logs = filepath.Join(s.logs, "again")
		if err := os.MkdirAll(again.logs, 0o755); err != nil {
			return out
		}
		for _, o := range again.goTests(ctx, binary, dir, env) {
			if o.Name == first.Name && o.Verdict == passed {
				o.Attempts, o.First = 2, first.Reason
				out[i] = o
			}
		}
	}
	return out
}

var testLine = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): (\S+) \(([0-9.]+)s\)`)

// goTests runs a compiled Go test binary and returns an outcome per leaf test.
func (s *suite) goTests(ctx context.Context, binary, dir string, env ...string) []outcome {
	program := filepath.Join(s.bin, binary)
	if _, err := os.Stat(program); err != nil {
		return []outcome{{Name: binary, Verdict: failed, Reason: fmt.Sprintf("not built: %v", err)}}
	}
	ctx, cancel := context.WithTimeout(ctx, 21*time.Minute)
	defer cancel()
	args := []string{"-test.v", "-test.timeout=20m"}
	if s.match != "" {
		args = append(args, "-test.run="+s.match)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Dir = filepath.Join(s.tree, dir) // where its testdata is
	logName := filepath.Join(s.logs, binary+".log")
	log, err := os.Create(logName)
	if err != nil {
		return []outcome{{Name: binary, Verdict: failed, Reason: err.Error()}}
	}
	cmd.Stdout, cmd.Stderr = log, log
	start := time.Now()
	err = errors.Join(cmd.Run(), log.Close())
	out, parseErr := parseTests(logName)
	if parseErr != nil || (err != nil && count(out)[failed] == 0) {
		out = append(out, outcome{
			Name: binary, Verdict: failed,
			Reason:  fmt.Sprintf("%v; last lines:\n%s", errors.Join(err, parseErr), tail(logName, 25)),
			Seconds: time.Since(start).Seconds(), Command: strings.Join(cmd.Args, " "),
		})
	}
	return out
}

// parseTests reads the verbose output of a Go test binary. Tests with subtests count through these.
func parseTests(name string) ([]outcome, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	said := map[string][]string{} // test: what it logged
	var out []outcome
	current := ""
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if t, ok := strings.CutPrefix(line, "=== RUN   "); ok {
			current = t
			continue
		}
		if t, ok := strings.CutPrefix(line, "=== NAME  "); ok {
			current = t
			continue
		}
		m := testLine.FindStringSubmatch(line)
		if m == nil {
			if text := strings.TrimSpace(line); text != "" && !strings.HasPrefix(text, "=== ") {
				said[current] = append(said[current], text)
			}
			continue
		}
		seconds, _ := strconv.ParseFloat(m[3], 64) // the pattern holds digits only
		o := outcome{Name: m[2], Seconds: seconds, Verdict: passed}
		switch m[1] {
		case "FAIL":
			o.Verdict = failed
		case "SKIP":
			o.Verdict = notRun
		}
		out = append(out, o)
		current = m[2]
	}
	parents := map[string]bool{}
	for _, o := range out {
		for i, c := range o.Name {
			if c == '/' {
				parents[o.Name[:i]] = true
			}
		}
	}
	var leaves []outcome
	for _, o := range out {
		if parents[o.Name] && (o.Verdict != failed || len(said[o.Name]) == 0) {
			continue
		}
		if o.Verdict != passed {
			o.Reason = strings.Join(said[o.Name], " | ")
		}
		leaves = append(leaves, o)
	}
	return leaves, lines.Err()
}

// tail returns a file's last lines.
func tail(name string, n int) string {
	b, err := os.ReadFile(name)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
