package register

import (
	"errors"
	"io"
	"slices"

	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/gate"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/expect"
	"github.com/gobw/gobw/report/render"
)

// record makes the record of how long each call of a kind took, in nanoseconds, of which so many ran at once.
func record(operation string, settings report.Plan, times []int64, atOnce int) report.Record {
	settings.Operation, settings.Kind = operation, string(plan.Latency)
	s := report.Samples{Raw: times, N: uint64(len(times)), Min: slices.Min(times), Max: slices.Max(times), Shift: times[0], Scale: 1}
	for _, t := range times {
		s.Sum += float64(t)
		s.SumSq += float64(t-s.Shift) * float64(t-s.Shift)
	}
	l, seconds := report.NewLatency(s), s.Sum/1e9/float64(atOnce)
	r := report.Record{Plan: settings, Run: 1, Messages: s.N, Iterations: s.N, Seconds: seconds, Latency: &l, MessagesPerS: float64(s.N) / seconds}
	h, err := report.NewHistogram(s)
	if err != nil {
		r.Warnings = append(r.Warnings, err.Error())
	}
	r.Histogram = h
	return r
}

// endFlags say what becomes of the records, as they were typed.
type endFlags struct {
	gate   gate.Flags
	output output.Flags
}

// end is what becomes of the records.
type end struct {
	gate   gate.Config
	output output.Config
}

func (f *endFlags) bind(fs *pflag.FlagSet) {
	f.output.Bind(fs, render.DocumentFormats())
	f.gate.Bind(fs, "'p99 <= 1ms'")
}

func endGroup() cmdline.FlagGroup {
	return cmdline.FlagGroup{Title: "Output and verdict", Names: []string{"format", "save", "quiet", "expect", "accept"}}
}

func (f *endFlags) config() (end, error) {
	var e end
	var wrong cmdline.Faults
	var err error
	e.gate, err = f.gate.Config(expect.Options{Dir: "."}, func(e *expect.Expectation) error { return e.CheckTest(string(plan.Latency), "") })
	wrong.Note(err)
	e.output, err = f.output.Config()
	wrong.Note(err)
	return e, errors.Join(wrong...)
}

// deliver prints and saves what was measured until an error, and judges it where there was none.
func (e *end) deliver(out output.Streams, doc *report.Document, err error) error {
	if doc == nil || len(doc.Records) == 0 {
		return err
	}
	var missed error
	if err == nil {
		doc.Checks = expect.Judge(doc, e.gate.Expect, expect.Judgement{Accept: e.gate.Accept})
		missed = gate.Verdict(doc.Checks)
	}
	return errors.Join(err, e.output.Deliver(out, func(w io.Writer, format string) error {
		return render.Documents(w, format, []*report.Document{doc})
	}), missed)
}
