package search

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/gobw/gobw/internal/bench/machine"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/output"
	engine "github.com/gobw/gobw/internal/search"
	"github.com/gobw/gobw/report"
)

// saveEvery is how often what was measured is kept for --resume.
const saveEvery = 5 * time.Second

// run searches, prints what was found, and judges.
func run(ctx context.Context, out output.Streams, c config) error {
	if err := c.Output.CheckWritable(); err != nil {
		return err
	}
	before, err := c.before()
	if err != nil {
		return exit.UsageError{Err: err}
	}
	if c.Limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.Limit, errTimeUp)
		defer cancel()
	}
	m := &meter{out: out, config: &c}
	if err := m.open(ctx); err != nil {
		return err
	}
	space, tests, err := c.space(m.limits)
	if err != nil {
		return errors.Join(err, m.close())
	}
	m.tests = tests
	r := &Result{
		Schema: schema, Tool: c.Tool, Version: machine.Version(), Command: c.Args, Question: c.Question, Test: strings.Join(c.Words, " "), By: c.By,
		Started: time.Now().UTC(), Label: m.label, Device: m.limits.Device.Name, Seed: c.Seed, Dimensions: space.Dimensions,
	}
	s := &engine.Search{Space: space, Meter: m, Seed: c.Seed, Most: c.Points}
	earlier := 0.0
	if before != nil {
		if !reflect.DeepEqual(before.Dimensions, r.Dimensions) || before.Device != r.Device {
			return errors.Join(exit.UsageError{Err: fmt.Errorf("--resume: the file is of another search: %s on %s", before.Test, before.Device)}, m.close())
		}
		s.Seed, s.Known, r.Seed, earlier = before.Seed, before.Steps, before.Seed, before.Seconds
	}
	finish := func(failed error) {
		r.Seconds = earlier + time.Since(r.Started).Seconds()
		r.finish(s, m, failed)
	}
	saved, bar, trouble := time.Now(), output.NewProgress(out, c.Output.Quiet), false
	s.Tell = func(engine.Step) {
		bar.Write(fmt.Sprintf("%d tests in %v", len(s.Steps()), time.Since(r.Started).Round(time.Second)))
		if time.Since(saved) < saveEvery || c.Output.Document() == "" {
			return
		}
		saved = time.Now()
		finish(nil)
		if err := c.keep(r); err != nil && !trouble {
			trouble = true
			fmt.Fprintf(out.Err, "%s: what is measured cannot be kept: %v; the search goes on\n", c.Tool, err)
		}
	}
	failed := r.ask(ctx, s, c)
	bar.Clear()
	if err := m.close(); failed == nil {
		failed = err
	}
	finish(failed)
	return c.deliver(out, r, failed)
}

// ask runs the search. That the time or the points are used up is the end of a search for anomalies.
func (r *Result) ask(ctx context.Context, s *engine.Search, c config) (err error) {
	switch c.Question {
	case best:
		r.Best, err = s.Best(ctx)
	case dips:
		r.Dips, err = s.Dips(ctx, c.Low, c.High)
	default:
		r.Anomalies, err = s.Anomalies(ctx)
	}
	short := ""
	switch {
	case errors.Is(err, errTimeUp):
		short = fmt.Sprintf("--time %v was too short", c.Limit)
	case errors.Is(err, engine.ErrPoints):
		short = fmt.Sprintf("--points %d were too few", c.Points)
	default:
		return err
	}
	if r.Anomalies != nil && r.Anomalies.Swept {
		return nil
	}
	return exit.UndecidedError{What: fmt.Sprintf("%s: the search is not through after %d tests; give more, or fewer settings with --only", short, len(s.Steps()))}
}

// deliver prints and saves. An unfinished result goes beside the file of a finished one.
func (c *config) deliver(out output.Streams, r *Result, failed error) error {
	to := c.Output
	if !r.Complete {
		to = to.Unfinished()
		defer c.Output.TellHowToGoOn(out, c.Args)
	}
	err := errors.Join(failed, to.Deliver(out, r.Write))
	if err == nil && c.FailOnFinding && len(r.Findings) > 0 {
		return exit.SilentError{Code: exit.Missed}
	}
	return err
}

// keep saves what is known for --resume.
func (c *config) keep(r *Result) error {
	return report.WriteFile(c.Output.Unfinished().Document(), func(w io.Writer) error { return r.Write(w, "json") })
}

// before is the search that --resume goes on with.
func (c *config) before() (*Result, error) {
	if !c.Resume {
		return nil, nil
	}
	path := c.Output.ToResume()
	r, err := Load(path)
	if err != nil {
		return nil, fmt.Errorf("--resume: %w", err)
	}
	if r == nil || r.Question != c.Question {
		return nil, fmt.Errorf("--resume: %s holds no 'search %s'", path, c.Question)
	}
	return r, nil
}
