package ab

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/gobw/gobw/internal/cli/gate"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/report/compare"
	"github.com/gobw/gobw/report/figure"
	"github.com/gobw/gobw/report/stats"
)

// Command is a test of one point that this program, or another build of it, measures: words[0] is "gobw" or "golat".
type Command struct {
	Build string // its file; empty: this program
	Words []string
}

// Against measures now beside base in pairs, as the command 'ab' does with base as A, and tells of the figure whether now differs.
func Against(ctx context.Context, out output.Streams, base, now Command, figureName string, pairs int, margin float64) (*compare.Comparison, error) {
	f, known := figure.Named(figureName)
	if !known {
		return nil, fmt.Errorf("no figure %q", figureName)
	}
	c := config{
		A: base.side(), B: now.side(), Figure: f, Pairs: pairs, Gate: gate.Config{Margin: margin}, Confidence: stats.DefaultConfidence, Seed: rand.Uint64(), Quiet: !out.ErrTerminal,
	}
	m, err := measure(ctx, out, c)
	if err != nil {
		return nil, err
	}
	whole := m.comparison(c)
	whole.Points = whole.Points[:1] // the control has said its part in the verdict
	return whole, nil
}

func (c Command) side() side {
	return side{line: strings.Join(c.Words, " "), build: c.Build, tool: c.Words[0], args: c.Words[1:], latency: c.Words[0] == "golat"}
}
