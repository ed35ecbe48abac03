package ab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/child"
	"github.com/gobw/gobw/internal/cli/cmd/operation"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/figure"
	"github.com/gobw/gobw/report/plain"
)

// side is one of the two tests: a command line that is run again and again, each time as a process of its own.
type side struct {
	line    string   // as it was typed
	program string   // what is run; empty: this program
	words   []string // its name, and what it is told
	stock   bool     // it is a stock perftest
	latency bool
	beside  *Neighbour // runs at the same time; nil: nothing does
}

// parseSide reads a command line: 'write HOST ...', 'golat send HOST ...', '/opt/gobw-0.9/gobw write HOST ...' or
// 'perftest:ib_write_bw HOST ...'. It refuses flags that ab sets itself: those of the result, and more.
func parseSide(tool, line string, more ...string) (side, error) {
	words, err := plain.SplitWords(line)
	if err != nil {
		return side{}, fmt.Errorf("%q: %w", line, err)
	}
	s := side{line: line}
	if len(words) == 0 {
		words = []string{""}
	}
	if program, stock := strings.CutPrefix(words[0], "perftest:"); stock {
		words[0] = program
		s.program, s.words, s.stock, s.latency = program, words, true, strings.Contains(filepath.Base(program), "_lat")
		if program == "" {
			err = errors.New("perftest: name a program behind the colon: perftest:ib_write_bw")
		}
		return s, err
	}
	if strings.Contains(words[0], "/") {
		s.program, words[0] = words[0], filepath.Base(words[0])
	}
	if words[0] != "gobw" && words[0] != "golat" {
		words = slices.Insert(words, 0, tool)
	}
	s.words, s.latency = words, words[0] == "golat"
	if name := append(words, "")[1]; !slices.Contains(plan.Operations(), plan.Operation(name)) {
		if name == "noncontig" {
			return s, fmt.Errorf("%q: noncontig compares strategies itself, so run it without ab", line)
		}
		return s, fmt.Errorf("%q%s: want a test in quotes, such as 'write HOST -q 4', "+
			"'golat send HOST' or 'perftest:ib_write_bw HOST'", line, plain.Suggest(name, plan.Operations()))
	}
	ours := append([]string{"save", "format", "expect", "accept", "quiet"}, more...)
	refusal := func(name string) error {
		return fmt.Errorf("%q: leave out --%s: ab sets it", line, name)
	}
	if s.program != "" { // this build does not know the flags of another one
		for _, w := range words {
			if name, _, _ := strings.Cut(strings.TrimPrefix(w, "--"), "="); strings.HasPrefix(w, "--") &&
				slices.Contains(ours, name) {
				return s, refusal(name)
			}
		}
		return s, nil
	}
	c, err := operation.Parse(words, func(typed *pflag.FlagSet) error {
		for _, name := range ours {
			if typed.Changed(name) {
				return refusal(name)
			}
		}
		return nil
	})
	if err == nil && (c.Plan.AllSizes || len(c.Plan.Sizes) > 1) {
		err = fmt.Errorf("%q: ab compares one size: give -s 64K", line)
	}
	return s, err
}

// beStrict adds an expectation that always holds: a test with an expectation uses the software device only if -d names
// it.
func (s *side) beStrict() {
	if s.program == "" {
		s.words = append(slices.Clone(s.words), "--expect", "messages >= 0")
	}
}

// outcome is what one run of a side measured.
type outcome struct {
	value     float64
	disturbed bool
	label     string // of a software device
}

// stopWithin is how long a process may take to end once it was told to; then it is killed.
const stopWithin = 10 * time.Second

// run runs the test once, as a process.
func (s side) run(ctx context.Context, f figure.Figure) (o outcome, err error) {
	if s.beside != nil {
		running, err := s.beside.Start(ctx)
		if err != nil {
			return o, err
		}
		defer func() { err = errors.Join(err, running.Stop()) }()
	}
	var more []string
	if !s.stock {
		more = []string{"--quiet", "--format", "json"}
	}
	c, err := s.command(ctx, more...)
	if err != nil {
		return o, err
	}
	var out, said bytes.Buffer
	c.Stdout, c.Stderr = &out, &said
	switch err = child.Run(c); {
	case ctx.Err() != nil:
		return o, context.Cause(ctx)
	case err != nil:
		return o, s.failure(err, said.String())
	case s.stock:
		o.value, err = perftestFigure(out.String(), s.latency, slices.Contains(s.words, "--report_gbits"), f.Name)
	default:
		o, err = read(out.String(), f)
	}
	if err != nil {
		err = exit.With(exit.Usage, fmt.Errorf("%q: %w", s.line, err))
	}
	return o, err
}

// command is the side's process, told some more, until the context ends.
func (s side) command(ctx context.Context, more ...string) (*exec.Cmd, error) {
	program := s.program
	if program == "" {
		var err error
		if program, err = child.Self(); err != nil {
			return nil, exit.With(exit.Setup, err)
		}
	}
	c := exec.CommandContext(ctx, program, slices.Concat(s.words[1:], more)...)
	c.Args[0] = s.words[0]
	c.WaitDelay = stopWithin
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	return c, nil
}

// failure says why the process failed. The exit code is that of the process; of a stock perftest it is always
// [exit.Failed].
func (s side) failure(err error, said string) error {
	ended, is := errors.AsType[*exec.ExitError](err)
	if !is {
		return exit.With(exit.Setup, fmt.Errorf("%q: %w", s.line, err))
	}
	switch code := ended.ExitCode(); {
	case s.stock: // perftest's codes say nothing else
		err = exit.With(exit.Failed, err)
	case code > 0:
		err = exit.With(code, err)
	}
	return fmt.Errorf("%q: %w\n%s", s.line, err, strings.TrimSpace(said))
}

// read takes the figure out of a test's document. The document must have one point; the figure is the median of its
// runs.
func read(text string, f figure.Figure) (o outcome, err error) {
	docs, err := report.Parse("its result", []byte(text))
	var rows []figure.Row
	for _, d := range docs {
		o.label = d.Label
		for _, g := range figure.Groups(d.Records) {
			rows = append(rows, g.Rows...)
		}
		disturbed, _ := figure.DisturbedRuns(d)
		o.disturbed = o.disturbed || disturbed > 0
	}
	if err == nil && len(rows) != 1 {
		err = fmt.Errorf("it measured %d sizes: ab compares one size: give -s 64K", len(rows))
	}
	if err == nil {
		o.value, err = f.Over(rows[0])
	}
	return o, err
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
		return 0, fmt.Errorf("it printed %d rows: ab compares one size", rows)
	}
	return found, nil
}
