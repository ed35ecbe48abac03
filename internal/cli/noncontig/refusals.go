package noncontig

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report/plain"
)

// refusal is why points of a grid cannot be measured: a grid has many points, and few reasons.
type refusal struct {
	reason, first string // what is so at the first point
	shapes        []string
	names         []string // strategies
	low, high     float64  // block bytes
	points        int
}

// refusals are those of a grid, each reason once.
type refusals []*refusal

// add notes why a strategy is not measured on a layout.
func (r *refusals) add(s plan.Strategy, blockBytes float64, err error) {
	causes := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // the parts of a joined error are wanted, not one in its chain
		causes = joined.Unwrap()
	}
	for _, cause := range causes {
		why := &plan.Refusal{Reason: cause.Error()}
		errors.As(cause, &why)
		i := slices.IndexFunc(*r, func(x *refusal) bool { return x.reason == why.Reason })
		if i < 0 {
			i = len(*r)
			*r = append(*r, &refusal{reason: why.Reason, first: why.Detail, low: blockBytes, high: blockBytes})
		}
		x := (*r)[i]
		x.points++
		x.low, x.high = min(x.low, blockBytes), max(x.high, blockBytes)
		x.shapes, x.names = plain.AddNew(x.shapes, s.Shape), plain.AddNew(x.names, s.Name)
	}
}

// Error is "gather-send (shape both, blocks of 64 B to 8 KiB): a UD message is at most … (12 points, the first: 16384 bytes)".
func (x *refusal) Error() string {
	detail := x.first
	if x.points > 1 {
		detail = fmt.Sprintf("%d points", x.points) + plain.When(x.first != "", ", the first: %s", x.first)
	}
	return fmt.Sprintf("%s (shape %s, blocks of %s%s): %s%s", strings.Join(x.names, ", "), strings.Join(x.shapes, ", "),
		plain.Bytes(x.low), plain.When(x.high > x.low, " to %s", plain.Bytes(x.high)), x.reason, plain.When(detail != "", " (%s)", detail))
}
