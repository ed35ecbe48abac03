package report

import (
	"fmt"
	"strings"
)

// ExpressionError is a mistake in an expectation or a gate, with its place.
type ExpressionError struct {
	Text    string
	Column  int // from 1
	Problem string
	Err     error // the cause, where there is one: a baseline that cannot be read
}

func (e *ExpressionError) Error() string {
	return fmt.Sprintf("column %d: %s\n  %s\n  %s^", e.Column, e.Problem, e.Text, strings.Repeat(" ", max(0, e.Column-1)))
}

// Unwrap returns the cause.
func (e *ExpressionError) Unwrap() error { return e.Err }

// Short is the mistake without the picture of its place.
func (e *ExpressionError) Short() string { return e.Problem }
