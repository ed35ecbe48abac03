package qualify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gobw/gobw/internal/bench/endpoint"
	"github.com/gobw/gobw/internal/bench/machine"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/opendevice"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/expect"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/qualify"
	"github.com/gobw/gobw/report/render"
	"github.com/gobw/gobw/report/stats"
)

// qualification is a plan being run.
type qualification struct {
	config  config
	out     output.Streams
	report  *qualify.Qualification
	device  string // its name
	earlier map[string]*report.Document
	codes   []int // of each test, as if it ran alone
	keeper  output.Keeper
}

// run runs the tests, prints the verdicts and writes the files. What was run before an error or a signal is kept.
func run(ctx context.Context, out output.Streams, c config) error {
	q := &qualification{config: c, out: out, earlier: map[string]*report.Document{}, report: &qualify.Qualification{
		Plan: c.Plan.Name, File: c.Plan.File, Version: machine.Version(), Command: c.Command, Started: time.Now().UTC(),
	}}
	if err := errors.Join(c.Output.CheckWritable(), q.check()); err != nil {
		return err
	}
	if err := q.checkResumed(); err != nil {
		return err
	}
	for i := range c.Tests {
		t := &c.Tests[i]
		if done := q.finished(t); done != nil {
			q.judge(t, done.Document, nil, done.Seconds)
			continue
		}
		if reason := q.stopped(ctx); reason != "" {
			q.add(qualify.Result{Name: t.Name, Command: t.command(), Outcome: qualify.Skipped, Reason: reason}, exit.Passed)
			continue
		}
		if out.ErrTerminal && !c.Output.Quiet {
			fmt.Fprintf(out.Err, "[%d/%d] %s: %s\n", i+1, len(c.Tests), t.Name, t.command())
		}
		q.run(ctx, t)
		q.checkpoint()
	}
	q.report.Finished = time.Now().UTC()
	code := q.exitCode(ctx)
	q.report.ExitCode = code
	q.report.Outcome = qualify.Broken
	if word := map[int]stats.Word{exit.Passed: stats.Pass, exit.Missed: stats.Fail, exit.Undecided: stats.CannotTell}[code]; word != "" {
		q.report.Outcome = word
	}
	if err := q.deliver(); err != nil {
		return err
	}
	if code == exit.Passed {
		return nil
	}
	return exit.SilentError{Code: code}
}

// check opens the device once before anything runs: a missing one is a set-up error, the line rate of one that has none
// a mistake of the plan.
func (q *qualification) check() error {
	d, err := opendevice.Open(q.config.Device)
	if err != nil {
		if _, ok := errors.AsType[exit.UsageError](err); !ok {
			err = exit.SetupError{Err: err}
		}
		return err
	}
	info := d.Info()
	q.device = info.Name
	if q.config.Line > 0 {
		return d.Close()
	}
	env := report.Environment{Device: info.Name, Software: info.Software}
	if !info.Software {
		port, err := endpoint.ChoosePort(d, q.config.Device.Port)
		if err != nil {
			return errors.Join(exit.SetupError{Err: err}, d.Close())
		}
		env.LinkBitsPerS = port.RateBitsPerS
	}
	err = d.Close()
	for _, t := range q.config.Tests {
		for _, e := range t.Expect {
			if wrong := e.CheckDevice(env); wrong != nil {
				return errors.Join(exit.UsageError{Err: fmt.Errorf("%s: test %s: %w", q.config.Plan.File, t.Name, wrong)}, err,
					errors.New("give the rate with --line 25Gb/s, or leave out what refers to it with --leave-out line"))
			}
		}
	}
	return err
}

// stopped says why no further test is run: a signal, or a peer on another host that is gone.
func (q *qualification) stopped(ctx context.Context) string {
	if ctx.Err() != nil {
		return "interrupted"
	}
	if q.config.Peer.Loopback {
		return ""
	}
	for i, t := range q.report.Tests {
		if code := q.codes[i]; t.Outcome == qualify.Broken && (code == exit.PeerLost || code == exit.Setup && t.Document == nil) {
			return "not run after " + t.Name
		}
	}
	return ""
}

// run measures and judges one test.
func (q *qualification) run(ctx context.Context, t *planned) {
	started := time.Now()
	if t.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t.Timeout, fmt.Errorf("%w of %v", errTimeout, t.Timeout))
		defer cancel()
	}
	doc, err := t.Run.(*test).measure(ctx, q.out, q.config.Output.Quiet)
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	q.judge(t, doc, err, time.Since(started).Seconds())
}

