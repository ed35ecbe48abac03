package noncontig

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report/plain"
)

// refusals are the points of a grid that cannot be measured, by reason: a grid has many points, and few reasons.
type refusals struct{ groups []*refusalGroup }

type refusalGroup struct {
	reason, first string // what is so at the first point
	shapes        []string
	names         []string // strategies
	low, high     float64  // block bytes
	points        int
}

// add notes why a strategy is not measured on a layout.
func (r *refusals) add(s plan.Strategy, blockBytes float64, err error) {
	causes := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // the parts of a joined error are wanted, not one in its chain
		causes = joined.Unwrap()
	}
	for _, cause := range causes {
		refusal := &plan.Refusal{Reason: cause.Error()}
		errors.As(cause, &refusal)
		g := r.group(refusal.Reason)
		if g.points == 0 {
			g.first, g.low, g.high = refusal.Detail, blockBytes, blockBytes
		}
		g.points++
		g.low, g.high = min(g.low, blockBytes), max(g.high, blockBytes)
		g.shapes, g.names = plain.AddNew(g.shapes, s.Shape), plain.AddNew(g.names, s.Name)
	}
}

func (r *refusals) group(reason string) *refusalGroup {
	for _, g := range r.groups {
		if g.reason == reason {
			return g
		}
	}
	g := &refusalGroup{reason: reason}
	r.groups = append(r.groups, g)
	return g
}

// errors are the groups: "gather-send (shape both, blocks of 64 B to 8 KiB): a UD message is at most … (12 points, the first: 16384 bytes)".
func (r *refusals) errors() []error {
	var out []error
	for _, g := range r.groups {
		blocks := plain.Bytes(g.low)
		blocks += plain.When(g.high > g.low, " to %s", plain.Bytes(g.high))
		detail := g.first
		if g.points > 1 {
			detail = fmt.Sprintf("%d points", g.points) + plain.When(g.first != "", ", the first: %s", g.first)
		}
		out = append(out, fmt.Errorf("%s (shape %s, blocks of %s): %s%s",
			strings.Join(g.names, ", "), strings.Join(g.shapes, ", "), blocks, g.reason, plain.When(detail != "", " (%s)", detail)))
	}
	return out
}
