// Package qualify is the command 'qualify': a plan of tests and a verdict.
package qualify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/bench"
	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/measure"
	"github.com/gobw/gobw/internal/cli/opendevice"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/expect"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/qualify"
	"github.com/gobw/gobw/report/render"
	"github.com/gobw/gobw/report/stats"
)

// groups orders the flags of a qualification.
func groups() []cmdline.FlagGroup {
	return []cmdline.FlagGroup{
		{Title: "Plan", Names: []string{"only", "scale", "runs", "list", "dry-run", "print"}},
		{Title: "Verdict", Names: []string{"line", "leave-out", "baseline", "within", "accept"}},
		{Title: "Result", Names: []string{"junit", "html", "json", "markdown", "openmetrics", "resume", "quiet"}},
		opendevice.Group(),
		measure.PeerGroup(),
	}
}

// flags are the flags of 'qualify' as they were typed.
type flags struct {
	host, line, junit, html, json string
	openMetrics, resume           string
	baseline, within              string
	accept, markdown              string
	only, leaveOut                []string
	scale                         float64
	runs                          int
	list, dryRun, show, quiet     bool
	device                        opendevice.Flags
	peer                          measure.PeerFlags
	placed                        *pflag.FlagSet // those of device and peer
}

// config is a validated qualification.
type config struct {
	Args        []string
	Plan        *qualify.Plan
	Tests       []qualifyTest
	Line        float64 // bits/s, 0: the link's own
	JUnit       string
	OpenMetrics string
	HTML        string
	JSON        string
	Resume      *qualify.Qualification // nil: from the start
	DryRun      bool
	Quiet       bool
	Accept      stats.Accepted
	MD          string
	Device      opendevice.Config
	Peer        measure.PeerConfig
}

// qualifyTest is one test of a plan, ready to run.
type qualifyTest struct {
	qualify.Test
	command parsedRun
	leftOut []string // expectations that --leave-out leaves out
	beside  *beside  // the other side; nil: none
}

