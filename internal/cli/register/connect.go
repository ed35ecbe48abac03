package register

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/internal/bench"
	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/measure"
	"github.com/gobw/gobw/internal/cli/opendevice"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
)

// steps are the calls that 'connect' times, in their order; the last is the time of all queue pairs together.
func steps() []string { return []string{"create", "init", "connect", "destroy", "ready"} }

// connectConfig is which queue pairs to make, and how often.
type connectConfig struct {
	measure.Config
	Rounds int
	end    end
}

// NewConnectCommand makes 'connect'.
func NewConnectCommand(tool string, out output.Streams) *cobra.Command {
	var device opendevice.Flags
	var peer measure.PeerFlags
	var ends endFlags
	var rounds int
	spec := plan.Spec{Operation: plan.Write, Kind: plan.Bandwidth, Sizes: []int{64}, Iterations: 1, TxDepth: 1, NoPeak: true}
	cmd := &cobra.Command{
		Use: "connect [HOST]", Short: "Measure how long connecting queue pairs takes",
		Long: "Measure how long queue pairs take to be created, brought to INIT, connected (to\n" +
			"RTR and RTS) and destroyed, a record a step. 'ready' is the time from the first\n" +
			"call until all are connected at both ends. The other end runs '" + tool + " serve'.\n" +
			"A round makes the queue pairs of -q, and sends one message over each.",
		Example: "  " + tool + " connect alpha -q 16\n  " + tool + " connect --loopback -d roce0 -q 64 -n 20\n" +
			"  " + tool + " connect alpha -R --expect 'p99 <= 5ms'",
		Args: cobra.ArbitraryArgs,
		RunE: cmdline.Run(
			func(args []string) (connectConfig, error) {
				c := connectConfig{Rounds: rounds, Config: measure.Config{Tool: tool, Command: measure.CommandLine(tool), Plan: spec}}
				var wrong cmdline.Faults
				var err error
				c.Peer, err = peer.Config(tool, args)
				wrong.Note(err)
				c.Device, err = device.Config()
				wrong.Note(err)
				c.CPU, err = device.CPUChoice(1)
				wrong.Note(err)
				c.end, err = ends.config()
				wrong.Note(err)
				wrong.Range("--rounds (-n)", rounds, 1, 1e6)
				wrong.Range("--qp (-q)", spec.QPs, 1, 16384)
				_, err = plan.Settle(spec, plan.Limits{Dialled: true}, plan.Peer{}, plan.Policy{})
				wrong.Note(err)
				c.Device.Strict, c.Quiet = ends.gate.Given(), c.end.output.Quiet
				return c, errors.Join(wrong...)
			},
			func(ctx context.Context, c connectConfig) error { return c.run(ctx, out) },
		),
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.IntVarP(&spec.QPs, "qp", "q", 1, "queue pairs of a round")
	fs.IntVarP(&rounds, "rounds", "n", 100, "rounds")
	fs.BoolVarP(&spec.RDMACM, "rdma-cm", "R", false, "connect by RDMA CM")
	device.Bind(fs)
	peer.Bind(fs)
	ends.bind(fs)
	cmdline.GroupFlags(cmd, []cmdline.FlagGroup{
		{Title: "Queue pairs", Names: []string{"qp", "rounds", "rdma-cm"}}, opendevice.Group(), measure.PeerGroup(), endGroup(),
	})
	cmdline.Brief(cmd, "qp", "rounds", "rdma-cm", "device", "loopback", "expect", "save")
	return cmd
}

// run connects round after round over one session, prints and saves, and judges.
func (c *connectConfig) run(ctx context.Context, out output.Streams) error {
	if err := c.end.output.CheckWritable(); err != nil {
		return err
	}
	times := map[string][]int64{}
	quiet := output.Streams{Out: out.Out, Err: out.Err} // no terminal: a round is too short for a line of progress
	doc, err := measure.With(ctx, quiet, c.Config, func(m *measure.Measurer, doc measure.Document) error {
		for range c.Rounds {
			res, err := m.Run(ctx, c.Plan, bench.Options{Step: func(name string, took time.Duration) { times[name] = append(times[name], int64(took)) }})
			if err != nil {
				return err
			}
			doc.Client, doc.Server, doc.Label = res.Client, res.Server, res.Label
		}
		return nil
	})
	if doc == nil {
		return err
	}
	for _, step := range steps() {
		if len(times[step]) == 0 {
			continue
		}
		r := record(step, report.Plan{QPs: c.Plan.QPs}, times[step], 1)
		if step == "ready" { // of all queue pairs
			r.MessagesPerS *= float64(c.Plan.QPs)
		}
		doc.Records = append(doc.Records, r)
	}
	return c.end.deliver(out, doc, err)
}
