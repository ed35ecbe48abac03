package search

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/gobw/gobw/internal/bench/machine"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/measure"
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
	m := &meter{
		config: measure.Config{Tool: c.Tool, Command: c.Args, Device: c.Test.Device, Peer: c.Test.Peer, CPU: c.Test.CPU, Quiet: c.Output.Quiet},
		out:    out, by: c.By, refused: map[string]bool{},
	}
	if err := m.open(ctx); err != nil {
		return err
	}
	space, base, err := c.space(m.limits)
	if err != nil {
		return errors.Join(err, m.close())
	}
	m.base, m.dims = base, space.Dimensions
	r := &result{
		Schema: schema, Tool: c.Tool, Version: machine.Version(), Command: c.Args, Question: c.Question, Test: strings.Join(c.Words, " "), By: c.By,
		Started: time.Now().UTC(), Label: m.label, Device: m.limits.Device.Name, Seed: c.Seed, Dimensions: space.Dimensions,
		base: base, words: c.Words, host: c.Test.Peer.Host, device: c.Test.Device.Name,
	}
	s := &engine.Search{Space: space, Meter: m, Seed: c.Seed, Most: c.Points}
	if before != nil {
		if !reflect.DeepEqual(before.Dimensions, space.Dimensions) || before.Device != r.Device {
			return errors.Join(exit.UsageError{Err: fmt.Errorf("--resume: the file is of another search: %s on %s", before.Test, before.Device)}, m.close())
		}
		s.Seed, s.Known, r.Seed, r.Before = before.Seed, before.Steps, before.Seed, before.Seconds
	}
	saved, told, trouble := time.Now(), time.Now(), error(nil)
	s.Tell = func(engine.Step) {
		if now := time.Now(); out.ErrTerminal && !c.Output.Quiet && now.Sub(told) > time.Second/4 {
			told = now
			fmt.Fprintf(out.Err, "\r%d tests in %v \x1b[K", len(s.Steps()), now.Sub(r.Started).Round(time.Second))
		}
		if time.Since(saved) > saveEvery && c.Output.Document() != "" {
			saved = time.Now()
			r.finish(s, m, nil)
			if err := c.keep(r); err != nil && trouble == nil {
				trouble = err
				fmt.Fprintf(out.Err, "%s: what is measured cannot be kept: %v; the search goes on\n", c.Tool, err)
			}
		}
	}
	failed := r.ask(ctx, s, c)
	if out.ErrTerminal && !c.Output.Quiet {
		fmt.Fprint(out.Err, "\r\x1b[K")
	}
	if cerr := m.close(); failed == nil && cerr != nil {
		failed = cerr
	}
	r.finish(s, m, failed)
	return c.deliver(out, r, failed)
}

// ask runs the search. That the time or the points are used up is the end of a search for anomalies.
func (r *result) ask(ctx context.Context, s *engine.Search, c config) (err error) {
	switch c.Question {
	case best:
		r.Best, err = s.Best(ctx)
	case dips:
		r.Dips, err = s.Dips(ctx, c.Low, c.High)
	default:
		r.Anomalies, err = s.Anomalies(ctx)
		if (errors.Is(err, errTimeUp) || errors.Is(err, engine.ErrPoints)) && r.Anomalies.Swept {
			return nil
		}
	}
	switch {
	case errors.Is(err, errTimeUp):
		return exit.UndecidedError{What: fmt.Sprintf("--time %v was too short: the search is not through after %d tests; %s", c.Limit, len(s.Steps()), goOn)}
	case errors.Is(err, engine.ErrPoints):
		return exit.UndecidedError{What: fmt.Sprintf("--points %d were too few: the search is not through; %s", c.Points, goOn)}
	}
	return err
}

const goOn = "give more, or fewer settings with --only"

// deliver prints and saves. An unfinished result goes beside the file of a finished one.
func (c *config) deliver(out output.Streams, r *result, failed error) error {
	to := c.Output
	if !r.Complete {
		to = to.Unfinished()
		defer c.Output.TellHowToGoOn(out, c.Args)
	}
	err := errors.Join(failed, to.Deliver(out, func(w io.Writer, format string) error { return r.write(w, format) }))
	if n := r.findings(); err == nil && c.FailOnFinding && n > 0 {
		return exit.SilentError{Code: exit.Missed}
	}
	return err
}

// keep saves what is known for --resume.
func (c *config) keep(r *result) error {
	return report.WriteFile(c.Output.Unfinished().Document(), func(w io.Writer) error { return r.write(w, "json") })
}

// before is the search that --resume goes on with.
func (c *config) before() (*result, error) {
	if !c.Resume {
		return nil, nil
	}
	path := c.Output.ToResume()
	b, err := report.ReadFile(path, report.MostBytes)
	if err != nil {
		return nil, fmt.Errorf("--resume: %w", err)
	}
	var r result
	if err := json.Unmarshal(b, &r); err != nil || r.Schema != schema || r.Question != c.Question {
		return nil, fmt.Errorf("--resume: %s holds no 'search %s'", path, c.Question)
	}
	return &r, nil
}
