package operation

import (
	"errors"

	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/expect"
	"github.com/gobw/gobw/report/stats"
)

// parseExpectations reads the expressions of --expect and reports every mistake at once, before anything runs.
func parseExpectations(expressions []string, p plan.Spec) ([]*expect.Expectation, error) {
	var out []*expect.Expectation
	var errs []error
	for _, text := range expressions {
		e, err := expect.Parse(text, expect.Options{Dir: "."})
		if err == nil {
			err = e.CheckTest(string(p.Kind), p.Transport.String())
		}
		if err != nil {
			errs = append(errs, cmdline.Prefixed("--expect", err))
			continue
		}
		out = append(out, e)
	}
	return out, errors.Join(errs...)
}

// checkExpectations judges expectations against a document.
func checkExpectations(expectations []*expect.Expectation, accept stats.Accepted, d *report.Document) ([]report.Check, error) {
	for _, e := range expectations {
		if err := e.CheckDevice(d.Client); err != nil {
			return nil, exit.UsageError{Err: err}
		}
	}
	return expect.Judge(d, expectations, expect.Judgement{Accept: accept}), nil
}
