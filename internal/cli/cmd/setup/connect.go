// Package setup is the commands 'register' and 'connect': the time that set-up takes before the first message.
package setup

import (
	"context"
	_ "embed"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/internal/bench"
	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/measure"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/render"
)

// flags are what both commands have beside their own.
type flags struct{ measure.Flags }

// finish adds the flags of the result to a command, and orders all of them for a person.
func (f *flags) finish(cmd *cobra.Command, brief ...string) {
	f.Output.Bind(cmd.Flags(), render.DocumentFormats())
	f.Gate.Bind(cmd.Flags(), "'p99 <= 1ms'")
	cmd.Flags().SortFlags = false
	cmdline.Group(cmd.Flags(), "Output and verdict")
	cmdline.Brief(cmd, append(brief, "device", "loopback", "expect", "save")...)
}

// config is a latency test of these flags.
func (f *flags) config(tool string, args []string, wrong *cmdline.Faults) measure.Config {
	c := f.Config(wrong, tool, args)
	f.Judge(wrong, &c, plan.Latency, "")
	return c
}

// record makes a record of the times of calls, in nanoseconds. atOnce calls ran at the same time.
func record(operation string, settings report.Plan, times []int64, atOnce int) report.Record {
	settings.Operation, settings.Kind = operation, string(plan.Latency)
	s := report.Samples{
		Raw: times, N: uint64(len(times)), Min: slices.Min(times), Max: slices.Max(times), Shift: times[0], Scale: 1,
	}
	for _, t := range times {
		s.Sum += float64(t)
		s.SumSq += float64(t-s.Shift) * float64(t-s.Shift)
	}
	l, seconds := report.NewLatency(s), s.Sum/1e9/float64(atOnce)
	r := report.Record{
		Plan: settings, Run: 1, Messages: s.N, Iterations: s.N, Seconds: seconds, Latency: &l,
		MessagesPerS: float64(s.N) / seconds,
	}
	h, err := report.NewHistogram(s)
	if err != nil {
		r.Warnings = append(r.Warnings, err.Error())
	}
	r.Histogram = h
	return r
}

// connectConfig is which queue pairs to make, and how often.
type connectConfig struct {
	measure.Config
	Rounds int
}

//go:embed connect.txt
var connectHelp string

// NewConnectCommand makes 'connect'.
func NewConnectCommand(tool string, out output.Streams) *cobra.Command {
	f := &flags{}
	c := connectConfig{}
	spec := plan.Spec{
		Operation: plan.Write, Kind: plan.Bandwidth, Sizes: []int{64}, Iterations: 1, TxDepth: 1, NoPeak: true,
	}
	cmd := cmdline.Command(tool, connectHelp)
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = cmdline.Run(
		func(args []string) (connectConfig, error) {
			var wrong cmdline.Faults
			c.Config = f.config(tool, args, &wrong)
			c.Plan = spec
			wrong.Range("--rounds (-n)", c.Rounds, 1, 1e6)
			wrong.Range("--qp (-q)", spec.QPs, 1, 16384)
			_, err := plan.Settle(spec, plan.Limits{Dialled: true}, plan.Peer{}, plan.Policy{})
			wrong.Note(err)
			return c, errors.Join(wrong...)
		},
		func(ctx context.Context, c connectConfig) error {
			return c.Deliver(out, func() (*report.Document, error) { return c.run(ctx, out) })
		},
	)
	fs := cmd.Flags()
	fs.IntVarP(&spec.QPs, "qp", "q", 1, "queue pairs in each round")
	fs.IntVarP(&c.Rounds, "rounds", "n", 100, "number of rounds")
	fs.BoolVarP(&spec.RDMACM, "rdma-cm", "R", false, "connect by RDMA CM")
	cmdline.Group(fs, "Queue pairs")
	f.Device.Bind(fs)
	f.Peer.Bind(fs)
	f.finish(cmd, "qp", "rounds", "rdma-cm")
	return cmd
}

// run connects round after round over one session.
func (c *connectConfig) run(ctx context.Context, out output.Streams) (*report.Document, error) {
	times := map[string][]int64{}
	quiet := output.Streams{Out: out.Out, Err: out.Err} // no terminal: a round is too short for a line of progress
	doc, err := measure.With(ctx, quiet, c.Config, func(m *measure.Measurer, doc measure.Document) error {
		for range c.Rounds {
			res, err := m.Run(ctx, c.Plan,
				bench.Options{Step: func(name string, took time.Duration) { times[name] = append(times[name], int64(took)) }})
			if err != nil {
				return err
			}
			doc.Client, doc.Server, doc.Label = res.Here, res.Peer, res.Label
		}
		return nil
	})
	for _, step := range []string{"create", "init", "connect", "destroy", "ready"} {
		if doc == nil || len(times[step]) == 0 {
			continue
		}
		atOnce := 1
		if step == "ready" { // it is the time of all queue pairs
			atOnce = c.Plan.QPs
		}
		doc.Records = append(doc.Records, record(step, report.Plan{QPs: c.Plan.QPs}, times[step], atOnce))
	}
	return doc, err
}
