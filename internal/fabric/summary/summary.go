// Package summary makes the document of a fabric test from its outcome.
package summary

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gobw/gobw/internal/fabric/coordinate"
	"github.com/gobw/gobw/internal/fabric/judge"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report/fabric"
	"github.com/gobw/gobw/report/plain"
)

// Facts are what the outcome does not know of itself.
type Facts struct {
	Program, Command string
	Began            time.Time
	Plan             plan.Spec
	Measure          time.Duration
	OneWay           bool
	Rails            []string
	Stopped          string
	Baseline         string // what the run was held to; empty: itself alone
}

// mostCells bounds the cells inside a document; the files of cells have all.
const mostCells = 4 << 20

// Document is the outcome as a document.
func Document(o coordinate.Outcome, f Facts) *fabric.Document {
	d := &fabric.Document{
		Format: fabric.Format, Version: fabric.Version, Program: f.Program, Command: f.Command, Began: f.Began, Seconds: o.Seconds,
		Pattern: string(o.Schedule.Pattern), Planned: o.Schedule.Rounds, Rails: slices.Clone(f.Rails), Stopped: f.Stopped,
		Rounds: []fabric.Round{}, Findings: []fabric.Finding{}, Classes: []fabric.Class{}, Scatter: []fabric.Quantile{},
	}
	d.Test = newTest(f)
	s := &summing{Document: d, o: o}
	s.hosts()
	if len(o.Leaves) > 1 {
		d.Leaves = o.Leaves
	}
	for _, r := range o.Rounds {
		d.Rounds = append(d.Rounds, fabric.Round{Label: r.Label, Flows: r.Flows, Failed: r.Failed, FanIn: r.Load.FanIn, Retest: r.Load.Retest, Alone: r.Load.Quiet})
	}
	if o.Judge != nil {
		s.cells()
		s.findings()
		s.incast()
		s.scatter()
		s.classes()
		d.Judged = o.Verdict.Judged
		d.Judged.Baseline = f.Baseline
	}
	return d
}

type summing struct {
	*fabric.Document
	o coordinate.Outcome
}

func (s *summing) hosts() {
	for _, h := range s.o.Hosts {
		out := fabric.Host{Rank: h.Rank, Name: h.Name, Leaf: h.Leaf, Address: h.Address, State: string(h.State), Reason: h.Reason, Remedy: h.Remedy, Notes: h.Notes}
		for _, g := range h.Silent {
			out.Notes = append(out.Notes, fmt.Sprintf("silent for %.1f s in round %d, then back", g.Seconds, g.Round))
		}
		out.Reason += plain.When(h.Round > 0, " (round %d)", h.Round)
		if h.Facts != nil {
			out.CPUs = h.Facts.CPUs
			for i, r := range h.Facts.Rails {
				out.Devices = append(out.Devices, r.Device)
				s.Software = s.Software || r.Software
				if i < len(s.Rails) && s.Rails[i] == "" {
					s.Rails[i] = r.Device
				}
			}
		}
		s.Hosts = append(s.Hosts, out)
	}
}

// name is the host of an index of the cells.
func (s *summing) name(i int) string { return s.Hosts[s.o.Taking[i]].Name }

func (s *summing) leaf(i int) string {
	if i >= 0 && i < len(s.o.Leaves) {
		return s.o.Leaves[i]
	}
	return "all leaves"
}

func (s *summing) cells() {
	cells := s.o.Judge.Cells()
	s.Cells.Left = max(0, len(cells)-mostCells)
	for _, x := range cells[:len(cells)-s.Cells.Left] {
		c := &s.Cells
		share := 0.0
		if x.State == judge.Measured {
			share = round4(s.o.Judge.Share(x))
		}
		c.From, c.To = append(c.From, s.o.Taking[x.From]), append(c.To, s.o.Taking[x.To])
		c.Round, c.Rail, c.State = append(c.Round, int(x.Round)), append(c.Rail, int(x.Rail)), append(c.State, int(x.State))
		c.Value, c.Share = append(c.Value, float64(x.Value)), append(c.Share, share)
	}
}

func round4(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	return math.Round(x*1e4) / 1e4
}

