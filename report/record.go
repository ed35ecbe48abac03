package report

import (
	"cmp"
	"slices"
	"time"

	"github.com/gobw/gobw/report/noncontig"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

// Device says on what a document was measured: "roce0 (roce) on alpha, to roce0 on beta".
func (d *Document) Device() string {
	if d.Client.Device == "" {
		return ""
	}
	s := d.Client.Device
	provider, host := d.Client.Provider, d.Client.Host
	s += plain.When(provider != "" && provider != s, " (%s)", provider) + plain.When(host != "", " on %s", host)
	if sv := d.Server; sv != nil && sv.Host != "" && (sv.Host != d.Client.Host || sv.Device != d.Client.Device) {
		s += ", to " + sv.Device + " on " + sv.Host
	}
	return s
}

// Name of a document among several: its description, or the device and host, or of a test of many hosts when it was.
func (d *Document) Name() string {
	if d.Description != "" {
		return d.Description
	}
	if d.Fabric != nil { // whose device is that of one host
		return d.Tool + " fabric of " + d.Started.UTC().Format(time.DateTime)
	}
	if s := d.Device(); s != "" {
		return s
	}
	return d.Tool
}

// Measured are the records of a document. Each run of each point of a non-contiguous experiment is a record, too; its
// bandwidth is the goodput. Comparisons, expectations and lists use these records; the tables and pictures of a grid
// use its points.
func (d *Document) Measured() []Record {
	n, cells := d.Noncontig, map[[2]string]*noncontig.Cell{}
	if n == nil {
		return d.Records
	}
	out := slices.Clone(d.Records)
	for i := range n.Cells {
		cells[[2]string{n.Cells[i].Shape, n.Cells[i].Layout}] = &n.Cells[i]
	}
	crossovers := map[noncontig.Key]float64{}
	for _, x := range n.Crossovers {
		crossovers[x.Key] = x.BlockBytes
	}
	s := &n.Setup
	for i := range n.Points {
		p := &n.Points[i]
		plan := Plan{
			Operation: "noncontig", Kind: bandwidthKind, Transport: s.Transport, SizeBytes: uint64(max(p.SizeBytes, 0)),
			QPs: max(s.QPs, 1), TxDepth: s.Window, Events: s.Events, Verified: s.Verify,
			Shape: p.Shape, Strategy: p.Strategy, Layout: p.Layout, Cache: s.Cache, MaxSGE: s.MaxSGE, MaxSGERead: s.MaxSGERead,
			ListBytes: s.ListBytes, Kernel: s.Kernel,
		}
		if p.Strategy == noncontig.Pipelined {
			plan.SegmentBytes = int(s.Segment())
		}
		cell := cells[[2]string{p.Shape, p.Layout}]
		if cell == nil {
			cell = &noncontig.Cell{}
		}
		for k, run := range p.Runs {
			r := Record{Plan: plan, Run: k + 1, Messages: run.Messages, Seconds: run.Seconds, Warnings: run.Warnings}
			if cell.Impossible != "" {
				r.Warnings = append(slices.Clone(r.Warnings), string(stats.Impossible)+": "+cell.Impossible)
			}
			if r.Crossover = crossovers[cell.Key]; cell.Question != nil && cell.Question.Speedup > 0 {
				r.Ratio = cmp.Or(cell.Question.Ratios[run.RoundAt(k)], cell.Question.Speedup)
			}
			r.Bytes = run.Messages * plan.SizeBytes
			r.Bandwidth = Bandwidth{AverageBitsPerS: run.GoodputBitsPerS}
			if run.Seconds > 0 {
				r.MessagesPerS = float64(run.Messages) / run.Seconds
			}
			if run.P50Ns > 0 {
				r.Latency = &Latency{Samples: run.Messages, P50Ns: run.P50Ns, P99Ns: run.P99Ns}
			}
			out = append(out, r)
		}
	}
	return out
}