// NewCommand makes 'qualify'.
func NewCommand(tool string, out output.Streams) *cobra.Command {
	flags := &flags{}
	cmd := &cobra.Command{
		Use:   "qualify PLAN",
		Short: "Run a list of tests against thresholds: pass or fail",
		Long: "Run a list of tests and judge each by its expectations. PLAN is a YAML file, or\n" +
			"the name of a plan that comes with the program: " + strings.Join(qualify.ShippedPlans(), ", ") + ".\n\n" +
			"Exit status: 0 all passed, 1 an expectation missed, 3 the device or the set-up\n" +
			"failed, 4 the peer was lost, 5 data corrupt, 6 a test failed. The embedded\n" +
			"software device is used only where it is named: -d roce0.",
		Example: "  " + tool + " qualify quick -d roce0 --loopback --junit junit.xml\n" +
			"  " + tool + " qualify nic --peer alpha --html nic.html\n" +
			"  " + tool + " qualify nic --peer alpha --json accepted.json\n" +
			"  " + tool + " qualify nic --peer alpha --baseline accepted.json --within 5%\n" +
			"  " + tool + " qualify plan.yaml --peer alpha --only write-64k --scale 0.1\n" +
			"  " + tool + " qualify quick --list\n" +
			"  " + tool + " qualify nic --print > mine.yaml",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && flags.show {
				text, err := qualify.ShippedPlan(args[0])
				if err != nil {
					return exit.UsageError{Err: err}
				}
				_, err = out.Out.Write(text)
				return err
			}
			if len(args) == 0 && flags.list {
				return listPlans(out)
			}
			c, err := flags.config(tool, args)
			if err != nil {
				return exit.UsageError{Err: err}
			}
			c.Args = measure.CommandLine(tool)
			if flags.list {
				return listTests(out, c)
			}
			return run(cmd.Context(), out, c)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&flags.host, "peer", "", "host that runs 'gobw serve'")
	flags.bindPlace(fs)
	fs.StringSliceVar(&flags.only, "only", nil, "run these tests of the plan: write-64k,read-64k")
	fs.BoolVar(&flags.list, "list", false, "list the tests of the plan, or without one the plans")
	fs.BoolVar(&flags.dryRun, "dry-run", false, "check plan and device, and run nothing")
	fs.BoolVar(&flags.show, "print", false, "print a plan that comes along, to start your own from")
	fs.StringVar(&flags.line, "line", "", "the line rate for expectations, where the device does not tell: 25Gb/s")
	fs.StringSliceVar(&flags.leaveOut, "leave-out", nil, "do not judge what the plan expects of the line rate (line), of counters (counters), or any of it (all: see --baseline)")
	fs.StringVar(&flags.baseline, "baseline", "", "judge each test against the same one in this file, too (of --json or --save)")
	fs.StringVar(&flags.within, "within", "10%", "how much worse than the baseline a test may be: bw, or p50 of a latency")
	fs.Float64Var(&flags.scale, "scale", 1, "length of the tests: 0.1 for a quick look, 20 for a long one")
	fs.IntVar(&flags.runs, "runs", 0, "repetitions of each test (as the plan says)")
	fs.StringVar(&flags.junit, "junit", "", "write the verdicts as JUnit XML")
	fs.StringVar(&flags.html, "html", "", "write the page with verdicts, tables and pictures")
	fs.StringVar(&flags.resume, "resume", "", "take over what an interrupted run of the plan finished: its --json file")
	fs.StringVar(&flags.openMetrics, "openmetrics", "", "write verdicts and figures for node_exporter's textfile collector: x.prom")
	fs.StringVar(&flags.json, "json", "", "write everything as JSON, for 'report', 'compare' and baselines")
	fs.StringVar(&flags.markdown, "markdown", "", "write the verdicts as Markdown, for a step summary")
	fs.StringVar(&flags.accept, "accept", "", "let pass what cannot be told for these causes: too-few, unclear, incomplete, missing, not-finite")
	fs.BoolVar(&flags.quiet, "quiet", false, "no progress, no notes")
	cmdline.GroupFlags(cmd, groups())
	return cmd
}

func (f *flags) config(tool string, args []string) (config, error) {
	c := config{JUnit: f.junit, HTML: f.html, JSON: f.json, DryRun: f.dryRun, Quiet: f.quiet, MD: f.markdown, OpenMetrics: f.openMetrics}
	if len(args) != 1 {
		return c, fmt.Errorf("%d plans: want one, a file or one of %s", len(args), strings.Join(qualify.ShippedPlans(), ", "))
	}
	var wrong cmdline.Faults
	var err error
	c.Device, err = f.device.Config()
	wrong.Note(err)
	c.Device.Strict = true
	if f.list || f.dryRun && f.host == "" { // no peer is needed
		f.peer.Loopback = true
	}
	var hosts []string
	if f.host != "" {
		hosts = []string{f.host}
	}
	c.Peer, err = f.peer.Config(tool, hosts)
	if err != nil {
		wrong.Note(errors.New(strings.Replace(err.Error(), "no host: name the one", "no peer: give --peer HOST, the one", 1)))
	}
	c.Accept, err = stats.ParseAccepted(f.accept)
	wrong.Note(cmdline.Prefixed("--accept", err))
	if f.line != "" {
		c.Line, err = plan.ParseRate(strings.TrimSuffix(strings.TrimSuffix(strings.ReplaceAll(f.line, " ", ""), "b/s"), "bit/s"))
		wrong.Note(cmdline.Prefixed("--line", err))
	}
	kinds := []string{leaveLine, leaveCounters, leaveAll}
	for _, kind := range f.leaveOut {
		wrong.If(!slices.Contains(kinds, kind), "--leave-out %q%s: want line, counters or all", kind, cmdline.DidYouMean(kind, kinds))
		wrong.If((kind == leaveLine || kind == leaveAll) && f.line != "",
			"--line gives a line rate and --leave-out %s leaves out what refers to it: give one of them", kind)
	}
	if f.resume != "" {
		c.Resume, err = qualify.Load(f.resume)
		if c.Resume == nil && err == nil {
			err = fmt.Errorf("%s is not of a qualification: name what --json wrote", f.resume)
		}
		wrong.Note(cmdline.Prefixed("--resume", err))
		c.JSON = cmp.Or(c.JSON, f.resume)
	}
	length := TestLength{scale: f.scale, runs: f.runs}
	wrong.Note(length.check())
	_, err = f.device.CPUChoice(1)
	wrong.Note(err)
	c.Plan, err = qualify.LoadPlan(args[0], qualify.Options{CheckRun: checkRun})
	wrong.Note(err)
	if err := errors.Join(wrong...); err != nil {
		return c, err
	}
	if c.Resume != nil && c.Resume.Plan != c.Plan.Name {
		return c, fmt.Errorf("--resume %s: it is of plan %s, and PLAN is %s", f.resume, c.Resume.Plan, c.Plan.Name)
	}
	chosen, err := chooseTests(c.Plan, f.only)
	if err != nil {
		return c, err
	}
	return c, f.tests(&c, chosen, length)
}

