// Package noncontig is the command 'noncontig': the non-contiguous experiment.
package noncontig

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/gobw/gobw/internal/bench"
	"github.com/gobw/gobw/internal/bench/drive"
	"github.com/gobw/gobw/internal/bench/machine"
	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/measure"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/pattern"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/figure"
	"github.com/gobw/gobw/report/noncontig"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/verbs"
)

// arm is one strategy on one layout. Those of a layout and shape are a cell.
type arm struct {
	point int // index in the points of the result
	plan  plan.Spec
	recvs int // receives per message
}

// round is a cell's arms, measured back to back in an order drawn by lot.
type round struct {
	run  int // from 0; -1: of no run, before all
	arms []arm
}

// has tells whether a measurement is of the round's run.
func (r round) has(x noncontig.Run) bool { return x.Round == r.run+1 }

// experiment is a grid being measured.
type experiment struct {
	config    Config
	out       output.Streams
	doc       measure.Document
	previous  *report.Document // that --resume completes
	cells     [][]arm
	todo      []round
	caches    pattern.Caches
	footprint int64 // bytes of layouts walked; 0: as few as are in flight
	limits    plan.Limits
	planned   map[int]bool    // points that are measured
	seconds   map[int]float64 // of a list, by its point
}

// Measure measures a grid and returns its document, also after an error once the device is open.
func Measure(ctx context.Context, out output.Streams, c Config) (*report.Document, error) {
	previous, err := output.Previous(c.Output, loadGrid)
	if err != nil {
		return nil, err
	}
	return measure.With(ctx, out, c.Config, func(m *measure.Measurer, doc measure.Document) error {
		e := &experiment{
			config: c, out: out, doc: doc, previous: previous, caches: pattern.HostCaches(), seconds: map[int]float64{},
			planned: map[int]bool{},
		}
		if c.Cache == "cold" {
			e.footprint = 2 * int64(e.caches.LastLevel)
		}
		if err := e.prepare(m); err != nil {
			m.Session.Fail(errors.New("the grid was refused"))
			return exit.With(exit.Usage, err)
		}
		defer e.conclude()
		if err := e.measure(ctx, m); err != nil || c.List == nil || !c.Threshold {
			return err
		}
		return e.findThreshold(ctx, m)
	})
}

// prepare makes the list of measurements and refuses what cannot work, all faults together.
func (e *experiment) prepare(m *measure.Measurer) error {
	c := &e.config
	info, entries := m.Device.Info(), cmp.Or(c.MaxSGE, math.MaxInt)
	e.limits = plan.Limits{Device: info, Port: m.Port, Dialled: true}
	n := &noncontig.Grid{Setup: noncontig.Setup{
		Device: info.Name, Transport: c.Transport.String(), Cache: c.Cache, LLCBytes: int64(e.caches.LastLevel),
		Window: c.Window,
		MaxSGE: min(info.Limits.MaxSGE, entries), MaxSGERead: min(info.Limits.MaxSGERead, entries), Runs: c.Runs,
		MinSeconds: c.MinTime.Seconds(), Verify: c.Verify, Events: c.Events, ListBytes: e.listBytesText(),
		SegmentBytes: c.Segment,
		Kernel:       pattern.KernelName(), Priority: plain.When(machine.Priority() == "realtime", "realtime"),
	}}
	if c.QPs > 1 {
		n.Setup.QPs = c.QPs
	}
	e.doc.Noncontig = n
	e.doc.Label = bench.Label(info)
	var wrong cmdline.Faults
	for _, shape := range c.Shapes {
		wrong.If(!slices.ContainsFunc(plan.Strategies(shape), c.carries),
			"--shape %s: %v cannot carry it: use --connection RC", shape, c.Transport)
	}
	if c.List != nil {
		n.List = c.List.about
	}
	e.add(c.Layouts, &wrong)
	wrong.If(len(e.cells) == 0 && len(wrong) == 0,
		"nothing to measure: no strategy is left for these shapes and layouts%s%s",
		plain.When(slices.Contains(c.Strategies, "pack-pipelined"),
			"; pack-pipelined needs messages of several blocks that are larger than --segment %d", c.Segment),
		strings.Join(plain.Each(n.Absent, func(a noncontig.Absence) string { return "; " + a.Strategy + ": " + a.Reason }),
			""))
	e.shuffle()
	if e.previous != nil {
		wrong.Note(e.resume())
	}
	return errors.Join(wrong...)
}

