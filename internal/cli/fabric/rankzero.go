package fabric

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/gobw/gobw/internal/bench"
	"github.com/gobw/gobw/internal/cli/agent"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/fabric/coordinate"
	"github.com/gobw/gobw/internal/fabric/judge"
	"github.com/gobw/gobw/internal/fabric/schedule"
	"github.com/gobw/gobw/internal/fabric/summary"
	"github.com/gobw/gobw/internal/fabric/wire"
	results "github.com/gobw/gobw/report"
	report "github.com/gobw/gobw/report/fabric"
)

// rankZero is the coordinating process.
type rankZero struct {
	config
	out   output.Streams
	began time.Time
	key   wire.Key
	ranks int
	names []string // of ranks
	hosts []string // of the job

	stream   *bufio.Writer // of --jsonl
	encoder  *json.Encoder
	file     *os.File
	diskFull error
	progress progress
}

const (
	lead = 100 * time.Millisecond
	tail = 50 * time.Millisecond
	// perRound is what a round is expected to take beyond its measuring.
	perRound = 150 * time.Millisecond
)

// run coordinates, takes part if this host is one of those tested, and prints the verdict.
func (r *rankZero) run(ctx context.Context, l net.Listener, hello *wire.Hello) error {
	r.progress = progress{out: r.out, quiet: r.quiet}
	err := r.files.check()
	if err == nil {
		err = r.openStream()
	}
	if err != nil {
		return errors.Join(exit.SetupError{Err: err}, l.Close())
	}
	snapshots := make(chan os.Signal, 1)
	notifySnapshots(snapshots)
	defer signal.Stop(snapshots)
	asked := make(chan struct{}, 1)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-snapshots:
				select {
				case asked <- struct{}{}:
				default:
				}
			case <-done:
				return
			}
		}
	})
	if hello != nil {
		o := agent.Options{Hello: *hello, Key: r.key, Places: []string{fmt.Sprintf("127.0.0.1:%d", l.Addr().(*net.TCPAddr).Port)}, Wait: r.wait, WorkerFlags: r.workerFlags} //nolint:forcetypeassert // a TCP listener
		wg.Go(func() {
			// The coordinator's parting words end this part, so that its context need not.
			if _, err := agent.Part(context.WithoutCancel(ctx), o); err != nil {
				r.note(fmt.Sprintf("rank 0's own part: %v", err))
			}
		})
	}
	o, err := coordinate.Run(ctx, l, coordinate.Config{
		Ranks: r.ranks, Names: r.names, Hosts: r.hosts, Key: r.key, Version: bench.Version(), Wait: r.wait, Rails: r.rails, Plan: r.plan, Leaf: r.leaf, Judge: r.limited(),
		Choose: r.choose, Lead: lead, Measure: r.measure, Tail: tail, Progress: r.progress.round, Cells: r.cells, Note: r.note,
		Snapshots: asked, Snapshot: r.snapshot,
	})
	close(done)
	wg.Wait()
	r.progress.end()
	d := summary.Document(o, r.facts(r.began, o))
	if err != nil {
		d.Stopped = err.Error()
	}
	err = errors.Join(r.finish(d), r.closeStream(), err)
	if o.Interrupted != nil {
		return errors.Join(o.Interrupted, err)
	}
	if err != nil {
		if o.Judge == nil { // no round was run
			return exit.SetupError{Err: err}
		}
		return err
	}
	return verdict(d)
}

// limited is the judge with as many re-tests as the time allows.
func (c *config) limited() judge.Config {
	j := c.judge
	j.Retests = max(c.mostRounds()*3/10, 12)
	return j
}

// mostRounds is how many rounds fit the time.
func (c *config) mostRounds() int { return int(c.time / (c.measure + lead + tail + perRound)) }