// tests makes the tests ready to run: as long as was asked for, on the device and against the peer of the command line.
func (f *flags) tests(c *config, chosen []qualify.Test, length TestLength) error {
	cpu, err := f.device.CPUChoice(1)
	if err != nil {
		return err
	}
	for _, test := range chosen {
		t := qualifyTest{Test: test}
		command, errs := ParseRun(t.Run, length)
		if t.command = command; len(errs) > 0 {
			return fmt.Errorf("test %s: %w", t.Name, errors.Join(errs...))
		}
		t.Run, t.Timeout = t.command.args(), time.Duration(float64(t.Timeout)*max(f.scale, 1))
		t.leaveOut(f.leaveOut)
		if f.baseline != "" {
			e, err := t.command.regression(f.baseline, f.within, t.Name)
			if err != nil {
				return err
			}
			t.Expect = append(slices.Clone(t.Expect), e)
		}
		if c.Plan.Against != nil && !t.Alone {
			if t.beside, err = f.besides(c.Plan.Against, &t); err != nil {
				return err
			}
		}
		t.command.place(c.Device, c.Peer, cpu)
		c.Tests = append(c.Tests, t)
	}
	return nil
}

// What --leave-out leaves out.
const (
	leaveLine     = "line"
	leaveCounters = "counters"
	leaveAll      = "all"
)

// leaveOut drops expectations of some kinds, and remembers them.
func (t *qualifyTest) leaveOut(kinds []string) {
	var kept []*expect.Expectation
	for _, e := range t.Expect {
		if slices.Contains(kinds, leaveAll) || slices.Contains(kinds, leaveLine) && e.UsesLine() ||
			slices.Contains(kinds, leaveCounters) && e.OfCounter() {
			t.leftOut = append(t.leftOut, e.String())
		} else {
			kept = append(kept, e)
		}
	}
	t.Expect = kept
}

