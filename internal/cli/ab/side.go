package ab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/operation"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/figure"
	"github.com/gobw/gobw/report/plain"
)

// side is one of the two tests: a test of this program, or a command that is run again and again.
type side struct {
	line    string           // as it was typed
	test    operation.Config // of this program
	program string           // another one; empty: this
	args    []string         // its
	stock   bool             // it is a stock perftest; else another build of ours
	latency bool
	beside  *neighbour // runs at the same time; nil: nothing does
}

// errTimeUp ends the measuring when --time is over.
var errTimeUp = errors.New("the time is up")

// parseSide reads a command line: 'write HOST ...', 'golat send HOST ...', '/opt/gobw-0.9/gobw write HOST ...' or
// 'perftest:ib_write_bw HOST ...'.
func parseSide(tool, line string) (side, error) {
	words, err := plain.SplitWords(line)
	if err != nil {
		return side{}, fmt.Errorf("%q: %w", line, err)
	}
	s := side{line: line}
	if len(words) == 0 {
		words = []string{""}
	}
	if program, stock := strings.CutPrefix(words[0], "perftest:"); stock {
		s.program, s.args, s.stock, s.latency = program, words[1:], true, strings.Contains(filepath.Base(program), "_lat")
		if program == "" {
			err = errors.New("perftest: wants a program behind the colon, as in perftest:ib_write_bw")
		}
		return s, err
	}
	build := strings.Contains(words[0], "/")
	if build {
		s.program, s.args = words[0], words[1:]
		words[0] = filepath.Base(words[0])
	}
	if words[0] != "gobw" && words[0] != "golat" {
		words = slices.Insert(words, 0, tool)
	}
	s.latency = words[0] == "golat"
	if len(words) < 2 || !slices.Contains(plan.Operations(), plan.Operation(words[1])) {
		return s, fmt.Errorf("%q: want a test, such as 'write HOST -q 4', 'golat send HOST' or 'perftest:ib_write_bw HOST'", line)
	}
	ours := []string{"save", "format", "expect", "accept", "quiet"}
	if build { // its flags are its own, but for these
		for _, w := range words {
			if name, _, _ := strings.Cut(w, "="); slices.Contains(ours, strings.TrimPrefix(name, "--")) && strings.HasPrefix(name, "--") {
				return s, fmt.Errorf("%q: %s is ab's to give, not the test's", line, name)
			}
		}
		return s, nil
	}
	s.test, err = operation.Parse(words, func(typed *pflag.FlagSet) error {
		for _, name := range ours {
			if typed.Changed(name) {
				return fmt.Errorf("%q: --%s is ab's to give, not the test's", line, name)
			}
		}
		return nil
	})
	s.test.Output.Quiet = true
	return s, err
}

// outcome is what one run of a side measured.
type outcome struct {
	value     float64
	disturbed bool
	label     string // of a software device
}