// judge sets what a test gave against what is expected of it.
func (q *qualification) judge(t *planned, doc *report.Document, err error, seconds float64) {
	result := qualify.Result{Name: t.Name, Command: t.command(), Outcome: stats.Pass, LeftOut: t.leftOut, Seconds: seconds, Document: doc}
	if doc != nil {
		doc.Description, doc.Command = t.Name, t.Words
		q.earlier[t.Name] = doc
		if doc.Label != "" {
			q.report.Label = doc.Label
		}
	}
	code := exit.Code(err)
	switch {
	case err != nil:
		if errors.Is(err, errTimeout) {
			code = exit.Failed
		}
		result.Outcome, result.Reason = qualify.Broken, strings.Join(append(strings.Split(err.Error(), "\n"), exit.Remedies(err)...), "; ")
	case doc != nil && len(t.Expect) > 0:
		doc.Checks = expect.Judge(doc, t.Expect, expect.Judgement{LineBitsPerS: q.config.Line, Tests: q.earlier, Accept: q.config.Accept})
		result.Outcome = stats.Gravest(plain.Each(doc.Checks, func(c report.Check) stats.Word { return c.Word })...)
		code = map[stats.Word]int{stats.Pass: exit.Passed, stats.Fail: exit.Missed, stats.CannotTell: exit.Undecided}[result.Outcome]
	}
	q.add(result, code)
}

// add takes a result, and says how far the plan is: on a terminal only of one that is not run again.
func (q *qualification) add(r qualify.Result, code int) {
	q.report.Tests, q.codes = append(q.report.Tests, r), append(q.codes, code)
	earlier := q.finished(&q.config.Tests[len(q.codes)-1]) != nil
	if !q.config.Output.Quiet && (earlier || !q.out.ErrTerminal) && r.Outcome != qualify.Skipped {
		fmt.Fprintf(q.out.Err, "[%d/%d] %s: %s, %.1f s%s\n", len(q.report.Tests), len(q.config.Tests), r.Name, r.Outcome, r.Seconds,
			plain.When(earlier, " (measured before, not run again)"))
	}
}

// finished is the earlier run's result of a test that it measured to the end with the same command; nil where there is none.
func (q *qualification) finished(t *planned) *qualify.Result {
	if q.config.Resume == nil {
		return nil
	}
	for i := range q.config.Resume.Tests {
		r := &q.config.Resume.Tests[i]
		done := r.Outcome != qualify.Broken && r.Outcome != qualify.Skipped && r.Document != nil && r.Document.Complete
		if r.Name == t.Name && r.Command == t.command() && done {
			return r
		}
	}
	return nil
}

// checkResumed refuses to put the results of two devices or peers into one qualification.
func (q *qualification) checkResumed() error {
	for i := range q.config.Tests {
		done := q.finished(&q.config.Tests[i])
		if done == nil {
			continue
		}
		if end, host := done.Document.Client, machine.Host().Host; end.Device != q.device || end.Host != host {
			return exit.UsageError{Err: fmt.Errorf("--resume: the tests ran with --device %s on host %s, now it is %s on %s: go on there, or leave --resume out", end.Device, end.Host, q.device, host)}
		}
	}
	return nil
}

// checkpoint saves what has run: whatever ends this process, --resume takes it over. That it cannot be written is told at the
// end, when the whole is.
func (q *qualification) checkpoint() {
	partial := *q.report
	partial.Outcome, partial.ExitCode, partial.Finished = qualify.Broken, exit.Failed, time.Now().UTC()
	_ = q.keeper.Keep(q.config.Output, func(path string) error {
		return report.WriteFile(path, func(w io.Writer) error { return render.Qualification(w, "json", &partial) })
	})
}

// errTimeout ends a test that takes longer than its plan allows.
var errTimeout = errors.New("the test did not end within its timeout")

// exitCode is the gravest of all tests: interrupted, corrupt, peer lost, set-up, failed, missed, undecided.
func (q *qualification) exitCode(ctx context.Context) int {
	if cause := context.Cause(ctx); cause != nil {
		return exit.Code(cause)
	}
	worst := exit.Passed
	gravity := []int{exit.Passed, exit.Undecided, exit.Missed, exit.Failed, exit.Usage, exit.Setup, exit.PeerLost, exit.Corrupt}
	for _, code := range q.codes {
		if slices.Index(gravity, code) > slices.Index(gravity, worst) {
			worst = code
		}
	}
	return worst
}

// deliver prints the verdicts and writes the files.
func (q *qualification) deliver() error {
	return q.config.Output.Deliver(q.out, func(w io.Writer, format string) error { return render.Qualification(w, format, q.report) })
}