// chooseTests takes the tests of --only and those whose figures they refer to.
func chooseTests(p *qualify.Plan, only []string) ([]qualify.Test, error) {
	if len(only) == 0 {
		return p.Tests, nil
	}
	names := plain.Each(p.Tests, func(t qualify.Test) string { return t.Name })
	wanted := map[string]bool{}
	for _, name := range only {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("--only: the plan has no test %q%s (it has %s)", name, cmdline.DidYouMean(name, names), strings.Join(names, ", "))
		}
		wanted[name] = true
	}
	for _, t := range slices.Backward(p.Tests) { // tests refer to earlier ones only
		if wanted[t.Name] {
			for _, e := range t.Expect {
				for _, other := range e.Tests() {
					if slices.Contains(names, other) {
						wanted[other] = true
					}
				}
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(p.Tests), func(t qualify.Test) bool { return !wanted[t.Name] }), nil
}

func listPlans(out output.Streams) error {
	var rows [][]string
	for _, name := range qualify.ShippedPlans() {
		p, err := qualify.LoadPlan(name, qualify.Options{})
		if err != nil {
			return err
		}
		rows = append(rows, []string{name, fmt.Sprint(len(p.Tests)), p.Description})
	}
	return render.WriteTable(out.Out, []string{"plan", "tests", "what it tells"}, rows)
}

// listTests shows each test with its command line and what is expected, behind its name.
func listTests(out output.Streams, c config) error {
	indent := 0
	for _, t := range c.Tests {
		indent = max(indent, len(t.Name)+2)
	}
	var b strings.Builder
	for _, t := range c.Tests {
		head := t.Name
		add := func(text string) {
			for _, line := range plain.Wrap(text, cmdline.HelpWidth-indent) {
				fmt.Fprintf(&b, "%-*s%s\n", indent, head, line)
				head = ""
			}
		}
		add(strings.Join(t.Run, " "))
		if expect := plain.Each(t.Expect, (*expect.Expectation).String); len(expect) > 0 {
			add("expect " + strings.Join(expect, ", "))
		}
		if t.beside != nil {
			add(fmt.Sprintf("beside %s: %d pairs, within %s", t.beside.side, t.beside.side.Pairs, stats.Percent(t.beside.side.Within)))
		}
		if len(t.leftOut) > 0 {
			add("left out: " + strings.Join(t.leftOut, ", "))
		}
	}
	_, err := io.WriteString(out.Out, b.String())
	return err
}

// qualification is a plan being run.
type qualification struct {
	config  config
	out     output.Streams
	report  *qualify.Qualification
	device  string // its name
	earlier map[string]*report.Document
	errs    []error
}

// run runs the tests, prints the verdicts and writes the files. What was run before an error or a signal is kept.
func run(ctx context.Context, out output.Streams, c config) error {
	q := &qualification{config: c, out: out, earlier: map[string]*report.Document{}, report: &qualify.Qualification{
		Plan: c.Plan.Name, File: c.Plan.File, Version: bench.Version(), Command: c.Args, Started: time.Now().UTC(),
	}}
	if err := errors.Join(output.CheckWritable(c.JUnit, c.HTML, c.JSON, c.MD, c.OpenMetrics), q.check()); err != nil {
		return err
	}
	if c.DryRun {
		if err := listTests(out, c); err != nil {
			return err
		}
		_, err := fmt.Fprintf(out.Out, "ready: %s on %s; nothing was run\n", plain.Plural(len(c.Tests), "test"), q.device)
		return err
	}
	if err := q.checkResumed(); err != nil {
		return err
	}
	for i, t := range c.Tests {
		if done := q.finished(t); done != nil {
			q.judge(t, done.Document, done.Against, nil, done.Seconds)
			continue
		}
		if reason := q.stopped(ctx); reason != "" {
			q.report.Tests = append(q.report.Tests, qualify.Result{Name: t.Name, Command: strings.Join(t.Run, " "), Outcome: qualify.Skipped, Reason: reason})
			continue
		}
		q.announce(i, t)
		q.run(ctx, t)
		q.checkpoint()
	}
	q.report.Finished = time.Now().UTC()
	code := q.exitCode(ctx)
	q.report.ExitCode = code
	q.report.Outcome = map[int]qualify.Outcome{exit.Passed: qualify.Passed, exit.Missed: qualify.Failed}[code]
	if q.report.Outcome == "" {
		q.report.Outcome = qualify.Broken
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
	env := report.Environment{Device: info.Name, Software: info.Software}
	if !info.Software {
		port, err := bench.ChoosePort(d, q.config.Device.Port)
		if err != nil {
			return errors.Join(exit.SetupError{Err: err}, d.Close())
		}
		env.LinkBitsPerS = port.RateBitsPerS
	}
	if q.config.Line > 0 {
		env.Software, env.LinkBitsPerS = false, q.config.Line
	}
	return errors.Join(q.checkLine(env), d.Close())
}

// checkLine refuses a device without a line rate where the plan refers to one, and names all that does.
func (q *qualification) checkLine(env report.Environment) error {
	var lined []string
	for _, t := range q.config.Tests {
		for _, e := range t.Expect {
			if e.UsesLine() {
				lined = append(lined, fmt.Sprintf("%s (%s)", t.Name, e))
			}
		}
	}
	err := expect.CheckLine(env)
	if err == nil || len(lined) == 0 {
		return nil
	}
	return exit.UsageError{Err: errors.Join(
		fmt.Errorf("%s: %w for %s: %s", q.config.Plan.File, err, plain.Plural(len(lined), "expectation"), strings.Join(lined, ", ")),
		errors.New("give the rate with --line 25Gb/s, or leave out what refers to it with --leave-out line; a plan of your own "+
			"can expect absolute figures (bw >= 10 Gb/s), another test's or a baseline's"),
	)}
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
		if code := exit.Code(q.errs[i]); t.Outcome == qualify.Broken && (code == exit.PeerLost || code == exit.Setup && t.Document == nil) {
			return fmt.Sprintf("not run after %s: %s", t.Name, firstLine(t.Reason))
		}
	}
	return ""
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// announce says on a terminal which test runs.
func (q *qualification) announce(i int, t qualifyTest) {
	if q.out.ErrTerminal && !q.config.Quiet {
		fmt.Fprintf(q.out.Err, "[%d/%d] %s: %s\n", i+1, len(q.config.Tests), t.Name, strings.Join(t.Run, " "))
	}
}

// run measures and judges one test.
func (q *qualification) run(ctx context.Context, t qualifyTest) {
	started := time.Now()
	if t.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t.Timeout, timeoutError{t.Timeout})
		defer cancel()
	}
	doc, err := t.command.measure(ctx, q.out, q.config.Quiet)
	var against *report.Check
	if err == nil && t.beside != nil {
		against, err = t.beside.judge(ctx, q.out, q.config.Accept)
	}
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	q.judge(t, doc, against, err, time.Since(started).Seconds())
}

