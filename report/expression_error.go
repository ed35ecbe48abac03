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
}

func (e *ExpressionError) Error() string {
	return fmt.Sprintf("column %d: %s\n  %s\n  %s^", e.Column, e.Problem, e.Text, strings.Repeat(" ", max(0, e.Column-1)))
}

// Short is the mistake without the picture of its place.
func (e *ExpressionError) Short() string { return e.Problem }
