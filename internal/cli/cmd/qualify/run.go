package qualify

import (
	"cmp"
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
	"github.com/gobw/gobw/internal/cli/gate"
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
	keeper  *output.Keeper
	unfit   error // why no test can run here: the device is missing
}

// run runs the tests, prints the verdicts and writes the files. What was run before an error or a signal is kept.
func run(ctx context.Context, out output.Streams, c config) error {
	q := &qualification{
		config: c, out: out, keeper: c.Output.Keeper(out), earlier: map[string]*report.Document{},
		report: &qualify.Qualification{
			Plan: c.Plan.Name, File: c.Plan.File, Version: machine.Version(), Command: c.Command, Name: c.Label,
			Started: time.Now().UTC(),
		},
	}
	if err := c.Output.CheckWritable(); err != nil {
		return err
	}
	if q.unfit = q.check(); q.unfit != nil && exit.Code(q.unfit) != exit.Setup {
		return q.unfit
	}
	for i := range c.Tests {
		t := &c.Tests[i]
		progress := func(format string, args ...any) {
			if !c.Output.Quiet {
				fmt.Fprintf(out.Err, "[%d/%d] %s: %s\n", i+1, len(c.Tests), t.Name, fmt.Sprintf(format, args...))
			}
		}
		done, stopped := q.finished(t), q.stopped(ctx)
		if done != nil && done.Command != t.command() {
			progress("measured again: its command was '%s'", done.Command)
			done = nil
		}
		switch {
		case done != nil:
			result := q.judge(t, done.Document, nil, done.Seconds)
			progress("%s, %.1f s (measured before, not run again)", result.Outcome, result.Seconds)
		case stopped != "":
			q.add(qualify.Result{Name: t.Name, Command: t.command(), Outcome: qualify.Skipped, Reason: stopped})
		case q.unfit != nil:
			q.judge(t, nil, q.unfit, 0)
		case out.ErrTerminal:
			progress("%s", t.command())
			q.run(ctx, t)
		default:
			result := q.run(ctx, t)
			progress("%s, %.1f s", result.Outcome, result.Seconds)
		}
	}
	q.report.Finished = time.Now().UTC()
	q.report.ExitCode = q.exitCode(ctx)
	q.report.Outcome = qualify.Broken
	if word := map[int]stats.Word{
		exit.Passed: stats.Pass, exit.Missed: stats.Fail, exit.Undecided: stats.CannotTell,
	}[q.report.ExitCode]; word != "" {
		q.report.Outcome = word
	}
	if err := errors.Join(q.deliver(), q.unfit); err != nil {
		return err
	}
	if q.report.ExitCode == exit.Passed {
		return nil
	}
	return exit.Error{Code: q.report.ExitCode}
}

// check opens the device once before anything runs: a missing one is a set-up error, the line rate of one that has none
// a mistake of the plan.
func (q *qualification) check() error {
	d, err := opendevice.Open(q.config.Device)
	if err != nil {
		return exit.With(exit.Setup, err) // unless it has another code
	}
	info := d.Info()
	q.device = info.Name
	if err := q.checkResumed(); err != nil {
		return errors.Join(err, d.Close())
	}
	if q.config.Line > 0 {
		return d.Close()
	}
	env := report.Environment{Device: info.Name, Software: info.Software}
	if !info.Software {
		port, err := endpoint.ChoosePort(d.Device, q.config.Device.Port)
		if err != nil {
			return errors.Join(exit.With(exit.Setup, err), d.Close())
		}
		env.LinkBitsPerS = port.RateBitsPerS
	}
	err = d.Close()
	for _, t := range q.config.Tests {
		for _, e := range t.Expect {
			if wrong := e.CheckDevice(env); wrong != nil {
				return errors.Join(exit.With(exit.Usage, fmt.Errorf("%s: test %s: %w", q.config.Plan.File, t.Name, wrong)), err,
					errors.New("give the rate with --line 25Gb/s, or leave out what refers to it with --leave-out line"))
			}
		}
	}
	return err
}

// stopped says why no further test is run: a signal, a missing device, or a peer on another host that is gone.
func (q *qualification) stopped(ctx context.Context) string {
	if ctx.Err() != nil {
		return "interrupted"
	}
	if q.config.Peer.Loopback && q.unfit == nil {
		return ""
	}
	for _, t := range q.report.Tests {
		if t.ExitCode == exit.PeerLost || t.ExitCode == exit.Setup && t.Document == nil {
			return "not run after " + t.Name
		}
	}
	return ""
}

// run measures and judges one test.
func (q *qualification) run(ctx context.Context, t *planned) qualify.Result {
	var doc *report.Document
	var err error
	if t.Program() {
		err = prepareProgram(ctx, t)
	}
	started := time.Now()
	if t.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t.Timeout, fmt.Errorf("%w of %v", errTimeout, t.Timeout))
		defer cancel()
	}
	if err == nil {
		doc, err = q.measure(ctx, t)
	}
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	result := q.judge(t, doc, err, time.Since(started).Seconds())
	q.checkpoint()
	return result
}