// judge sets what a test gave against what is expected of it.
func (q *qualification) judge(t qualifyTest, doc *report.Document, against *report.Check, err error, seconds float64) {
	result := qualify.Result{Against: against, Name: t.Name, Command: strings.Join(t.Run, " "), Outcome: qualify.Passed, LeftOut: t.leftOut, Seconds: seconds}
	if doc != nil {
		doc.Description, doc.Command = t.Name, t.Run
		if err == nil {
			doc.Checks = expect.Judge(doc, t.Expect, expect.Judgement{LineBitsPerS: q.config.Line, Tests: q.earlier, Accept: q.config.Accept})
			if against != nil {
				doc.Checks = append(doc.Checks, *against)
			}
		}
		q.earlier[t.Name] = doc
		result.Document = doc
		if doc.Label != "" {
			q.report.Label = doc.Label
		}
		missed := 0
		for _, c := range doc.Checks {
			if !c.Passed {
				missed++
			}
		}
		if missed > 0 {
			result.Outcome, result.Reason = qualify.Failed, fmt.Sprintf("%d of %d expectations missed", missed, len(doc.Checks))
			q.errs = append(q.errs, exit.MissedError{What: result.Reason})
		}
	}
	if err != nil {
		result.Outcome, result.Reason = qualify.Broken, strings.ReplaceAll(err.Error(), "\n", "; ")
		q.errs = append(q.errs, err)
	}
	if result.Outcome == qualify.Passed && q.config.Plan.Quiet && result.Disturbed() {
		result.Outcome, result.Reason = qualify.Failed, "cannot tell: disturbed: most of its runs were, and the plan requires a quiet machine"
		q.errs = append(q.errs, exit.MissedError{What: result.Reason})
	}
	if result.Outcome == qualify.Passed {
		q.errs = append(q.errs, nil)
	}
	q.report.Tests = append(q.report.Tests, result)
	if !q.config.Quiet {
		fmt.Fprintln(q.out.Err, render.QualificationLine(&result))
	}
}