// choose picks the rounds: those asked for, or what fits seven tenths of the time.
func (c *config) choose(o schedule.Options) (schedule.Schedule, error) {
	most := max(c.mostRounds()*7/10, 1)
	if c.pattern == "" {
		s, err := schedule.Choose(o, most)
		return s.Repeated(most), err
	}
	if c.pattern == schedule.Custom {
		var err error
		if o.Custom, err = schedule.ReadCustom(bytes.NewReader(c.custom), o.Roster); err != nil {
			return schedule.Schedule{}, fmt.Errorf("--custom: %w", err)
		}
	}
	if c.pattern == schedule.Random {
		o.Count = max(min(most, o.Hosts), 3)
	}
	if c.pattern == schedule.Leaves {
		o.Shifts = 1
		one, err := schedule.New(schedule.Leaves, o)
		if err != nil {
			return one, err
		}
		for o.Shifts < o.Hosts {
			o.Shifts++
			more, err := schedule.New(schedule.Leaves, o)
			if err != nil || more.Rounds > most || more.Rounds == one.Rounds {
				return one.Repeated(most), err
			}
			one = more
		}
		return one.Repeated(most), nil
	}
	s, err := schedule.New(c.pattern, o)
	return s.Repeated(most), err
}

func (r *rankZero) note(s string) { r.progress.note(s) }

// check tells before a run what would keep its files from being written.
func (f files) check() error {
	return output.CheckWritable(f.html, f.junit, f.json, f.jsonl, f.csv, f.openMetrics, f.nodes)
}

// openStream opens the file that gets each cell as it comes.
func (r *rankZero) openStream() error {
	if r.files.jsonl == "" {
		return nil
	}
	var err error
	if r.file, err = os.Create(r.files.jsonl); err != nil {
		return fmt.Errorf("--jsonl: %w", err)
	}
	r.stream = bufio.NewWriter(r.file)
	r.encoder = json.NewEncoder(r.stream)
	return nil
}

// cells streams the cells of a round. A full disk costs the file and not the run.
func (r *rankZero) cells(o coordinate.Named, round schedule.Round, load judge.Load, cells []judge.Cell) error {
	r.progress.cells(o, cells, r.judge.Latency)
	if r.stream == nil || r.diskFull != nil {
		return nil
	}
	for _, x := range cells {
		rec := report.CellRecord{
			Round: int(x.Round) + 1, Label: round.Label, From: o.Name(int(x.From)), To: o.Name(int(x.To)), Rail: r.rails[x.Rail],
			State: report.StateName(int(x.State)), FanIn: load.FanIn, Retest: load.Retest, Alone: load.Quiet,
		}
		if r.judge.Latency {
			rec.P50Ns = float64(x.Value)
		} else {
			rec.Bits = float64(x.Value)
		}
		if r.diskFull = r.encoder.Encode(rec); r.diskFull != nil {
			break
		}
	}
	if r.diskFull == nil {
		r.diskFull = r.stream.Flush()
	}
	if r.diskFull != nil {
		r.note(fmt.Sprintf("--jsonl: %v; the run goes on without this file", r.diskFull))
	}
	return nil
}

func (r *rankZero) closeStream() error {
	if r.file == nil {
		return nil
	}
	if r.diskFull == nil {
		r.diskFull = r.stream.Flush()
	}
	if err := errors.Join(r.diskFull, r.file.Close()); err != nil {
		return fmt.Errorf("--jsonl: %w", err)
	}
	return nil
}

func (r *rankZero) snapshot(o coordinate.Outcome) {
	r.progress.end()
	d := summary.Document(o, r.facts(r.began, o))
	d.Stopped = "a snapshot, the run goes on"
	if err := d.Text(r.out.Err); err != nil {
		return
	}
}

// write prints the report and writes all files that were asked for; one that fails does not keep the others back.
func (c *config) write(d *report.Document, out io.Writer) error {
	errs := []error{d.Text(out)}
	cells := c.files.jsonl
	if c.simulated == 0 { // streamed
		cells = ""
	}
	for _, f := range []struct {
		flag, path string
		write      func(io.Writer) error
	}{
		{"--json", c.files.json, d.Write},
		{"--jsonl", cells, d.JSONLines},
		{"--html", c.files.html, d.HTML},
		{"--junit", c.files.junit, d.JUnit},
		{"--csv", c.files.csv, d.CSV},
		{"--openmetrics", c.files.openMetrics, d.OpenMetrics},
		{"--nodes", c.files.nodes, d.Nodes},
	} {
		if f.path == "" {
			continue
		}
		if err := results.WriteFile(f.path, f.write); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", f.flag, err))
		}
	}
	return errors.Join(errs...)
}

func (r *rankZero) finish(d *report.Document) error { return r.write(d, r.out.Out) }
