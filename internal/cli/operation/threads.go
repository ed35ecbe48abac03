package operation

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"

	"github.com/gobw/gobw/internal/bench"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/measure"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/figure"
	"github.com/gobw/gobw/report/stats"
)

// threadRuns is how often each number of threads is measured where --runs does not say: enough for an interval, and to tell
// a gain of a tenth in the noise of a shared machine.
const threadRuns = 9

// threadFlag is what --threads says.
type threadFlag struct {
	threads int
	auto    bool
	qps     bool // -q was given: the queue pairs stay as many, else each thread has one
}

// parse reads --threads.
func (f *threadFlag) parse(text string) error {
	if f.auto = text == "auto"; f.auto || text == "" {
		return nil
	}
	var err error
	if f.threads, err = strconv.Atoi(text); err != nil || f.threads == 0 { // 0 is "not said" in a plan
		return fmt.Errorf("--threads %s: want 1 or more, or auto", text)
	}
	return nil
}

// measureThreads runs the plan with 1, 2, 4, ... threads, as long as one more step is shown to bring something for some
// size, and judges the steps.
func measureThreads(ctx context.Context, out output.Streams, c measure.Config, f threadFlag) (*report.Document, error) {
	return measure.With(ctx, out, c, func(m *measure.Measurer, doc measure.Document) error {
		err := climb(ctx, m, c, f, doc)
		doc.Scaling = figure.Scaling(doc.Records)
		return err
	})
}

func climb(ctx context.Context, m *measure.Measurer, c measure.Config, f threadFlag, doc measure.Document) error {
	if m.Session.Dialect() != control.Ours {
		return exit.UsageError{Err: errors.New("--threads auto: perftest runs one test for each connection; give a number, or run gobw at both ends")}
	}
	most := runtime.NumCPU()
	if n := m.Device.Info().Limits.Threads; n > 0 {
		return exit.UsageError{Err: fmt.Errorf("--threads auto: the queue pairs of %s share one engine, which works for one thread at a time", m.Device.Info().Name)}
	}
	if f.qps {
		most = min(most, c.Plan.QPs)
	}
	for n := 1; ; n = min(2*n, most) {
		spec := c.Plan
		if spec.Threads = n; !f.qps {
			spec.QPs = n
		}
		res, err := m.Run(ctx, spec, bench.Options{})
		doc.Add(res)
		if err != nil || n == most || !gains(figure.Scaling(doc.Records), n) {
			return err
		}
	}
}

// gains tells whether some size has gained by the last step.
func gains(steps []report.Step, threads int) bool {
	for _, s := range steps {
		if s.Threads == threads && (threads == 1 || s.Verdict.Word == stats.Better) {
			return true
		}
	}
	return false
}
