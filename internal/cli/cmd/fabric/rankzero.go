package fabric

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"

	"github.com/gobw/gobw/internal/bench/machine"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/gate"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/fabric"
	"github.com/gobw/gobw/internal/fabric/rankzero"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/expect"
	"github.com/gobw/gobw/report/matrix"
	"github.com/gobw/gobw/report/render"
	"github.com/gobw/gobw/report/stats"
)

// coordinate is rank 0: it lets the others run, takes part if this host is one of those tested, and prints the verdict.
func coordinate(ctx context.Context, out output.Streams, c config, l net.Listener, hello *fabric.Hello) error {
	if err := c.Output.CheckWritable(); err != nil {
		return errors.Join(err, l.Close())
	}
	snapshots := make(chan os.Signal, 1)
	output.NotifyStatus(snapshots)
	defer signal.Stop(snapshots)
	var wg sync.WaitGroup
	p := output.NewProgress(out, c.Output.Quiet)
	if hello != nil {
		_, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			return errors.Join(err, l.Close())
		}
		wg.Go(func() {
			// It ends when the coordinator says goodbye, not with the context: what it measures is still wanted then.
			// What becomes of it is in the report, as of any other rank.
			_, _ = part(context.WithoutCancel(ctx), c, *hello, c.run.Key, []string{"127.0.0.1:" + port}, nil)
		})
	}
	run := c.run
	run.Version, run.Progress, run.Note, run.Snapshots = machine.Version(), p.Tell, note(c.Tool, p), snapshots
	run.Snapshot = func(d *report.Document) {
		p.Clear()
		_ = render.Documents(out.Err, c.Output.Format, []*report.Document{d})
	}
	keeper := c.Output.Keeper(out)
	run.Kept = func(soFar func() *report.Document) {
		keeper.Keep(func(w io.Writer) error {
			d := soFar()
			d.Command, d.Version = c.Command, machine.Version()
			return report.Write(w, d)
		})
	}
	d, err := rankzero.Coordinate(ctx, l, run)
	wg.Wait()
	p.Clear()
	return finish(ctx, out, c, d, err)
}

// finish writes the result, also of a run that failed, and returns the verdict as an exit status.
func finish(ctx context.Context, out output.Streams, c config, d *report.Document, failed error) error {
	d.Command, d.Version = c.Command, machine.Version()
	expected := expect.Judge(d, c.Gate.Expect, expect.Judgement{Accept: c.Gate.Accept})
	for i := range expected {
		// This command has no such flag: its runs are blocks of time.
		if settle := &expected[i].Settle; strings.Contains(*settle, "--runs ") {
			*settle = "a longer --time, or quieter hosts and a quieter network"
		}
	}
	d.Checks = append(d.Checks, expected...)
	complete := d.Complete && failed == nil && len(d.Fabric.Rounds) > 0
	err := c.Output.DeliverPart(out, complete, nil, func(w io.Writer, format string) error {
		return render.Documents(w, format, []*report.Document{d})
	})
	switch {
	case ctx.Err() != nil:
		return errors.Join(context.Cause(ctx), err)
	case failed != nil && len(d.Fabric.Rounds) == 0:
		return exit.With(exit.Setup, errors.Join(failed, err))
	case failed != nil || err != nil:
		return errors.Join(failed, err)
	}
	exit.Complain(out.Err, c.Tool, gate.Verdict(expected))
	return verdict(d)
}

// verdict is the exit status of a document: the gravest cause decides. The document has said everything else.
func verdict(d *report.Document) error {
	order := []int{exit.Passed, exit.Undecided, exit.PeerLost, exit.Missed, exit.Corrupt}
	worst := 0
	for _, c := range d.Checks {
		code := exit.Missed
		switch {
		case c.Word == stats.Pass:
			code = exit.Passed
		case c.Word == stats.CannotTell:
			code = exit.Undecided
		case c.Cause == matrix.WrongData:
			code = exit.Corrupt
		case slices.Contains([]stats.Cause{matrix.Absent, matrix.Unfit, matrix.Lost}, c.Cause):
			code = exit.PeerLost
		}
		worst = max(worst, slices.Index(order, code))
	}
	if worst == 0 {
		return nil
	}
	return exit.Error{Code: order[worst]}
}