func (s *summing) findings() {
	for _, f := range s.o.Verdict.Findings {
		out := fabric.Finding{
			Kind: string(f.Kind), Bad: f.Kind.Bad(), Subject: f.Subject, Rail: f.Rail, FromRank: -1, ToRank: -1, Screened: round4(f.Screened),
			Busy: evidence(f.Loaded), Alone: evidence(f.Quiet),
		}
		if out.Subject == "" {
			out.Subject = "host"
			if f.From != f.To {
				out.Subject = "link"
			}
		}
		if f.Cells > 0 {
			out.Reason = fmt.Sprintf("%d of %d flows; ", f.Cells, f.Of)
		}
		switch out.Subject {
		case "trunk":
			out.From, out.To = s.leaf(f.From), s.leaf(f.To)
		case "class":
			out.From, out.Reason = s.hops(f.Crosses), "all alike: what they share, or what has changed since"
		default:
			out.From, out.FromRank = s.name(f.From), s.o.Taking[f.From]
			out.To, out.ToRank = s.name(f.To), s.o.Taking[f.To]
			out.Reason += s.reason(f)
			out.Reproduce = s.reproduce(f)
			if out.Subject == "link" && s.o.Leaf != nil && len(s.o.Leaves) > 1 {
				out.Leaves = s.leaf(s.o.Leaf[f.From]) + " -> " + s.leaf(s.o.Leaf[f.To])
			}
			if out.Subject != "link" {
				out.To, out.ToRank = "", -1
			}
		}
		out.Reason = strings.TrimSuffix(out.Reason, "; ")
		s.Findings = append(s.Findings, out)
	}
}

func evidence(e fabric.Evidence) fabric.Evidence {
	return fabric.Evidence{N: e.N, Share: round4(e.Share), Low: round4(e.Low), High: round4(e.High)}
}

// reason is why a flow of the finding has no figure, or what its sides tell.
func (s *summing) reason(f judge.Finding) string {
	for pair, why := range s.o.Reasons {
		if f.From != f.To && pair == [2]int{f.From, f.To} || f.From == f.To && (pair[0] == f.From || pair[1] == f.From) && f.Kind == judge.HostNotConnected {
			return why
		}
	}
	switch {
	case f.Kind == judge.SlowHost && f.Subject == "host":
		return "both directions: PCIe, CPU or the port itself"
	case f.Kind == judge.SlowHost:
		return "one direction: that half of its cable or port"
	case f.Kind == judge.SlowUnderLoad && len(s.Rails) > 1:
		return "fine with its rail alone: congestion on its way, or the host's rails share a limit (PCIe, memory)"
	case f.Kind == judge.SlowUnderLoad:
		return "fine alone: congestion on its way"
	}
	return ""
}

// reproduce is the test of two hosts that shows the finding; for a host, with one that is known to be good.
func (s *summing) reproduce(f judge.Finding) string {
	from, to := f.From, f.To
	if from == to {
		for i := range s.o.Taking {
			bad := slices.ContainsFunc(s.o.Verdict.Findings, func(g judge.Finding) bool { return g.From == i || g.To == i })
			if i != f.From && !bad {
				to = i
				break
			}
		}
		if to == from {
			return ""
		}
		if f.Subject == "receiver" {
			from, to = to, from
		}
	}
	tool := "gobw"
	if s.Test.Latency() {
		tool = "golat"
	}
	command := fmt.Sprintf("%s %s %s -s %d -D 5", tool, s.Test.Operation, s.name(to), s.Test.SizeBytes)
	command += plain.When(s.Test.QPs > 1, " -q %d", s.Test.QPs)
	if r := s.Rails[f.Rail]; r != "" {
		command += " -d " + r
	}
	return "at " + s.name(from) + ": " + command
}

// incast sums the flows of each receiver in the rounds whose point that is.
func (s *summing) incast() {
	type sum struct {
		total, least float64
		failed       int
	}
	byFan := map[int]map[[2]int]*sum{} // round and receiver
	for i := range s.Cells.Len() {
		c := s.Cells
		fan := s.Rounds[c.Round[i]].FanIn
		if fan == 0 || s.Pattern != "incast" {
			continue
		}
		if byFan[fan] == nil {
			byFan[fan] = map[[2]int]*sum{}
		}
		k := [2]int{c.Round[i], c.To[i]}
		r := byFan[fan][k]
		if r == nil {
			r = &sum{least: math.Inf(1)}
			byFan[fan][k] = r
		}
		if c.State[i] != fabric.Measured {
			r.failed++
			continue
		}
		r.total += c.Value[i]
		r.least = min(r.least, c.Value[i])
	}
	for fan, receivers := range byFan {
		out := fabric.Incast{FanIn: fan, Receivers: len(receivers), Least: math.Inf(1)}
		var totals []float64
		for _, r := range receivers {
			out.Failed += r.failed
			totals = append(totals, r.total)
			out.Least = min(out.Least, r.least)
		}
		slices.Sort(totals)
		out.Receiver = totals[len(totals)/2]
		if math.IsInf(out.Least, 0) {
			out.Least = 0
		}
		s.Incast = append(s.Incast, out)
	}
	slices.SortFunc(s.Incast, func(a, b fabric.Incast) int { return a.FanIn - b.FanIn })
}

