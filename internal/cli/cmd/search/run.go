package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"time"

	"github.com/gobw/gobw/internal/bench"
	"github.com/gobw/gobw/internal/bench/machine"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/output"
	engine "github.com/gobw/gobw/internal/search"
	"github.com/gobw/gobw/report/plain"
)

// run searches, prints what was found, and judges.
func run(ctx context.Context, out output.Streams, c config) error {
	if err := c.Output.CheckWritable(); err != nil {
		return err
	}
	before, err := output.Previous(c.Output, func(path string) (*Result, error) {
		r, err := Load(path)
		if r != nil && r.Question != c.Question {
			r = nil
		}
		return r, err
	})
	if err != nil {
		return err
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
	if m.tests, err = c.tests(m.limits); err != nil {
		return errors.Join(err, m.close())
	}
	space := m.space()
	if c.Question == dips { // all sizes are the user's
		space.Repair = func(p engine.Point, _ int) engine.Point { return p }
	}
	if before != nil && c.Seed != 0 && c.Seed != before.Seed {
		return errors.Join(exit.With(exit.Usage,
			fmt.Errorf("--seed %d: --resume goes on with --seed %d: leave it out", c.Seed, before.Seed)), m.close())
	}
	c.Seed = cmp.Or(c.Seed, rand.Uint64()>>1)
	r := &Result{
		Schema: schema, Tool: c.Tool, Version: machine.Version(), Command: c.Args, Question: c.Question,
		Test: m.command(nil), By: c.By,
		Started: time.Now().UTC(), Label: bench.Label(m.limits.Device), Device: m.limits.Device.Name, Seed: c.Seed,
		Dimensions: space.Dimensions,
		TestTime:   c.Test.Plan.Duration,
	}
	s := &engine.Search{Space: space, Measure: m.measure, Seed: c.Seed, Most: c.Points}
	earlier := 0.0
	if before != nil {
		same := before.Device == r.Device && before.Test == r.Test && before.By == r.By && before.TestTime == r.TestTime
		if !same || !reflect.DeepEqual(before.Dimensions, r.Dimensions) {
			return errors.Join(
				exit.With(exit.Usage,
					fmt.Errorf("--resume: the file is of another search, on %s: %s", before.Device, plain.JoinWords(before.Command))),
				m.close())
		}
		if c.Points > 0 { // as --time, of this run
			s.Most += len(before.Steps)
		}
		s.Seed, s.Known, r.Seed, earlier, m.rate = before.Seed, before.Steps, before.Seed, before.Seconds,
			before.StartBytesPerS
	} else if c.Question != dips {
		m.learn(ctx)
	}
	r.StartBytesPerS = m.rate
	finish := func(failed error) {
		r.Seconds = earlier + time.Since(r.Started).Seconds()
		r.finish(s, m, failed)
	}
	keeper, bar := c.Output.Keeper(out), output.NewProgress(out, c.Output.Quiet)
	s.Tell = func(engine.Step) {
		bar.Write(fmt.Sprintf("%s in %v", plain.Plural(len(s.Steps()), "test"), time.Since(r.Started).Round(time.Second)))
		keeper.Keep(func(w io.Writer) error {
			finish(errors.New("the search did not end"))
			return r.Write(w, "json")
		})
	}
	failed := c.ask(ctx, s)
	bar.Clear()
	if err := m.close(); failed == nil {
		failed = err
	}
	finish(failed)
	return c.deliver(out, r, failed)
}

// ask runs the search. That the time or the points are used up is the end of a search that has begun to draw points.
func (c *config) ask(ctx context.Context, s *engine.Search) error {
	err := s.Run(ctx,
		map[string]func(*engine.Search){best: engine.Best, dips: engine.Dips, anomalies: engine.Anomalies}[c.Question])
	unsaved := c.Output.Document() == "" // of a saved search the next line tells how to go on
	short := ""
	switch {
	case errors.Is(err, errTimeUp):
		short = fmt.Sprintf("--time %v was too short: stopped after %s%s", c.Limit, plain.Plural(len(s.Steps()), "test"),
			plain.When(unsaved, "; leave --time out"))
	case errors.Is(err, engine.ErrPoints):
		short = fmt.Sprintf("--points %d were too few%s", c.Points, plain.When(unsaved, "; leave --points out"))
	default:
		return err
	}
	if s.Answer.Begun {
		return nil
	}
	return exit.With(exit.Undecided, errors.New(short))
}

// deliver prints and saves. An unfinished result goes beside the file of a finished one.
func (c *config) deliver(out output.Streams, r *Result, failed error) error {
	err := errors.Join(failed, c.Output.DeliverPart(out, r.Complete, c.Args, r.Write))
	missed := exit.Error{Code: exit.Missed}
	if err == nil && c.FailOnFinding && len(r.Answer.Found) > 0 { // by pairs: it holds whatever else failed
		return missed
	}
	if err == nil {
		err = r.unanswered()
	}
	if err == nil && c.FailOnFinding && len(r.Findings) > 0 {
		return missed
	}
	return err
}