// finished is the earlier run's result of a test that it measured to the end with the same command; nil where there is none.
func (q *qualification) finished(t qualifyTest) *qualify.Result {
	if q.config.Resume == nil {
		return nil
	}
	for i := range q.config.Resume.Tests {
		r := &q.config.Resume.Tests[i]
		if r.Name == t.Name && r.Command == strings.Join(t.Run, " ") && (r.Outcome == qualify.Passed || r.Outcome == qualify.Failed) && r.Document != nil && r.Document.Complete {
			return r
		}
	}
	return nil
}

// checkResumed refuses to put the results of two devices or peers into one qualification.
func (q *qualification) checkResumed() error {
	for _, t := range q.config.Tests {
		done := q.finished(t)
		if done == nil {
			continue
		}
		d := done.Document
		if d.Client.Device != q.device {
			return exit.UsageError{Err: fmt.Errorf("--resume: --device was %s, is %s: give the same, or leave --resume out", d.Client.Device, q.device)}
		}
		if host := bench.Host().Host; d.Client.Host != host {
			return exit.UsageError{Err: fmt.Errorf("--resume: the tests ran on host %s, this is %s: go on there, or leave --resume out", d.Client.Host, host)}
		}
	}
	return nil
}

// checkpoint saves what has run: whatever ends this process, --resume takes it over. That it cannot be written is told at the
// end, when the whole is.
func (q *qualification) checkpoint() {
	if q.config.JSON == "" {
		return
	}
	partial := *q.report
	partial.Outcome, partial.ExitCode, partial.Finished = qualify.Broken, exit.Failed, time.Now().UTC()
	_ = qualify.Save(q.config.JSON, &partial)
}

// timeoutError ends a test that takes longer than its plan allows.
type timeoutError struct{ after time.Duration }

func (e timeoutError) Error() string {
	return fmt.Sprintf("the test did not end within its timeout of %v", e.after)
}

// exitCode is the gravest of all tests: interrupted, corrupt, peer lost, set-up, failed, missed.
func (q *qualification) exitCode(ctx context.Context) int {
	if cause := context.Cause(ctx); cause != nil {
		return exit.Code(cause)
	}
	worst := exit.Passed
	gravity := []int{exit.Passed, exit.Missed, exit.Failed, exit.Usage, exit.Setup, exit.PeerLost, exit.Corrupt}
	for _, err := range q.errs {
		code := exit.Code(err)
		if _, ok := errors.AsType[timeoutError](err); ok {
			code = exit.Failed
		}
		if slices.Index(gravity, code) > slices.Index(gravity, worst) {
			worst = code
		}
	}
	return worst
}

// deliver prints the verdicts and writes the files.
func (q *qualification) deliver() error {
	errs := []error{render.QualificationTable(q.out.Out, q.report)}
	for path, write := range map[string]func(io.Writer, *qualify.Qualification) error{
		q.config.JUnit: render.QualificationJUnit, q.config.HTML: render.QualificationHTML, q.config.MD: render.QualificationMarkdown,
		q.config.OpenMetrics: render.QualificationOpenMetrics,
	} {
		if path != "" {
			errs = append(errs, report.WriteFile(path, func(w io.Writer) error { return write(w, q.report) }))
		}
	}
	if os.Getenv("GITHUB_ACTIONS") == "true" {
		errs = append(errs, render.QualificationAnnotations(q.out.Out, q.report))
	}
	if q.config.JSON != "" {
		errs = append(errs, qualify.Save(q.config.JSON, q.report))
	}
	return errors.Join(errs...)
}