// add makes cells of layouts: what is measured next.
func (e *experiment) add(layouts []gridLayout, wrong *cmdline.Faults) {
	c, n := &e.config, e.doc.Noncontig
	e.cells = nil
	refused := map[string]bool{} // reasons: a grid has many layouts, and few reasons
	largest := uint64(0)
	for _, g := range layouts {
		inFlight := int64(2 * c.Window)
		if c.List != nil {
			inFlight = 1
		} else if g.Layout.Extent() == g.Layout.Size() {
			e.warnOfNoGaps(g)
		}
		if g.Mean == 0 {
			n.Setup.FootprintBytes = max(n.Setup.FootprintBytes, e.footprint, g.Layout.Extent()*inFlight)
		}
		for _, shape := range c.Shapes {
			var cell []arm
			named := map[string]bool{}
			for _, s := range plan.Strategies(shape) {
				if named[s.Name] || !c.carries(s) || !c.takes(s, g) {
					continue
				}
				named[s.Name] = true // a list has two rows of one name
				settled, err := e.settle(s, g)
				why := absent(settled)
				if err != nil {
					for _, problem := range problemsOf(err) {
						reason := problem.Error()
						if r, is := errors.AsType[*plan.Refusal](problem); is && g.list != nil {
							why = reason
							continue
						} else if is {
							reason = r.Reason
						}
						wrong.If(!refused[reason], "%s of %s: %v", s.Name, g.name(), problem)
						refused[reason] = true
					}
				}
				if why != "" && g.Mean == 0 {
					n.Absent = plain.AddNew(n.Absent, noncontig.Absence{Shape: shape, Strategy: s.Name, Reason: why})
				}
				if err != nil || why != "" {
					continue
				}
				largest = max(largest, settled.Memory.Buffers)
				cell = e.addPoint(cell, g, settled)
			}
			if cell != nil {
				e.cells = append(e.cells, cell)
			}
		}
	}
	err := machine.CheckMemory(int64(largest), c.Peer.Loopback, e.limits.Device.Software)
	if err != nil && c.Cache == "cold" {
		err = fmt.Errorf("%w, or --cache hot", err)
	}
	wrong.Note(err)
}

func (e *experiment) warnOfNoGaps(g gridLayout) {
	c := &e.config
	layout := g.Layout.String() // of a file of blocks it has all of them
	text := fmt.Sprintf("layout %.80s%s: its blocks touch, so this is contiguous data; "+
		"give a stride larger than the block", layout, plain.When(len(layout) > 80, " …"))
	if g.Stride != noncontig.AsGiven && g.Layout.Blocks() > 1 {
		text = fmt.Sprintf("--strides %s: no gaps between the blocks, so this is contiguous data; try --strides 2x", g.Stride)
	}
	if !c.Output.Quiet && !slices.Contains(e.doc.Warnings, text) {
		fmt.Fprintf(e.out.Err, "%s: %s\n", c.Tool, text)
	}
	e.doc.Warnings = plain.AddNew(e.doc.Warnings, text)
}

