package operation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/bench"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/measure"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
)

// part is what is left to measure of a sweep that --resume continues.
type part struct {
	plan  plan.Spec
	after int // runs of these sizes that were measured before
}

// sweep measures all points, and saves what there is after each: whatever ends this process, --resume goes on from
// there.
func sweep(ctx context.Context, out output.Streams, c Config) (*report.Document, error) {
	return measure.With(ctx, out, c.Config, func(m *measure.Measurer, doc measure.Document) error {
		parts := []part{{plan: c.Plan}}
		if c.before != nil {
			var err error
			if parts, err = left(m, c.Plan, c.before, doc); err != nil {
				return err
			}
		}
		several := c.Plan.AllSizes || len(c.Plan.Sizes) > 1 || c.Plan.Runs > 1
		keeper := c.Output.Keeper(out)
		for _, p := range parts {
			res, err := m.Run(ctx, p.plan, bench.Options{After: p.after, Kept: func(r *bench.Result, last bool) {
				keep := keeper.Keep
				if last {
					keep = keeper.KeepLast
				} else if !several {
					return
				}
				keep(func(w io.Writer) error { return writeSoFar(w, *doc.Document, r) })
			}})
			doc.Add(res)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// writeSoFar writes a document with what a run has measured so far.
func writeSoFar(w io.Writer, doc report.Document, res *bench.Result) error {
	doc.Records, doc.Warnings = slices.Clip(doc.Records), slices.Clip(doc.Warnings) // those of the caller stay as they are
	measure.Document{Document: &doc}.Add(res)
	doc.Finished, doc.Failure = time.Now().UTC(), "not finished: --resume goes on after the last point"
	return report.Write(w, &doc)
}

// checkBefore refuses to go on with another test.
func checkBefore(c Config, now *pflag.FlagSet, op plan.Operation, kind plan.Kind) error {
	doc := c.before
	if len(doc.Command) < 2 || doc.Command[1] != string(op) || doc.Tool != "" && len(doc.Records) > 0 &&
		doc.Records[0].Kind != string(kind) {
		return fmt.Errorf("--resume: %s is of another test: %s", c.Output.ToResume(), plain.JoinWords(doc.Command))
	}
	fresh := pflag.NewFlagSet("", pflag.ContinueOnError)
	(&flags{}).bind(fresh, op, kind)
	return c.Output.CheckSame(doc.Command, fresh, now)
}

// left adds the earlier records to the document, and returns what is left: the runs that the last size lacks, and the
// sizes after it.
func left(m *measure.Measurer, spec plan.Spec, before *report.Document, doc measure.Document) ([]part, error) {
	info := m.Device.Info()
	switch {
	case m.Session.Dialect() != control.Ours:
		return nil, exit.With(exit.Usage,
			errors.New("--resume: perftest cannot continue a test: leave --resume out, or run gobw at both ends"))
	case before.Client.Device != info.Name:
		return nil, exit.With(exit.Usage, fmt.Errorf("--resume: --device was %s, is %s", before.Client.Device, info.Name))
	case before.Client.Host != doc.Client.Host:
		return nil, exit.With(exit.Usage,
			fmt.Errorf("--resume: the file is of host %s, this is host %s", before.Client.Host, doc.Client.Host))
	}
	settled, err := plan.Settle(spec, plan.Limits{Device: info, Port: m.Port, Dialled: true}, plan.Peer{}, plan.Policy{})
	if err != nil {
		return nil, err
	}
	whole := settled.Spec // with the length that all sizes together have
	doc.Started, doc.Client, doc.Server, doc.Label, doc.Warnings = before.Started, before.Client, before.Server,
		before.Label, before.Warnings
	var parts []part
	for i, size := range whole.Sizes {
		have := 0
		for k := range before.Records {
			r := &before.Records[k]
			if r.SizeBytes == uint64(math.Round(whole.MeanBytes(size))) && r.Run == have+1 && !r.Nothing() &&
				!slices.ContainsFunc(r.Warnings, isIncomplete) {
				have++
				doc.Records = append(doc.Records, *r)
			}
		}
		if have >= whole.Runs {
			continue
		}
		rest := whole
		if rest.Sizes = whole.Sizes[i:]; have > 0 {
			rest.Sizes, rest.Runs = whole.Sizes[i:i+1], whole.Runs-have
		}
		parts = append(parts, part{plan: rest, after: have})
		if have == 0 {
			break
		}
	}
	return parts, nil
}

// isIncomplete finds the warning of a run that was interrupted.
func isIncomplete(warning string) bool { return strings.HasPrefix(warning, "incomplete: ") }