func (q *qualification) measure(ctx context.Context, t *planned) (*report.Document, error) {
	if t.Program() {
		return runProgram(ctx, t, q.config.Peer)
	}
	return t.Run.(*test).measure(ctx, q.out, q.config.Output.Quiet)
}

// add takes a result into the report.
func (q *qualification) add(r qualify.Result) qualify.Result {
	q.report.Tests = append(q.report.Tests, r)
	return r
}

// judge sets what a test gave against what is expected of it.
func (q *qualification) judge(t *planned, doc *report.Document, err error, seconds float64) qualify.Result {
	result := qualify.Result{
		Name: t.Name, Command: t.command(), Outcome: stats.Pass, LeftOut: t.leftOut, Seconds: seconds, Document: doc,
		ExitCode: exit.Code(err),
	}
	if doc != nil {
		doc.Description, doc.Command = t.Name, t.Words
		q.earlier[t.Name] = doc
		q.report.Label = cmp.Or(doc.Label, q.report.Label)
	}
	switch {
	case err != nil:
		if errors.Is(err, errTimeout) {
			result.ExitCode = exit.Failed
		}
		result.Outcome, result.Reason = qualify.Broken,
			strings.Join(append(strings.Split(err.Error(), "\n"), exit.Remedies(err)...), "; ")
	case doc != nil && len(t.Expect) > 0:
		doc.Checks = expect.Judge(doc, t.Expect,
			expect.Judgement{LineBitsPerS: q.config.Line, Tests: q.earlier, Accept: q.config.Accept})
		result.Outcome = stats.Gravest(plain.Each(doc.Checks, func(c report.Check) stats.Word { return c.Word })...)
		result.ExitCode = exit.Code(gate.Verdict(doc.Checks))
	}
	return q.add(result)
}

// finished is the earlier run's result of a test that it measured to the end; nil where there is none.
func (q *qualification) finished(t *planned) *qualify.Result {
	if q.config.Resume == nil {
		return nil
	}
	at := slices.IndexFunc(q.config.Resume.Tests, func(r qualify.Result) bool {
		return r.Name == t.Name && r.Outcome != qualify.Broken && r.Document != nil && r.Document.Complete
	})
	if at < 0 {
		return nil
	}
	return &q.config.Resume.Tests[at]
}

// checkResumed refuses to put the results of two devices or hosts into one qualification.
func (q *qualification) checkResumed() error {
	for i := range q.config.Tests {
		if done := q.finished(&q.config.Tests[i]); done != nil {
			end, host := done.Document.Client, machine.Host().Host
			device := done.Document.Program != nil || end.Device == q.device // a program opens what it likes
			if !device || end.Host != host {
				return exit.With(exit.Usage,
					fmt.Errorf("--resume: the tests ran with --device %s on host %s, now it is %s on %s: go on there, "+
						"or leave --resume out", end.Device, end.Host, q.device, host))
			}
		}
	}
	return nil
}

// checkpoint saves what has run: whatever ends this process, --resume takes it over.
func (q *qualification) checkpoint() {
	partial := *q.report
	partial.Outcome, partial.ExitCode, partial.Finished = qualify.Broken, exit.Failed, time.Now().UTC()
	q.keeper.Keep(func(w io.Writer) error { return render.Qualification(w, "json", &partial) })
}

// errTimeout ends a test that takes longer than its plan allows.
var errTimeout = errors.New("the test did not end within its timeout")

// exitCode is the gravest of all tests: interrupted, corrupt, peer lost, set-up, failed, missed, cannot tell.
func (q *qualification) exitCode(ctx context.Context) int {
	if cause := context.Cause(ctx); cause != nil {
		return exit.Code(cause)
	}
	worst := exit.Passed
	gravity := []int{
		exit.Passed, exit.Undecided, exit.Missed, exit.Failed, exit.Usage, exit.Setup, exit.PeerLost, exit.Corrupt,
	}
	for _, t := range q.report.Tests {
		if slices.Index(gravity, t.ExitCode) > slices.Index(gravity, worst) {
			worst = t.ExitCode
		}
	}
	return worst
}

// deliver prints the verdicts and writes the files. Finished is what measured every test to its end.
func (q *qualification) deliver() error {
	complete, command := true, []string(nil)
	for _, t := range q.report.Tests {
		if complete = complete && t.Document != nil && t.Document.Complete; t.Document != nil {
			command = q.config.Command // there is something to go on with
		}
	}
	return q.config.Output.DeliverPart(q.out, complete, command, func(w io.Writer, format string) error {
		return render.Qualification(w, format, q.report)
	})
}
