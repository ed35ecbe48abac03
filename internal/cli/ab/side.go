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

	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/figure"
	"github.com/gobw/gobw/report/plain"
)

// side is one of the two tests: a command line that is run again and again.
type side struct {
	line    string   // as it was typed
	program string   // of a stock perftest; empty: ours
	build   string   // of ours: the file of another build; empty: this program
	tool    string   // "gobw" or "golat"
	args    []string // without the tool
	latency bool
}

// errTimeUp ends the measuring when --time is over.
var errTimeUp = errors.New("the time is up")

// parseSide reads a command line: 'write HOST ...', 'golat send HOST ...' or 'perftest:ib_write_bw HOST ...'.
func parseSide(tool, line string) (side, error) {
	words, err := plain.SplitWords(line)
	if err != nil {
		return side{}, fmt.Errorf("%q: %w", line, err)
	}
	s := side{line: line, tool: tool}
	if len(words) > 0 {
		if program, is := strings.CutPrefix(words[0], "perftest:"); is {
			s.program, s.args = program, words[1:]
			s.latency = strings.Contains(filepath.Base(program), "_lat")
			if program == "" {
				err = errors.New("perftest: wants a program behind the colon, as in perftest:ib_write_bw")
			}
			return s, err
		}
		if words[0] == "gobw" || words[0] == "golat" {
			s.tool, words = words[0], words[1:]
		}
	}
	if len(words) == 0 || !slices.Contains(plan.Operations(), plan.Operation(words[0])) {
		return s, fmt.Errorf("%q: want a test, such as 'write HOST -q 4', 'golat send HOST' or 'perftest:ib_write_bw HOST'", line)
	}
	for _, w := range words {
		name, _, _ := strings.Cut(w, "=")
		if slices.Contains([]string{"--save", "--format", "--expect", "--quiet"}, name) {
			return s, fmt.Errorf("%q: %s is ab's to give, not the test's", line, name)
		}
	}
	s.args, s.latency = words, s.tool == "golat"
	return s, nil
}

// outcome is what one run of a side measured.
type outcome struct {
	value     float64
	disturbed bool
	label     string // of a software device
}

// run runs the test once.
func (s side) run(ctx context.Context, f figure.Figure) (outcome, error) {
	if s.program != "" {
		return s.runPerftest(ctx, f)
	}
	ours := s.build
	if ours == "" {
		var err error
		if ours, err = os.Executable(); err != nil {
			return outcome{}, exit.SetupError{Err: fmt.Errorf("find this program: %w", err)}
		}
	}
	dir, err := os.MkdirTemp("", "gobw-ab-")
	if err != nil {
		return outcome{}, exit.SetupError{Err: err}
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "result.json")
	c := exec.CommandContext(ctx, ours, append(slices.Clone(s.args), "--quiet", "--save", file)...)
	c.Args[0] = s.tool
	if _, err := s.finish(ctx, c); err != nil {
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
func (s side) finish(ctx context.Context, c *exec.Cmd) (string, error) {
	var out, errs bytes.Buffer
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

// sideError is a test that failed: what it said, and its exit code.
type sideError struct {
	line, said string
	code       int
}

func (e *sideError) Error() string {
	return fmt.Sprintf("%q: exit status %d\n%s", e.line, e.code, e.said)
}

// Unwrap makes the test's exit code this command's.
func (e *sideError) Unwrap() error {
	if e.code > 0 {
		return exit.CodeError(e.code)
	}
	return nil
}

// runPerftest runs a stock perftest's client and reads the row it prints.
func (s side) runPerftest(ctx context.Context, f figure.Figure) (outcome, error) {
	text, err := s.finish(ctx, exec.CommandContext(ctx, s.program, s.args...))
	if err != nil {
		return outcome{}, err
	}
	value, err := perftestFigure(text, s.latency, slices.Contains(s.args, "--report_gbits"), f.Name)
	if err != nil {
		return outcome{}, exit.UsageError{Err: fmt.Errorf("%q: %w", s.line, err)}
	}
	return outcome{value: value}, nil
}

// Columns of perftest's rows, from 0.
const (
	bandwidthWords, averageColumn, rateColumn           = 5, 3, 4
	latencyWords, typicalColumn, meanColumn, column99th = 9, 4, 5, 7
)

// perftestFigure reads a figure, in base units, from what a stock perftest printed: from its only row.
func perftestFigure(text string, latency, gbits bool, name string) (float64, error) {
	words := bandwidthWords
	if latency {
		words = latencyWords
	}
	var column int
	var scale float64
	switch {
	case !latency && name == "bw" && gbits:
		column, scale = averageColumn, 1e9
	case !latency && name == "bw":
		column, scale = averageColumn, 8*(1<<20)
	case !latency && name == "msgrate":
		column, scale = rateColumn, 1e6
	case latency && name == "p50":
		column, scale = typicalColumn, 1e-6
	case latency && name == "mean":
		column, scale = meanColumn, 1e-6
	case latency && name == "p99":
		column, scale = column99th, 1e-6
	default:
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
		v, err := strconv.ParseFloat(fields[column], 64)
		if err != nil || !(v > 0) {
			return 0, fmt.Errorf("the row %q holds no %s", strings.TrimSpace(line), name)
		}
		found, rows = v*scale, rows+1
	}
	if rows != 1 {
		return 0, fmt.Errorf("it printed %d rows: a pair compares one size", rows)
	}
	return found, nil
}