// scatter is the distribution of the scheduled cells by rail and by whether they cross a trunk.
func (s *summing) scatter() {
	for rail := range s.Rails {
		for _, trunk := range []bool{false, true} {
			var v []float64
			for _, x := range s.o.Judge.Cells() {
				r := s.o.Rounds[x.Round]
				if int(x.Rail) != rail || x.State != judge.Measured || r.Load.Retest || s.crosses(x) != trunk {
					continue
				}
				if r.Load.FanIn <= 1 || s.Pattern != "incast" {
					v = append(v, float64(x.Value))
				}
			}
			if len(v) == 0 {
				continue
			}
			slices.Sort(v)
			at := func(share float64) float64 { return v[min(int(share*float64(len(v))), len(v)-1)] }
			s.Scatter = append(s.Scatter, fabric.Quantile{Rail: rail, Hops: s.hops(trunk), N: len(v), Min: v[0], P1: at(0.01), P50: at(0.5), P99: at(0.99), Most: v[len(v)-1]})
		}
	}
}

func (s *summing) crosses(x judge.Cell) bool {
	return len(s.o.Leaf) > 0 && s.o.Leaf[x.From] != s.o.Leaf[x.To]
}

// hops names the paths of a class.
func (s *summing) hops(trunk bool) string {
	if len(s.o.Leaves) < 2 {
		return allPaths
	}
	return map[bool]string{false: sameLeaf, true: betweenLeaves}[trunk]
}

const (
	allPaths      = "all"
	sameLeaf      = "same leaf"
	betweenLeaves = "between leaves"
)

// classes keeps what was learnt, for this page and as the baseline of another run.
func (s *summing) classes() {
	for _, l := range s.o.Judge.Learnt() {
		c := fabric.Class{Rail: int(l.Class.Rail), Hops: s.hops(l.Class.Trunk), FanIn: l.Class.FanIn, OneWay: l.Class.OneWay, Expected: l.Values[len(l.Values)/2]}
		if s.Test.Latency() {
			c.Percentiles = l.Values[:]
		}
		for _, share := range l.Hosts {
			c.Hosts = append(c.Hosts, round4(share))
		}
		s.Classes = append(s.Classes, c)
	}
}

// Baseline is what a saved document has learnt, for a judge of another run of the same test.
func Baseline(d *fabric.Document, of Facts) ([]judge.Level, error) {
	test := newTest(of)
	test.Seconds = d.Test.Seconds // a longer round is as good a measure
	if d.Test != test {
		return nil, fmt.Errorf("it holds %s, and this run measures %s", d.Test, test)
	}
	var out []judge.Level
	for _, c := range d.Classes {
		l := judge.Level{Class: judge.Class{Rail: uint8(c.Rail), Trunk: c.Hops == betweenLeaves, FanIn: c.FanIn, OneWay: c.OneWay}, Hosts: c.Hosts}
		for k := range l.Values {
			l.Values[k] = c.Expected
		}
		if test.Latency() && len(c.Percentiles) != len(l.Values) || len(c.Hosts) == 0 {
			return nil, fmt.Errorf("it has no levels to compare with: it was written by an earlier program (%s)", d.Program)
		}
		copy(l.Values[:], c.Percentiles)
		if !slices.IsSorted(l.Values[:]) || !(l.Values[0] > 0) || slices.ContainsFunc(c.Hosts, func(share float64) bool { return !(share > 0) }) {
			return nil, fmt.Errorf("its level of the paths %q on rail %d makes no sense", c.Hops, c.Rail)
		}
		if c.Rail >= 0 && c.Rail < len(of.Rails) {
			out = append(out, l)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("it has measured no flow alone on these rails")
	}
	return out, nil
}

// newTest is what runs between two hosts.
func newTest(f Facts) fabric.Test {
	t := fabric.Test{
		Operation: string(f.Plan.Operation), Kind: string(f.Plan.Kind), Transport: f.Plan.Transport.String(), QPs: max(f.Plan.QPs, 1),
		Seconds: f.Measure.Seconds(), OneWay: f.OneWay,
	}
	if len(f.Plan.Sizes) > 0 {
		t.SizeBytes = f.Plan.Sizes[0]
	}
	return t
}