// settle makes one measurement of a strategy on a layout, or on the list. The strategy's own settings are for Settle
// to fill in.
func (e *experiment) settle(s plan.Strategy, g gridLayout) (*plan.Settled, error) {
	c, limits := &e.config, e.limits
	spec := plan.Spec{
		Timeout: gridTimeout,
		// hot: each place once
		Transport: c.Transport, Events: c.Events, QPs: c.QPs, Duration: c.MinTime, Warmup: uint64(2 * c.Window),
		Noncontig: &plan.Noncontig{
			Shape: s.Shape, Strategy: s.Name, Layout: g.Layout.String(), Descriptors: g.list, Window: c.Window,
			Footprint: int(e.footprint), Segment: int(c.Segment), ListBytes: e.listBytes(s), MaxSGE: c.MaxSGE,
		},
	}
	if limits.List = g.transfer; g.list != nil {
		spec.Duration, spec.Iterations, spec.Warmup = 0, 1, 1
	}
	return plan.Settle(spec, limits, plan.Peer{}, plan.Policy{})
}

// findThreshold scales the list until the device's way and the copy change places, and then looks more closely there.
func (e *experiment) findThreshold(ctx context.Context, m *measure.Measurer) error {
	n, l := e.doc.Noncontig, e.config.List
	scaled := func(means []int) error {
		if len(means) == 0 {
			return nil
		}
		var wrong cmdline.Faults // what cannot be scaled so far is left out
		var layouts []gridLayout
		for _, mean := range means {
			if g, err := l.scaled(mean); err == nil {
				layouts = append(layouts, g)
			}
		}
		e.add(layouts, &wrong)
		e.shuffle()
		e.todo = slices.DeleteFunc(e.todo, e.done)
		return e.measure(ctx, m)
	}
	n.Analyze()
	only := e.config.Strategies
	defer func() { e.config.Strategies = only }()
	device, cpu := n.Cells[0].Sides()
	if n.Cells[0].Find(device) == nil || n.Cells[0].Find(cpu) == nil {
		return nil // one of them was left out
	}
	e.config.Strategies = []string{device, cpu}
	if err := scaled(ladder(&e.config.Layouts[0].Layout)); err != nil {
		return err
	}
	n.Analyze()
	if len(n.Crossovers) == 0 { // the list itself has none
		return nil
	}
	return scaled(between(n.Crossovers[0].Low, n.Crossovers[0].High))
}

// problemsOf are the mistakes that an error of a plan holds.
func problemsOf(err error) []error {
	if e, is := errors.AsType[*plan.Error](err); is {
		return e.Problems
	}
	return []error{err}
}

// shuffle draws the order: of the rounds within each run, and within each round. Runs stay in order, so
// that an interrupted grid has whole ones.
func (e *experiment) shuffle() {
	first := 0
	if e.config.Verify == string(plan.VerifyAll) || e.config.List != nil { // how long a list takes is not known yet
		first = -1
	}
	for run := first; run < e.config.Runs; run++ {
		for _, cell := range rand.Perm(len(e.cells)) {
			r := round{run: run, arms: slices.Clone(e.cells[cell])}
			rand.Shuffle(len(r.arms), func(i, j int) { r.arms[i], r.arms[j] = r.arms[j], r.arms[i] })
			e.todo = append(e.todo, r)
		}
	}
}

func (e *experiment) point(a arm) *noncontig.Point { return &e.doc.Noncontig.Points[a.point] }

// carries tells whether the transport has the strategy's operation.
func (c *Config) carries(s plan.Strategy) bool {
	return plan.RowOf(s.Operation).Supports(c.Transport)
}

// takes tells whether a strategy is measured on a layout: a pipeline of one segment is the same as none.
func (c *Config) takes(s plan.Strategy, g gridLayout) bool {
	if c.Strategies != nil && !slices.Contains(c.Strategies, s.Name) {
		return false
	}
	l := g.Layout
	return c.List != nil || s.Cut != plan.Segments || l.Size() > c.Segment && l.Blocks() > 1
}

// listBytes is where the device had best cut the chains of a strategy's lists: 0 for as few requests as possible.
func (e *experiment) listBytes(s plan.Strategy) int {
	batched := e.limits.Device.Batched
	packets := map[plan.Operation]int{plan.Write: batched.Write, plan.Read: batched.Read}[s.Operation]
	return packets * e.limits.Port.ActiveMTU.Bytes()
}