// run runs the test once.
func (s side) run(ctx context.Context, out output.Streams, f figure.Figure) (_ outcome, err error) {
	if s.beside != nil {
		stop, failed := s.beside.start(ctx)
		if failed != nil {
			return outcome{}, failed
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	switch {
	case s.stock:
		return s.runPerftest(ctx, f)
	case s.program != "":
		return s.runBuild(ctx, f)
	}
	d, err := s.test.Measure(ctx, out)
	if cause := context.Cause(ctx); cause != nil {
		return outcome{}, cause
	}
	if err != nil {
		return outcome{}, fmt.Errorf("%q: %w", s.line, err)
	}
	return s.read([]*report.Document{d}, f)
}

// runBuild runs another build of this program.
func (s side) runBuild(ctx context.Context, f figure.Figure) (outcome, error) {
	dir, err := os.MkdirTemp("", "gobw-ab-")
	if err != nil {
		return outcome{}, exit.SetupError{Err: err}
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "result.json")
	if _, err := s.finish(ctx, append(slices.Clone(s.args), "--quiet", "--save", file)); err != nil {
		return outcome{}, err
	}
	docs, err := report.LoadAll(file)
	if err != nil {
		return outcome{}, err
	}
	return s.read(docs, f)
}

// read takes the figure out of a test's document: of its only point, the median of its runs.
func (s side) read(docs []*report.Document, f figure.Figure) (outcome, error) {
	var o outcome
	var rows []figure.Row
	for _, d := range docs {
		o.label = d.Label
		for _, g := range figure.Groups(d.Records) {
			rows = append(rows, g.Rows...)
		}
		for _, r := range d.Records {
			o.disturbed = o.disturbed || figure.Disturbed(r.Warnings)
		}
	}
	if len(rows) != 1 {
		return o, exit.UsageError{Err: fmt.Errorf("%q measured %d sizes: a pair compares one, as of -s 64K", s.line, len(rows))}
	}
	value, err := f.Over(rows[0])
	if err != nil {
		return o, exit.UsageError{Err: fmt.Errorf("%q: %w", s.line, err)}
	}
	o.value = value
	return o, nil
}

// finish runs a command to its end and gives what it printed; its failure is this command's, with its exit code.
func (s side) finish(ctx context.Context, args []string) (string, error) {
	var out, errs bytes.Buffer
	c := exec.CommandContext(ctx, s.program, args...)
	c.Stdout, c.Stderr = &out, &errs
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = 10 * time.Second
	err := c.Run()
	if cause := context.Cause(ctx); cause != nil {
		return "", cause
	}
	if err == nil {
		return out.String(), nil
	}
	if ended, is := errors.AsType[*exec.ExitError](err); is {
		return "", &sideError{line: s.line, code: ended.ExitCode(), said: strings.TrimSpace(errs.String())}
	}
	return "", exit.SetupError{Err: fmt.Errorf("%q: %w", s.line, err)}
}

// sideError is a command that failed: what it said, and its exit code.
type sideError struct {
	line, said string
	code       int
}

func (e *sideError) Error() string {
	return fmt.Sprintf("%q: exit status %d\n%s", e.line, e.code, e.said)
}

// Unwrap makes the command's exit code this one's.
func (e *sideError) Unwrap() error {
	if e.code > 0 {
		return exit.CodeError(e.code)
	}
	return nil
}

// runPerftest runs a stock perftest's client and reads the row it prints.
func (s side) runPerftest(ctx context.Context, f figure.Figure) (outcome, error) {
	text, err := s.finish(ctx, s.args)
	if err != nil {
		return outcome{}, err
	}
	value, err := perftestFigure(text, s.latency, slices.Contains(s.args, "--report_gbits"), f.Name)
	if err != nil {
		return outcome{}, exit.UsageError{Err: fmt.Errorf("%q: %w", s.line, err)}
	}
	return outcome{value: value}, nil
}

// perftestFigure reads a figure, in base units, from what a stock perftest printed: from its only row.
func perftestFigure(text string, latency, gbits bool, name string) (float64, error) {
	words := 5 // in a row
	if latency {
		words = 9
	}
	type place struct { // of a figure in a row, from 0
		column int
		scale  float64
	}
	places := map[string]place{"bw": {3, 8 << 20}, "msgrate": {4, 1e6}}
	switch {
	case latency:
		places = map[string]place{"p50": {4, 1e-6}, "mean": {5, 1e-6}, "p99": {7, 1e-6}}
	case gbits:
		places["bw"] = place{3, 1e9}
	}
	at, known := places[name]
	if !known {
		return 0, fmt.Errorf("perftest prints no figure %q", name)
	}
	found, rows := 0.0, 0
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < words {
			continue
		}
		if _, err := strconv.ParseUint(fields[0], 10, 64); err != nil {
			continue
		}
		v, err := strconv.ParseFloat(fields[at.column], 64)
		if err != nil || !(v > 0) {
			return 0, fmt.Errorf("the row %q holds no %s", strings.TrimSpace(line), name)
		}
		found, rows = v*at.scale, rows+1
	}
	if rows != 1 {
		return 0, fmt.Errorf("it printed %d rows: a pair compares one size", rows)
	}
	return found, nil
}
