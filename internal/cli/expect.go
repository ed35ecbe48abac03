package cli

import (
	"errors"

	"github.com/gobw/gobw/report"
)

// checkExpressions reports every mistake in the expressions of --expect, before anything runs.
func checkExpressions(expressions []string) error {
	if len(expressions) > 0 {
		return errors.New("--expect is not in this build")
	}
	return nil
}

// checkExpectations judges the expressions of --expect against a document.
func checkExpectations([]string, *report.Document) ([]report.Check, error) { return nil, nil }