// listBytesText tells where the lists of the grid are cut, if anywhere: "gather-write 4096, scatter-read 8192".
func (e *experiment) listBytesText() string {
	cuts := plain.Each(e.config.Shapes, func(shape string) string {
		s := plan.Strategies(shape)[0]
		n := e.listBytes(s)
		return plain.When(n > 0, ", %s %d", s.Name, n)
	})
	return strings.TrimPrefix(strings.Join(cuts, ""), ", ")
}

// addPoint adds a point to the result, and its arm to a cell; one that the grid has twice is measured once.
func (e *experiment) addPoint(cell []arm, g gridLayout, settled *plan.Settled) []arm {
	s, load := settled.Point.Strategy, settled.Point.Load
	p := noncontig.Point{
		Shape: s.Shape, Strategy: s.Name, Layout: g.name(), BlockBytes: int64(g.Layout.MeanBlockBytes() + 0.5),
		Blocks: g.Layout.Blocks(), StrideBytes: g.Layout.Stride(), Stride: g.Stride, SizeBytes: g.Layout.Size(),
		Held: g.Held, WRs: load.WRs, SGEs: load.SGEs + load.RecvSGEs, Verified: e.config.Verify,
		PeerUnpacks: g.list != nil && s.Pack && s.Unpack,
	}
	n := e.doc.Noncontig
	at := slices.IndexFunc(n.Points, func(q noncontig.Point) bool { return samePoint(&p, &q) })
	switch {
	case at < 0:
		n.Points, at = append(n.Points, p), len(n.Points)
	case e.planned[at]:
		return cell
	default: // measured before, by a grid that is resumed
		p.Runs = n.Points[at].Runs
		n.Points[at] = p
	}
	e.planned[at] = true
	return append(cell, arm{point: at, plan: settled.Proposal(), recvs: max(load.RecvWRs, 1)})
}

func samePoint(a, b *noncontig.Point) bool {
	return a.Shape == b.Shape && a.Strategy == b.Strategy && a.Layout == b.Layout && a.Stride == b.Stride &&
		a.Held == b.Held
}

// measure goes through the rounds over one session.
func (e *experiment) measure(ctx context.Context, m *measure.Measurer) error {
	total := 0
	for _, r := range e.todo {
		total += len(r.arms)
	}
	bar, done, started := output.NewProgress(e.out, e.config.Output.Quiet), 0, time.Now()
	defer bar.Clear()
	keeper := e.config.Output.Keeper(e.out)
	for len(e.todo) > 0 {
		r := e.todo[0]
		for _, a := range r.arms {
			p, left := e.point(a), time.Duration(0) // by the pace so far
			if done > 0 {
				left = time.Since(started) / time.Duration(done) * time.Duration(total-done)
			}
			done++
			bar.Write(fmt.Sprintf("[%d/%d]%s  %s %s, %s", done, total,
				plain.When(left > 0, "  %v left", left.Round(time.Second)), p.Shape, p.Strategy, p.Layout))
			if err := e.one(ctx, m, r.run, a); err != nil {
				return err
			}
		}
		e.todo = e.todo[1:]
		keeper.Keep(func(w io.Writer) error { return report.Write(w, e.doc.Document) })
	}
	return nil
}

// one makes one measurement, and keeps it. Data is compared in the first run, in every message before it.
func (e *experiment) one(ctx context.Context, m *measure.Measurer, run int, a arm) error {
	p, spec, options := e.point(a), a.plan, bench.Options{Progress: func(drive.Progress) {}}
	if l := e.config.List; l != nil {
		options.List = l.List
		spec.Iterations = e.lists(a)
	}
	switch {
	case run < 0 && e.config.List != nil: // how long it takes, and whether every byte arrives
		spec.Verify, spec.Iterations = plan.Verify(e.config.Verify), 2
	case run < 0:
		spec.Verify, spec.Duration, spec.Iterations = plan.VerifyAll, 0, uint64(16*e.config.Window)
	case run == 0 && e.config.Verify != "" && e.config.List == nil:
		spec.Verify = plan.VerifyEnds
	}
	res, err := m.Run(ctx, spec, options)
	if err != nil {
		return fmt.Errorf("%s, %s, %s: %w", p.Shape, p.Strategy, p.Layout, err)
	}
	e.note(run, a, res)
	return nil
}

