package cli

import (
	"errors"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/report"
)

// parseExpectations reads the expressions of --expect and reports every mistake at once, before anything runs.
func parseExpectations(expressions []string, p control.Plan) ([]*report.Expectation, error) {
	var out []*report.Expectation
	var errs []error
	for _, text := range expressions {
		e, err := report.ParseExpectation(text, report.ExpectationOptions{Dir: "."})
		if err == nil {
			err = e.CheckTest(string(p.Kind), p.Transport.String())
		}
		if err != nil {
			errs = append(errs, prefixed("--expect", err))
			continue
		}
		out = append(out, e)
	}
	return out, errors.Join(errs...)
}

// checkExpectations judges expectations against a document.
func checkExpectations(expectations []*report.Expectation, d *report.Document) ([]report.Check, error) {
	for _, e := range expectations {
		if err := e.CheckDevice(d.Client); err != nil {
			return nil, usageError{err}
		}
	}
	return report.Judge(d, expectations, report.Judgement{}), nil
}