// note keeps one measurement.
func (e *experiment) note(round int, a arm, res *bench.Result) {
	e.doc.Client, e.doc.Server, e.doc.Label = res.Here, res.Peer, res.Label
	if len(res.Records) == 0 {
		return
	}
	p, rec := e.point(a), &res.Records[0]
	lists := float64(rec.Bytes) / float64(p.SizeBytes) // or layouts
	if e.config.List != nil && rec.Seconds > 0 {
		e.seconds[a.point] = rec.Seconds / lists
	}
	if round < 0 {
		return
	}
	run := noncontig.Run{
		Round: round + 1, Messages: rec.Messages, Seconds: rec.Seconds, GoodputBitsPerS: rec.Bandwidth.AverageBitsPerS,
	}
	for _, w := range rec.Warnings {
		// a one-sided peer counts no messages
		if kind, text := figure.NoteOf(w); kind != figure.Short || !strings.HasPrefix(w, "peer: ") {
			run.Warnings = plain.AddNew(run.Warnings, cmp.Or(kind, text))
		}
	}
	// else a completion says that the message has left, and no more
	if rec.Latency != nil && e.config.Transport == verbs.RC {
		run.P50Ns, run.P99Ns = rec.Latency.P50Ns, rec.Latency.P99Ns
	}
	perByte := func(c *report.CPU) float64 {
		if c == nil || rec.Bytes == 0 {
			return 0
		}
		if e.config.Events {
			return c.ProcessSeconds * 1e9 / float64(rec.Bytes)
		}
		ns := c.PackNsPerMessage + c.UnpackNsPerMessage + c.PostNsPerMessage + c.PollNsPerMessage
		return ns * float64(rec.Messages) / float64(rec.Bytes)
	}
	run.CPUNsPerByte, run.PeerCPUNsPerByte = perByte(rec.CPU), perByte(rec.PeerCPU)
	if a.plan.Reversed { // a record is told by the end that sends
		run.CPUNsPerByte, run.PeerCPUNsPerByte = run.PeerCPUNsPerByte, run.CPUNsPerByte
	}
	switch {
	case e.config.List != nil:
		run.Messages = uint64(math.Round(lists))
		run.P50Ns, run.P99Ns = 0, nil // of a message, of which a list is several
		run.ListNs = rec.Seconds * 1e9 / lists * float64(e.config.Window)
		if c := rec.CPU; c != nil {
			run.PostNs = (c.PackNsPerMessage + c.PostNsPerMessage) * float64(rec.Messages) / lists
		}
	case !e.config.Events:
		run.PeerCPUNsPerByte *= float64(a.recvs) // told per receive
	}
	p.Runs = append(p.Runs, run)
}

// lists is how many lists one measurement moves: as many as its time takes.
func (e *experiment) lists(a arm) uint64 {
	seconds := e.seconds[a.point]
	if seconds <= 0 {
		return 1
	}
	return uint64(min(max(e.config.MinTime.Seconds()/seconds, float64(e.config.Window)), 1e9))
}

// conclude analyses what was measured.
func (e *experiment) conclude() {
	n := e.doc.Noncontig
	n.Analyze()
	if n.Setup.Cache == "hot" && n.Setup.FootprintBytes > n.Setup.LLCBytes {
		e.doc.Warnings = append(e.doc.Warnings,
			fmt.Sprintf("the layouts in flight take %s, more than the last-level cache of %s: the cache is not hot",
				plain.Bytes(float64(n.Setup.FootprintBytes)), plain.Bytes(float64(n.Setup.LLCBytes))))
	}
}
